//! One line of output held against the profile.

use std::ops::Range;

use super::operation::{Operation, operation};
use super::paths::{Named, named, scan};
use super::words::{self, Kind, Word};
use super::{Ended, hosts};
use crate::core::policy::{Network, path};
use crate::core::process::ExitStatus;

/// What a shell says of a file that it could not run.
const NOT_EXECUTABLE: ExitStatus = ExitStatus::Code(126);

/// What a line with an errno word says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Nothing: the words mean something else.
    Nothing,
    /// It is about something that the profile allows, so another cause made it fail.
    Allowed,
    /// It names nothing that could be checked.
    Unnamed,
    /// It names something for which the words alone are a sign.
    Likely(String),
    /// It is about this, which the profile forbids.
    Forbidden(String),
}

/// What `line` says of `ended`, which word says it, and where; `earlier` are the lines right before it.
pub(super) fn judge(
    line: &str,
    earlier: &[String],
    ended: &Ended<'_>,
) -> Option<(Word, Range<usize>, Verdict)> {
    let (word, found) = words::find(line)?;
    let verdict = if words::is_login(line) {
        Verdict::Nothing
    } else if word.kind == Kind::Network {
        network(line, ended)
    } else {
        file(line, word, &found, earlier, ended)
    };
    let counts = match verdict {
        Verdict::Unnamed => !word.needs_name && words::is_message(line, &found) && !words::is_elsewhere(line),
        Verdict::Likely(_) => !word.needs_name,
        _ => true,
    };
    Some((word, found, if counts { verdict } else { Verdict::Nothing }))
}

fn network(line: &str, ended: &Ended<'_>) -> Verdict {
    if ended.profile.network == Network::On {
        return Verdict::Nothing;
    }
    match host(line, ended) {
        Verdict::Allowed => Verdict::Nothing,
        verdict => verdict,
    }
}

fn host(line: &str, ended: &Ended<'_>) -> Verdict {
    let hosts = hosts::named(line);
    match hosts.iter().find(|host| ended.profile.forbids_host(host)) {
        Some(host) => Verdict::Forbidden((*host).to_owned()),
        None if hosts.is_empty() => Verdict::Unnamed,
        None => Verdict::Allowed,
    }
}

fn file(line: &str, word: Word, found: &Range<usize>, earlier: &[String], ended: &Ended<'_>) -> Verdict {
    let paths = named(line, found, word.kind);
    if !paths.is_empty() {
        return about(line, word, &paths, ended);
    }
    match host(line, ended) {
        Verdict::Unnamed => chained(line, word, earlier, ended),
        verdict => verdict,
    }
}

/// A chain of causes names its path lines before its errno word.
fn chained(line: &str, word: Word, earlier: &[String], ended: &Ended<'_>) -> Verdict {
    let starts = |line: &String| line.to_ascii_lowercase().starts_with("caused by");
    if !starts(&line.to_owned()) && !earlier.iter().any(starts) {
        return Verdict::Unnamed;
    }
    earlier
        .iter()
        .rev()
        .map(|line| (line, scan(line, &(line.len()..line.len()))))
        .find(|(_, paths)| !paths.is_empty())
        .map_or(Verdict::Unnamed, |(line, paths)| about(line, word, &paths, ended))
}

fn about(line: &str, word: Word, paths: &[Named<'_>], ended: &Ended<'_>) -> Verdict {
    let tried = match (word.kind, operation(line, paths)) {
        (Kind::ReadOnly | Kind::Mount, _) => Operation::Write,
        (_, Operation::Unknown) if ended.status == NOT_EXECUTABLE => Operation::Read,
        (_, tried) => tried,
    };
    let forbids = |path: &String| match tried {
        Operation::Read => ended.profile.forbids_read(path),
        Operation::Write | Operation::Unknown => ended.profile.forbids_write_from(ended.cwd, path),
    };
    let paths = written(line, paths);
    let resolved: Vec<String> = paths.iter().map(|path| resolve(path.text, ended.cwd)).collect();
    if let Some(forbidden) = resolved.iter().find(|path| forbids(path)) {
        return Verdict::Forbidden(forbidden.clone());
    }
    // A mode cannot cause EROFS, and a relative path may have been seen from another directory.
    match paths.iter().find(|path| !path.text.starts_with('/')) {
        Some(relative) if word.kind == Kind::ReadOnly => Verdict::Likely(relative.text.to_owned()),
        _ => Verdict::Allowed,
    }
}

/// Without what a link only points to and a copy only reads, where the message tells which of two paths that is.
fn written<'a, 'b>(line: &str, paths: &'b [Named<'a>]) -> &'b [Named<'a>] {
    match paths {
        [_, made] if line.contains("symlink '") || line.contains("copyfile '") => std::slice::from_ref(made),
        paths => paths,
    }
}

/// `text` from `cwd`, without the ways around that the process table offers.
fn resolve(text: &str, cwd: &str) -> String {
    let mut path = path::resolve(cwd, text);
    while let Some((place, rest)) = detour(&path) {
        path = path::resolve(if place == "cwd" { cwd } else { "/" }, rest);
    }
    path
}

/// Splits `/proc/self/root/x` into `root` and `x`, and so for any process and for `cwd`.
fn detour(path: &str) -> Option<(&str, &str)> {
    let (process, rest) = path.strip_prefix("/proc/")?.split_once('/')?;
    let process_is_one =
        matches!(process, "self" | "thread-self") || process.chars().all(|c| c.is_ascii_digit());
    let (place, rest) = rest.split_once('/').unwrap_or((rest, ""));
    (process_is_one && matches!(place, "root" | "cwd")).then_some((place, rest))
}
