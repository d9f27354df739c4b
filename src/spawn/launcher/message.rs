//! What the launcher and the server say to each other while a child starts and runs: one datagram each over a pair of
//! sockets that only they hold.
//!
//! ```text
//! launcher                                server
//!   Inside (its pid, the proxy's socket) ──►
//!                                        ◄── Go        if it was told to wait
//!   Command (its pid)  ──►                              sent by the process that becomes the command
//!   Runs | Failed      ──►
//!                                        ◄── Signal, Kill
//!   Ended              ──►
//!                                        ◄── Reap      until then the command's number stays taken
//! ```
//!
//! Process ids are not written but attached by the kernel, which translates them between namespaces.

use std::time::Duration;

use rustix::io::Errno;

use super::codec::{Reader, Writer};
use crate::core::process::ExitStatus;
use crate::core::spawn::{ResourceUsage, SpawnError};

/// The largest message: room for every error with its texts.
pub(in crate::spawn) const MESSAGE_BYTES_MAX: usize = 16 * 1024;
/// The longest text in an error that is sent; the rest is cut off.
const TEXT_BYTES_MAX: usize = 4 * 1024;

/// What the launcher says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::spawn) enum Report {
    /// The launcher is the first process of its namespace.
    Inside,
    /// The sender is about to become the command.
    Command,
    /// The command runs.
    Runs,
    /// There will be no command.
    Failed(SpawnError),
    /// The command has ended.
    Ended {
        /// How.
        status: ExitStatus,
        /// What it used.
        usage: ResourceUsage,
    },
}

/// What the server says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::spawn) enum Order {
    /// The command may start.
    Go,
    /// The end of the command is known.
    Reap,
    /// A signal for the command's group.
    SignalGroup(i32),
    /// A signal for everything inside.
    SignalAll(i32),
    /// The end of everything inside.
    Kill,
}

impl Order {
    pub(in crate::spawn) fn encode(self) -> Vec<u8> {
        let (tag, number) = match self {
            Self::Go => (0, 0),
            Self::Reap => (1, 0),
            Self::SignalGroup(number) => (2, number),
            Self::SignalAll(number) => (3, number),
            Self::Kill => (4, 0),
        };
        let mut writer = Writer::default();
        writer.number(tag).number(u64::from(number.unsigned_abs()));
        writer.finish()
    }

    pub(super) fn decode(bytes: &[u8]) -> Result<Self, Errno> {
        let mut reader = Reader::new(bytes);
        let (tag, number) = (reader.number()?, reader.small()?);
        match tag {
            0 => Ok(Self::Go),
            1 => Ok(Self::Reap),
            2 => Ok(Self::SignalGroup(number)),
            3 => Ok(Self::SignalAll(number)),
            4 => Ok(Self::Kill),
            _ => Err(Errno::BADMSG),
        }
    }
}

impl Report {
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut writer = Writer::default();
        match self {
            Self::Inside => drop(writer.number(0)),
            Self::Command => drop(writer.number(1)),
            Self::Runs => drop(writer.number(2)),
            Self::Failed(error) => {
                writer.number(3);
                write_error(&mut writer, error);
            }
            Self::Ended { status, usage } => {
                writer.number(4);
                write_end(&mut writer, *status, *usage);
            }
        }
        writer.finish()
    }

    pub(in crate::spawn) fn decode(bytes: &[u8]) -> Result<Self, Errno> {
        let reader = &mut Reader::new(bytes);
        match reader.number()? {
            0 => Ok(Self::Inside),
            1 => Ok(Self::Command),
            2 => Ok(Self::Runs),
            3 => read_error(reader).map(Self::Failed),
            4 => read_end(reader),
            _ => Err(Errno::BADMSG),
        }
    }
}

fn write_end(writer: &mut Writer, status: ExitStatus, usage: ResourceUsage) {
    let (tag, number, core_dumped) = match status {
        ExitStatus::Code(code) => (0, code, false),
        ExitStatus::Signal { number, core_dumped } => (1, number, core_dumped),
    };
    writer.number(tag).number(u64::from(number.unsigned_abs())).number(u64::from(core_dumped));
    for time in [usage.user, usage.system] {
        writer.number(u64::try_from(time.as_micros()).unwrap_or(u64::MAX));
    }
    writer.number(usage.rss_max_bytes);
}

fn read_end(reader: &mut Reader<'_>) -> Result<Report, Errno> {
    let (tag, number, core_dumped) = (reader.number()?, reader.small()?, reader.flag()?);
    let status = match tag {
        0 => ExitStatus::Code(number),
        _ => ExitStatus::Signal { number, core_dumped },
    };
    let usage = ResourceUsage {
        user: Duration::from_micros(reader.number()?),
        system: Duration::from_micros(reader.number()?),
        rss_max_bytes: reader.number()?,
    };
    Ok(Report::Ended { status, usage })
}

/// Words that errors hold as constants: the last stands for any other.
const RESOURCES: &[&str] = &["descriptors", "terminals", "processes", "memory"];
const ACTIONS: &[&str] = &["execute", "open", "pass", "set up", "confine", "start"];

fn index_of(words: &[&str], word: &str) -> u64 {
    words.iter().position(|known| *known == word).unwrap_or(words.len() - 1) as u64
}

