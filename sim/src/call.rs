//! A caller's step as a call of the core.

use std::cell::RefCell;
use std::time::Duration;

use bytes::Bytes;
use unified_exec::core::approval::{self, Permissions};
use unified_exec::core::command::{Command, Program, TerminalSize};
use unified_exec::core::ids::{Fingerprint, ProcessId, RequestId, TurnId};
use unified_exec::core::policy::Additional;
use unified_exec::core::process::EndReason;
use unified_exec::core::session::{
    Call, Condition, Exec, Hold, Idempotency, Mode, Timeouts, WaitFor, Write, WriteAnswer,
};
use unified_exec::core::signal;
use unified_exec::core::spawn::ResourceLimits;

use crate::scenario::check::parse_signal;
use crate::scenario::{self, Op, Scope, Until, When};

/// The call that `when` makes about `process`; `None` for a step that is no call, or that the
/// world makes because it needs to know more.
pub(crate) fn call(when: &When, process: Option<ProcessId>) -> Option<Call> {
    let turn = TurnId::new(when.turn.as_deref().unwrap_or("t"));
    Some(match when.op {
        Op::Exec => Call::Exec(exec(when, turn)),
        Op::Write | Op::Poll => Call::Write(write(when, turn, process?)),
        Op::Wait => Call::Wait(WaitFor {
            turn,
            process: process?,
            condition: match when.until? {
                Until::Exit => Condition::Exit,
                Until::Closed => Condition::Closed,
                Until::Output => Condition::Output,
            },
            from: None,
            timeout: millis(when.timeout),
        }),
        Op::Attach => Call::Attach { process: process? },
        Op::Interrupt => Call::Interrupt { turn },
        Op::Clean => Call::Clean,
        Op::Close => Call::Close { reason: EndReason::SessionClosed },
        Op::Terminate => Call::Terminate { process: process? },
        Op::Signal => Call::Signal {
            process: process?,
            signal: parse_signal("signal", when.signal.as_deref()?).ok()?,
            scope: match when.scope {
                None | Some(Scope::Process) => signal::Scope::Process,
                Some(Scope::Group) => signal::Scope::Group,
                Some(Scope::Foreground) => signal::Scope::Foreground,
                Some(Scope::Tree) => signal::Scope::Tree,
            },
        },
        Op::Hold => Call::Hold(Hold {
            lease: when.lease.clone().unwrap_or_default(),
            duration: millis(when.duration).unwrap_or_default(),
        }),
        Op::Disconnect
        | Op::Stall
        | Op::Resume
        | Op::Drain
        | Op::Decide
        | Op::Revoke
        | Op::Update
        | Op::OwnerNetwork => return None,
    })
}

fn exec(when: &When, turn: TurnId) -> Exec {
    Exec {
        turn,
        request: request(when),
        command: Command {
            program: Program::Shell { cmd: when.cmd.clone().unwrap_or_default(), shell: None, login: None },
            cwd: None,
            env: Vec::new(),
            terminal: (when.tty == Some(true)).then(TerminalSize::default),
            stdin: when.stdin == Some(true),
            full_terminal: false,
        },
        permissions: permissions(when),
        justification: when.justification.clone().unwrap_or_default(),
        proposed_rule: when.propose.clone().unwrap_or_default(),
        limits: ResourceLimits::default(),
        mode: match when.mode {
            None | Some(scenario::Mode::Interactive) => {
                Mode::Interactive { yield_time: millis(when.yield_ms) }
            }
            Some(scenario::Mode::Follow) => Mode::Follow,
            Some(scenario::Mode::OneShot) => Mode::OneShot { timeout: millis(when.timeout) },
        },
        timeouts: Timeouts {
            hard: millis(when.hard_timeout),
            no_output: millis(when.no_output_timeout),
            after_disconnect: millis(when.after_disconnect),
            retention: None,
        },
        kill_descendants_on_exit: when.kill_descendants_on_exit == Some(true),
    }
}

fn permissions(when: &When) -> Permissions {
    match &when.additional {
        Some(scenario::Additional { read, write, deny_read, network }) => {
            Permissions::Additional(Additional {
                read: read.clone(),
                write: write.clone(),
                deny_read: deny_read.clone(),
                network: *network,
            })
        }
        None if when.escalate == Some(true) => Permissions::Escalated,
        None => Permissions::Default,
    }
}

pub(crate) const fn verdict(verdict: scenario::Verdict) -> approval::Verdict {
    match verdict {
        scenario::Verdict::Approve => approval::Verdict::Approve,
        scenario::Verdict::ApproveForSession => approval::Verdict::ApproveForSession,
        scenario::Verdict::ApproveAndAddRule => approval::Verdict::ApproveAndAddRule,
        scenario::Verdict::Decline => approval::Verdict::Decline,
        scenario::Verdict::AbortTurn => approval::Verdict::AbortTurn,
    }
}

fn write(when: &When, turn: TurnId, process: ProcessId) -> Write {
    Write {
        turn,
        request: request(when),
        process,
        input: input(when),
        offset: when.offset,
        eof: when.eof == Some(true),
        answer: match when.frame {
            Some(true) => WriteAnswer::Delivered,
            _ => WriteAnswer::Collect { yield_time: millis(when.yield_ms) },
        },
    }
}

/// What is written. A long input is the same each time, and it is built once.
fn input(when: &When) -> Bytes {
    thread_local! {
        static LONG: RefCell<(String, usize, Bytes)> = RefCell::default();
    }
    let text = when.input.as_deref().unwrap_or_default();
    let Some(times) = when.times else { return Bytes::copy_from_slice(text.as_bytes()) };
    LONG.with_borrow_mut(|long| {
        if (long.0.as_str(), long.1) != (text, times) {
            *long = (text.to_owned(), times, Bytes::from(text.repeat(times)));
        }
        long.2.clone()
    })
}

/// The edge digests the whole request; here what a scenario can vary is enough.
fn request(when: &When) -> Idempotency {
    let id = when.request.as_deref()?;
    let content = format!(
        "{:?} {:?} {:?} {:?} {:?} {:?}",
        when.op, when.cmd, when.to, when.input, when.offset, when.eof
    );
    let mut digest = [0u8; 32];
    for (at, byte) in content.bytes().enumerate() {
        digest[at % 32] = digest[at % 32].wrapping_mul(31).wrapping_add(byte);
    }
    Some((RequestId::new(id), Fingerprint(digest)))
}

fn millis(millis: Option<u64>) -> Option<Duration> {
    millis.map(Duration::from_millis)
}
