//! Where rules come from, and how they get from there into memory. Blocks: for threads that may.

use std::collections::BTreeMap;
use std::fs::{self, Metadata};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use super::Kind;
use super::file::read_into;
use super::place::RulesError;
use super::set::Origin;
use crate::core::policy::Layer;

/// Bytes of a file of rules; some thousand rules.
pub(super) const FILE_MAX: u64 = 512 * 1024;

/// Files in a directory of rules.
const FILES_MAX: usize = 256;

/// Where a project keeps its rules, below its directory.
pub const PROJECT_FILE: &str = ".unified-exec/rules.toml";

/// Where the system's rules are, unless the configuration says otherwise.
pub const SYSTEM_DIRECTORY: &str = "/etc/unified-exec/rules.d";

/// Where rules come from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sources {
    /// The system's files and directories; of a directory, its `*.toml` in the order of their names. A named one must
    /// exist; `None` is [`SYSTEM_DIRECTORY`], if there is one.
    pub system: Option<Vec<PathBuf>>,
    /// The user's file, to which rules are added. It need not exist. `None`: no rules of a user, and none are added.
    pub user: Option<PathBuf>,
    /// Directories whose own rules count for commands in them.
    pub trusted_projects: Vec<PathBuf>,
}

/// One layer to be read.
#[derive(Clone, Debug)]
pub(super) struct Source {
    pub(super) kind: Kind,
    paths: Vec<PathBuf>,
    must_exist: bool,
    root: Option<PathBuf>,
}

impl Sources {
    /// The layers, the most trusted first.
    pub(super) fn layers(&self) -> Vec<Source> {
        let must_exist = self.system.is_some();
        let paths = self.system.clone().unwrap_or_else(|| vec![SYSTEM_DIRECTORY.into()]);
        let system = Source { kind: Kind::System, paths, must_exist, root: None };
        let user = self.user.iter().map(|file| Source {
            kind: Kind::User,
            paths: vec![file.clone()],
            must_exist: false,
            root: None,
        });
        let projects = self.trusted_projects.iter().map(|root| Source {
            kind: Kind::Project,
            paths: vec![root.join(PROJECT_FILE)],
            must_exist: false,
            root: Some(root.clone()),
        });
        std::iter::once(system).chain(user).chain(projects).collect()
    }

    /// The files that there are.
    pub fn files(&self) -> Vec<PathBuf> {
        self.survey().into_keys().filter(|path| path.is_file()).collect()
    }

    /// What no confined command may write: the user's directory of rules, and what projects keep theirs in. The system's
    /// are its owner's affair.
    pub fn guarded(&self) -> Vec<PathBuf> {
        let user = self.user.iter().filter_map(|file| file.parent());
        let projects = self.trusted_projects.iter().map(|root| root.join(PROJECT_FILE));
        let projects: Vec<PathBuf> = projects.filter_map(|file| file.parent().map(Path::to_owned)).collect();
        user.map(Path::to_owned).chain(projects).chain(self.system.clone().unwrap_or_default()).collect()
    }

    /// What tells one state of all files from another.
    pub(super) fn survey(&self) -> Survey {
        let mut survey = Survey::new();
        for path in self.layers().iter().flat_map(|source| &source.paths) {
            for file in std::iter::once(path.clone()).chain(files_in(path).unwrap_or_default()) {
                if let Ok(facts) = fs::metadata(&file) {
                    survey.insert(file, stamp(&facts));
                }
            }
        }
        survey
    }
}

/// Every file and directory that is there, and its [`stamp`].
pub(super) type Survey = BTreeMap<PathBuf, [u64; 4]>;

/// Which file it is, how long, and when it and its description changed last; who writes cannot choose the latter.
#[cfg(unix)]
fn stamp(facts: &Metadata) -> [u64; 4] {
    use std::os::unix::fs::MetadataExt as _;
    let nanoseconds = |seconds: i64, rest: i64| seconds.wrapping_mul(1_000_000_000).wrapping_add(rest) as u64;
    [
        facts.ino(),
        facts.size(),
        nanoseconds(facts.mtime(), facts.mtime_nsec()),
        nanoseconds(facts.ctime(), facts.ctime_nsec()),
    ]
}

