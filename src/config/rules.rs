//! `[rules]`: where the rules for commands and connections are.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::rules::Sources;

/// Projects whose rules are held in memory and looked at for every command.
const PROJECTS_MAX: usize = 64;

/// Where rules are; every path is absolute.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Rules {
    /// The system's files, and directories whose `*.toml` are taken; each must exist. Absent is
    /// `/etc/unified-exec/rules.d`, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub system: Option<Vec<PathBuf>>,
    /// The user's file, to which approvals add; absent is one in the user's configuration directory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user: Option<PathBuf>,
    /// Directories whose `.unified-exec/rules.toml` counts for commands in them.
    pub trusted_projects: Vec<PathBuf>,
}

impl Rules {
    /// Where rules come from, given the values of XDG_CONFIG_HOME and HOME.
    pub fn sources(&self, config_home: Option<&str>, home: Option<&str>) -> Sources {
        Sources {
            system: self.system.clone(),
            user: self.user.clone().or_else(|| default_user_file(config_home, home)),
            trusted_projects: self.trusted_projects.clone(),
        }
    }

    /// The key that has a wrong value, and why.
    pub(super) fn fault(&self) -> Option<(&'static str, String)> {
        let system = self.system.iter().flatten().map(|path| ("system", path));
        let user = self.user.iter().map(|path| ("user", path));
        let projects = self.trusted_projects.iter().map(|path| ("trusted_projects", path));
        if let Some((key, path)) = system.chain(user).chain(projects).find(|(_, path)| !path.is_absolute()) {
            return Some((key, format!("{} must be an absolute path", path.display())));
        }
        let too_many = self.trusted_projects.len() > PROJECTS_MAX;
        too_many.then(|| ("trusted_projects", format!("must have at most {PROJECTS_MAX} directories")))
    }
}

/// A relative value counts as none, as the XDG specification has it.
fn default_user_file(config_home: Option<&str>, home: Option<&str>) -> Option<PathBuf> {
    let absolute = |text: &str| Some(Path::new(text).to_owned()).filter(|path| path.is_absolute());
    let directory = config_home
        .and_then(absolute)
        .or_else(|| home.and_then(absolute).map(|home| home.join(".config")))?;
    Some(directory.join("unified-exec/rules.toml"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_users_file_is_in_the_users_configuration() {
        let file = |rules: &Rules, config_home, home| rules.sources(config_home, home).user;
        let none = Rules::default();
        let path = |text: &str| Some(PathBuf::from(text));
        assert_eq!(file(&none, Some("/c"), Some("/h")), path("/c/unified-exec/rules.toml"));
        assert_eq!(file(&none, None, Some("/h")), path("/h/.config/unified-exec/rules.toml"));
        assert_eq!(file(&none, Some("c"), Some("/h")), path("/h/.config/unified-exec/rules.toml"));
        assert_eq!(file(&none, Some(""), None), None);
        let named = Rules { user: path("/x"), ..Rules::default() };
        assert_eq!(file(&named, Some("/c"), None), path("/x"));
    }

    #[test]
    fn paths_must_be_absolute_and_projects_few() {
        for (rules, key) in [
            (Rules { system: Some(vec!["/a".into(), "b".into()]), ..Rules::default() }, "system"),
            (Rules { user: Some("~/x".into()), ..Rules::default() }, "user"),
            (Rules { trusted_projects: vec!["p".into()], ..Rules::default() }, "trusted_projects"),
            (
                Rules { trusted_projects: vec!["/p".into(); PROJECTS_MAX + 1], ..Rules::default() },
                "trusted_projects",
            ),
        ] {
            assert_eq!(rules.fault().map(|(key, _)| key), Some(key));
        }
        assert_eq!(Rules::default().fault(), None);
    }
}
