//! Random callers.

use toml::Spanned;

use super::menu::{Fault, Menu};
use super::random::Random;
use super::session;
use super::times::Times;
use crate::scenario::{Additional, Mode, Op, Scope, Until, Verdict, When};
use crate::transcript::Pattern;

/// The end of every scenario lies beyond everything that ends by itself: yields, expiries, leases, holders.
pub(crate) const END: u64 = 200_000;

const TURNS: [&str; 2] = ["t0", "t1"];

/// A start whose call others can name.
struct Start {
    call: String,
    at: u64,
    yields: u64,
    writes: bool,
}

pub(crate) struct Steps<'a> {
    pub(crate) menu: &'a Menu,
    pub(crate) random: Random,
    pub(crate) times: Times,
    /// Whether an automatic reviewer is there.
    pub(crate) reviewed: bool,
    steps: Vec<Spanned<When>>,
    calls: u32,
}

impl<'a> Steps<'a> {
    pub(crate) fn new(menu: &'a Menu, random: Random, times: Times, reviewed: bool) -> Self {
        Self { menu, random, times, reviewed, steps: Vec::with_capacity(24), calls: 0 }
    }

    fn strikes(&mut self, fault: Fault) -> bool {
        self.menu.strikes(fault, &mut self.random)
    }

    fn push(&mut self, when: When) {
        self.steps.push(Spanned::new(0..0, when));
    }

    /// A step that is a call of its own.
    fn call(&mut self, when: When) {
        self.calls += 1;
        let call = Some(format!("d{}", self.calls));
        self.push(When { call, ..when });
    }

    fn turn(&mut self) -> Option<String> {
        Some(self.random.one_of(TURNS).into())
    }

    /// Starts of these commands in this order, and what is done about each.
    pub(crate) fn about(mut self, commands: &[&String]) -> Vec<Spanned<When>> {
        let mut at = 0;
        for (number, cmd) in commands.iter().enumerate() {
            let start = self.start(number, cmd, at);
            self.answers(&start);
            self.input(&start);
            self.watch(&start);
            self.end(&start);
            self.strike(&start);
            at += if self.random.chance(50) { self.times.delay() } else { self.random.below(3) };
        }
        self.change(at);
        self.finish();
        self.steps
    }

    fn start(&mut self, number: usize, cmd: &str, at: u64) -> Start {
        let yields = self.times.yields();
        let tty = self.strikes(Fault::Terminal);
        let stdin = !tty && self.strikes(Fault::Stdin);
        let mut when = When {
            at: Some(at),
            op: Op::Exec,
            call: Some(format!("c{number}")),
            cmd: Some(cmd.to_owned()),
            turn: self.turn(),
            yield_ms: yields,
            tty: tty.then_some(true),
            stdin: stdin.then_some(true),
            ..When::default()
        };
        if self.strikes(Fault::OneShot) {
            (when.mode, when.yield_ms) = (Some(Mode::OneShot), None);
            when.timeout = self.random.one_of([None, Some(1), Some(149), Some(150), Some(151), Some(1_000)]);
        } else if self.strikes(Fault::Follow) {
            (when.mode, when.yield_ms) = (Some(Mode::Follow), None);
        }
        if self.strikes(Fault::Timeouts) {
            let bound = Some(self.times.around(self.random.one_of([150, 250, 1_000])));
            match self.random.below(3) {
                0 => when.hard_timeout = bound,
                1 => when.no_output_timeout = bound,
                _ => when.after_disconnect = bound,
            }
        }
        if self.strikes(Fault::Daemon) && self.random.chance(30) {
            when.kill_descendants_on_exit = Some(true);
        }
        if self.strikes(Fault::Escalate) {
            when.escalate = Some(true);
        } else if self.strikes(Fault::Additional) {
            let write = vec!["/w/extra".into()];
            when.additional =
                Some(Additional { write, network: self.random.chance(30), ..Additional::default() });
        }
        let start = Start {
            call: when.call.clone().unwrap_or_default(),
            at,
            yields: yields.unwrap_or(10_000).clamp(250, 30_000),
            writes: tty || stdin,
        };
        let again = self.strikes(Fault::Repeat).then(|| {
            when.request = Some(format!("r{number}"));
            When { at: Some(at + self.times.delay()), ..when.clone() }
        });
        self.push(when);
        if let Some(again) = again {
            self.call(again);
        }
        start
    }