#[cfg(not(unix))]
fn stamp(facts: &Metadata) -> [u64; 4] {
    let since = facts.modified().ok().and_then(|at| at.duration_since(std::time::UNIX_EPOCH).ok());
    [0, facts.len(), since.map_or(0, |since| since.as_nanos() as u64), 0]
}

impl Source {
    /// Reads the layer.
    pub(super) fn read(&self) -> Result<Origin, RulesError> {
        let mut layer = Layer::default();
        for path in &self.paths {
            for file in self.files(path)? {
                if let Some(text) = self.text(&file)? {
                    read_into(&mut layer, self.kind, &file, &text)?;
                }
            }
        }
        Ok(self.origin(layer))
    }

    /// What the layer would be if its file had this text.
    pub(super) fn read_text(&self, file: &Path, text: &str) -> Result<Origin, RulesError> {
        let mut layer = Layer::default();
        read_into(&mut layer, self.kind, file, text)?;
        Ok(self.origin(layer))
    }

    fn origin(&self, layer: Layer) -> Origin {
        let real = self.root.iter().filter_map(|root| fs::canonicalize(root).ok());
        let mut roots: Vec<PathBuf> = self.root.iter().cloned().chain(real).collect();
        roots.dedup();
        Origin::new(self.kind, roots, layer)
    }

    fn files(&self, path: &Path) -> Result<Vec<PathBuf>, RulesError> {
        let unreadable = |source| RulesError::Unreadable { file: path.to_owned(), source };
        if !path.is_dir() {
            return Ok(vec![path.to_owned()]);
        }
        let files = files_in(path).map_err(unreadable)?;
        if files.len() > FILES_MAX {
            let problem = format!("the directory has more than {FILES_MAX} files; merge some");
            return Err(RulesError::Unfit { file: path.to_owned(), problem });
        }
        Ok(files)
    }

    /// The text of a file; `None` if there is none, and need not be.
    pub(super) fn text(&self, file: &Path) -> Result<Option<String>, RulesError> {
        match read_text(file) {
            Err(RulesError::Unreadable { source, .. })
                if source.kind() == io::ErrorKind::NotFound && !self.must_exist =>
            {
                Ok(None)
            }
            read => read.map(Some),
        }
    }
}

/// The `*.toml` of a directory in the order of their names, without hidden ones; nothing if it is none.
fn files_in(directory: &Path) -> io::Result<Vec<PathBuf>> {
    let entries = match fs::read_dir(directory) {
        Err(error) if matches!(error.kind(), io::ErrorKind::NotADirectory | io::ErrorKind::NotFound) => {
            return Ok(Vec::new());
        }
        entries => entries?,
    };
    let mut files = Vec::new();
    for entry in entries {
        let path = entry?.path();
        let is_hidden = path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"."));
        if !is_hidden && path.extension().is_some_and(|extension| extension == "toml") {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

fn read_text(file: &Path) -> Result<String, RulesError> {
    let unreadable = |source| RulesError::Unreadable { file: file.to_owned(), source };
    let unfit = |problem: String| RulesError::Unfit { file: file.to_owned(), problem };
    let facts = fs::metadata(file).map_err(unreadable)?;
    if !facts.is_file() {
        // Opening a pipe could take forever.
        return Err(unfit("it is no file".to_owned()));
    }
    if is_writable_by_all(&facts) {
        return Err(unfit("everybody can write to it, so it says nothing; `chmod o-w` it".to_owned()));
    }
    let mut text = String::new();
    fs::File::open(file)
        .and_then(|open| open.take(FILE_MAX + 1).read_to_string(&mut text))
        .map_err(unreadable)?;
    if text.len() as u64 > FILE_MAX {
        return Err(unfit(format!("it has more than {FILE_MAX} bytes; split it or remove some")));
    }
    Ok(text)
}

#[cfg(unix)]
fn is_writable_by_all(facts: &Metadata) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    facts.permissions().mode() & 0o002 != 0
}

#[cfg(not(unix))]
fn is_writable_by_all(_: &Metadata) -> bool {
    false
}
