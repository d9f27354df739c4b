//! The words that a refused system call ends up as, and where in a line they speak as a message, not as prose.

use std::ops::Range;

/// What a word can be evidence of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// EACCES and EPERM: a mode can cause them as well as a sandbox.
    Access,
    /// EROFS: a mount, never a mode; always about writing.
    ReadOnly,
    /// EXDEV: a rename or link out of a writable root; an ordinary one elsewhere.
    Mount,
    /// A network without anybody in it.
    Network,
}

/// A word to look for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Word {
    /// As it is looked for, lower case.
    pub(super) text: &'static str,
    /// As it is told.
    pub(super) says: &'static str,
    pub(super) kind: Kind,
    /// Whether it means anything only next to a path or host that is forbidden.
    pub(super) needs_name: bool,
}

const fn word(text: &'static str, kind: Kind) -> Word {
    Word { text, says: text, kind, needs_name: false }
}

const fn with_name(text: &'static str, says: &'static str, kind: Kind) -> Word {
    Word { text, says, kind, needs_name: true }
}

/// All of them, the three of the file system first: where a line has several, the first decides.
const WORDS: &[Word] = &[
    word("read-only file system", Kind::ReadOnly),
    word("operation not permitted", Kind::Access),
    word("permission denied", Kind::Access),
    with_name("accessdeniedexception", "permission denied", Kind::Access),
    with_name("cross-device link", "cross-device link", Kind::Mount),
    word("network is unreachable", Kind::Network),
    word("temporary failure in name resolution", Kind::Network),
    with_name("temporary failure resolving", "temporary failure in name resolution", Kind::Network),
    with_name("could not resolve host", "could not resolve host", Kind::Network),
    with_name("unable to resolve host", "could not resolve host", Kind::Network),
    with_name("unknownhostexception", "could not resolve host", Kind::Network),
    with_name("eai_again", "temporary failure in name resolution", Kind::Network),
    with_name("enetunreach", "network is unreachable", Kind::Network),
    with_name("couldn't connect to server", "couldn't connect to server", Kind::Network),
];

/// The word of `line` that counts, and where it stands.
pub(super) fn find(line: &str) -> Option<(Word, Range<usize>)> {
    let lower = line.to_ascii_lowercase();
    WORDS.iter().find_map(|word| {
        let mut from = 0;
        while let Some(at) = lower.get(from..).and_then(|rest| rest.find(word.text)) {
            let found = from + at..from + at + word.text.len();
            if stands_alone(&lower, &found) {
                return Some((*word, found));
            }
            from = found.end;
        }
        None
    })
}

/// Not a part of a longer word; a name with dots before it is how Java writes its exceptions.
fn stands_alone(line: &str, found: &Range<usize>) -> bool {
    let part = |c: char| c.is_alphanumeric() || c == '_';
    !before(line, found).chars().next_back().is_some_and(part)
        && !after(line, found).chars().next().is_some_and(part)
}

pub(super) fn before<'a>(line: &'a str, found: &Range<usize>) -> &'a str {
    line.get(..found.start).unwrap_or("")
}

pub(super) fn after<'a>(line: &'a str, found: &Range<usize>) -> &'a str {
    line.get(found.end..).unwrap_or("")
}

/// Plain words before an error's words that still make a message of them.
const LEADS: &[&str] =
    &["error", "failed", "failure", "got", "with", "to", "is", "was", "errno", "because", "exception"];
/// Plain words after an error's words that still leave a message.
const TRAILS: &[&str] =
    &["at", "in", "while", "when", "during", "trying", "accessing", "opening", "writing", "on"];
/// Keys whose quoted value is a message.
const KEYS: &[&str] = &["message", "msg", "error", "err", "reason", "cause", "detail"];

/// Whether the words at `found` stand where programs put the text of an error: at the end, after a colon, in brackets.
/// Prose ("shows permission denied to guests", "permission denied for table users") and quotations are not.
pub(super) fn is_message(line: &str, found: &Range<usize>) -> bool {
    let (before, after) = (before(line, found), after(line, found));
    if before.ends_with(is_quote) && after.starts_with(is_quote) {
        return is_value(before);
    }
    starts_message(before) && ends_message(after)
}

