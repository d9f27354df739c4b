//! The paths that an error message is about: quoted, absolute, or a name right before the error's words.
//!
//! A path is not what the message is about if it is the program that speaks, or a place in a source.

use std::ops::Range;

use super::words::{Kind, after, before};

/// Spans looked at in one line, so that a line made of quotes costs no more than others; a message has a few.
const SPANS_MAX: usize = 64;

/// A path as it stands in a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Named<'a> {
    pub(super) text: &'a str,
    /// Where, with its quotes.
    pub(super) at: Range<usize>,
}

/// What the message with its words at `found` is about.
pub(super) fn named<'a>(line: &'a str, found: &Range<usize>, kind: Kind) -> Vec<Named<'a>> {
    let mut all = scan(line, found);
    // A whole segment is one path, with its spaces.
    if let Some(whole) = segment(line, found).filter(|segment| is_pathlike(segment.text)) {
        all.retain(|path| path.at.start != whole.at.start);
        all.push(whole);
    }
    if all.is_empty() {
        all.extend(bare(line, found, kind));
    }
    all
}

/// Paths that show by themselves what they are.
pub(super) fn scan<'a>(line: &'a str, found: &Range<usize>) -> Vec<Named<'a>> {
    let mut all = Vec::new();
    let (mut at, mut looked) = (0, 0);
    while let Some(sign) = line.get(at..).and_then(|rest| rest.chars().next()) {
        if looked == SPANS_MAX {
            break;
        }
        looked += usize::from(opens(line, at) && (closers(sign).is_some() || matches!(sign, '/' | '.')));
        let span = if opens(line, at) { span(line, at) } else { None };
        let Some(named) = span else {
            at += sign.len_utf8();
            continue;
        };
        let covers_words = named.at.start < found.end && found.start < named.at.end;
        // What a quotation around the words holds is read as well, so only its opening is passed over.
        at = if covers_words { named.at.start + sign.len_utf8() } else { named.at.end };
        if !covers_words
            && !is_place(line, &named)
            && !is_speaker(line, &named, found)
            && is_name(line, &named)
        {
            all.push(named);
        }
    }
    all
}

/// Whether a path or a quotation may begin at `at`.
fn opens(line: &str, at: usize) -> bool {
    let before = line.get(..at).unwrap_or("");
    before.chars().next_back().is_none_or(|c| c.is_whitespace() || "([{=,<>'\"`\u{2018}\u{201c}".contains(c))
        || before.ends_with("unix://")
        || before.ends_with("file://")
}

fn span(line: &str, at: usize) -> Option<Named<'_>> {
    let rest = line.get(at..)?;
    let first = rest.chars().next()?;
    match closers(first) {
        Some(closers) => quoted(rest, at, first, closers),
        None if is_pathlike(rest) => Some(unquoted(rest, at)),
        None => None,
    }
}

fn closers(opener: char) -> Option<&'static [char]> {
    match opener {
        '\'' => Some(&['\'']),
        '"' => Some(&['"']),
        '`' => Some(&['`', '\'']),
        '\u{2018}' => Some(&['\u{2019}']),
        '\u{201c}' => Some(&['\u{201d}']),
        _ => None,
    }
}

fn quoted<'a>(rest: &'a str, at: usize, opener: char, closers: &[char]) -> Option<Named<'a>> {
    let from = opener.len_utf8();
    let inside = rest.get(from..)?;
    let end = inside.char_indices().find(|(end, c)| {
        closers.contains(c)
            && inside
                .get(end + c.len_utf8()..)
                .and_then(|rest| rest.chars().next())
                .is_none_or(|next| next.is_whitespace() || ":;,.)]}>'\"".contains(next))
    });
    let (end, closer) = end?;
    Some(Named { text: inside.get(..end)?, at: at..at + from + end + closer.len_utf8() })
}

fn unquoted(rest: &str, at: usize) -> Named<'_> {
    let stop = |c: char| c.is_whitespace() || ":'\"`()[]{}<>,;|\u{2018}\u{2019}".contains(c);
    let text = rest.split(stop).next().unwrap_or("");
    let text = match text.strip_suffix('.') {
        Some(sentence) if !sentence.ends_with(['/', '.']) => sentence,
        _ => text,
    };
    Named { text, at: at..at + text.len().max(1) }
}

fn is_pathlike(text: &str) -> bool {
    (text.starts_with('/') && !text.starts_with("//") && !text.starts_with("/*"))
        || text.starts_with("./")
        || text.starts_with("../")
        || matches!(text, "." | "..")
}

