//! What was tried, as far as a message tells: EACCES alone does not say whether a file was read or written.

use super::paths::Named;

/// What a message says was tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operation {
    /// Reading, listing, entering, running.
    Read,
    /// Creating, changing, removing.
    Write,
    /// The message does not tell.
    Unknown,
}

const WRITES: &[&str] = &[
    "create",
    "creating",
    "mkdir",
    "rmdir",
    "unlink",
    "unlinking",
    "rename",
    "remove",
    "removing",
    "touch",
    "move",
    "overwrite",
    "write",
    "writing",
    "output",
    "truncate",
    "chmod",
    "chown",
    "symlink",
    "link",
    "changing",
    "times",
    "utime",
    "lock",
    "temporary",
    "mkstemp",
    "append",
    "save",
    "delete",
    "mknod",
    "ftruncate",
    "fallocate",
    "mkfifo",
    "mount",
];
const WRITERS: &[&str] = &[
    "touch", "mkdir", "rm", "rmdir", "mv", "ln", "tee", "chmod", "chown", "chgrp", "mktemp", "mkfifo",
    "mknod", "truncate", "unlink", "shred", "mount",
];
const READS: &[&str] = &[
    "reading", "read", "access", "stat", "lstat", "scandir", "opendir", "readdir", "readlink", "chdir",
    "exec", "execve", "execvp", "spawn", "execute", "run", "list",
];
const READERS: &[&str] = &[
    "cat",
    "head",
    "tail",
    "less",
    "more",
    "grep",
    "egrep",
    "fgrep",
    "rg",
    "find",
    "ls",
    "wc",
    "diff",
    "cmp",
    "du",
    "od",
    "xxd",
    "hexdump",
    "md5sum",
    "sha1sum",
    "sha256sum",
    "strings",
    "awk",
    "gawk",
    "mawk",
    "stat",
    "readlink",
    "tree",
    "cd",
    "source",
    "env",
    "nohup",
    "timeout",
    "xargs",
    "make",
    "cc1",
];

/// What `line` says was tried with `paths`, which may be called anything.
pub(super) fn operation(line: &str, paths: &[Named<'_>]) -> Operation {
    let prose = without(line, paths);
    let has = |known: &[&str]| words(&prose).any(|word| known.contains(&word));
    let speaks = |known: &[&str]| speakers(&prose).any(|speaker| known.contains(&speaker));
    if has(WRITES) {
        Operation::Write
    } else if has(READS) || prose.contains("open directory") {
        Operation::Read
    } else if speaks(WRITERS) {
        Operation::Write
    } else if speaks(READERS) {
        Operation::Read
    } else {
        Operation::Unknown
    }
}

fn without(line: &str, paths: &[Named<'_>]) -> String {
    let mut prose = String::with_capacity(line.len());
    let mut spans: Vec<_> = paths.iter().map(|path| path.at.clone()).collect();
    spans.sort_by_key(|span| span.start);
    let mut from = 0;
    for span in spans {
        prose.push_str(line.get(from..span.start).unwrap_or(""));
        from = span.end.max(from);
    }
    prose.push_str(line.get(from..).unwrap_or(""));
    prose.make_ascii_lowercase();
    prose.replace("read-only", "")
}

fn words(prose: &str) -> impl Iterator<Item = &str> {
    prose.split(|c: char| !c.is_alphanumeric())
}

/// The programs that open a line, each before a colon: `bash: line 1: cd: …`.
fn speakers(prose: &str) -> impl Iterator<Item = &str> {
    prose.split(": ").take(3).map(|part| part.rsplit('/').next().unwrap_or(part).trim())
}

#[cfg(test)]
mod tests {
    use super::super::words::{self, Kind};
    use super::*;

    fn tried(line: &str) -> Operation {
        let (_, found) = words::find(line).unwrap();
        operation(line, &super::super::paths::named(line, &found, Kind::Access))
    }

    #[test]
    fn a_message_tells_what_was_tried() {
        for line in [
            "touch: cannot touch '/x': Permission denied",
            "tee: /x: Permission denied",
            "sh: 1: cannot create /x: Permission denied",
        ] {
            assert_eq!(tried(line), Operation::Write, "{line}");
        }
        for line in [
            "cat: /etc/shadow: Permission denied",
            "cp: cannot open '/create/x' for reading: Permission denied",
            "ls: cannot open directory '/root': Permission denied",
            "bash: line 1: cd: /root: Permission denied",
        ] {
            assert_eq!(tried(line), Operation::Read, "{line}");
        }
        assert_eq!(tried("Error: EACCES: permission denied, open '/etc/x'"), Operation::Unknown);
    }
}