fn word_at(words: &[&'static str], index: usize) -> Result<&'static str, Errno> {
    words.get(index).copied().ok_or(Errno::BADMSG)
}

fn short(text: &str) -> &[u8] {
    let mut end = text.len().min(TEXT_BYTES_MAX);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text.as_bytes()[..end]
}

fn write_error(writer: &mut Writer, error: &SpawnError) {
    let mut strings = |tag: u64, strings: &[&str]| {
        writer.number(tag).list(strings, |writer, string| {
            writer.string(short(string));
        });
    };
    match error {
        SpawnError::ProgramMissing { program } => strings(0, &[program]),
        SpawnError::ProgramDenied { program } => strings(1, &[program]),
        SpawnError::InterpreterMissing { program, interpreter } => strings(2, &[program, interpreter]),
        SpawnError::ProgramFormat { program } => strings(3, &[program]),
        SpawnError::CwdMissing { path } => strings(4, &[path]),
        SpawnError::CwdDenied { path, reason } => strings(5, &[path, reason]),
        SpawnError::SandboxUnavailable { reason } => strings(6, &[reason]),
        SpawnError::TooLarge { program, size_bytes, largest_bytes, limit_bytes } => {
            strings(7, &[program]);
            for size in [size_bytes, largest_bytes, limit_bytes] {
                writer.number(*size as u64);
            }
        }
        SpawnError::Exhausted { resource, reason } => {
            strings(8, &[reason]);
            writer.number(index_of(RESOURCES, resource));
        }
        SpawnError::System { action, path, reason } => {
            strings(9, &[path, reason]);
            writer.number(index_of(ACTIONS, action));
        }
        SpawnError::LimitUnenforceable { reason, .. } => {
            strings(9, &["", reason]);
            writer.number(index_of(ACTIONS, "confine"));
        }
    }
}

fn read_error(reader: &mut Reader<'_>) -> Result<SpawnError, Errno> {
    let tag = reader.number()?;
    let mut strings = reader.list(Reader::text)?.into_iter();
    let mut next = || strings.next().ok_or(Errno::BADMSG);
    Ok(match tag {
        0 => SpawnError::ProgramMissing { program: next()? },
        1 => SpawnError::ProgramDenied { program: next()? },
        2 => SpawnError::InterpreterMissing { program: next()?, interpreter: next()? },
        3 => SpawnError::ProgramFormat { program: next()? },
        4 => SpawnError::CwdMissing { path: next()? },
        5 => SpawnError::CwdDenied { path: next()?, reason: next()? },
        6 => SpawnError::SandboxUnavailable { reason: next()? },
        7 => SpawnError::TooLarge {
            program: next()?,
            size_bytes: reader.small()?,
            largest_bytes: reader.small()?,
            limit_bytes: reader.small()?,
        },
        8 => SpawnError::Exhausted { reason: next()?, resource: word_at(RESOURCES, reader.small()?)? },
        9 => {
            SpawnError::System { path: next()?, reason: next()?, action: word_at(ACTIONS, reader.small()?)? }
        }
        _ => return Err(Errno::BADMSG),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_report_arrives_as_it_was_sent() {
        let program = || "tool".to_owned();
        let errors = [
            SpawnError::ProgramMissing { program: program() },
            SpawnError::ProgramDenied { program: program() },
            SpawnError::InterpreterMissing { program: program(), interpreter: "/no/such".to_owned() },
            SpawnError::ProgramFormat { program: program() },
            SpawnError::CwdMissing { path: "/w".to_owned() },
            SpawnError::CwdDenied { path: "/w".to_owned(), reason: "x".to_owned() },
            SpawnError::SandboxUnavailable { reason: "none".to_owned() },
            SpawnError::TooLarge { program: program(), size_bytes: 3, largest_bytes: 2, limit_bytes: 1 },
            SpawnError::Exhausted { resource: "memory", reason: "x".to_owned() },
            SpawnError::System { action: "execute", path: "/x".to_owned(), reason: "y".to_owned() },
        ];
        let usage = ResourceUsage {
            user: Duration::from_micros(5),
            system: Duration::from_secs(9),
            rss_max_bytes: 4096,
        };
        let ends = [ExitStatus::Code(255), ExitStatus::Signal { number: 31, core_dumped: true }];
        let reports = [Report::Inside, Report::Command, Report::Runs].into_iter();
        let failures = errors.into_iter().map(Report::Failed);
        let endings = ends.into_iter().map(|status| Report::Ended { status, usage });
        for report in reports.chain(failures).chain(endings) {
            assert_eq!(Report::decode(&report.encode()), Ok(report));
        }
    }

    #[test]
    fn every_order_arrives_as_it_was_sent() {
        for order in [Order::Go, Order::Reap, Order::SignalGroup(2), Order::SignalAll(15), Order::Kill] {
            assert_eq!(Order::decode(&order.encode()), Ok(order));
        }
    }

    #[test]
    fn a_long_text_is_cut_at_a_character_and_fits() {
        let reason = "ä".repeat(MESSAGE_BYTES_MAX);
        let sent =
            Report::Failed(SpawnError::System { action: "open", path: reason.clone(), reason }).encode();
        assert!(sent.len() <= MESSAGE_BYTES_MAX);
        assert!(Report::decode(&sent).is_ok());
    }

    #[test]
    fn garbage_is_an_error() {
        for bytes in [&b""[..], b"x", &[9; 40]] {
            assert!(Report::decode(bytes).is_err());
            assert!(Order::decode(bytes).is_err());
        }
    }
}