/// Whether a span is a name of the file system: a path, or a quoted name in a message that tries something with it.
fn is_name(line: &str, named: &Named<'_>) -> bool {
    let text = named.text;
    if text.is_empty() || text.contains("://") || text.contains(['\'', '"', '`']) {
        return false;
    }
    if is_pathlike(text) || named.at.len() == text.len() {
        return true;
    }
    let prefix = line.get(..named.at.start).unwrap_or("");
    let word = prefix.trim_end().rsplit(|c: char| !c.is_alphanumeric()).next().unwrap_or("");
    if NOT_FILES.iter().any(|other| word.eq_ignore_ascii_case(other)) || text.starts_with('-') {
        return false;
    }
    text.contains(['/', '.'])
        || !text.contains(' ') && (prefix.trim_end().ends_with([':', ',', '>']) || tries(prefix))
}

/// What a quoted name is the name of, if it is not a file's.
const NOT_FILES: &[&str] = &[
    "thread",
    "user",
    "role",
    "table",
    "database",
    "schema",
    "function",
    "relation",
    "key",
    "host",
    "group",
    "module",
    "package",
    "branch",
    "image",
    "container",
    "service",
    "variable",
    "option",
    "command",
    "test",
    "code",
    "syscall",
    "type",
    "kind",
    "setting",
];

fn tries(prefix: &str) -> bool {
    let lower = prefix.to_ascii_lowercase();
    [
        "cannot",
        "can't",
        "could not",
        "couldn't",
        "fail",
        "unable",
        "error",
        "open",
        "changing",
        "setting",
        "file",
        "directory",
    ]
    .iter()
    .any(|try_| lower.contains(try_))
}

/// Whether a path is a place in a source: `x.c:3`, `x.sh: line 3`, `"x.py", line 3`, `x.pl line 3`.
fn is_place(line: &str, named: &Named<'_>) -> bool {
    let rest = line.get(named.at.end..).unwrap_or("");
    let counted = |text: &str| text.starts_with(|c: char| c.is_ascii_digit());
    let numbered = rest.strip_prefix(':').is_some_and(|rest| counted(rest) || dash_line(rest));
    let rest = rest.trim_start_matches([':', ',', ' ']);
    let rest = rest.strip_prefix("on ").unwrap_or(rest);
    numbered || rest.strip_prefix("line ").is_some_and(counted)
}

/// `: 3: `, as dash writes the line of a script.
fn dash_line(rest: &str) -> bool {
    rest.strip_prefix(' ').is_some_and(|rest| {
        let digits = rest.trim_start_matches(|c: char| c.is_ascii_digit());
        digits.len() < rest.len() && digits.starts_with(':')
    })
}

/// Whether a path is the program that speaks: it opens the line, and something else is said before the words.
fn is_speaker(line: &str, named: &Named<'_>, found: &Range<usize>) -> bool {
    if named.at.start != 0 || named.at.len() != named.text.len() {
        return false;
    }
    let rest = line.get(named.at.end..found.start).unwrap_or("");
    rest.strip_prefix(": ").is_some_and(|rest| !rest.trim_matches([':', ' ']).is_empty())
}

/// What stands between the words and the colon before them.
fn segment<'a>(line: &'a str, found: &Range<usize>) -> Option<Named<'a>> {
    let before = before(line, found);
    let head = before.trim_end_matches([' ', ':', '(', '[']);
    if head.len() == before.len() {
        return None;
    }
    let start = head.rfind(": ").map_or(0, |at| at + 2);
    part(line, start, head.len())
}

fn part(line: &str, start: usize, end: usize) -> Option<Named<'_>> {
    let text = line.get(start..end)?;
    let blank = text.len() - text.trim_start().len();
    let text = text.trim();
    (!text.is_empty()).then(|| Named { text, at: start + blank..start + blank + text.len() })
}

/// A name without any mark of a path, where only a path can stand: `cat: x: …`, `cannot create x: …`, `zsh: …: x`.
fn bare<'a>(line: &'a str, found: &Range<usize>, kind: Kind) -> Option<Named<'a>> {
    let behind = after(line, found).strip_prefix(": ").map(str::trim);
    if let Some(name) = behind.filter(|name| is_bare(name) && kind == Kind::Access) {
        let start = line.len() - after(line, found).len() + 2;
        return Some(Named { text: name, at: start..start + name.len() });
    }
    let last = segment(line, found)?;
    // `tar: x: Cannot open: …`
    let last = match line.get(..last.at.start).map(|head| head.trim_end_matches([' ', ':'])) {
        Some(head) if last.text.starts_with("Cannot ") && !last.text.contains(['/', '.']) => {
            let start = head.rfind(": ").map_or(0, |at| at + 2);
            part(line, start, head.len())?
        }
        _ => last,
    };
    let name = last.text.rsplit(' ').next().filter(|name| is_bare(name))?;
    let start = last.at.end - name.len();
    let alone = name.len() == last.text.len();
    let spoken = line.get(..last.at.start).is_some_and(|head| head.trim_end().ends_with(':'));
    let plain = !name.contains(['/', '.']);
    let fits = match (alone, spoken) {
        (true, true) => !plain || kind != Kind::Access || !is_call(line, found, name),
        (true, false) => !plain,
        (false, _) => name.contains('/') || tries(last.text) && !is_call(line, found, name),
    };
    fits.then_some(Named { text: name, at: start..last.at.end })
}

