//! Lanes of attempts and of the descendants that they leave.

use crate::model::trace::What;
use crate::scenario::{Op, When};
use crate::timeline::chart::{Kind, Link, Rank, Shape};
use crate::timeline::story::Story;
use crate::timeline::words;
use crate::transcript::{Line, Word};

/// So many outputs of an attempt are told in words; more are dots.
const OUTPUTS_TOLD: usize = 4;

/// Adds them all.
pub(crate) fn attempts(story: &mut Story<'_>) {
    let tries: Vec<(u64, Word, u8)> = story
        .marks
        .iter()
        .filter(|mark| mark.what == What::Spawning)
        .map(|mark| (mark.t, mark.who.clone(), mark.attempt))
        .collect();
    for (at, who, number) in &tries {
        let is_last = !tries.iter().any(|(_, other, later)| other == who && later > number);
        attempt(story, *at, who, *number, is_last);
    }
    descendants(story);
}

/// What the feed says about one attempt.
struct Told<'a> {
    lines: Vec<&'a Line>,
}

impl<'a> Told<'a> {
    fn find(&self, kind: &str) -> Option<&'a Line> {
        self.lines.iter().copied().find(|line| line.kind == kind)
    }
}

fn attempt(story: &mut Story<'_>, at: u64, who: &str, number: u8, is_last: bool) {
    let Some(group) = story.groups.get(who).copied() else { return };
    let run = story.run;
    let is_of = |line: &&Line| {
        line.who == who
            && match line.kind {
                "attempt_started" | "attempt_denied" | "spawn_failed" | "output" | "outputs_closed" => {
                    line.get("n") == Some(&number.to_string())
                }
                "process_exited" | "process_removed" => is_last,
                "stdin_written" | "connection" => true,
                _ => false,
            }
    };
    let told = Told { lines: run.lines.iter().filter(is_of).collect() };
    let started = told.find("attempt_started");
    let under = started.and_then(|line| line.get("under"));
    let of_attempt = |what: &dyn Fn(&What) -> bool| {
        let mut marks = story.marks.iter().filter(|mark| mark.who == who && mark.attempt == number);
        marks.find(|mark| what(&mark.what)).map(|mark| mark.t)
    };
    let exited = of_attempt(&|what| *what == What::Exited);
    let heard = told.find("attempt_denied").or_else(|| told.find("process_exited"));
    let signals: Vec<(u64, &str)> = story
        .marks
        .iter()
        .filter(|mark| mark.who == who && mark.attempt == number)
        .filter_map(|mark| match mark.what {
            What::Signal(name) => Some((mark.t, name)),
            _ => None,
        })
        .collect();
    let window = u64::try_from(story.scenario.service.limits().early_window.as_millis()).unwrap_or(u64::MAX);
    let texts = outputs(story, who, under == Some("profile"));

    let detail = under.map_or("", words::confinement).to_owned();
    let name = format!("attempt {number}");
    let lane = story.chart.lane(group, (at, Rank::Attempt), name, detail);
    let failed = told.find("spawn_failed");
    let spawned = started.or(failed).map(|line| line.t);
    if spawned != Some(at) {
        lane.bar(Kind::Starting, at, spawned);
    }
    if let Some(line) = failed {
        lane.point(line.t, Shape::End);
        let error = line.get("error").unwrap_or_default().replace('_', " ");
        lane.label(line.t, format!("start fails: {error}"));
    }
    if let Some(started) = started.map(|line| line.t) {
        lane.bar(Kind::Running, started, exited);
        if number == 1 {
            lane.bar(Kind::Window, started, Some(started + window));
            lane.label(started + window, format!("window ends ({})", super::axis::time(window)));
        }
        let mut shown = 0;
        for line in &told.lines {
            match line.kind {
                "output" => {
                    lane.point(line.t, Shape::Output);
                    shown += 1;
                    let text = texts.iter().find(|(at, _)| started + at == line.t).map(|(_, text)| text);
                    if let Some(text) = text.filter(|text| shown <= OUTPUTS_TOLD && !text.is_empty()) {
                        lane.label(line.t, format!("“{text}”"));
                    }
                }
                "stdin_written" if line.t >= started && exited.is_none_or(|exited| line.t <= exited) => {
                    lane.point(line.t, Shape::Input);
                }
                "connection" if line.t >= started => {
                    let to = line.get("to").unwrap_or_default();
                    let answer = line.get("answer").unwrap_or_default().replace('_', " ");
                    lane.label(line.t, format!("{to}: {answer}"));
                }
                _ => {}
            }
        }
    }
    for (at, name) in &signals {
        lane.point(*at, Shape::Signal);
        if !signals.contains(&(at.saturating_sub(1), name)) {
            lane.label(*at, *name);
        }
    }
    if let Some((term, _)) = signals.iter().find(|(_, name)| *name == "TERM") {
        let kill = signals.iter().find(|(at, name)| *name == "KILL" && at > term).map(|(at, _)| *at);
        if let Some(kill) = kill {
            lane.bar(Kind::Grace, *term, Some(kill));
        }
    }
    ends(lane, exited, heard, told.find("outputs_closed"));
    let id = lane.id;
    lead_here(story, group, id, at, number);
}

