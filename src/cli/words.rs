//! Numbers, times and names as people read them.

use std::fmt::Write as _;
use std::time::{Duration, SystemTime};

use crate::grpc::pb;
use crate::host::clock::Clock;

/// `PROCESS_STATE_RUNNING` without its prefix: `running`.
pub(super) fn name(full: &str, prefix: &str) -> String {
    full.trim_start_matches(prefix).to_lowercase().replace('_', "-")
}

/// How long ago that was.
pub(super) fn age(since: &prost_types::Timestamp) -> String {
    let clock = Clock::start();
    let now = clock.to_wall(clock.now());
    let since = SystemTime::try_from(*since).unwrap_or(now);
    span(now.duration_since(since).unwrap_or_default())
}

/// How long it is until then; nothing once it is over.
pub(super) fn left(until: &prost_types::Timestamp) -> String {
    let clock = Clock::start();
    let now = clock.to_wall(clock.now());
    let until = SystemTime::try_from(*until).unwrap_or(now);
    span(until.duration_since(now).unwrap_or_default())
}

/// The largest unit that fits, and the next.
fn span(time: Duration) -> String {
    let seconds = time.as_secs();
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3_600 => format!("{}m{:02}s", seconds / 60, seconds % 60),
        3_600..86_400 => format!("{}h{:02}m", seconds / 3_600, seconds % 3_600 / 60),
        _ => format!("{}d{:02}h", seconds / 86_400, seconds % 86_400 / 3_600),
    }
}

/// A size, to three digits.
pub(super) fn bytes(count: u64) -> String {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut unit = 0;
    let mut scaled = count;
    while scaled >= 10_240 && unit + 1 < UNITS.len() {
        scaled /= 1_024;
        unit += 1;
    }
    format!("{scaled} {}", UNITS[unit])
}

/// A command as one would type it; of a shell's line, the line.
pub(super) fn command(argv: &[String]) -> String {
    if let [_, flag, line] = argv
        && ["-c", "-lc"].contains(&flag.as_str())
    {
        return line.clone();
    }
    argv.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" ")
}

/// What holds an attempt: `under bubblewrap seccomp`, or that nothing does.
pub(super) fn held(enforced: &pb::Enforced) -> String {
    match (enforced.bypassed, enforced.mechanisms.join(" ")) {
        (true, _) => "without its sandbox".to_owned(),
        (false, by) if by.is_empty() => "without a sandbox".to_owned(),
        (false, by) => format!("under {by}"),
    }
}

/// What points to a denial: `denied, as far as is known (checked): permission denied /etc/x`.
pub(super) fn evidence(evidence: &pb::Evidence) -> String {
    let confidence = name(evidence.confidence().as_str_name(), "CONFIDENCE_");
    let cause = match evidence.word.as_str() {
        "" => name(evidence.cause().as_str_name(), "EVIDENCE_CAUSE_"),
        word => word.to_owned(),
    };
    shown(format!("denied by the sandbox ({confidence}): {cause} {}", evidence.path).trim_end())
}

/// Program and arguments exactly as they are, for whoever judges them: no shell is left out, and every word can be told
/// from every other. One that holds what cannot be shown is in the shells' `$'…'`.
pub(super) fn exact(argv: &[String]) -> String {
    argv.iter()
        .map(|word| if is_shown(word) { quoted(word) } else { ansi(word) })
        .collect::<Vec<_>>()
        .join(" ")
}

/// Bytes of others, each to be told from every other: as they are where they are text, in `\xff` where they are not.
pub(super) fn exact_bytes(bytes: &[u8]) -> String {
    let mut text = String::new();
    for chunk in bytes.utf8_chunks() {
        chunk.valid().chars().for_each(|character| escape(&mut text, character, "\\"));
        for byte in chunk.invalid() {
            // Writing into a String cannot fail.
            write!(text, "\\x{byte:02x}").ok();
        }
    }
    text
}

/// Text of others as it may be shown: nothing that moves a cursor, changes a direction or cannot be seen reaches a
/// terminal as such.
pub(super) fn shown(text: &str) -> String {
    let mut shown = String::new();
    text.chars().for_each(|character| escape(&mut shown, character, ""));
    shown
}

/// The same of several lines, which stay lines.
pub(super) fn shown_lines(text: &str, end: &str) -> String {
    text.lines().map(shown).collect::<Vec<_>>().join(end)
}

/// Adds a character as it may be shown; those of `also` are escaped too.
fn escape(text: &mut String, character: char, also: &str) {
    if hides(character) || also.contains(character) {
        text.extend(character.escape_debug());
    } else {
        text.push(character);
    }
}

/// Whether a character cannot be seen, or does something to what can: controls, formats, marks that join others.
fn hides(character: char) -> bool {
    !"'\"\\".contains(character) && character.escape_debug().len() > 1
}

fn is_shown(text: &str) -> bool {
    !text.chars().any(hides)
}

/// A word in `$'…'`, in which a backslash begins an escape and is one itself.
fn ansi(word: &str) -> String {
    let mut text = String::new();
    for character in word.chars() {
        match character {
            _ if !hides(character) && !"\\'".contains(character) => text.push(character),
            // The braces of Rust are not the shells'.
            _ if hides(character) && !"\n\r\t".contains(character) => {
                write!(text, "\\U{:08x}", u32::from(character)).ok();
            }
            _ => text.extend(character.escape_default()),
        }
    }
    format!("$'{text}'")
}

fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || "_-./:=,+@%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn things_read_well() {
        assert_eq!(span(Duration::from_secs(5)), "5s");
        assert_eq!(span(Duration::from_secs(3_725)), "1h02m");
        assert_eq!(bytes(10_239), "10239 B");
        assert_eq!(bytes(1_048_576), "1024 KiB");
        let argv = |words: &[&str]| words.iter().map(|&word| word.to_owned()).collect::<Vec<_>>();
        assert_eq!(command(&argv(&["/bin/bash", "-lc", "echo hi; ls"])), "echo hi; ls");
        assert_eq!(command(&argv(&["ls", "my file", "it's"])), "ls 'my file' 'it'\\''s'");
        assert_eq!(shown("a\x1b[2Jb\n\u{202e}c"), "a\\u{1b}[2Jb\\n\\u{202e}c");
        assert_eq!(shown("it's \"x\" \\ ä 漢\u{200b}\u{9b}"), "it's \"x\" \\ ä 漢\\u{200b}\\u{9b}");
        assert_eq!(name("PROCESS_STATE_RUNNING", "PROCESS_STATE_"), "running");
    }

    #[test]
    fn a_reviewer_sees_every_word_as_it_is() {
        let argv = |words: &[&str]| words.iter().map(|&word| word.to_owned()).collect::<Vec<_>>();
        assert_eq!(exact(&argv(&["/tmp/evil", "-c", "ls -l"])), "/tmp/evil -c 'ls -l'");
        assert_eq!(exact(&argv(&["echo", "a\nb'\\", ""])), "echo $'a\\nb\\'\\\\' ''");
        assert_ne!(exact(&argv(&["a\nb"])), exact(&argv(&["a\\nb"])));
        assert_eq!(exact(&argv(&["\u{202e}x\x1b[2J"])), "$'\\U0000202ex\\U0000001b[2J'");
        assert_eq!(exact_bytes(b"a\n\xff\\n"), "a\\n\\xff\\\\n");
    }
}
