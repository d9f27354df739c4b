//! Whatever a scenario expects: what may happen once must not happen twice.

use crate::transcript::Line;

/// Checks the last of `lines`.
pub(crate) fn check(lines: &[Line], broken: &mut Vec<String>) {
    const ONCE: [&str; 5] =
        ["process_started", "process_exited", "attempt_started", "attempt_denied", "approval_decided"];
    let Some((line, before)) = lines.split_last() else { return };
    let same =
        |other: &Line| other.kind == line.kind && other.who == line.who && other.get("n") == line.get("n");
    if ONCE.contains(&line.kind.as_str()) && before.iter().any(same) {
        broken.push(format!("twice: {}", line.to_string().trim_start()));
    }
    let retry = |line: &Line| line.kind == "approval_requested" && line.get("kind") == Some("retry");
    if retry(line) && before.iter().any(|other| retry(other) && other.who == line.who) {
        broken.push(format!("a second question about a retry of {:?}", line.who));
    }
}
