//! Whether a scenario's public transcript stands what a real machine does to its moments. It is tried out on the fake: every
//! source of events in turn comes late or early, by as much as a busy machine makes it, and nothing public may change. What
//! is about 149, 150 or 151 ms, or rests on a tie, does not pass: it is for the fake alone.

use std::collections::BTreeSet;

use toml::Spanned;

use super::public::Public;
use crate::acts::Deed;
use crate::host_tier;
use crate::scenario::{Op, Scenario, SpawnFailure};
use crate::tier::Tier;
use crate::{run, scriptchild};

/// How late a source of events may come, in milliseconds.
pub(super) const LATE: u64 = 100;
/// By when a program has set its terminal, in milliseconds.
const SET_UP: u64 = 300;
/// How early, relative to the timers of the service, which are late themselves.
const EARLY: u64 = 40;
/// The service's own early window, and those that a scenario is played with where it is not about the window itself:
/// early rows pass with one that is far longer than any real start, late ones with a short one.
const WINDOWS: [Option<u64>; 3] = [None, Some(5_000), Some(50)];
/// The times of a scenario, but not the service's own, are made longer by these, until nothing about it is close.
const STRETCHES: [u64; 3] = [1, 3, 8];

/// A scenario that may be played on real children, and what it comes to on the fake.
pub(crate) struct Fit {
    pub(crate) scenario: Scenario,
    pub(crate) fake: run::Run,
    pub(crate) public: Public,
}

/// Finds out how a scenario can be played on real children; `Err` says why it cannot.
pub(crate) fn fit(scenario: &Scenario, longest: u64) -> Result<Fit, String> {
    if let Some(why) = &scenario.fake_only {
        return Err(why.clone());
    }
    if let Some(program) = scenario.true_program() {
        return Err(format!("program {program:?} is a true one, which no fake plays: see `sim record`"));
    }
    if !scenario.plays_on(Tier::Host) {
        return Err("it is about the wire".into());
    }
    possible(scenario)?;
    let as_written = Public::of(&host_tier::play(scenario, 0));
    let mut why = None;
    for (by, window) in STRETCHES.into_iter().flat_map(|by| WINDOWS.map(|window| (by, window))) {
        let mut scenario = stretched(scenario, by);
        match (window, scenario.service.early_window) {
            (Some(_), Some(_)) => continue,
            (Some(window), None) => scenario.service.early_window = Some(window),
            (None, _) => {}
        }
        let fake = host_tier::play(&scenario, 0);
        if fake.took > longest {
            why.get_or_insert_with(|| format!("it takes {} s", fake.took / 1_000));
            continue;
        }
        if let Some(problem) = fake.problems(&scenario).first() {
            why.get_or_insert_with(|| format!("on the fake: {problem}"));
            continue;
        }
        if let Some(early) = typed_early(&scenario, &fake) {
            why.get_or_insert(early);
            continue;
        }
        let public = Public::of(&fake);
        let same = as_written.differences(&public).into_iter().next().map_or(Ok(()), Err);
        match same.and_then(|()| robust(&scenario, &public)) {
            Ok(()) => return Ok(Fit { scenario, fake, public }),
            Err(changed) => drop(why.get_or_insert(changed)),
        }
    }
    Err(why.unwrap_or_default())
}

/// A terminal echoes what is typed until its program has set it otherwise: input must not come before that.
fn typed_early(scenario: &Scenario, fake: &run::Run) -> Option<String> {
    fake.steps.iter().find_map(|step| {
        let when = scenario.when.get(step.step)?.get_ref();
        let starts = scenario.when.iter().map(|when| when.get_ref());
        let start = starts.filter(|start| start.tty == Some(true)).find(|start| start.call == when.to)?;
        let mut lines = fake.lines.iter().filter(|line| start.call.as_deref() == Some(line.who.as_str()));
        let started = lines.find(|line| line.kind == "attempt_started")?.t;
        let typed = when.op == Op::Write && step.t.saturating_sub(started) < SET_UP;
        typed.then(|| {
            format!("step {}: a terminal is typed to before its program can have set it", step.step + 1)
        })
    })
}

