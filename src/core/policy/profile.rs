//! What a sandbox allows: data, frozen for a process when it starts.

use super::path::{below, covers, resolve};
use super::{Network, NetworkDecision};

/// The directory for whatever is temporary, of which each sandbox has its own.
const OWN_TMP: &str = "/tmp";
/// Where everybody may write under a sandbox: its own /tmp, and the devices and the process table that it makes.
const PRIVATE: &[&str] = &[
    OWN_TMP,
    "/dev/null",
    "/dev/zero",
    "/dev/full",
    "/dev/random",
    "/dev/urandom",
    "/dev/tty",
    "/dev/ptmx",
    "/dev/pts",
    "/dev/shm",
    "/dev/fd",
    "/dev/stdin",
    "/dev/stdout",
    "/dev/stderr",
    "/proc/self",
    "/proc/thread-self",
];

/// What the file system and the network allow; frozen when a process starts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Profile {
    /// What may be written.
    pub files: Files,
    /// What may be reached.
    pub network: Network,
    /// Paths and globs that may not even be read.
    pub deny_read: Vec<String>,
}

impl Profile {
    /// No restriction at all.
    pub const fn full_access() -> Self {
        Self { files: Files::FullAccess, network: Network::On, deny_read: Vec::new() }
    }

    /// This profile with grants on top of it. What may be written also may be read.
    pub fn with(mut self, more: &Additional) -> Self {
        if let Files::WorkspaceWrite { writable_roots, .. } = &mut self.files {
            writable_roots.extend(more.write.iter().cloned());
        } else if self.files == Files::ReadOnly && !more.write.is_empty() {
            self.files = Files::WorkspaceWrite { writable_roots: more.write.clone(), protected: Vec::new() };
        }
        self.deny_read.retain(|denied| !more.read.iter().any(|read| is_below(denied, read)));
        self.deny_read.extend(more.deny_read.iter().cloned());
        if more.network {
            self.network = Network::On;
        }
        self
    }

    /// This profile with the directory that empty roots mean.
    #[must_use]
    pub fn in_directory(mut self, cwd: &str) -> Self {
        if let Files::WorkspaceWrite { writable_roots, .. } = &mut self.files
            && writable_roots.is_empty()
        {
            writable_roots.push(cwd.to_owned());
        }
        self
    }

    /// Whether `path`, absolute, may not be read: `deny_read` covers it or a directory above it. Links are not followed.
    pub fn forbids_read(&self, path: &str) -> bool {
        let path = resolve("/", path);
        self.deny_read.iter().any(|entry| covers(entry, &path))
    }

    /// Whether `path`, absolute, may not be written. What may not be read may not be written either.
    pub fn forbids_write(&self, path: &str) -> bool {
        let path = resolve("/", path);
        !self.files.lets_write(&path) || self.forbids_read(&path)
    }

    /// The same for a command that starts in `cwd`: a working directory below /tmp is shown as it is, and read only, unless a
    /// root holds it, while the rest of /tmp is the command's own.
    pub fn forbids_write_from(&self, cwd: &str, path: &str) -> bool {
        let (cwd, path) = (resolve("/", cwd), resolve("/", path));
        let is_shown =
            below(&cwd, OWN_TMP).is_some_and(|rest| !rest.is_empty()) && below(&path, &cwd).is_some();
        self.forbids_write(&path) || (is_shown && !self.files.holds(&path))
    }

    /// Whether there is anything that may not be done with `path`, absolute.
    pub fn forbids(&self, path: &str) -> bool {
        self.forbids_write(path)
    }

    /// Whether `host`, a name or an address, may not be reached at any port. A child's own loopback always may. Of
    /// a proxy's rules only a refusal of this very name counts: whatever else the proxy decides, it asks first.
    pub fn forbids_host(&self, host: &str) -> bool {
        match &self.network {
            Network::On => false,
            Network::Off => !is_loopback(host),
            Network::Proxied { rules } => {
                !is_loopback(host)
                    && rules.iter().any(|rule| {
                        rule.decision == NetworkDecision::Deny
                            && rule.ports.is_empty()
                            && names(&rule.host.to_ascii_lowercase(), &host.to_ascii_lowercase())
                    })
            }
        }
    }

