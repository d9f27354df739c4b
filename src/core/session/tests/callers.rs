//! What callers and reviewers of a random life do.

use std::collections::BTreeSet;

use super::asking::{granular, ruled, sandboxed, strict};
use super::bench::{input, signal, unmatched};
use super::life::{Life, nth, nth_of};
use super::world::*;
use super::*;
use crate::core::approval::{Permissions, Review, Verdict};
use crate::core::ids::{ApprovalId, ProcessId, TurnId};
use crate::core::policy::{
    Additional, ApprovalPolicy, Network, NetworkDecision, NetworkRule, Profile, Rights, RuleDecision,
};
use crate::core::session::*;
use crate::core::signal::{Scope, Signal};

/// Rights that a session is created with or changed to.
pub(super) fn rights(choice: u16) -> Rights {
    let cautious = sandboxed(ApprovalPolicy::UnlessTrusted);
    let on_request = sandboxed(ApprovalPolicy::OnRequest);
    match choice % 12 {
        0 => Rights::unrestricted(),
        1 | 9 => cautious,
        2 | 10 | 11 => sandboxed(ApprovalPolicy::Granular(granular())),
        3 => on_request,
        4 => sandboxed(ApprovalPolicy::Never),
        5 => strict(cautious),
        6 => {
            let decision = NetworkDecision::Allow;
            let rules = vec![NetworkRule { host: "good.example".into(), ports: Vec::new(), decision }];
            let profile = Profile { network: Network::Proxied { rules }, ..on_request.profile.clone() };
            Rights { profile, ..on_request }
        }
        7 => {
            let profile = Profile { deny_read: vec!["/secret".into()], ..cautious.profile.clone() };
            Rights { profile, ..cautious }
        }
        _ => strict(sandboxed(ApprovalPolicy::Never)),
    }
}

impl Life {
    fn exec(&mut self, choice: u16) {
        let mut exec = shell().turn(if choice & 1 == 0 { "t" } else { "u" });
        exec.kill_descendants_on_exit = choice & 2 != 0;
        exec.command.stdin = choice & 4 != 0;
        if choice & 8 != 0 {
            exec = exec.tty();
        }
        match choice >> 4 & 7 {
            0 => exec = exec.one_shot(Some(u64::from(choice & 1_023))),
            1 => exec = exec.follow(),
            2 => exec = exec.request("r", 1),
            3 => exec.timeouts.hard = Some(ms(700)),
            4 => exec.timeouts.no_output = Some(ms(300)),
            5 => exec.timeouts.after_disconnect = Some(ms(300)),
            _ => {}
        }
        self.bench.assessment = match choice >> 7 & 7 {
            0 => ruled(RuleDecision::Allow),
            1 => ruled(RuleDecision::Prompt),
            _ => unmatched(),
        };
        let more = Additional { write: vec!["/more".into()], ..Additional::default() };
        exec.permissions = match choice >> 10 & 7 {
            0 | 1 => Permissions::Escalated,
            2 => Permissions::Additional(more),
            _ => Permissions::Default,
        };
        self.ask(Call::Exec(exec));
    }

    /// A reviewer does something, at the right time or not.
    pub(super) fn reviewer(&mut self, kind: u8, choice: u16) {
        let open = nth_of(&self.promises.open, choice);
        let any = nth_of(&self.promises.asked.keys().cloned().collect(), choice);
        match kind {
            16 | 17 => {
                if let Some(approval) = open {
                    let verdict = match choice >> 8 & 7 {
                        0..=3 => Verdict::Approve,
                        4 => Verdict::ApproveForSession,
                        5 => Verdict::ApproveAndAddRule,
                        6 => Verdict::Decline,
                        _ => Verdict::AbortTurn,
                    };
                    self.decide(approval, verdict);
                }
            }
            18 => self.decide(any.unwrap_or_else(|| ApprovalId::new("nothing")), Verdict::Approve),
            19 => {
                let Some(approval) = any else { return };
                let text = String::new();
                let review = match choice >> 8 & 3 {
                    0 => Review::Allow { text },
                    1 => Review::Deny { text },
                    2 => Review::AskPerson,
                    _ => Review::Failed { cause: "crashed".into() },
                };
                self.bench.event(Event::Reviewed { approval, review });
            }
            20 => {
                let Some(call) = self.rules.pop_first() else { return };
                let result = if choice & 1 == 0 { Ok(()) } else { Err("full".into()) };
                self.bench.event(Event::RuleAdded { call, result });
            }
            21 if choice & 7 == 0 => {
                let rights = Some(rights(choice >> 3));
                self.ask(Call::Update(Update { rights, ..Update::default() }));
            }
            22 if choice & 15 == 0 => {
                let rules = (choice & 16 != 0).then(Vec::new);
                self.bench.event(Event::OwnerNetwork { rules });
            }
            22 if choice & 15 == 1 => self.bench.advance(600_000),
            22 | 23 => self.denied_start(choice),
            _ => self.exec(choice),
        }
    }

