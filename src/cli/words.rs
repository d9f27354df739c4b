//! Numbers, times and names as people read them.

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

/// What points to a denial: `denied, as far as is known (checked): permission denied /etc/x`.
pub(super) fn evidence(evidence: &pb::Evidence) -> String {
    let confidence = name(evidence.confidence().as_str_name(), "CONFIDENCE_");
    let cause = match evidence.word.as_str() {
        "" => name(evidence.cause().as_str_name(), "EVIDENCE_CAUSE_"),
        word => word.to_owned(),
    };
    shown(format!("denied by the sandbox ({confidence}): {cause} {}", evidence.path).trim_end())
}

/// Text of others as it may be shown: control characters, escape sequences among them, never reach a terminal as such.
pub(super) fn shown(text: &str) -> String {
    let is_format = |c: char| {
        ('\u{200e}'..='\u{200f}').contains(&c)
            || ('\u{202a}'..='\u{202e}').contains(&c)
            || ('\u{2066}'..='\u{2069}').contains(&c)
    };
    let mut shown = String::new();
    for character in text.chars() {
        if character.is_control() || is_format(character) {
            shown.extend(character.escape_default());
        } else {
            shown.push(character);
        }
    }
    shown
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
        assert_eq!(name("PROCESS_STATE_RUNNING", "PROCESS_STATE_"), "running");
    }
}