    /// Whether this profile restricts nothing, so that no sandbox is needed to honour it.
    pub fn restricts_nothing(&self) -> bool {
        self.files == Files::FullAccess && self.network == Network::On && self.deny_read.is_empty()
    }
}

fn is_loopback(host: &str) -> bool {
    host.eq_ignore_ascii_case("localhost")
        || host
            .parse::<::core::net::IpAddr>()
            .is_ok_and(|address| address.is_loopback() || address.is_unspecified())
}

fn names(rule: &str, host: &str) -> bool {
    match rule.strip_prefix('*') {
        Some("") => true,
        Some(domain) => domain.starts_with('.') && host.ends_with(domain),
        None => rule == host,
    }
}

/// What may be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Files {
    /// Nothing.
    ReadOnly,
    /// The roots, without their protected subpaths.
    WorkspaceWrite {
        /// Absolute directories.
        writable_roots: Vec<String>,
        /// Names below a root that stay read-only, such as `.git`.
        protected: Vec<String>,
    },
    /// Everything that the service's user may write.
    FullAccess,
    /// Somebody else sandboxes.
    External,
}

impl Files {
    /// Whether writing at `path` is left to the file system's own rules. Of several roots the nearest decides.
    fn lets_write(&self, path: &str) -> bool {
        let roots = match self {
            Self::FullAccess | Self::External => return true,
            Self::ReadOnly => &[][..],
            Self::WorkspaceWrite { writable_roots, .. } => writable_roots,
        };
        let nearest =
            roots.iter().filter_map(|root| below(path, &resolve("/", root))).min_by_key(|rest| rest.len());
        match nearest {
            Some(rest) => !self.protects(rest),
            None => PRIVATE.iter().any(|place| below(path, place).is_some()),
        }
    }

    /// Whether `path` is at or below a place of the system's that commands may write by profile, and not as their own.
    fn holds(&self, path: &str) -> bool {
        match self {
            Self::FullAccess | Self::External => true,
            Self::ReadOnly => false,
            Self::WorkspaceWrite { writable_roots, .. } => {
                writable_roots.iter().any(|root| below(path, &resolve("/", root)).is_some())
            }
        }
    }

    /// Whether `rest`, relative to a writable root, stays read-only.
    fn protects(&self, rest: &str) -> bool {
        let Self::WorkspaceWrite { protected, .. } = self else { return false };
        protected.iter().any(|name| below(&resolve("/", rest), &resolve("/", name)).is_some())
    }

    /// The first thing, by its name on the wire, in which this goes beyond `bound`. A root is one of the bound's, and not
    /// one below: whoever may write there could make a link of it that leads elsewhere. What is protected may only grow.
    pub(super) fn beyond(&self, bound: &Self) -> Option<&'static str> {
        match (self, bound) {
            (Self::ReadOnly, _) | (_, Self::FullAccess) => None,
            (
                Self::WorkspaceWrite { writable_roots, protected },
                Self::WorkspaceWrite { writable_roots: roots, protected: kept },
            ) => {
                if !writable_roots.iter().all(|root| roots.iter().any(|bound| is_same(root, bound))) {
                    Some("sandbox.writable_roots")
                } else if !kept.iter().all(|name| protected.contains(name)) {
                    Some("sandbox.protected_subpaths")
                } else {
                    None
                }
            }
            (Self::WorkspaceWrite { .. } | Self::External, Self::External) => None,
            (Self::WorkspaceWrite { .. } | Self::FullAccess | Self::External, _) => Some("sandbox.kind"),
        }
    }
}

/// Under what an attempt runs; frozen when it starts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Confinement {
    /// The profile restricts nothing, so nothing is enforced.
    Unrestricted,
    /// Somebody else sandboxes; nothing is enforced here.
    External,
    /// The session's profile was left aside: an approved escalation, an allow rule, or the retry of a denied attempt.
    Bypassed,
    /// This profile, whole.
    Profile(Box<Profile>),
}

