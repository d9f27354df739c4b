//! True programs, recorded: what each read of a real child's output gave and when, and how it ended, becomes an act list.
//! The fake that plays it must come to the same public transcript as the program itself.

use bytes::Bytes;
use toml::Spanned;
use unified_exec::core::output::Stream;
use unified_exec::core::process::ExitStatus;
use unified_exec::core::signal::Signal;

use super::public::Public;
use crate::real::spawner::Take;
use crate::real::{self, Played};
use crate::scenario::{Act, Base64, Op, Scenario};
use crate::transcript::Line;
use crate::{host_tier, judge};
use std::time::Duration;

/// A scenario of true programs, as the fake plays it.
#[derive(Debug)]
pub struct Recording {
    /// With acts in place of the programs, and each step at the moment at which it was made.
    pub scenario: Scenario,
    /// The public transcript, the same of both.
    pub transcript: String,
    /// How long the real play took, in milliseconds.
    pub took: u64,
}

/// Plays a scenario on true programs, and turns what they did into acts that come to the same.
pub fn record(scenario: &Scenario) -> Result<Recording, Vec<String>> {
    let played = real::play(scenario, Duration::ZERO);
    let verdict = judge(scenario, &played.run);
    if !verdict.passed() {
        return Err(verdict.failures);
    }
    let mut recorded = replayable(scenario, &played).map_err(|problem| vec![problem])?;
    let replayed = host_tier::play(&recorded, 0);
    catch_up(&mut recorded, &played.run.lines, &replayed.lines);
    let fake = host_tier::play(&recorded, 0);
    let problems = fake.problems(&recorded);
    let (came, replayed) = (Public::of(&played.run), Public::of(&fake));
    let differ = [problems, replayed.differences(&came)].concat();
    if differ.is_empty() {
        Ok(Recording { scenario: recorded, transcript: replayed.to_string(), took: played.run.took })
    } else {
        Err(differ)
    }
}

/// The public transcript that the fake comes to.
pub fn replay(recording: &Scenario) -> Result<String, Vec<String>> {
    let fake = host_tier::play(recording, 0);
    let verdict = judge(recording, &fake);
    if verdict.passed() { Ok(Public::of(&fake).to_string()) } else { Err(verdict.failures) }
}

/// The scenario, with what its programs did.
fn replayable(scenario: &Scenario, played: &Played) -> Result<Scenario, String> {
    let mut recorded = scenario.clone();
    recorded.real_tol = None;
    for (name, program) in recorded.program.iter_mut().filter(|(_, program)| !program.real.is_empty()) {
        program.real.clear();
        let (mut confined, mut free) = (None, None);
        for take in played.takes.iter().filter(|take| take.command == *name) {
            let place = if take.confined { &mut confined } else { &mut free };
            let acts = acts(name, take, scenario, played)?;
            if place.replace(acts).is_some() {
                return Err(format!(
                    "program {name:?} was started twice: give each start a program of its own"
                ));
            }
            program.spawn = millis(take.spawn);
        }
        match (confined, free) {
            (None, None) => return Err(format!("program {name:?} was never started")),
            (Some(acts), None) | (None, Some(acts)) => program.acts = acts,
            (Some(confined), Some(free)) => (program.sandboxed, program.unsandboxed) = (confined, free),
        }
    }
    for step in &played.run.steps {
        if let Some(when) = recorded.when.get_mut(step.step).map(Spanned::get_mut) {
            (when.at, when.on, when.delay) = (Some(step.t), None, None);
        }
    }
    // The moments of the recording are its own.
    for event in &mut recorded.expect.events {
        event.get_mut().t = None;
    }
    Ok(recorded)
}

