//! What went wrong, for people: what happened, and what to do about it.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io;

use tonic::{Code, Status};
use tonic_types::StatusExt as _;

use super::{exit, words};

/// A command that cannot be carried out.
#[derive(Debug)]
pub(super) struct Failure {
    code: u8,
    message: String,
    hints: Vec<String>,
    /// Reason and facts that the service gave, for programs.
    reason: String,
    facts: BTreeMap<String, String>,
}

impl Failure {
    /// A failure of `uexec` or the service.
    pub(super) fn new(message: impl Into<String>) -> Self {
        Self {
            code: exit::FAILED,
            message: message.into(),
            hints: Vec::new(),
            reason: String::new(),
            facts: BTreeMap::new(),
        }
    }

    /// A command line or a configuration that is wrong.
    pub(super) fn usage(message: impl Into<String>) -> Self {
        Self { code: exit::USAGE, ..Self::new(message) }
    }

    /// The same, with another exit code.
    #[must_use]
    pub(super) fn with_code(mut self, code: u8) -> Self {
        self.code = code;
        self
    }

    /// Adds what to do about it.
    #[must_use]
    pub(super) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hints.push(hint.into());
        self
    }

    /// Ends with `code` and without a word: whoever would read it has gone.
    #[must_use]
    pub(super) fn quiet(mut self, code: u8) -> Self {
        self.code = code;
        self.message.clear();
        self
    }

    /// Whether there is nothing to say.
    pub(super) fn is_quiet(&self) -> bool {
        self.message.is_empty()
    }

    /// The exit code.
    pub(super) fn code(&self) -> u8 {
        self.code
    }

    /// The reason that the service gave, in upper snake; empty if it gave none.
    pub(super) fn reason(&self) -> &str {
        &self.reason
    }

    /// What happened.
    pub(super) fn message(&self) -> &str {
        &self.message
    }

    /// What to do about it.
    pub(super) fn hints(&self) -> &[String] {
        &self.hints
    }

    /// For people: `error: …` and a line `  hint: …` for each hint.
    pub(super) fn to_text(&self) -> String {
        // What others have written may be in it.
        let mut text = format!("error: {}\n", words::shown_lines(&self.message, "\n"));
        for hint in &self.hints {
            // Writing into a String cannot fail.
            writeln!(text, "  hint: {}", words::shown_lines(hint, "\n")).ok();
        }
        text
    }

    /// For programs: one object.
    pub(super) fn to_json(&self) -> serde_json::Value {
        serde_json::json!({ "error": {
            "message": self.message, "hints": self.hints, "reason": self.reason, "metadata": self.facts,
            "exit_code": self.code,
        }})
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::new(error.to_string())
    }
}

impl From<serde_json::Error> for Failure {
    fn from(error: serde_json::Error) -> Self {
        Self::new(format!("the answer cannot be shown as JSON: {error}"))
    }
}

impl From<Status> for Failure {
    fn from(status: Status) -> Self {
        let details = status.get_error_details();
        let info = details.error_info();
        let reason = info.map(|info| info.reason.clone()).unwrap_or_default();
        let facts: BTreeMap<String, String> =
            info.map(|info| info.metadata.clone().into_iter().collect()).unwrap_or_default();
        let mut failure =
            Self { code: exit_code(&reason), message: message(&status), hints: Vec::new(), reason, facts };
        for violation in details.bad_request().into_iter().flat_map(|request| &request.field_violations) {
            if !failure.message.contains(&violation.description) {
                failure.hints.push(format!("{}: {}", violation.field, violation.description));
            }
        }
        if let Some(delay) = details.retry_info().and_then(|retry| retry.retry_delay) {
            failure.hints.push(format!("try again in {:.1} s", delay.as_secs_f64()));
        }
        if let ("APPROVAL_NOT_OPEN", Some(state)) = (&*failure.reason, failure.facts.get("state")) {
            let state = state.to_lowercase().replace('_', " ");
            failure.hints.push(format!("it is {state} already; the first answer counts"));
        }
        let hint = if is_connection(&status) { Some(LOST) } else { hint(&failure.reason) };
        failure.hints.extend(hint.map(str::to_owned));
        failure
    }
}

/// What to do when the connection itself fails.
const LOST: &str =
    "is the server still running? `uexec serve` starts one; a server with TLS is https://, not http://";

/// Whether no server has said this: it comes from the connection.
fn is_connection(status: &Status) -> bool {
    std::error::Error::source(status).is_some()
        || (status.code() == Code::Unavailable && status.details().is_empty())
}

