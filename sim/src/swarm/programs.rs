//! Random programs.

use bytes::Bytes;
use toml::Spanned;

use super::menu::{Fault, Menu};
use super::random::Random;
use super::times::Times;
use crate::scenario::{Act, Base64, Program, Second, SpawnFailure};

/// What evidence of a denial is read from; the profile of every sandbox forbids writing there.
const DENIED: [&str; 3] = [
    "cp: cannot create '/usr/x': Permission denied\n",
    "sh: /etc/x: Read-only file system\n",
    "Operation not permitted\n",
];

const FAILURES: [SpawnFailure; 5] = [
    SpawnFailure::ProgramMissing,
    SpawnFailure::ProgramDenied,
    SpawnFailure::CwdMissing,
    SpawnFailure::Exhausted,
    SpawnFailure::SandboxUnavailable,
];

/// What programs are made of in one scenario.
pub(crate) struct Programs<'a> {
    pub(crate) menu: &'a Menu,
    pub(crate) random: Random,
    /// The early window, in milliseconds.
    pub(crate) window: u64,
}

impl Programs<'_> {
    fn strikes(&mut self, fault: Fault) -> bool {
        self.menu.strikes(fault, &mut self.random)
    }

    /// A program that may do anything; `lives` makes it one that does not end by itself.
    pub(crate) fn program(&mut self, times: &mut Times, lives: bool) -> Program {
        let mut program = Program::default();
        if self.strikes(Fault::SlowSpawn) {
            program.spawn = times.delay();
        }
        if self.strikes(Fault::SpawnError) {
            program.spawn_error = self.random.pick(&FAILURES);
        }
        if self.strikes(Fault::SecondSpawn) {
            let spawn_error = if self.random.chance(50) { self.random.pick(&FAILURES) } else { None };
            program.second = Some(Second { spawn: times.delay(), spawn_error });
        }
        if !lives && self.strikes(Fault::Denial) {
            program.sandboxed = self.denied(times);
            program.unsandboxed =
                if self.random.chance(20) { self.denied(times) } else { self.acts(times, lives) };
        } else {
            program.acts = self.acts(times, lives);
        }
        program
    }

    fn denied(&mut self, times: &mut Times) -> Vec<Spanned<Act>> {
        let at = times.end(self.window);
        let mut script = Script::default();
        if self.strikes(Fault::Daemon) {
            script.act(0, |act| act.daemon = Some(0));
        }
        if self.strikes(Fault::Holder) {
            script.act(0, |act| act.fork_holder = Some(times.delay()));
        }
        let words = self.random.one_of(DENIED);
        let late = self.strikes(Fault::LateOutput);
        if !late {
            script.act(at.saturating_sub(self.random.below(3)), |act| act.out = Some(words.into()));
        }
        let (code, reap) = (self.random.one_of([1, 1, 2, 126, 159]), self.reap());
        script.act(at, |act| (act.exit, act.late) = (Some(code), reap));
        if late {
            let after = self.random.one_of([0, 5, 19, 20, 21, 49, 50, 51, 100]);
            script.act(at + after, |act| act.out = Some(words.into()));
        }
        script.0
    }

    fn reap(&mut self) -> u64 {
        if self.strikes(Fault::LateReap) { self.random.one_of([1, 5, 20, 200]) } else { 0 }
    }

    fn acts(&mut self, times: &mut Times, lives: bool) -> Vec<Spanned<Act>> {
        let end = times.end(self.window);
        let mut script = Script::default();
        if self.strikes(Fault::IgnoreTerm) {
            script.act(0, |act| act.ignore = Some("TERM".into()));
        }
        if self.strikes(Fault::Stuck) && self.random.chance(10) {
            script.act(0, |act| act.ignore = Some("TERM".into()));
            script.act(0, |act| act.ignore = Some("KILL".into()));
        }
        if self.strikes(Fault::Daemon) {
            let lives = self.random.one_of([0, 200, 5_000]);
            script.act(0, |act| act.daemon = Some(lives));
        }
        if self.strikes(Fault::Holder) {
            let holds = self.random.one_of([0, 10, 49, 50, 99, 100, 101, 5_000]);
            script.act(0, |act| act.fork_holder = Some(holds));
        }
        match self.random.below(3) {
            0 if self.strikes(Fault::Write) => script.act(0, |act| act.echo = Some(true)),
            1 => {
                let bytes = self.random.one_of([1, 3, 100, 70_000]);
                script.act(0, |act| act.read_stdin = Some(bytes));
            }
            _ => {}
        }
        self.outputs(&mut script, end);
        if self.strikes(Fault::InputEnd) {
            script.act(times.between(script.last(), end.max(script.last())), |act| {
                act.close_stdin = Some(true)
            });
        }
        if self.strikes(Fault::Connect) {
            let to = self.random.one_of(["example.org:443", "example.net:80", "localhost:22"]);
            script.act(script.last(), |act| act.connect = Some(to.into()));
        }
        let echoes = script.0.iter().any(|act| act.get_ref().echo.is_some());
        if !echoes && self.strikes(Fault::EofFirst) {
            script.act(script.last(), |act| act.eof = Some(true));
        }
        if self.strikes(Fault::Hang) {
            script.act(script.last(), |act| act.hang = Some(true));
        } else if !lives {
            self.end(&mut script, end);
        }
        script.0
    }

    fn outputs(&mut self, script: &mut Script, end: u64) {
        script.act(self.random.one_of([0, 1, 5]), |act| act.out = Some("up\n".into()));
        if self.strikes(Fault::Burst) {
            let size = usize::try_from(self.random.one_of([8_191, 8_192, 8_193, 70_000])).unwrap_or(0);
            script.act(script.last(), |act| act.out = Some("x".repeat(size)));
        }
        if self.strikes(Fault::Drip) {
            for step in 0..self.random.between(2, 8) {
                let at = (script.last() + step).min(end.max(script.last()));
                script.act(at, |act| act.err = Some("y".into()));
            }
        }
        if self.strikes(Fault::SplitText) {
            let bytes = "é€𝄞".as_bytes();
            let cut = usize::try_from(self.random.between(1, 8)).unwrap_or(1);
            let (first, rest) = bytes.split_at(cut.min(bytes.len()));
            for piece in [first, rest] {
                script.act(script.last(), |act| act.out_b64 = Some(Base64(Bytes::copy_from_slice(piece))));
            }
        }
        if self.strikes(Fault::Bytes) {
            script.act(script.last(), |act| {
                act.out_b64 = Some(Base64(Bytes::from_static(b"\0\xff\xfe\x1b[2J\x80")))
            });
        }
    }

    fn end(&mut self, script: &mut Script, end: u64) {
        let (at, late) = (end.max(script.last()), self.reap());
        if self.strikes(Fault::Signalled) {
            let signal = self.random.one_of(["SEGV", "KILL", "PIPE", "TERM", "SYS"]);
            script.act(at, |act| (act.signal, act.late) = (Some(signal.into()), late));
        } else {
            let code = self.random.one_of([0, 0, 0, 1, 2, 127]);
            script.act(at, |act| (act.exit, act.late) = (Some(code), late));
        }
        let closed = script.0.iter().any(|act| act.get_ref().eof.is_some());
        if !closed && self.strikes(Fault::LateOutput) {
            let after = self.random.one_of([0, 1, 19, 20, 21, 49, 50, 51, 99, 100, 101, 300]);
            script.act(at + after, |act| act.out = Some("late\n".into()));
        }
    }
}

#[derive(Default)]
struct Script(Vec<Spanned<Act>>);

impl Script {
    fn last(&self) -> u64 {
        self.0.last().map_or(0, |act| act.get_ref().at)
    }

    fn act(&mut self, at: u64, set: impl FnOnce(&mut Act)) {
        let mut act = Act { at: at.max(self.last()), ..Act::default() };
        set(&mut act);
        self.0.push(Spanned::new(0..0, act));
    }
}