    fn on(start: &Start, kind: &'static str, keys: &[(&str, &str)]) -> Option<Pattern> {
        Some(Pattern::of(&start.call, kind, keys))
    }

    /// People answer what they are asked: in time or late, once or twice, well or wrongly, or not at all.
    fn answers(&mut self, start: &Start) {
        for kind in ["command", "retry", "input", "connection"] {
            let asked = match kind {
                "input" => start.writes,
                "connection" => self.menu.rate(Fault::Connect) > 0,
                _ => true,
            };
            if !asked || self.strikes(Fault::Unanswered) {
                continue;
            }
            let late = self.strikes(Fault::LateAnswer);
            let times = if self.strikes(Fault::SecondAnswer) { 2 } else { 1 };
            for _ in 0..times {
                let delay = match self.random.below(3) {
                    _ if late => self.times.delay() + 1_000,
                    0 => self.times.delay(),
                    _ => self.random.below(3),
                };
                let verdict = if self.strikes(Fault::Declined) {
                    self.random.one_of([Verdict::Decline, Verdict::Decline, Verdict::AbortTurn])
                } else if self.random.chance(20) {
                    self.random.one_of([Verdict::ApproveForSession, Verdict::ApproveAndAddRule])
                } else {
                    Verdict::Approve
                };
                let rule = (verdict == Verdict::ApproveAndAddRule).then(|| vec!["p0".into(), "run".into()]);
                self.call(When {
                    on: Self::on(start, "approval_requested", &[("kind", kind)]),
                    delay: Some(delay),
                    op: Op::Decide,
                    to: Some(start.call.clone()),
                    verdict: Some(verdict),
                    rule,
                    ..When::default()
                });
            }
        }
        if self.strikes(Fault::WrongAnswer) {
            let at = start.at + self.times.delay();
            let question = Some(usize::try_from(self.random.between(1, 9)).unwrap_or(1));
            let verdict =
                Some(self.random.one_of([Verdict::Approve, Verdict::ApproveForSession, Verdict::Decline]));
            self.call(When { at: Some(at), op: Op::Decide, question, verdict, ..When::default() });
        }
    }

    fn input(&mut self, start: &Start) {
        let mut count = 0;
        while self.strikes(Fault::Write) && count < 3 {
            count += 1;
            let big = self.strikes(Fault::BigWrite) && self.random.chance(30);
            let (input, times) = match self.random.below(8) {
                0 => ("\u{3}", None),
                1 => ("a\0b", None),
                _ if big => ("0123456789abcdef", Some(5_000)),
                2 => ("é", None),
                _ => ("hello\n", None),
            };
            let at = start.at + self.times.delay();
            let on_answer = self.random.chance(40);
            let frame = self.random.chance(15).then_some(true);
            let eof = self.strikes(Fault::InputEnd).then_some(true);
            let offset = self.random.one_of([None, None, None, Some(0), Some(6), Some(100)]);
            let request = self.strikes(Fault::Repeat).then(|| "w".to_owned());
            let (turn, yield_ms, delay) = (self.turn(), self.times.yields(), self.times.delay());
            self.call(When {
                at: (!on_answer).then_some(at),
                on: on_answer.then(|| Self::on(start, "answer", &[])).flatten(),
                delay: on_answer.then_some(delay),
                op: Op::Write,
                to: Some(start.call.clone()),
                turn,
                request,
                input: Some(input.into()),
                times,
                offset,
                eof,
                frame,
                yield_ms,
                ..When::default()
            });
        }
    }