fn message(status: &Status) -> String {
    match status.message() {
        words if is_connection(status) => {
            let words = if words.is_empty() { "no reason given" } else { words };
            format!("the connection to the server was lost ({words})")
        }
        "" => format!("the server answered: {}", status.code()),
        words => words.to_owned(),
    }
}

/// A shell's codes for a command that could not be started; else the service's own failure.
fn exit_code(reason: &str) -> u8 {
    match reason {
        "PROGRAM_NOT_FOUND" | "SHELL_NOT_FOUND" | "INTERPRETER_NOT_FOUND" => exit::NOT_FOUND,
        "PROGRAM_NOT_EXECUTABLE" => exit::NOT_EXECUTABLE,
        _ => exit::FAILED,
    }
}

fn hint(reason: &str) -> Option<&'static str> {
    Some(match reason {
        "SESSION_NOT_FOUND" => "`uexec sessions` lists those you can use",
        "PROCESS_NOT_FOUND" => "`uexec ps --all` lists what runs and what ended lately",
        "STDIN_CLOSED" => "start it with `--tty` or `--stdin` to write to it",
        "NOT_A_TERMINAL" => "start it with `--tty` to give it a terminal",
        "PROCESS_ENDED" => "`uexec logs` still shows what it wrote",
        "CREDENTIAL_REFUSED" => "name the server's token file with --token-file or $UEXEC_TOKEN_FILE",
        "UNKNOWN_SIGNAL" => "use a name such as TERM, INT or KILL",
        "SANDBOX_UNAVAILABLE" => "`uexec doctor` says what this machine can enforce, and what it lacks",
        "WIDENING_DENIED" => {
            "the server's configuration decides what a session may do, see `[rights]` there; `uexec exec --sandbox \
             workspace-write` asks for less, `--session ID` uses a session that is there, `uexec serve \
             --allow-full-access` gives more"
        }
        "COMMAND_FORBIDDEN" => "`uexec rules check` says which rule matches",
        "ESCALATION_FORBIDDEN" => {
            "nobody is ever asked in this session: leave `--escalate` out, or use a session made with `--approval \
             on-request`"
        }
        "APPROVAL_DECLINED" | "TURN_ABORTED" => "`uexec approvals show ID` says who decided, and about what",
        "APPROVAL_EXPIRED" => {
            "run it again when somebody answers; `uexec approvals watch` shows questions as they come"
        }
        "REVIEW_FAILED" => {
            "the automatic reviewer must answer; see `[reviewer]` of the server's configuration and its log"
        }
        "VERDICT_NOT_ALLOWED" => "`uexec approvals show ID` says what may be answered",
        "DIGEST_MISMATCH" => "the question has changed since it was read; look at it again",
        "GRANT_NOT_FOUND" => "`uexec approvals grants SESSION` lists those that are kept",
        "NEW_TERMINAL_REQUIRED" | "STDIN_FORBIDDEN" => {
            "start a new process under the policy that is in force now"
        }
        "ROLE_REQUIRED" => "answers are given through the reviewer's socket, or with the reviewer's token",
        "APPROVAL_NOT_OPEN" | "APPROVAL_NOT_FOUND" => {
            "`uexec approvals list --all` shows how questions stand"
        }
        "CWD_IN_USE" => "`uexec clean` ends the terminals that hold it",
        "TABLE_FULL" => "`uexec kill ID` or `uexec clean` makes room",
        "SERVER_DRAINING" => "the server is shutting down; start it again, or use another",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use tonic_types::ErrorDetails;

    use super::*;

    #[test]
    fn a_status_becomes_words_and_a_way_out() {
        let facts = [("session_id".to_owned(), "s1".to_owned())];
        let details = ErrorDetails::with_error_info("SESSION_NOT_FOUND", "unified-exec", facts);
        let failure = Failure::from(Status::with_error_details(Code::NotFound, "no session \"s1\"", details));
        assert_eq!(failure.code(), exit::FAILED);
        let text = failure.to_text();
        assert!(text.starts_with("error: no session \"s1\"\n  hint: `uexec sessions`"), "{text}");
        assert_eq!(failure.to_json()["error"]["metadata"]["session_id"], "s1");
    }

    #[test]
    fn a_program_that_cannot_start_has_a_shells_codes() {
        for (reason, code) in
            [("PROGRAM_NOT_FOUND", 127), ("PROGRAM_NOT_EXECUTABLE", 126), ("CWD_NOT_FOUND", 125)]
        {
            let details = ErrorDetails::with_error_info(reason, "unified-exec", []);
            let status = Status::with_error_details(Code::NotFound, "x", details);
            assert_eq!(Failure::from(status).code(), code, "{reason}");
        }
    }
}