/// How an attempt ended, when that was heard of, and when its outputs closed.
fn ends(
    lane: &mut crate::timeline::chart::Lane,
    exited: Option<u64>,
    heard: Option<&Line>,
    closed: Option<&Line>,
) {
    let Some(exited) = exited else { return };
    lane.point(exited, Shape::End);
    let denied = heard.filter(|line| line.kind == "attempt_denied");
    match heard {
        Some(line) if line.t > exited => {
            lane.bar(Kind::Ended, exited, Some(line.t));
            lane.label(exited, words::exit(line));
            lane.label(line.t, if denied.is_some() { "denied" } else { "the feed tells" });
        }
        Some(line) if denied.is_some() => lane.label(exited, format!("{}: denied", words::exit(line))),
        Some(line) => lane.label(exited, words::exit(line)),
        None => lane.label(exited, "ends"),
    }
    let told = heard.map_or(exited, |line| line.t);
    if let Some(closed) = closed.map(|line| line.t).filter(|closed| *closed > told) {
        lane.bar(Kind::Ended, told, Some(closed));
        lane.label(closed, "outputs closed");
    }
}

/// What leads to an attempt: the answer to a question, the denial of the first attempt, or the call.
fn lead_here(story: &mut Story<'_>, group: usize, id: usize, at: u64, number: u8) {
    let kind = if number == 1 { "command" } else { "retry" };
    let decided = story.run.lines.iter().rev().find(|line| {
        line.kind == "approval_decided"
            && line.t == at
            && line.get("kind") == Some(kind)
            && story.groups.get(line.who.as_str()) == Some(&group)
    });
    let question = decided.and_then(|line| line.get("n")).and_then(|n| story.questions.get(n)).copied();
    let first = story.chart.lanes.iter().find(|lane| lane.group == group && lane.name == "attempt 1");
    let from = question.or_else(|| if number == 1 { story.exec(group) } else { first.map(|lane| lane.id) });
    if let Some(from) = from {
        story.chart.links.push(Link { at, from, to: id });
    }
    if number == 1 {
        let retry = story.run.lines.iter().find(|line| {
            line.kind == "approval_requested"
                && line.get("kind") != Some("command")
                && line.get("kind") != Some("input")
                && story.groups.get(line.who.as_str()) == Some(&group)
        });
        let asked = retry.and_then(|line| Some((line.t, *story.questions.get(line.get("n")?)?)));
        if let Some((at, question)) = asked {
            story.chart.links.push(Link { at, from: id, to: question });
        }
    }
}

/// What the program of a call says, and how long after its start.
fn outputs(story: &Story<'_>, who: &str, sandboxed: bool) -> Vec<(u64, String)> {
    let is_start = |when: &&When| when.op == Op::Exec && when.call.as_deref() == Some(who);
    let cmd = story
        .scenario
        .when
        .iter()
        .map(|when| when.get_ref())
        .find(is_start)
        .and_then(|when| when.cmd.as_ref());
    let Some(program) = cmd.and_then(|cmd| story.scenario.program.get(cmd)) else { return Vec::new() };
    let acts = program.acts(sandboxed);
    let told = acts.iter().map(|act| act.get_ref()).filter_map(|act| {
        let text = act.out.as_ref().or(act.err.as_ref())?;
        Some((act.at, words::shortened(text)))
    });
    told.collect()
}

fn descendants(story: &mut Story<'_>) {
    for mark in story.marks {
        let What::Forked { number, name } = mark.what else { continue };
        let Some(group) = story.groups.get(mark.who.as_str()).copied() else { continue };
        let ended = story.marks.iter().find(|other| {
            other.who == mark.who
                && other.attempt == mark.attempt
                && other.what == What::DescendantEnded { number }
        });
        let detail = if name == "holder" { "holds the outputs" } else { "left the group" };
        let parent = format!("attempt {}", mark.attempt);
        let from = story.chart.lanes.iter().find(|lane| lane.group == group && lane.name == parent);
        let from = from.map(|lane| lane.id);
        let lane = story.chart.lane(group, (mark.t, Rank::Descendant), "descendant".into(), detail.into());
        lane.bar(Kind::Descendant, mark.t, ended.map(|ended| ended.t));
        if let Some(ended) = ended {
            lane.point(ended.t, Shape::End);
            lane.label(ended.t, "ends");
        }
        let id = lane.id;
        if let Some(from) = from {
            story.chart.links.push(Link { at: mark.t, from, to: id });
        }
    }
}