impl Confinement {
    /// The profile that a sandbox enforces, if one does.
    pub fn profile(&self) -> Option<&Profile> {
        match self {
            Self::Profile(profile) => Some(profile),
            Self::Unrestricted | Self::External | Self::Bypassed => None,
        }
    }
}

/// Grants for one command on top of its session's profile.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Additional {
    /// Absolute paths that may be read, with all below them: exceptions of `deny_read`.
    pub read: Vec<String>,
    /// Absolute paths that may be written, with all below them.
    pub write: Vec<String>,
    /// Absolute paths and globs that this command may not read.
    pub deny_read: Vec<String>,
    /// Whether the network is open to it, as far as the owner's network policy allows.
    pub network: bool,
}

/// Whether two paths are the same but for a `/` at the end.
fn is_same(path: &str, other: &str) -> bool {
    path.trim_end_matches('/') == other.trim_end_matches('/')
}

/// Whether `path` is `root` or lies below it, as the words stand; where `..` leads is not known.
fn is_below(path: &str, root: &str) -> bool {
    let root = root.trim_end_matches('/');
    let below = path.strip_prefix(root).filter(|rest| rest.is_empty() || rest.starts_with('/'));
    below.is_some_and(|rest| rest.split('/').all(|part| part != ".."))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::policy::NetworkRule;

    fn workspace() -> Profile {
        Profile {
            files: Files::WorkspaceWrite {
                writable_roots: vec!["/w".into(), "/w/.git/annex".into()],
                protected: vec![".git".into(), "a/b".into()],
            },
            network: Network::Off,
            deny_read: vec!["/w/.env".into(), "/home/*/.ssh".into()],
        }
    }

    #[test]
    fn writing_is_allowed_below_the_roots_but_for_what_they_protect() {
        let profile = workspace();
        for path in ["/w", "/w/x", "/w/.github/x", "/w/a/c", "/tmp/x", "/dev/null", "/w/.git/annex/x"] {
            assert!(!profile.forbids_write(path), "{path}");
        }
        for path in
            ["/", "/etc/x", "/wx", "/w/.git", "/w/.git/HEAD", "/w/a/b/c", "/w/../etc", "/dev/sda", "/w/.env"]
        {
            assert!(profile.forbids_write(path), "{path}");
        }
        let none = Profile { files: Files::ReadOnly, ..profile };
        assert!(none.forbids_write("/w/x"));
        assert!(!none.forbids_write("/tmp/x"));
    }

    #[test]
    fn reading_is_forbidden_only_where_it_is_denied() {
        let profile = workspace();
        for path in ["/w/.env", "/home/me/.ssh/id", "/w/x/../.env"] {
            assert!(profile.forbids_read(path), "{path}");
        }
        for path in ["/etc/shadow", "/w/.env.example", "/home/me"] {
            assert!(!profile.forbids_read(path), "{path}");
        }
        assert!(!Profile::full_access().forbids("/etc/shadow"));
    }

    #[test]
    fn a_host_is_forbidden_by_a_closed_network_or_a_refusal() {
        assert!(workspace().forbids_host("example.com"));
        for host in ["localhost", "127.0.0.1", "::1", "0.0.0.0"] {
            assert!(!workspace().forbids_host(host), "{host}");
        }
        let deny = |host: &str| NetworkRule {
            host: host.into(),
            ports: Vec::new(),
            decision: NetworkDecision::Deny,
        };
        let proxied = Profile { network: Network::Proxied { rules: vec![deny("*.Bad.org")] }, ..workspace() };
        assert!(proxied.forbids_host("www.bad.org"));
        assert!(!proxied.forbids_host("bad.org"), "a domain's subdomains only");
        assert!(!proxied.forbids_host("example.com"), "a proxy asks");
        assert!(!Profile::full_access().forbids_host("example.com"));
    }
}