fn is_bare(name: &str) -> bool {
    let shout = name.starts_with('E') && name.chars().all(|c| c.is_ascii_uppercase());
    name.starts_with(|c: char| c.is_alphanumeric() || c == '.' || c == '_')
        && name.chars().all(|c| c.is_alphanumeric() || "._-+@/~".contains(c))
        && !shout
        && !name.ends_with("Error")
        && !name.ends_with("Exception")
}

/// Words that stand before an error's words and are no file: system calls, and what failed.
const CALLS: &[&str] = &[
    "socket",
    "bind",
    "connect",
    "listen",
    "accept",
    "open",
    "openat",
    "mount",
    "umount",
    "unshare",
    "setns",
    "clone",
    "fork",
    "exec",
    "execve",
    "execvp",
    "kill",
    "ptrace",
    "ioctl",
    "prctl",
    "chroot",
    "pivot_root",
    "setuid",
    "setgid",
    "seteuid",
    "setegid",
    "setgroups",
    "setrlimit",
    "setpriority",
    "sched_setaffinity",
    "mlock",
    "mlockall",
    "mmap",
    "mprotect",
    "perf_event_open",
    "bpf",
    "keyctl",
    "sendto",
    "sendmsg",
    "recvmsg",
    "failed",
    "error",
    "failure",
    "denied",
    "date",
    "niceness",
    "priority",
    "namespace",
    "process",
    "it",
    "file",
    "directory",
    "write",
    "read",
    "setsockopt",
];

fn is_call(line: &str, found: &Range<usize>, name: &str) -> bool {
    // EPERM is about what was tried more often than about a file.
    let eperm =
        line.get(found.clone()).is_some_and(|word| word.eq_ignore_ascii_case("operation not permitted"));
    eperm || CALLS.contains(&name)
}

#[cfg(test)]
mod tests {
    use super::super::words;
    use super::*;

    fn texts(line: &str) -> Vec<&str> {
        let (word, found) = words::find(line).unwrap();
        named(line, &found, word.kind).into_iter().map(|path| path.text).collect()
    }

    #[test]
    fn paths_are_found_in_the_shapes_of_real_tools() {
        for (line, path) in [
            ("bash: line 1: /etc/my file: Read-only file system", "/etc/my file"),
            ("sh: 1: cannot create x: Permission denied", "x"),
            ("mkdir: cannot create directory \u{2018}/opt/t\u{2019}: Read-only file system", "/opt/t"),
            ("/usr/bin/ld: cannot open output file a.out: Permission denied", "a.out"),
            ("/etc/x: Read-only file system", "/etc/x"),
            ("OSError: [Errno 30] Read-only file system: 'data/x'", "data/x"),
            ("E: Could not open lock file /var/l - open (30: Read-only file system)", "/var/l"),
            ("java.io.FileNotFoundException: x.txt (Permission denied)", "x.txt"),
            ("open: Permission denied - /etc/x", "/etc/x"),
            ("zsh: permission denied: x", "x"),
            ("tar: a.txt: Cannot open: Permission denied", "a.txt"),
            ("dial unix /var/run/docker.sock: connect: permission denied", "/var/run/docker.sock"),
            ("/w/run.sh: line 3: ./x: Permission denied", "./x"),
            ("/usr/include/x.h:3:10: fatal error: /etc/f.h: Permission denied", "/etc/f.h"),
            ("install: cannot remove 'it is mine': Permission denied", "it is mine"),
        ] {
            let expected = if path == "it is mine" { Vec::new() } else { vec![path] };
            assert_eq!(texts(line), expected, "{line}");
        }
    }

    #[test]
    fn what_is_no_file_is_not_taken_for_one() {
        for line in [
            "ping: socket: Operation not permitted",
            "unshare: unshare failed: Operation not permitted",
            "Exception in thread \"main\" java.io.IOException: Permission denied",
            "Error: EACCES: permission denied",
            "fetch https://host/etc/x: permission denied",
            "mkdir(): Permission denied in /w/x.php on line 3",
            "OSError: Permission denied",
            "expected: /permission denied/,",
        ] {
            assert_eq!(texts(line), Vec::<&str>::new(), "{line}");
        }
    }
}
