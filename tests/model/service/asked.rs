//! What callers ask for, in the service's words.

use std::time::Duration;

use bytes::Bytes;
use unified_exec::core::approval::{Permissions, Verdict};
use unified_exec::core::command::{self, TerminalSize};
use unified_exec::core::ids::{ProcessId, TurnId};
use unified_exec::core::output::Flow;
use unified_exec::core::policy::{self, ApprovalPolicy, Files, Granular, Network, Rights};
use unified_exec::core::session::{self, Write, WriteAnswer};
use unified_exec::core::signal::Signal;
use unified_exec::host::stream::StreamOptions;

use crate::model::bytes_of;
use crate::step::{Answer, Exec, Input, Mode, Policy, Profile, Sign};

const MS: fn(u64) -> Duration = Duration::from_millis;

pub(super) const fn options(streams: bool) -> StreamOptions {
    StreamOptions { output: streams, ..StreamOptions::new(Flow::DropWithGap, 1_000) }
}

pub(super) fn turn(number: u8) -> TurnId {
    TurnId::new(format!("turn {number}"))
}

pub(super) fn start(exec: &Exec, argv: Vec<String>) -> session::Exec {
    let command = command::Command {
        program: command::Program::Argv(argv),
        cwd: None,
        env: Vec::new(),
        terminal: exec.terminal.then(TerminalSize::default),
        stdin: exec.stdin,
        full_terminal: false,
    };
    let mode = match exec.mode {
        Mode::Interactive { wait } => session::Mode::Interactive { yield_time: wait.map(MS) },
        Mode::Follow => session::Mode::Follow,
        Mode::OneShot { timeout } => session::Mode::OneShot { timeout: timeout.map(MS) },
    };
    let permissions = if exec.escalated { Permissions::Escalated } else { Permissions::Default };
    session::Exec { permissions, ..session::Exec::new(turn(exec.turn), command, mode) }
}

pub(super) fn write(process: ProcessId, input: Input, wait: Option<u64>) -> Write {
    Write {
        turn: turn(0),
        request: None,
        process,
        input: Bytes::from(bytes_of(input)),
        offset: None,
        eof: input == Input::Eof,
        answer: match wait {
            Some(wait) => WriteAnswer::Collect { yield_time: Some(MS(wait)) },
            None => WriteAnswer::Delivered,
        },
    }
}

pub(super) fn rights_of(policy: Policy, profile: Profile) -> Rights {
    let files = match profile {
        Profile::Full => Files::FullAccess,
        Profile::ReadOnly | Profile::DenyRead => Files::ReadOnly,
        Profile::External => Files::External,
    };
    let network = if profile == Profile::Full { Network::On } else { Network::Off };
    let deny_read = if profile == Profile::DenyRead { vec!["/secret".to_owned()] } else { Vec::new() };
    let policy = match policy {
        Policy::Never => ApprovalPolicy::Never,
        Policy::OnRequest => ApprovalPolicy::OnRequest,
        Policy::UnlessTrusted => ApprovalPolicy::UnlessTrusted,
        Policy::Granular { rules, sandbox, stdin } => {
            ApprovalPolicy::Granular(Granular { rules, sandbox_approval: sandbox, network: false, stdin })
        }
    };
    Rights { policy, strict_review: false, profile: policy::Profile { files, network, deny_read } }
}

pub(super) const fn signal_of(sign: Sign) -> Signal {
    match sign {
        Sign::Int => Signal::INT,
        Sign::Term => Signal::TERM,
        Sign::Kill => Signal::KILL,
        Sign::Winch => Signal::WINCH,
    }
}

pub(super) const fn verdict(answer: Answer) -> Verdict {
    match answer {
        Answer::Approve => Verdict::Approve,
        Answer::ApproveForSession => Verdict::ApproveForSession,
        Answer::AddRule => Verdict::ApproveAndAddRule,
        Answer::Decline => Verdict::Decline,
        Answer::Abort => Verdict::AbortTurn,
    }
}