/// A start waits for more than its spawner on a busy machine: acts count from when it was told, as their moments did.
fn catch_up(recorded: &mut Scenario, came: &[Line], replayed: &[Line]) {
    let starts: Vec<(String, Option<String>)> = recorded
        .when
        .iter()
        .map(|when| when.get_ref())
        .filter_map(|when| Some((when.cmd.clone()?, when.call.clone())))
        .collect();
    for (name, call) in starts {
        let Some(program) = recorded.program.get_mut(&name) else { continue };
        let started = |lines: &[Line], n: &str| {
            let is_start = |line: &&Line| {
                line.kind == "attempt_started"
                    && Some(line.who.as_str()) == call.as_deref()
                    && line.get("n") == Some(n)
            };
            lines.iter().find(is_start).map(|line| line.t)
        };
        let first = if program.sandboxed.is_empty() { &mut program.acts } else { &mut program.sandboxed };
        // The second attempt is as late as the first already.
        let mut caught_up = 0;
        for (n, acts) in [("1", first), ("2", &mut program.unsandboxed)] {
            let (Some(came), Some(replayed)) = (started(came, n), started(replayed, n)) else { continue };
            let late = came.saturating_sub(replayed + caught_up);
            for act in acts.iter_mut().map(Spanned::get_mut).filter(|act| act.at > 0) {
                act.at += late;
            }
            caught_up += late;
        }
    }
}

/// What a program does is recorded so much later, in milliseconds: moments are cut to whole ones, and a program answers its
/// input within less, but never before it.
const AFTER: u64 = 2;

fn acts(name: &str, take: &Take, scenario: &Scenario, played: &Played) -> Result<Vec<Spanned<Act>>, String> {
    let starts = scenario.when.iter().map(|when| when.get_ref());
    let start = starts.clone().find(|when| when.op == Op::Exec && when.cmd.as_deref() == Some(name));
    let start = start.ok_or_else(|| format!("no step starts program {name:?}"))?;
    let mut acts = Vec::new();
    if start.tty == Some(true) || start.stdin == Some(true) {
        // How much it has read nobody sees; a true program that is talked to reads all of it.
        acts.push(Act { read_stdin: Some(u64::MAX >> 1), ..Act::default() });
    }
    let (at, status) = match take.exit {
        Some((at, status)) => (Some(at), Some(status)),
        None => (None, None),
    };
    let ours = played.run.lines.iter().any(|line| {
        line.kind == "process_exited"
            && Some(line.who.as_str()) == start.call.as_deref()
            && !matches!(line.get("reason"), Some("exited" | "signalled"))
    });
    if ours {
        match status {
            Some(ExitStatus::Signal { number: 9, .. }) => {
                let ignore = Some("TERM".to_owned());
                acts.insert(0, Act { ignore, ..Act::default() });
            }
            Some(ExitStatus::Signal { .. }) | None => {}
            Some(ExitStatus::Code(code)) => {
                return Err(format!(
                    "program {name:?} caught our signal and exited with {code}: let it end by itself"
                ));
            }
        }
    }
    // What was read after the exit was reported was said before it, but for a descendant's output.
    let end = at.map(|at| millis(at) + AFTER);
    for (at, stream, bytes) in &take.output {
        let at = millis(*at) + AFTER;
        let at = end.map_or(at, |end| at.min(end));
        acts.push(said(at, *stream, bytes));
    }
    match (status, end) {
        (Some(status), Some(at)) if !ours => acts.push(ended(name, at, status)?),
        _ => {}
    }
    Ok(acts.into_iter().map(|act| Spanned::new(0..0, act)).collect())
}

pub(crate) fn said(at: u64, stream: Stream, bytes: &Bytes) -> Act {
    let text = std::str::from_utf8(bytes).ok().map(str::to_owned);
    let base64 = text.is_none().then(|| Base64(bytes.clone()));
    match stream {
        Stream::Stderr => Act { at, err: text, err_b64: base64, ..Act::default() },
        Stream::Stdout | Stream::Terminal => Act { at, out: text, out_b64: base64, ..Act::default() },
    }
}

fn ended(name: &str, at: u64, status: ExitStatus) -> Result<Act, String> {
    Ok(match status {
        ExitStatus::Code(code) => Act { at, exit: Some(code), ..Act::default() },
        ExitStatus::Signal { number, .. } => {
            let signal = Signal::from_number(number);
            let signal = signal
                .ok_or_else(|| format!("program {name:?} died of signal {number}, which has no name"))?;
            Act { at, signal: Some(signal.name().to_owned()), ..Act::default() }
        }
    })
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
