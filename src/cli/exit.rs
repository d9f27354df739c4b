//! Exit codes of `uexec`, in one place; `docs/cli.md` has them as a table.

use crate::grpc::pb;

/// It went well.
pub(super) const OK: u8 = 0;
/// The answer is no: what was waited for did not come, or something survived.
pub(super) const NO: u8 = 1;
/// The command line or the configuration is wrong. `exec` says [`FAILED`] instead, since 2 may be the command's own.
pub(super) const USAGE: u8 = 2;
/// Somebody would have to agree (`rules check`).
pub(super) const ASKS: u8 = 3;
/// No rule says anything (`rules check`).
pub(super) const UNDECIDED: u8 = 4;
/// Time is over, as with timeout(1).
pub(super) const TIMEOUT: u8 = 124;
/// The service could not be reached, or refused.
pub(super) const FAILED: u8 = 125;
/// The program was found and cannot be run, as in a shell.
pub(super) const NOT_EXECUTABLE: u8 = 126;
/// The program was not found, as in a shell.
pub(super) const NOT_FOUND: u8 = 127;
/// Added to the number of a signal that ended a command, as in a shell.
pub(super) const SIGNAL_BASE: u8 = 128;

/// The code for a command that ended so.
pub(super) fn of(exit: &pb::Exit) -> u8 {
    if exit.reason() == pb::ExitReason::Timeout {
        return TIMEOUT;
    }
    u8::try_from(exit.shell_code).unwrap_or(FAILED)
}

/// How a command ended, in words: "exited with code 3".
pub(super) fn words(exit: &pb::Exit) -> String {
    let status = match &exit.status {
        Some(pb::exit::Status::Code(code)) => format!("exited with code {code}"),
        Some(pb::exit::Status::Signal(signal)) if signal.core_dumped => {
            format!("ended by {} (core dumped)", signal.name)
        }
        Some(pb::exit::Status::Signal(signal)) => format!("ended by {}", signal.name),
        None => "ended, nobody knows how".to_owned(),
    };
    match exit.reason() {
        pb::ExitReason::Unspecified | pb::ExitReason::Exited | pb::ExitReason::Signalled => status,
        reason => format!("{status} ({})", reason_words(reason)),
    }
}

fn reason_words(reason: pb::ExitReason) -> String {
    reason.as_str_name().trim_start_matches("EXIT_REASON_").to_lowercase().replace('_', " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_a_shells() {
        let exit = |shell_code| pb::Exit { shell_code, ..Default::default() };
        assert_eq!(of(&exit(3)), 3);
        assert_eq!(of(&exit(137)), 137);
        assert_eq!(of(&exit(-1)), FAILED);
        let timeout =
            pb::Exit { shell_code: 143, reason: pb::ExitReason::Timeout.into(), ..Default::default() };
        assert_eq!(of(&timeout), TIMEOUT);
    }
}