/// A scenario whose own times are so many times as long.
fn stretched(scenario: &Scenario, by: u64) -> Scenario {
    let mut scenario = scenario.clone();
    scenario.run_to = scenario.run_to.map(|at| at * by);
    if let Some(reviewer) = &mut scenario.reviewer {
        reviewer.after *= by;
    }
    for program in scenario.program.values_mut() {
        program.spawn *= by;
        if let Some(second) = &mut program.second {
            second.spawn *= by;
        }
        for act in [&mut program.acts, &mut program.sandboxed, &mut program.unsandboxed].into_iter().flatten()
        {
            let act = act.get_mut();
            act.at *= by;
            for lives in [&mut act.fork_holder, &mut act.daemon].into_iter().flatten() {
                *lives *= by;
            }
        }
    }
    for when in &mut scenario.when {
        let when = when.get_mut();
        let times = [
            &mut when.at,
            &mut when.delay,
            &mut when.yield_ms,
            &mut when.timeout,
            &mut when.hard_timeout,
            &mut when.no_output_timeout,
            &mut when.after_disconnect,
            &mut when.duration,
        ];
        for time in times.into_iter().flatten() {
            *time *= by;
        }
    }
    scenario
}

/// Whether real processes can do all of this.
fn possible(scenario: &Scenario) -> Result<(), String> {
    for (name, program) in &scenario.program {
        for failure in [program.spawn_error, program.second.and_then(|second| second.spawn_error)] {
            if matches!(failure, Some(SpawnFailure::Exhausted | SpawnFailure::SandboxUnavailable)) {
                return Err(format!("program {name:?}: {failure:?} cannot be brought about at will"));
            }
        }
        for act in program.acts.iter().chain(&program.sandboxed).chain(&program.unsandboxed) {
            scriptchild::real(act.get_ref()).map_err(|why| format!("program {name:?}: {why}"))?;
        }
    }
    let terminal = |cmd: &str| {
        let runs = scenario.when.iter().map(|when| when.get_ref());
        runs.filter(|when| when.cmd.as_deref() == Some(cmd)).any(|when| when.tty == Some(true))
    };
    for (name, program) in scenario.program.iter().filter(|(name, _)| terminal(name)) {
        for acts in [&program.acts, &program.sandboxed, &program.unsandboxed] {
            let deeds: Vec<Deed<'_>> = acts.iter().filter_map(|act| act.get_ref().deed().ok()).collect();
            let end = deeds.iter().position(|deed| matches!(deed, Deed::End(_)));
            let forks = deeds.iter().any(|deed| matches!(deed, Deed::Fork(_)));
            if forks || end.is_some_and(|end| end + 1 < deeds.len()) {
                let why = "the kernel hangs up on what the leader of a terminal leaves behind";
                return Err(format!("program {name:?}: {why}"));
            }
        }
    }
    Ok(())
}

