//! Which shell runs command lines, where nobody says.

use std::path::{Path, PathBuf};

/// Shells that take `-c` and `-lc` as we pass them.
const KNOWN: [&str; 3] = ["bash", "zsh", "sh"];

/// The user's shell (`$SHELL`) if it is one of bash, zsh and sh, else bash, else sh. `path` is where they are looked
/// for; a name that is nowhere is answered as it is, and refused when a command needs it.
pub fn detect(user_shell: Option<&str>, path: Option<&str>) -> String {
    if let Some(shell) = user_shell
        && known(Path::new(shell))
        && runnable(Path::new(shell))
    {
        return shell.to_owned();
    }
    ["bash", "sh"]
        .into_iter()
        .find_map(|name| find(name, path.unwrap_or("/usr/local/bin:/usr/bin:/bin")))
        .unwrap_or_else(|| "sh".to_owned())
}

fn known(shell: &Path) -> bool {
    shell.is_absolute()
        && shell.file_name().and_then(|name| name.to_str()).is_some_and(|name| KNOWN.contains(&name))
}

fn find(name: &str, path: &str) -> Option<String> {
    let found = path.split(':').filter(|dir| dir.starts_with('/')).map(|dir| PathBuf::from(dir).join(name));
    found.into_iter().find(|shell| runnable(shell)).and_then(|shell| shell.to_str().map(str::to_owned))
}

#[cfg(unix)]
fn runnable(file: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    file.metadata().is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}

#[cfg(not(unix))]
fn runnable(file: &Path) -> bool {
    file.is_file()
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn the_users_shell_wins_if_we_know_how_to_call_it() {
        assert_eq!(detect(Some("/bin/sh"), None), "/bin/sh");
        for other in ["/usr/bin/fish", "/nowhere/bash", "bash", ""] {
            let found = detect(Some(other), Some("/usr/bin:/bin"));
            assert!(
                ["/usr/bin/bash", "/bin/bash", "/usr/bin/sh", "/bin/sh"].contains(&found.as_str()),
                "{found}"
            );
        }
        assert_eq!(detect(None, Some("/nowhere")), "sh");
    }
}
