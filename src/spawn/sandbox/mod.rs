//! How a profile is enforced on this machine, or why it cannot be. Called by `start`; the answer says what the launcher
//! and bwrap are told, and starts nothing.
//!
//! ```text
//!  profile ──► mod ──┬── namespaces: view (deny, sockets, placeholder) ──► bwrap, then the launcher inside
//!                    └── fallback: Landlock and a filter, in the launcher ──► only what they can hold
//!                             landlock, seccomp: the launcher's layers, for both
//!              probe: which of them work here, found out by running them
//! ```
//!
//! Nothing is ever enforced in part: whatever a layer cannot do that the profile asks for is a refusal with the way out.

mod deny;
mod guard;
pub(super) mod landlock;
mod placeholder;
pub(super) mod privilege;
pub(super) mod probe;
pub(super) mod seccomp;
mod sockets;
mod view;

use std::ffi::CStr;
use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use self::guard::guard;
use self::landlock::Rules;
pub(super) use self::placeholder::Placeholders;
use self::probe::Probed;
use self::seccomp::{Filter, Sockets};
use crate::core::limits::PROXY_PORT;
use crate::core::policy::{Files, Network, Profile};
use crate::core::spawn::{Mechanism, SpawnError};

/// Which layers may be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Layers {
    /// The best that works here.
    #[default]
    Auto,
    /// As on a machine without namespaces.
    LandlockOnly,
    /// None: every profile that restricts something is refused.
    None,
}

/// What one spawner knows of sandboxes.
#[derive(Debug)]
pub(super) struct Sandbox {
    pub(super) layers: Layers,
    /// Directories of the service itself, which no confined command may see.
    pub(super) hidden: Vec<PathBuf>,
    /// Paths that no confined command may write, there or not.
    pub(super) guarded: Vec<PathBuf>,
    /// The program that is the launcher.
    pub(super) launcher: Result<OwnedFd, String>,
    pub(super) probed: OnceLock<Probed>,
}

/// What is to be done for one child.
#[derive(Debug)]
pub(super) enum Decision {
    /// Nothing.
    Free,
    /// It is confined as it stands.
    Outside(Confinement),
    /// It gets namespaces of its own.
    Inside(Namespaces),
}

/// What the launcher puts on itself before it becomes the command.
#[derive(Debug)]
pub(super) struct Confinement {
    pub(super) filter: Filter,
    pub(super) rules: Option<Rules>,
    pub(super) mechanisms: Vec<Mechanism>,
}

/// What bwrap is told, and the launcher inside.
#[derive(Debug)]
pub(super) struct Namespaces {
    pub(super) confinement: Confinement,
    pub(super) bwrap: PathBuf,
    pub(super) user_namespace: bool,
    /// Null-terminated, one after another.
    pub(super) arguments: Vec<u8>,
    pub(super) proxy_port: Option<u16>,
    pub(super) placeholders: Placeholders,
}

/// The program that is the launcher: the one that is given, or this one if it is `uexec`.
pub(super) fn find_launcher(given: Option<&Path>) -> Result<OwnedFd, String> {
    let own = Path::new("/proc/self/exe");
    let is_uexec =
        || std::env::current_exe().is_ok_and(|path| path.file_name().is_some_and(|name| name == "uexec"));
    let path =
        match given {
            Some(path) => path,
            None if is_uexec() => own,
            None => return Err(
                "this program is not `uexec` and was given no launcher; set the spawner's option `launcher`"
                    .to_owned(),
            ),
        };
    File::open(path).map(OwnedFd::from).map_err(|error| format!("the launcher {}: {error}", path.display()))
}

fn refused(reason: impl Into<String>) -> SpawnError {
    SpawnError::SandboxUnavailable { reason: reason.into() }
}

/// What every refusal of a machine without namespaces ends with.
const WAY_OUT: &str = "install bubblewrap and allow it namespaces, or ask for a profile that needs none";

impl Sandbox {
    /// Decides how `profile` is enforced for a command in `cwd`, on the terminal of this name if it has one.
    pub(super) fn decide(
        &self,
        profile: Option<&Profile>,
        cwd: &str,
        terminal: Option<&CStr>,
    ) -> Result<Decision, SpawnError> {
        let Some(profile) = profile.filter(|profile| !profile.restricts_nothing()) else {
            return Ok(Decision::Free);
        };
        if profile.files == Files::External {
            return Err(refused("an external sandbox is not enforced here"));
        }
        if self.layers == Layers::None {
            return Err(refused(
                "sandboxes are switched off; ask for the profile `full_access` with network `on`",
            ));
        }
        if let Err(reason) = &self.launcher {
            return Err(refused(reason.clone()));
        }
        let profile = &guard(profile.clone(), &self.guarded).map_err(refused)?;
        let probed = self.probed();
        if !probed.seccomp {
            return Err(refused(format!("this kernel has no filters of system calls (seccomp); {WAY_OUT}")));
        }
        match &probed.bubblewrap {
            Ok(found) if self.layers == Layers::Auto => {
                self.namespaces(profile, cwd, terminal, found, probed.landlock).map(Decision::Inside)
            }
            Ok(_) => {
                self.alone(profile, probed.landlock, "namespaces are switched off").map(Decision::Outside)
            }
            Err(reason) => self.alone(profile, probed.landlock, reason).map(Decision::Outside),
        }
    }