    fn watch(&mut self, start: &Start) {
        let call = start.call.clone();
        if self.strikes(Fault::Poll) || self.random.chance(30) {
            let when = When { op: Op::Poll, to: Some(call.clone()), turn: self.turn(), ..When::default() };
            let yield_ms = self.random.one_of([None, Some(5_001)]);
            if self.random.chance(50) {
                let (on, delay) = (Self::on(start, "answer", &[]), Some(self.times.delay()));
                self.call(When { on, delay, yield_ms, ..when });
            } else {
                let at = Some(start.at + self.times.around(start.yields));
                self.call(When { at, yield_ms, ..when });
            }
        }
        if self.strikes(Fault::Wait) {
            let until = Some(self.random.one_of([Until::Exit, Until::Closed, Until::Output]));
            let timeout = self.random.one_of([None, Some(0), Some(150), Some(1_000)]);
            let at = Some(start.at + self.times.delay());
            let turn = self.turn();
            self.call(When {
                at,
                op: Op::Wait,
                to: Some(call.clone()),
                turn,
                until,
                timeout,
                ..When::default()
            });
        }
        if self.strikes(Fault::Attach) {
            let at = Some(start.at + self.times.delay());
            self.call(When { at, op: Op::Attach, to: Some(call), ..When::default() });
        }
    }

    /// At an instant after the start, at an event of it, or around its yield deadline.
    fn moment(&mut self, start: &Start) -> When {
        let kind = match self.random.below(10) {
            0 => "approval_requested",
            1 => "attempt_started",
            2 => "attempt_denied",
            3 => "process_exited",
            4 => "output",
            5 => "approval_decided",
            6 | 7 => return When { at: Some(start.at + self.times.around(start.yields)), ..When::default() },
            _ => return When { at: Some(start.at + self.times.delay()), ..When::default() },
        };
        When { on: Self::on(start, kind, &[]), delay: Some(self.times.delay()), ..When::default() }
    }

    fn end(&mut self, start: &Start) {
        if self.strikes(Fault::Terminate) {
            let moment = self.moment(start);
            self.call(When { op: Op::Terminate, to: Some(start.call.clone()), ..moment });
        }
        if self.strikes(Fault::Signal) {
            let moment = self.moment(start);
            let signal = Some(self.random.one_of(["INT", "TERM", "HUP", "KILL", "USR1", "CONT"]).into());
            let scopes = [Scope::Process, Scope::Group, Scope::Foreground, Scope::Tree];
            let scope = Some(self.random.one_of(scopes));
            self.call(When { op: Op::Signal, to: Some(start.call.clone()), signal, scope, ..moment });
        }
        if self.strikes(Fault::Disconnect) {
            let moment = self.moment(start);
            let call = match self.random.below(3) {
                0 if self.calls > 0 => format!("d{}", self.random.between(1, u64::from(self.calls))),
                _ => start.call.clone(),
            };
            if self.steps.iter().any(|step| step.get_ref().call.as_ref() == Some(&call)) {
                self.push(When { op: Op::Disconnect, call: Some(call), ..moment });
            }
        }
    }

    /// What strikes the whole turn or session.
    fn strike(&mut self, start: &Start) {
        if self.strikes(Fault::Interrupt) {
            let (moment, turn) = (self.moment(start), self.turn());
            self.call(When { op: Op::Interrupt, turn, ..moment });
        }
        if self.strikes(Fault::Clean) {
            let moment = self.moment(start);
            self.call(When { op: Op::Clean, ..moment });
        }
        if self.strikes(Fault::Hold) {
            let moment = self.moment(start);
            let duration = Some(self.random.one_of([0, 1, 250, 1_000, 5_000]));
            self.call(When { op: Op::Hold, duration, ..moment });
        }
        if self.strikes(Fault::Update) {
            let moment = self.moment(start);
            let set = Some(session::change(self.reviewed, &mut self.random));
            self.call(When { op: Op::Update, set, ..moment });
        }
    }

    fn change(&mut self, at: u64) {
        if self.strikes(Fault::OwnerNetwork) {
            let owner_network = self.random.chance(70).then(|| session::hosts(&mut self.random));
            let at = Some(self.times.between(0, at));
            self.push(When { at, op: Op::OwnerNetwork, owner_network, ..When::default() });
        }
        if self.strikes(Fault::Revoke) {
            let at = Some(at + self.times.delay());
            self.call(When { at, op: Op::Revoke, grant: Some(1), ..When::default() });
        }
    }

    /// Faults are over: whatever lives is ended, and most often the session too.
    fn finish(&mut self) {
        let op = if self.random.chance(20) { Op::Clean } else { Op::Close };
        self.push(When { at: Some(END), op, call: Some("end".into()), ..When::default() });
    }
}
