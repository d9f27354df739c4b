//! What really works on this machine, found out by doing it: bwrap and the launcher with the options of a real child,
//! the filter of system calls, the version of Landlock. Done once for a spawner, on a thread that may block.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio as ProcessStdio};
use std::sync::Arc;

use super::{Layers, Sandbox, landlock};
use crate::core::policy::{Files, Network, Profile};
use crate::core::spawn::{ResourceLimits, SpawnError, SpawnPlan, Stdio};
use crate::host::ports::{Backend, BackendState};
use crate::spawn::{Shared, inside, limits};

/// The sandboxing program.
const BWRAP: &str = "bwrap";
/// Where it is looked for after `PATH`.
const BWRAP_DIRECTORIES: &[&str] = &["/usr/bin", "/usr/local/bin", "/bin"];
/// Entries of directories that are listed to leave one of them out.
const SIBLINGS_MAX: usize = 8192;

/// What works here.
#[derive(Debug)]
pub(in crate::spawn) struct Probed {
    /// How bwrap works; or why it does not.
    pub(super) bubblewrap: Result<Bubblewrap, String>,
    bubblewrap_version: String,
    /// Its version; 0 without.
    pub(super) landlock: i32,
    pub(super) seccomp: bool,
}

/// A bwrap that works.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::spawn) struct Bubblewrap {
    pub(super) path: PathBuf,
    /// Whether it needs a user namespace: for whoever may not make the other namespaces otherwise.
    pub(super) user_namespace: bool,
}

impl Bubblewrap {
    /// The options that no profile changes, but for the network.
    pub(super) fn options(&self, no_network: bool) -> impl Iterator<Item = &'static str> {
        // The launcher is the first process. A terminal is its own session's, so no `--new-session` is needed.
        let always = ["--unshare-pid", "--unshare-ipc", "--as-pid-1", "--cap-drop", "ALL"];
        let user: &[_] = if self.user_namespace {
            // Nobody inside can make another one, in which it would be root.
            &["--unshare-user", "--disable-userns"]
        } else {
            // Root can write the files of others, as it is used to; everything else that makes it root is gone.
            &["--cap-add", "CAP_DAC_OVERRIDE"]
        };
        let network: &[_] = if no_network { &["--unshare-net"] } else { &[] };
        always.into_iter().chain(user.iter().copied()).chain(network.iter().copied())
    }
}

impl Sandbox {
    /// What works here. Before [`find_out`] has run, nothing does.
    pub(super) fn probed(&self) -> &Probed {
        self.probed.get_or_init(|| Probed {
            bubblewrap: Err("this machine has not been probed".to_owned()),
            bubblewrap_version: String::new(),
            landlock: 0,
            seccomp: false,
        })
    }

    /// The layers, for people and clients.
    pub(in crate::spawn) fn backends(&self) -> Vec<Backend> {
        let probed = self.probed();
        let off = (self.layers == Layers::None).then(|| "switched off".to_owned());
        let state = |works: Result<(), String>| match (&off, works) {
            (Some(reason), _) => BackendState::Unavailable { reason: reason.clone() },
            (None, Ok(())) => BackendState::Available,
            (None, Err(reason)) => BackendState::Unavailable { reason },
        };
        let bubblewrap = match &probed.bubblewrap {
            Ok(_) if self.layers == Layers::LandlockOnly => Err("switched off".to_owned()),
            Ok(_) => Ok(()),
            Err(reason) => Err(reason.clone()),
        };
        let without = |has: bool, reason: &str| if has { Ok(()) } else { Err(reason.to_owned()) };
        vec![
            Backend {
                name: "bubblewrap",
                state: state(bubblewrap),
                version: probed.bubblewrap_version.clone(),
            },
            Backend {
                name: "seccomp",
                state: state(without(probed.seccomp, "this kernel has no filters of system calls")),
                version: String::new(),
            },
            Backend {
                name: "landlock",
                state: state(without(
                    probed.landlock > 0,
                    "this kernel has no Landlock, or it is not in `lsm=`",
                )),
                version: if probed.landlock > 0 { probed.landlock.to_string() } else { String::new() },
            },
        ]
    }
}

/// Finds out, once. Blocks for tens of milliseconds the first time.
pub(in crate::spawn) fn find_out(shared: &Arc<Shared>) {
    let sandbox = &shared.sandbox;
    sandbox.probed.get_or_init(|| {
        let landlock = landlock::version();
        let (bubblewrap, bubblewrap_version) = match bwrap() {
            Err(reason) => (Err(reason), String::new()),
            Ok(path) => {
                let version = version(&path);
                (try_bwrap(shared, &path, landlock), version)
            }
        };
        if let Err(reason) = &bubblewrap {
            tracing::warn!(reason, "no namespaces for sandboxes");
        }
        Probed { bubblewrap, bubblewrap_version, landlock, seccomp: has_seccomp() }
    });
}

fn bwrap() -> Result<PathBuf, String> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let directories = std::env::split_paths(&path).chain(BWRAP_DIRECTORIES.iter().map(PathBuf::from));
    let is_program = |path: &PathBuf| {
        path.is_absolute()
            && fs::metadata(path)
                .is_ok_and(|about| about.is_file() && about.permissions().mode() & 0o111 != 0)
    };
    let mut candidates = directories.map(|directory| directory.join(BWRAP));
    candidates.find(is_program).ok_or_else(|| "bubblewrap (`bwrap`) is not installed".to_owned())
}