    /// The whole profile, by namespaces.
    pub(super) fn namespaces(
        &self,
        profile: &Profile,
        cwd: &str,
        terminal: Option<&CStr>,
        found: &probe::Bubblewrap,
        landlock: i32,
    ) -> Result<Namespaces, SpawnError> {
        let terminal = terminal.map(|name| Path::new(std::ffi::OsStr::from_bytes(name.to_bytes())));
        let mut view = view::view(profile, cwd, &self.hidden, terminal).map_err(refused)?;
        // Root is their owner in a namespace as well, without any capability.
        if rustix::process::geteuid().is_root() {
            let failed = |error| refused(format!("the switches of the kernel cannot be kept: {error}"));
            view.keep_switches().map_err(failed)?;
        }
        let (sockets, proxy_port) = match profile.network {
            Network::Off => (Sockets::Loopback, None),
            Network::On => (Sockets::All, None),
            Network::Proxied { .. } => (Sockets::Loopback, Some(PROXY_PORT)),
        };
        view.arguments.extend(found.options(profile.network != Network::On).map(Into::into));
        let rules = (landlock > 0).then(|| Rules {
            read: None,
            write: view.writable.take(),
            // Where a network of one's own leads nowhere else, its loopback is open.
            no_tcp: false,
            required: false,
        });
        // Before version 6 there is no rule that restricts nothing but signals and sockets.
        let rules = rules.filter(|rules| landlock >= landlock::VERSION_ALONE || rules.write.is_some());
        let mut mechanisms = vec![Mechanism::Bubblewrap, Mechanism::Seccomp];
        mechanisms.extend(rules.is_some().then_some(Mechanism::Landlock));
        mechanisms.extend(proxy_port.map(|_| Mechanism::Proxy));
        let (arguments, placeholders) = view.encoded();
        let filter = Filter { sockets, namespace: true };
        Ok(Namespaces {
            confinement: Confinement { filter, rules, mechanisms },
            bwrap: found.path.clone(),
            user_namespace: found.user_namespace,
            arguments,
            proxy_port,
            placeholders,
        })
    }

    /// What Landlock and a filter can hold by themselves. They hide no file that lies below a readable directory that
    /// may change, protect nothing below a writable one, and give no network of its own.
    fn alone(&self, profile: &Profile, version: i32, why: &str) -> Result<Confinement, SpawnError> {
        let lacking = |what: &str| Err(refused(format!("{what} needs namespaces, and {why}; {WAY_OUT}")));
        if version < landlock::VERSION_ALONE {
            return lacking(&format!(
                "every profile on a kernel without Landlock version {} (Linux 6.12; here: version {version})",
                landlock::VERSION_ALONE
            ));
        }
        let write = match &profile.files {
            Files::FullAccess => None,
            Files::WorkspaceWrite { protected, .. } if !protected.is_empty() => {
                return lacking(&format!("the protected path {:?}", protected[0]));
            }
            Files::WorkspaceWrite { writable_roots, .. } => Some(writable_roots.clone()),
            Files::ReadOnly | Files::External => Some(Vec::new()),
        };
        if let Some(pattern) = profile.deny_read.first() {
            return lacking(&format!("`deny_read` {pattern:?}"));
        }
        let sockets = match profile.network {
            Network::Off => Sockets::Pairs,
            Network::On => Sockets::AllButLocal,
            Network::Proxied { .. } => return lacking("a proxied network"),
        };
        let write =
            write.map(|roots| roots.into_iter().chain(DEVICES.iter().map(|&path| path.to_owned())).collect());
        let rules = Rules {
            read: probe::all_but(&self.hidden).map_err(refused)?,
            write,
            no_tcp: profile.network == Network::Off,
            required: true,
        };
        Ok(Confinement {
            filter: Filter { sockets, namespace: false },
            rules: Some(rules),
            mechanisms: vec![Mechanism::Seccomp, Mechanism::Landlock],
        })
    }
}

/// Devices that every program may write to.
const DEVICES: &[&str] = &["/dev/null", "/dev/zero", "/dev/full", "/dev/tty", "/dev/ptmx", "/dev/pts"];
