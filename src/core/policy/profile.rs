//! What a sandbox allows: data, frozen for a process when it starts.

use super::Network;

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

    /// Whether this profile restricts nothing, so that no sandbox is needed to honour it.
    pub fn restricts_nothing(&self) -> bool {
        self.files == Files::FullAccess && self.network == Network::On && self.deny_read.is_empty()
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
    /// The first thing, by its name on the wire, in which this goes beyond `bound`. A root may lie below one of the
    /// bound's; what is protected may only grow.
    pub(super) fn beyond(&self, bound: &Self) -> Option<&'static str> {
        match (self, bound) {
            (Self::ReadOnly, _) | (_, Self::FullAccess) => None,
            (
                Self::WorkspaceWrite { writable_roots, protected },
                Self::WorkspaceWrite { writable_roots: roots, protected: kept },
            ) => {
                if !writable_roots.iter().all(|root| roots.iter().any(|bound| is_below(root, bound))) {
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

/// Whether `path` is `root` or lies below it, as the words stand; where `..` leads is not known.
fn is_below(path: &str, root: &str) -> bool {
    let root = root.trim_end_matches('/');
    let below = path.strip_prefix(root).filter(|rest| rest.is_empty() || rest.starts_with('/'));
    below.is_some_and(|rest| rest.split('/').all(|part| part != ".."))
}
