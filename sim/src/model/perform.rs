//! What the session wants of the world, effect by effect, and what it tells.

use compact_str::ToCompactString;
use unified_exec::core::ids::{CallId, ProcessId};
use unified_exec::core::session::{Answer, ControlFailure, Effect, Event, FeedEvent};
use unified_exec::core::signal::{Scope, Signal};
use unified_exec::core::spawn::Descendant;

use crate::model::World;
use crate::model::child::Child;
use crate::model::trace::What;
use crate::tell;
use crate::transcript::{Line, Word};

impl World<'_> {
    /// Does what the session asks for, until it asks for nothing more.
    pub(crate) fn perform(&mut self) {
        while let Some(effect) = self.session.poll_effect() {
            match effect {
                Effect::Assess { process, argv, .. } => {
                    self.starters.insert(process, self.asking.clone());
                    let assessment = self.rulebook.assess(&argv);
                    self.session.on_event(self.now, Event::Assessed { process, assessment });
                }
                Effect::Ask { question } => self.review(&question),
                Effect::AllowRule { call, words } => {
                    let result = self.rulebook.allow(words);
                    self.tell(Event::RuleAdded { call, result });
                }
                Effect::Connect { connection, answer } => {
                    if let Some((process, to)) = self.connections.remove(&connection) {
                        let keys = tell::connection(to, &answer);
                        let who = self.starter(Some(process));
                        self.line(who, "connection", keys);
                    }
                }
                Effect::Excerpt { process, attempt } => {
                    let output = self.children.get(&(process, attempt)).map(Child::excerpt);
                    let output = output.unwrap_or_default();
                    self.session.on_event(self.now, Event::Excerpt { process, attempt, output });
                }
                Effect::Spawn { process, attempt, plan } => self.spawn((process, attempt), plan),
                Effect::Write { process, write, data, .. } => {
                    self.with_child(process, |child| child.write(write, data));
                }
                Effect::StopWrite { process, write } => {
                    self.with_child(process, |child| child.stop_write(write));
                }
                Effect::Signal { process, signal, scope, call } => {
                    let attempt = self.latest(process);
                    let reached = self.with_child(process, |child| child.signal(signal, scope));
                    if reached {
                        self.mark(Some(attempt), What::Signal(signal.name()));
                    }
                    if let Some(call) = call {
                        let result = reached.then_some(()).ok_or(ControlFailure::Gone);
                        self.tell(Event::Controlled { call, result });
                    }
                }
                Effect::KillTree { process } => {
                    let attempt = self.latest(process);
                    if self.with_child(process, |child| child.signal(Signal::KILL, Scope::Tree)) {
                        self.mark(Some(attempt), What::Signal(Signal::KILL.name()));
                    }
                }
                Effect::Survey { process } => {
                    let names = self.with_child(process, |child| child.alive());
                    let alive =
                        names.into_iter().map(|name| Descendant { pid: 0, name: name.into() }).collect();
                    self.tell(Event::Surveyed { process, alive });
                }
                Effect::Resize { call, .. } => self.tell(Event::Controlled { call, result: Ok(()) }),
                Effect::Reply { call, answer } => self.replied(call, &answer),
                Effect::Publish(event) => self.published(&event),
                // A reviewer that is not needed any more answers all the same, too late. Output is not kept, and no op
                // waits for what it says.
                Effect::Unask { .. }
                | Effect::Progress { .. }
                | Effect::Watch { .. }
                | Effect::Unwatch { .. }
                | Effect::Forget { .. }
                | Effect::Trim { .. } => {}
            }
        }
    }

    fn replied(&mut self, call: CallId, answer: &Answer) {
        if let Answer::Grants(grants) = answer
            && self.revoke(call, grants)
        {
            return;
        }
        let name = self.names.get(&call).cloned().unwrap_or(Word::const_new("?"));
        if !self.waiting.remove(&call) && !self.dropped.contains(&call) {
            self.broken.push(format!("call {name:?} was answered twice"));
        }
        self.line(name, "answer", tell::answer(answer));
        if let Some(step) = call.0.checked_sub(1).and_then(|step| usize::try_from(step).ok()) {
            self.mark(None, What::Answered { step, line: self.lines.len() - 1 });
        }
    }

    fn published(&mut self, event: &FeedEvent) {
        let number = tell::question(&event.kind).map(|question| {
            let known = self.questions.iter().position(|(id, _)| *id == question.id);
            known.unwrap_or_else(|| {
                self.questions.push((question.id.clone(), question.process));
                self.questions.len() - 1
            }) + 1
        });
        let (process, kind, mut keys) = tell::event(&event.kind, self.window);
        if let Some(number) = number {
            keys.insert(0, ("n", number.to_compact_string()));
        }
        let who = self.starter(process);
        self.line(who, kind, keys);
    }

    fn starter(&self, process: Option<ProcessId>) -> Word {
        process.and_then(|process| self.starters.get(&process)).cloned().unwrap_or(Word::const_new("-"))
    }

    pub(crate) fn line(&mut self, who: Word, kind: &'static str, keys: Vec<(&'static str, Word)>) {
        let line = Line::new(self.now.as_nanos() / 1_000_000, who, kind, keys);
        self.fire(&line);
        self.lines.push(line);
    }
}