/// One thing that comes later or earlier.
#[derive(Clone, Copy, Debug)]
enum Source<'a> {
    Program(&'a str),
    /// Acts of it from this one on.
    Rest(&'a str, usize),
    Spawn(&'a str),
    /// The steps that come at this time or later: they come in order, however late.
    Steps(u64),
    /// A step that follows an event.
    Following(usize),
    Reviewer,
}

/// Whether nothing public changes, whatever comes late or early.
fn robust(scenario: &Scenario, public: &Public) -> Result<(), String> {
    let programs = scenario.program.keys().flat_map(|name| [Source::Program(name), Source::Spawn(name)]);
    let times = scenario.when.iter().filter_map(|when| when.get_ref().at);
    let steps = times.collect::<BTreeSet<u64>>().into_iter().map(Source::Steps);
    let follows = |step: &usize| scenario.when.get(*step).is_some_and(|when| when.get_ref().on.is_some());
    let following = (0..scenario.when.len()).filter(follows).map(Source::Following);
    let reviewer = scenario.reviewer.iter().map(|_| Source::Reviewer);
    let sources: Vec<Source<'_>> = programs.chain(steps).chain(following).chain(reviewer).collect();
    for by in [i64_of(LATE), i64_of(LATE) / 3, -i64_of(EARLY)] {
        for source in &sources {
            tried(scenario, public, &[*source], by)?;
        }
        tried(scenario, public, &sources, by)?;
    }
    for (name, program) in &scenario.program {
        let acts = program.acts.len().max(program.sandboxed.len()).max(program.unsandboxed.len());
        for from in 1..acts {
            tried(scenario, public, &[Source::Rest(name, from)], i64_of(LATE))?;
            tried(scenario, public, &[Source::Rest(name, from)], -i64_of(EARLY))?;
        }
    }
    Ok(())
}

fn i64_of(millis: u64) -> i64 {
    i64::try_from(millis).unwrap_or(i64::MAX)
}

fn tried(scenario: &Scenario, public: &Public, sources: &[Source<'_>], by: i64) -> Result<(), String> {
    let mut changed = scenario.clone();
    // Whoever comes later ends later.
    changed.run_to = changed.run_to.map(|at| at + LATE);
    for source in sources {
        shift(&mut changed, *source, by);
    }
    let differ = public.differences(&Public::of(&host_tier::play(&changed, 0)));
    match differ.into_iter().next() {
        None => Ok(()),
        Some(differ) => {
            let what: Vec<String> = sources.iter().map(|source| format!("{source:?}")).collect();
            Err(format!("it is about moments: with {} shifted by {by} ms, {differ}", what.join(", ")))
        }
    }
}

fn shift(scenario: &mut Scenario, source: Source<'_>, by: i64) {
    match source {
        Source::Program(name) => shift_acts(scenario, name, 0, by),
        Source::Rest(name, from) => shift_acts(scenario, name, from, by),
        Source::Spawn(name) => {
            let Some(program) = scenario.program.get_mut(name) else { return };
            program.spawn = program.spawn.saturating_add_signed(by);
            if let Some(second) = &mut program.second {
                second.spawn = second.spawn.saturating_add_signed(by);
            }
        }
        Source::Steps(from) => {
            let times = scenario.when.iter().filter_map(|when| when.get_ref().at);
            let before = times.filter(|at| *at < from).max();
            for when in &mut scenario.when {
                let when = when.get_mut();
                let shifted =
                    |at: u64| at.saturating_add_signed(by).max(before.map_or(0, |before| before + 1));
                when.at = when.at.map(|at| if at < from { at } else { shifted(at) });
            }
        }
        Source::Following(step) => {
            let Some(when) = scenario.when.get_mut(step).map(Spanned::get_mut) else { return };
            // A step that follows an event at once comes late all the same.
            when.delay = Some(when.delay.unwrap_or(0).saturating_add_signed(by));
        }
        Source::Reviewer => {
            if let Some(reviewer) = &mut scenario.reviewer {
                reviewer.after = reviewer.after.saturating_add_signed(by);
            }
        }
    }
}

/// What a program does at once when it is started, such as ignoring a signal, is not too early for anything.
fn shift_acts(scenario: &mut Scenario, name: &str, from: usize, by: i64) {
    let Some(program) = scenario.program.get_mut(name) else { return };
    for acts in [&mut program.acts, &mut program.sandboxed, &mut program.unsandboxed] {
        let before = from.checked_sub(1).and_then(|at| acts.get(at)).map_or(0, |act| act.get_ref().at);
        for act in acts.iter_mut().skip(from) {
            let act = act.get_mut();
            act.at = act.at.saturating_add_signed(by).max(before);
        }
    }
}
