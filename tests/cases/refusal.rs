//! Errors of the service, and the words of the system's errors that cases expect.

use tonic::{Code, Status};
use tonic_types::StatusExt as _;

/// The machine-readable part of an error.
pub(crate) fn reason(status: &Status) -> String {
    status.get_details_error_info().map(|info| info.reason).unwrap_or_default()
}

/// Message and facts of an error in one string.
pub(crate) fn words(status: &Status) -> String {
    let facts = status.get_details_error_info().map(|info| info.metadata).unwrap_or_default();
    let mut facts: Vec<String> = facts.into_iter().map(|(name, value)| format!("{name}={value}")).collect();
    facts.sort();
    format!("{}; {}", status.message(), facts.join(" "))
}

/// One line for messages.
pub(crate) fn show(status: &Status) -> String {
    format!("{:?} / {} ({})", status.code(), reason(status), words(status))
}

/// Whether a refused start says what the system's error word says.
pub(crate) fn matches(status: &Status, word: &str) -> bool {
    let (code, reason, words) = (status.code(), reason(status), words(status));
    let reasons: &[&str] = match word {
        "No such file or directory" => &["PROGRAM_NOT_FOUND", "INTERPRETER_NOT_FOUND", "CWD_NOT_FOUND"],
        "Permission denied" => &["PROGRAM_NOT_EXECUTABLE", "CWD_NOT_ACCESSIBLE"],
        "Not a directory" => &["CWD_NOT_ACCESSIBLE", "CWD_NOT_FOUND", "PROGRAM_NOT_FOUND"],
        "Exec format error" | "Is a directory" => &["PROGRAM_NOT_EXECUTABLE"],
        "Too many open files" => &["SYSTEM_EXHAUSTED"],
        "Argument list too long" => {
            let bounded =
                ["131070", "131071", "131072", "1048576"].iter().any(|limit| plain(&words).contains(limit));
            return code == Code::InvalidArgument
                && ["ARGUMENTS_TOO_LARGE", "INVALID_FIELD"].contains(&reason.as_str())
                && bounded;
        }
        "null byte" => {
            let said = ["null byte", "NUL"].iter().any(|name| words.contains(name));
            return code == Code::InvalidArgument && reason == "INVALID_FIELD" && said;
        }
        path => {
            let known = ["PROGRAM_NOT_FOUND", "INTERPRETER_NOT_FOUND", "CWD_NOT_FOUND", "CWD_NOT_ACCESSIBLE"]
                .contains(&reason.as_str())
                || reason == "PROGRAM_NOT_EXECUTABLE";
            return known && words.contains(path);
        }
    };
    reasons.contains(&reason.as_str()) && words.contains("path=")
}

/// Whether a refused write says what the system's error word says: the number of an errno, or its name.
pub(crate) fn matches_write(status: &Status, word: &str) -> bool {
    match word {
        // EPIPE: nobody reads any more.
        "32" | "Broken pipe" | "EPIPE" => {
            ["STDIN_CLOSED", "PROCESS_ENDED"].contains(&reason(status).as_str())
                && status.code() == Code::FailedPrecondition
        }
        other => reason(status) == other || words(status).contains(other),
    }
}

/// Numbers without their separators.
fn plain(words: &str) -> String {
    words.replace([' ', ',', '_', '\u{202f}', '\u{a0}'], "")
}