#[expect(
    clippy::disallowed_methods,
    reason = "asks a program for its version, once; nothing is watched over"
)]
fn version(bwrap: &Path) -> String {
    let asked = Command::new(bwrap).arg("--version").stdin(ProcessStdio::null()).output();
    let text = asked.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
    text.split_ascii_whitespace().last().unwrap_or_default().to_owned()
}

/// Starts a child as every child is started, first as root can, then as everybody can.
fn try_bwrap(shared: &Arc<Shared>, path: &Path, landlock: i32) -> Result<Bubblewrap, String> {
    shared.sandbox.launcher.as_ref().map_err(Clone::clone)?;
    let ways: &[bool] = if rustix::process::geteuid().is_root() { &[false, true] } else { &[true] };
    let mut reasons = Vec::new();
    for user_namespace in ways {
        let found = Bubblewrap { path: path.to_owned(), user_namespace: *user_namespace };
        match try_once(shared, &found, landlock) {
            Ok(()) => return Ok(found),
            Err(reason) => reasons.push(reason),
        }
    }
    Err(format!("bubblewrap does not work here: {}", said_once(&reasons)))
}

/// The reasons of several tries, each once, without the words that all of them begin with.
fn said_once(reasons: &[String]) -> String {
    let mut said: Vec<&str> = Vec::new();
    for reason in reasons {
        let reason = reason.strip_prefix(inside::NOT_SET_UP).unwrap_or(reason);
        if !said.contains(&reason) {
            said.push(reason);
        }
    }
    said.join("; ")
}

fn try_once(shared: &Arc<Shared>, found: &Bubblewrap, landlock: i32) -> Result<(), String> {
    let profile = Profile { files: Files::ReadOnly, network: Network::Off, deny_read: Vec::new() };
    let plan = SpawnPlan {
        argv: vec!["true".to_owned()],
        cwd: "/".to_owned(),
        env: Arc::default(),
        stdio: Stdio::Pipes { stdin: false },
        sandbox: None,
        limits: ResourceLimits::default(),
    };
    let started = shared
        .sandbox
        .namespaces(&profile, &plan.cwd, None, found, landlock)
        .and_then(|namespaces| inside::start(shared, &plan, namespaces, limits::Plan::default(), None));
    match started {
        // Whether there is such a program says nothing of the sandbox.
        Ok(_) | Err(SpawnError::ProgramMissing { .. } | SpawnError::ProgramDenied { .. }) => Ok(()),
        Err(SpawnError::SandboxUnavailable { reason }) => Err(reason),
        Err(error) => Err(error.to_string()),
    }
}

fn has_seccomp() -> bool {
    fs::read_to_string("/proc/sys/kernel/seccomp/actions_avail").is_ok_and(|actions| {
        ["errno", "kill_process"]
            .iter()
            .all(|wanted| actions.split_ascii_whitespace().any(|action| action == *wanted))
    })
}

/// Everything that exists now but what is below `left_out`: Landlock can only allow, so the brothers of what is to stay
/// unreadable are allowed one by one. `None` if nothing is left out.
pub(super) fn all_but(left_out: &[PathBuf]) -> Result<Option<Vec<String>>, String> {
    let left_out: BTreeSet<PathBuf> =
        left_out.iter().filter_map(|path| fs::canonicalize(path).ok()).collect();
    if left_out.is_empty() {
        return Ok(None);
    }
    let mut allowed = Vec::new();
    let mut next = vec![PathBuf::from("/")];
    while let Some(directory) = next.pop() {
        for entry in fs::read_dir(&directory).into_iter().flatten().flatten() {
            let path = entry.path();
            if left_out.contains(&path) {
                continue;
            }
            if left_out.iter().any(|left_out| left_out.starts_with(&path)) {
                next.push(path);
            } else if let Ok(path) = path.into_os_string().into_string() {
                allowed.push(path);
            }
            if allowed.len() > SIBLINGS_MAX {
                return Err(format!(
                    "the service's own directories lie beside more than {SIBLINGS_MAX} others, which cannot be allowed \
                     one by one; put its runtime directory elsewhere, or install bubblewrap"
                ));
            }
        }
    }
    Ok(Some(allowed))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_several_tries_fail_for_is_said_once() {
        let reason = |why: &str| format!("{}{why}", inside::NOT_SET_UP);
        let same = [reason("no namespaces"), reason("no namespaces")];
        assert_eq!(said_once(&same), "no namespaces");
        assert_eq!(said_once(&[reason("no mounts"), reason("no uid map")]), "no mounts; no uid map");
        assert_eq!(said_once(&["it is not there".to_owned()]), "it is not there");
    }

    #[test]
    fn everything_but_the_hidden_is_allowed() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().canonicalize().unwrap();
        fs::create_dir_all(path.join("a/hidden/x")).unwrap();
        fs::create_dir_all(path.join("a/seen")).unwrap();
        let allowed = all_but(&[path.join("a/hidden")]).unwrap().unwrap();
        let has = |name: &str| allowed.iter().any(|allowed| Path::new(allowed) == path.join(name));
        assert!(has("a/seen") && !has("a/hidden") && !has("a") && !has("a/hidden/x"));
        assert!(allowed.iter().any(|allowed| allowed == "/usr"));
        assert_eq!(all_but(&[]), Ok(None));
    }
}