    /// A start that is approved if it must be, and is denied at a critical instant.
    fn denied_start(&mut self, choice: u16) {
        let known: BTreeSet<ProcessId> = self.children.keys().copied().collect();
        let asked = self.promises.open.clone();
        self.exec(choice);
        self.world(LOOKED_UP, ProcessId::new(1_000).expect("an id"), 0);
        self.look();
        if let Some(approval) = self.promises.open.difference(&asked).next().cloned() {
            self.decide(approval, Verdict::Approve);
        }
        let Some(process) = self.children.keys().copied().find(|process| !known.contains(process)) else {
            return;
        };
        self.world(SPAWN, process, 1);
        self.look();
        if choice & 0x4000 != 0 {
            self.ask(Call::Write(input(process, "0123456789").frame()));
        }
        let instants = [0, 1, 149, 150, 151];
        self.bench.advance(instants[usize::from(choice >> 8) % instants.len()]);
        self.look();
        self.world(EXIT, process, 4);
        self.look();
    }

    fn decide(&mut self, approval: ApprovalId, verdict: Verdict) {
        let (text, rule, by) = (String::new(), vec!["sleep".to_owned()], "alice".to_owned());
        self.ask(Call::Decide(Decide { approval, verdict, text, rule, by }));
    }

    fn interrupt(&mut self, turn: &str) {
        let before = self.bench.effects.len();
        self.ask(Call::Interrupt { turn: TurnId::new(turn) });
        for (_, effect) in &self.bench.effects[before..] {
            if let Effect::Signal { process, .. } | Effect::KillTree { process } = effect {
                // What a dead one left behind may be meant, if its caller wants that.
                let child = &self.children[process];
                assert!(child.one_shot || child.latest().exited.is_some(), "an interrupt killed {process}");
            }
        }
    }

    /// A caller does something about a process, which may be unknown.
    pub(super) fn caller(&mut self, kind: u8, process: ProcessId, choice: u16) {
        match kind {
            0 | 1 | 13 | 14 => self.exec(choice),
            2 => drop(self.ask(Call::Write(input(process, "")))),
            3 => drop(self.ask(Call::Write(input(process, "\u{3}").request("w", 1)))),
            4 => {
                let mut write = input(process, "0123456789");
                write.offset = (choice & 1 != 0).then_some(u64::from(choice >> 4 & 15));
                write.eof = choice & 2 != 0;
                self.ask(Call::Write(if choice & 4 != 0 { write.frame() } else { write }));
            }
            5 => {
                let conditions =
                    [Condition::Exit, Condition::Closed, Condition::Output, Condition::Literal("x".into())];
                let condition = conditions[usize::from(choice & 3)].clone();
                let timeout = (choice & 4 != 0).then_some(ms(u64::from(choice)));
                let turn = TurnId::new("t");
                self.ask(Call::Wait(WaitFor { turn, process, condition, from: None, timeout }));
            }
            6 => self.interrupt(if choice & 1 == 0 { "t" } else { "u" }),
            7 => drop(self.ask(Call::Terminate { process })),
            8 => drop(self.ask(Call::Attach { process })),
            9 => drop(self.ask(signal(process, Signal::INT, Scope::Tree))),
            10 => {
                let hold = Hold { lease: format!("l{}", choice & 1), duration: ms(u64::from(choice & !1)) };
                self.ask(Call::Hold(hold));
            }
            11 if choice & 7 == 0 => drop(self.ask(Call::Clean)),
            12 => {
                let Some(call) = nth(&self.asked, choice) else { return };
                if self.dropped.insert(call) {
                    self.bench.drops(call);
                }
            }
            _ if choice >> 12 == 0 => self.bench.advance(u64::from(choice & 4_095)),
            _ => self.bench.advance(u64::from(choice & 511)),
        }
    }
}
