//! The cases that cannot be played in a sandbox, each with its reason. Everything else is played, without a sandbox and in
//! one.
//!
//! Where a case says of a sandbox or of approvals what a script cannot (K04, Q02, Q03), that stands in [`crate::service`].

use crate::play::Room;

/// Why a case comes out otherwise in a sandbox, and a line that shows it there.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Otherwise {
    cases: &'static [&'static str],
    pub(crate) reason: &'static str,
    /// Played on a terminal in a sandbox.
    pub(crate) line: &'static str,
    /// What that line prints.
    pub(crate) prints: &'static str,
    /// Cases of our own that ask the same of a sandbox, if any can.
    pub(crate) instead: &'static [&'static str],
}

/// Cases that do what a sandbox is there to prevent, or look at what it makes its own.
pub(crate) const OTHERWISE: [Otherwise; 5] = [
    Otherwise {
        cases: &["C06"],
        reason: "its server is called from outside, where the sandbox's own network does not reach",
        line: "readlink /proc/self/ns/net | grep -vqxF \"$OUTSIDE_NET\" && echo its own network",
        prints: "its own network\n",
        instead: &["X26"],
    },
    Otherwise {
        cases: &["L07", "L08", "L09", "O02"],
        reason: "nobody makes another namespace inside",
        line: "unshare -rm true 2>&1",
        prints: "unshare: unshare failed: Operation not permitted\n",
        instead: &["X18", "X19", "X20"],
    },
    Otherwise {
        cases: &["L06"],
        reason: "sysfs is mounted read-only, of which the kernel speaks before it looks at the file's mode",
        line: "touch /sys/qz_probe 2>&1",
        prints: "touch: cannot touch '/sys/qz_probe': Read-only file system\n",
        instead: &["X21"],
    },
    Otherwise {
        cases: &["L15"],
        reason: "process 1 is the sandbox's own, of the same user",
        line: "ps -o user:20= -p 1 | grep -qx \"$(id -un) *\" && kill -0 1 && echo own",
        prints: "own\n",
        instead: &[],
    },
    Otherwise {
        cases: &["G03"],
        reason: "a terminal from outside is called /dev/console in a /dev of one's own, as in other containers",
        line: "tty; ls /dev/pts",
        prints: "/dev/console\nptmx\n",
        instead: &["X27"],
    },
];

/// Cases that commit to a repository, which the default profile keeps read-only: they are played with that one word of the
/// profile changed.
pub(crate) const COMMITS: [&str; 3] = ["D11", "F07", "F08"];

/// Cases about the refusals that users meet who are not root, which a sandboxed root half is: they are played as one.
const ORDINARY: [&str; 1] = ["L11"];

/// Why a case is not played.
pub(crate) fn reason(id: &str, room: Room) -> Option<&'static str> {
    let otherwise = OTHERWISE.iter().find(|otherwise| otherwise.cases.contains(&id));
    otherwise.map(|otherwise| otherwise.reason).filter(|_| room == Room::Confined)
}

/// Whether a case is to be played as an ordinary user.
pub(crate) fn needs_ordinary_user(id: &str, room: Room) -> bool {
    room == Room::Confined && ORDINARY.contains(&id)
}
