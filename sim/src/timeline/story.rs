//! A run as a chart: which lanes there are, and what happened in each.

use std::collections::BTreeMap;

use crate::model::trace::{Mark, What};
use crate::run::Run;
use crate::scenario::{Mode, Op, Scenario, When};
use crate::timeline::attempt::attempts;
use crate::timeline::chart::{Chart, Kind, Link, Rank, Shape};
use crate::timeline::words;
use crate::transcript::Line;

/// What is known while a chart is made.
pub(crate) struct Story<'a> {
    pub(crate) scenario: &'a Scenario,
    pub(crate) run: &'a Run,
    pub(crate) marks: &'a [Mark],
    pub(crate) chart: Chart,
    /// The number of each group, by the name of the call that started the process.
    pub(crate) groups: BTreeMap<&'a str, usize>,
    /// Lanes of calls by step.
    calls: BTreeMap<usize, usize>,
    /// Lanes of questions by number.
    pub(crate) questions: BTreeMap<String, usize>,
}

/// When a step was made, and its answer.
#[derive(Clone, Copy)]
pub(crate) struct Made<'a> {
    pub(crate) step: usize,
    pub(crate) when: &'a When,
    pub(crate) at: u64,
    pub(crate) answer: Option<&'a Line>,
}

/// What `run` of `scenario` looks like.
pub(crate) fn chart(scenario: &Scenario, run: &Run, marks: &[Mark]) -> Chart {
    let chart = Chart { title: scenario.title.clone(), ..Chart::default() };
    let (groups, calls, questions) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
    let mut story = Story { scenario, run, marks, chart, groups, calls, questions };
    let made = story.made();
    for call in made.iter().filter(|made| made.when.op == Op::Exec) {
        let number = story.groups.len();
        story.groups.insert(call.when.call.as_deref().unwrap_or_default(), number);
    }
    for call in &made {
        story.call(call);
    }
    story.asked();
    attempts(&mut story);
    for call in &made {
        story.decision(call);
        story.stops(call);
    }
    story.answers(&made);
    story.chart.sort();
    story.chart
}