fn is_quote(c: char) -> bool {
    matches!(c, '\'' | '"' | '`' | '\u{2018}' | '\u{2019}' | '\u{201c}' | '\u{201d}')
}

/// Whether a quotation is the value of a key that holds messages, as in `message: "…"`.
fn is_value(before: &str) -> bool {
    let key = before.trim_end_matches(is_quote).trim_end();
    let Some(key) = key.strip_suffix([':', '=']) else { return false };
    let key = key.trim_end_matches(|c: char| is_quote(c) || c == ' ');
    KEYS.iter().any(|known| last_word(key).eq_ignore_ascii_case(known))
}

fn starts_message(before: &str) -> bool {
    let trimmed = before.trim_end();
    // A diff, or a test's list of what it wanted: somebody else's words.
    if matches!(trimmed, "+" | "-" | "<" | ">") {
        return false;
    }
    match trimmed.chars().next_back() {
        None => true,
        Some(':' | '(' | '[' | ']' | ')' | '-' | '=' | ';' | ',' | '.' | '!') => true,
        Some(c) if c.is_ascii_digit() => true,
        Some(c) if is_quote(c) => true,
        Some(_) => LEADS.iter().any(|lead| last_word(trimmed).eq_ignore_ascii_case(lead)),
    }
}

fn ends_message(after: &str) -> bool {
    let rest = after.trim_start();
    match rest.chars().next() {
        Some(c) if c.is_alphabetic() => {
            let word: String = rest.chars().take_while(|c| c.is_alphabetic()).collect();
            TRAILS.iter().any(|trail| word.eq_ignore_ascii_case(trail))
        }
        _ => true,
    }
}

fn last_word(text: &str) -> &str {
    text.rsplit(|c: char| !c.is_alphanumeric()).next().unwrap_or("")
}

/// Who else refuses in these words: a login, a web server, a remote procedure, a test that quotes.
const OTHERS: &[&str] = &["publickey", "keyboard-interactive", "please try again", "gssapi", "hostbased"];
const SPEECH: &[&str] = &["http", "403", "sqlstate", "rpc error", "expected", "assert", "should", "actual"];

/// Whether a line is a login's refusal, which is about neither a file nor a network.
pub(super) fn is_login(line: &str) -> bool {
    let lower = line.to_ascii_lowercase();
    OTHERS.iter().any(|other| lower.contains(other))
}

/// Whether a line that names nothing to check speaks of something other than this machine's files.
pub(super) fn is_elsewhere(line: &str) -> bool {
    let lower = line.to_ascii_lowercase();
    SPEECH.iter().any(|other| lower.contains(other))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(line: &str) -> bool {
        let (_, found) = find(line).unwrap();
        is_message(line, &found)
    }

    #[test]
    fn messages_are_told_from_prose() {
        for line in [
            "Permission denied",
            "kill: (1) - Operation not permitted",
            "x (Permission denied)",
            "PermissionError: [Errno 13] Permission denied: 'x'",
            "open: Permission denied at -e line 1.",
            r#"Os { code: 13, kind: PermissionDenied, message: "Permission denied" }"#,
            r#"{"error":"operation not permitted"}"#,
            "it failed Permission denied",
        ] {
            assert!(message(line), "{line}");
        }
        for line in [
            "shows permission denied to guests",
            "ERROR:  permission denied for table users",
            "assertEqual('Permission denied', text)",
            "#define EACCES 13 /* Permission denied */",
            "-Permission denied",
            "> Permission denied",
        ] {
            assert!(!message(line), "{line}");
        }
    }

    #[test]
    fn a_word_inside_a_longer_one_is_not_a_word() {
        assert_eq!(find("test_permission denied_x"), None);
        assert_eq!(find("rpc error: code = PermissionDenied"), None);
        assert_eq!(find("sandbox seccomp landlock"), None);
        assert_eq!(find("PERMISSION DENIED").unwrap().0.says, "permission denied");
    }
}