impl<'a> Story<'a> {
    pub(crate) fn made(&self) -> Vec<Made<'a>> {
        let answer = |of: usize| {
            self.marks.iter().find_map(|mark| match mark.what {
                What::Answered { step, line } if step == of => self.run.lines.get(line),
                _ => None,
            })
        };
        let made = self.run.steps.iter().filter_map(|done| {
            let when = self.scenario.when.get(done.step)?.get_ref();
            Some(Made { step: done.step, when, at: done.t, answer: answer(done.step) })
        });
        made.collect()
    }

    /// The group of what concerns the whole session comes last.
    const fn session() -> usize {
        usize::MAX
    }

    fn group(&self, when: &When) -> usize {
        let name = if when.op == Op::Exec { when.call.as_deref() } else { when.to.as_deref() };
        name.and_then(|name| self.groups.get(name)).copied().unwrap_or_else(Self::session)
    }

    /// The lane of a step that takes time or concerns everybody.
    fn call(&mut self, made: &Made<'a>) {
        let when = made.when;
        if matches!(when.op, Op::Decide | Op::Disconnect) {
            return;
        }
        let group = self.group(when);
        let rank = (made.at, Rank::Call);
        let name = match &when.call {
            Some(call) if call != "-" => format!("{} {call}", words::op(when.op)),
            _ => words::op(when.op).to_owned(),
        };
        let gone = self.gone(when.call.as_deref());
        let yields = matches!(when.op, Op::Exec | Op::Write | Op::Poll)
            && matches!(when.mode, None | Some(Mode::Interactive));
        let pauses = if yields { self.pauses() } else { Vec::new() };
        let run = self.run;
        let lane = self.chart.lane(group, rank, name, words::detail(when));
        let ends = made.answer.map(|line| line.t).or(gone);
        lane.bar(Kind::Waiting, made.at, ends);
        for (from, to) in pauses {
            let (from, to) = (from.max(made.at), ends.map_or(to, |ends| to.min(ends)));
            if from < to {
                lane.bar(Kind::Paused, from, Some(to));
            }
        }
        if let Some(line) = made.answer {
            if line.get("end") == Some("yielded") {
                lane.point(line.t, Shape::Deadline);
                lane.label(line.t, format!("yields: {}", words::answer(line)));
            } else if matches!(line.get("end"), Some("exited" | "met")) {
                lane.label(line.t, format!("answer: {}", words::answer(line)));
            } else {
                lane.label(line.t, words::answer(line));
                let revised = line.get("revision").and_then(|revision| changed(run, revision));
                if let Some(fields) = revised {
                    lane.detail = fields.replace('_', " ");
                }
            }
        } else if let Some(gone) = gone {
            lane.point(gone, Shape::End);
            lane.label(gone, "client gone");
        }
        let id = lane.id;
        self.calls.insert(made.step, id);
        if matches!(when.op, Op::Interrupt | Op::Clean | Op::Close | Op::Update | Op::OwnerNetwork) {
            self.chart.guides.push((made.at, id));
        }
    }

    /// When the client of a call went away.
    fn gone(&self, call: Option<&str>) -> Option<u64> {
        let gone = self.made().into_iter().filter(|made| made.when.op == Op::Disconnect);
        gone.filter(|made| made.when.call.as_deref() == call && call.is_some()).map(|made| made.at).next()
    }

    /// When yield deadlines stand still: while a question is open, or the host holds them.
    fn pauses(&self) -> Vec<(u64, u64)> {
        let lines = &self.run.lines;
        let mut pauses: Vec<(u64, u64)> = Vec::new();
        for asked in lines.iter().filter(|line| line.kind == "approval_requested") {
            let end =
                lines.iter().find(|line| line.kind == "approval_decided" && line.get("n") == asked.get("n"));
            pauses.push((asked.t, end.map_or(u64::MAX, |line| line.t)));
        }
        for hold in self.made().iter().filter(|made| made.when.op == Op::Hold) {
            let same = |other: &&Made<'_>| other.when.op == Op::Hold && other.when.lease == hold.when.lease;
            let next = self.made().iter().filter(same).map(|other| other.at).find(|at| *at > hold.at);
            let until = hold.at + hold.when.duration.unwrap_or(0);
            pauses.push((hold.at, next.map_or(until, |next| next.min(until))));
        }
        pauses.sort_unstable();
        let mut joined: Vec<(u64, u64)> = Vec::new();
        for (from, to) in pauses {
            match joined.last_mut().filter(|last| from <= last.1) {
                Some(last) => last.1 = last.1.max(to),
                None => joined.push((from, to)),
            }
        }
        joined
    }

    /// Lanes of questions.
    fn asked(&mut self) {
        let run = self.run;
        for asked in run.lines.iter().filter(|line| line.kind == "approval_requested") {
            let (Some(number), Some(kind)) = (asked.get("n"), asked.get("kind")) else { continue };
            let end = run
                .lines
                .iter()
                .find(|line| line.kind == "approval_decided" && line.get("n") == Some(number));
            let group = self.groups.get(asked.who.as_str()).copied().unwrap_or_else(Self::session);
            let cause = self.waiting_call(group, asked.t, kind);
            let detail = words::question(kind).to_owned();
            let lane =
                self.chart.lane(group, (asked.t, Rank::Question), format!("question {number}"), detail);
            lane.bar(Kind::Question, asked.t, end.map(|line| line.t));
            if let Some(line) = end {
                lane.label(line.t, words::decided(line));
            }
            let id = lane.id;
            self.questions.insert(number.to_owned(), id);
            if let Some(cause) = cause {
                self.chart.links.push(Link { at: asked.t, from: cause, to: id });
            }
        }
    }

    /// The lane of the call because of which a question about a command or about input is asked.
    fn waiting_call(&self, group: usize, at: u64, kind: &str) -> Option<usize> {
        let rank = match kind {
            "command" => Op::Exec,
            "input" => Op::Write,
            _ => return None,
        };
        let mut of = self.made().into_iter().filter(|made| made.when.op == rank && made.at <= at);
        of.rfind(|made| self.group(made.when) == group && made.answer.is_none_or(|line| line.t >= at))
            .and_then(|made| self.calls.get(&made.step).copied())
    }

    /// An answer to a question that did not count.
    fn decision(&mut self, made: &Made<'a>) {
        let Some(error) =
            made.answer.filter(|_| made.when.op == Op::Decide).and_then(|line| line.get("error"))
        else {
            return;
        };
        let latest = self.run.lines.iter().rev().find(|line| {
            line.kind == "approval_requested"
                && line.t <= made.at
                && Some(line.who.as_str()) == made.when.to.as_deref()
        });
        let number = match made.when.question {
            Some(number) => Some(number.to_string()),
            None => latest.and_then(|line| line.get("n")).map(str::to_owned),
        };
        let lane = number.and_then(|number| self.questions.get(&number)).copied();
        if let Some(lane) = lane.and_then(|id| self.chart.lanes.get_mut(id)) {
            lane.label(made.at, format!("another answer: {}", error.replace('_', " ")));
        }
    }

    /// A signal or a termination that a caller asked for, and input: they lead to the attempt.
    fn stops(&mut self, made: &Made<'a>) {
        let to = |story: &Self, at: u64| {
            let group = story.group(made.when);
            let of = |lane: &&crate::timeline::chart::Lane| {
                lane.group == group && lane.begins.1 == Rank::Attempt && lane.begins.0 <= at
            };
            story.chart.lanes.iter().rev().find(of).map(|lane| lane.id)
        };
        let at = match made.when.op {
            Op::Terminate | Op::Signal => Some(made.at),
            Op::Write => {
                let written = self.run.lines.iter().find(|line| {
                    line.kind == "stdin_written"
                        && Some(line.who.as_str()) == made.when.to.as_deref()
                        && line.t >= made.at
                        && made.answer.is_none_or(|answer| answer.t >= line.t)
                });
                written.map(|line| line.t)
            }
            _ => None,
        };
        let Some(at) = at else { return };
        if let (Some(from), Some(to)) = (self.calls.get(&made.step).copied(), to(self, at)) {
            self.chart.links.push(Link { at, from, to });
        }
    }

    /// Ends lead to the answers of those who waited for them.
    fn answers(&mut self, made: &[Made<'a>]) {
        for call in made {
            let Some(line) = call.answer else { continue };
            let ended = matches!(line.get("end"), Some("exited" | "met" | "ended"));
            let group = self.group(call.when);
            let attempt = self.chart.lanes.iter().rev().find(|lane| {
                lane.group == group && lane.begins.1 == Rank::Attempt && lane.begins.0 <= line.t
            });
            let gone_before = call.at == line.t;
            if let (true, false, Some(attempt), Some(to)) =
                (ended, gone_before, attempt, self.calls.get(&call.step).copied())
            {
                self.chart.links.push(Link { at: line.t, from: attempt.id, to });
            }
        }
    }

    /// The lane of the exec call of a group.
    pub(crate) fn exec(&self, group: usize) -> Option<usize> {
        let of = |lane: &&crate::timeline::chart::Lane| lane.group == group && lane.begins.1 == Rank::Call;
        self.chart.lanes.iter().find(of).map(|lane| lane.id)
    }
}

/// Which rights a revision of the policy changed.
fn changed<'a>(run: &'a Run, revision: &str) -> Option<&'a str> {
    let is_it = |line: &&Line| line.kind == "policy_changed" && line.get("revision") == Some(revision);
    run.lines.iter().find(is_it).and_then(|line| line.get("fields"))
}
