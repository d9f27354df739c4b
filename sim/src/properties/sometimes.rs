//! What must happen sometimes: rare paths that a campaign has to have been on. A path that no run took is one that nobody
//! tests, and fails the campaign.

use std::fmt;

use super::facts::{Called, Facts};
use crate::run::Step;
use crate::scenario::{Mode, Op};
use crate::transcript::Line;

macro_rules! paths {
    ($($name:ident),* $(,)?) => {
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[expect(non_camel_case_types, reason = "the names are what a report shows")]
        enum Path { $($name),* }

        const NAMES: [&str; [$(Path::$name),*].len()] = [$(stringify!($name)),*];
    };
}

paths! {
    denial_before_the_bound, denial_at_the_bound, denial_after_the_bound, exit_before_the_bound, exit_at_the_bound,
    exit_after_the_bound, denial_after_a_yield, denial_late_and_surfaced,
    retry_succeeded, retry_failed_too, retry_could_not_start, retry_was_asked_about, retry_was_silent, retry_was_declined,
    approved, approved_for_session, approved_with_rule, declined, turn_aborted, expired, withdrawn, review_failed, reviewed_automatically,
    answered_too_late, answered_wrongly, grant_spared_a_question, refused_by_rule, refused_as_dangerous, refused_to_escalate,
    interrupt_while_asking, interrupt_while_starting, interrupt_in_the_window, interrupt_while_waiting, interrupt_at_the_yield,
    interrupt_around_a_retry, interrupt_of_a_one_shot,
    clean_of_nothing, clean_of_one, clean_of_many, clean_while_asking, kill_was_needed, kill_did_not_suffice, daemon_was_ended,
    exit_before_outputs_closed, outputs_closed_before_exit, output_after_the_exit_was_told, exit_told_without_closed_outputs,
    split_character, bytes_that_are_no_text, burst,
    pruned, table_was_full,
    program_missing, program_denied, cwd_missing, exhausted, sandbox_unavailable,
    gone_while_asking, gone_while_starting, gone_in_the_window, gone_while_waiting, gone_one_shot,
    request_came_again, request_was_reused,
    input_delivered, input_reviewed, input_declined, input_went_stale, input_had_a_nul, input_was_too_large, input_needs_a_new_terminal,
    input_was_stopped, input_left_a_gap, input_had_ended,
    one_shot_timed_out, lifetime_was_over, silence_was_over, nobody_came_back,
    connection_allowed, connection_denied, connection_refused_by_a_person, connection_could_not_be_asked_about,
    deadline_was_held, policy_changed_under_a_question, two_blows_within_10_ms, nothing_went_wrong,
}

/// How many runs of a campaign took each path.
#[derive(Clone, Debug)]
pub struct Sometimes {
    counts: [u64; NAMES.len()],
    /// A seed that took it.
    seeds: [u64; NAMES.len()],
}

impl Default for Sometimes {
    fn default() -> Self {
        Self { counts: [0; NAMES.len()], seeds: [0; NAMES.len()] }
    }
}

impl Sometimes {
    /// Counts the paths that a run took.
    pub(crate) fn take(&mut self, seed: u64, facts: &Facts<'_>) {
        let seen = seen(facts);
        for ((count, first), seen) in self.counts.iter_mut().zip(&mut self.seeds).zip(seen) {
            if seen {
                if *count == 0 {
                    *first = seed;
                }
                *count += 1;
            }
        }
    }

    /// Adds what another campaign counted.
    pub fn add(&mut self, other: &Self) {
        for at in 0..NAMES.len() {
            if self.counts[at] == 0 {
                self.seeds[at] = other.seeds[at];
            }
            self.counts[at] += other.counts[at];
        }
    }

    /// Paths that no run took.
    pub fn never(&self) -> Vec<&'static str> {
        NAMES.into_iter().zip(self.counts).filter(|(_, count)| *count == 0).map(|(name, _)| name).collect()
    }
}

impl fmt::Display for Sometimes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rows: Vec<(u64, &str, u64)> =
            (0..NAMES.len()).map(|at| (self.counts[at], NAMES[at], self.seeds[at])).collect();
        rows.sort_unstable();
        for (count, name, seed) in rows {
            writeln!(f, "{count:>9}  {name}  (seed {seed})")?;
        }
        Ok(())
    }
}

type Seen = [bool; NAMES.len()];

fn seen(facts: &Facts<'_>) -> Seen {
    let mut seen = [false; NAMES.len()];
    let mut is = |path: Path, holds: bool| seen[path as usize] |= holds;
    for line in &facts.run.lines {
        by_line(line, &mut is);
    }
    for call in facts.starts() {
        of_end(facts, call, &mut is);
        of_retry(facts, call, &mut is);
        of_programs(facts, call, &mut is);
    }
    for step in &facts.run.steps {
        of_step(facts, *step, &mut is);
    }
    let blow = |step: &Step| {
        facts.scenario.when.get(step.step).is_some_and(|when| {
            matches!(
                when.get_ref().op,
                Op::Interrupt | Op::Clean | Op::Terminate | Op::Disconnect | Op::Signal | Op::Update
            )
        })
    };
    let blows: Vec<&Step> = facts.run.steps.iter().filter(|step| blow(step)).collect();
    is(Path::two_blows_within_10_ms, blows.windows(2).any(|pair| pair[1].t - pair[0].t <= 10));
    let well = |line: &Line| line.get("error").is_none() && matches!(line.get("code"), None | Some("0"));
    let worked = facts.run.lines.iter().any(|line| line.kind == "process_exited");
    is(Path::nothing_went_wrong, worked && facts.run.lines.iter().all(well) && blows.is_empty());
    seen
}

fn by_line(line: &Line, is: &mut impl FnMut(Path, bool)) {
    let says = |key, value: &str| line.get(key) == Some(value);
    match line.kind {
        "approval_decided" => {
            for (path, state) in [
                (Path::approved, "approved"),
                (Path::approved_for_session, "approved_for_session"),
                (Path::approved_with_rule, "approved_with_rule"),
                (Path::declined, "declined"),
                (Path::turn_aborted, "turn_aborted"),
                (Path::expired, "expired"),
                (Path::withdrawn, "withdrawn"),
                (Path::review_failed, "review_failed"),
            ] {
                is(path, says("state", state));
            }
            is(Path::reviewed_automatically, says("by", "automatic"));
            is(Path::input_reviewed, says("kind", "input") && says("state", "approved"));
            is(Path::input_declined, says("kind", "input") && says("state", "declined"));
            is(Path::retry_was_declined, says("kind", "retry") && says("state", "declined"));
        }
        "spawn_failed" => {
            for (path, error) in [
                (Path::program_missing, "program_missing"),
                (Path::program_denied, "program_denied"),
                (Path::cwd_missing, "cwd_missing"),
                (Path::exhausted, "exhausted"),
                (Path::sandbox_unavailable, "sandbox_unavailable"),
            ] {
                is(path, says("error", error));
            }
            is(Path::retry_could_not_start, says("n", "2"));
        }
        "start_refused" => {
            is(Path::refused_by_rule, says("cause", "rule"));
            is(Path::refused_as_dangerous, says("cause", "danger"));
            is(Path::refused_to_escalate, says("cause", "escalation"));
            is(Path::table_was_full, says("error", "table_full"));
        }
        "cleaned" => {
            let ended = line.get("ended").and_then(|ended| ended.parse::<u32>().ok()).unwrap_or(0);
            is(Path::clean_of_nothing, ended == 0);
            is(Path::clean_of_one, ended == 1);
            is(Path::clean_of_many, ended >= 4);
            is(Path::kill_did_not_suffice, !says("survivors", "0"));
        }
        "process_exited" => {
            is(Path::pruned, says("reason", "pruned"));
            is(Path::one_shot_timed_out, says("reason", "one_shot_timeout"));
            is(Path::lifetime_was_over, says("reason", "hard_timeout"));
            is(Path::silence_was_over, says("reason", "no_output_timeout"));
            is(Path::nobody_came_back, says("reason", "after_disconnect"));
            is(Path::interrupt_of_a_one_shot, says("reason", "interrupted"));
            is(Path::gone_one_shot, says("reason", "disconnected"));
            let ended =
                says("reason", "cleaned") || says("reason", "terminated") || says("reason", "session_closed");
            is(Path::kill_was_needed, ended && says("code", "137"));
        }
        "connection" => {
            is(Path::connection_allowed, says("answer", "allowed"));
            is(Path::connection_denied, says("answer", "denied"));
            is(Path::connection_refused_by_a_person, says("answer", "not_approved"));
            is(Path::connection_could_not_be_asked_about, says("answer", "nobody_asked"));
        }
        "stdin_written" => is(Path::input_delivered, true),
        "answer" => {
            for (path, error) in [
                (Path::answered_too_late, "not_open"),
                (Path::answered_wrongly, "not_allowed"),
                (Path::request_was_reused, "request_reused"),
                (Path::input_went_stale, "stale"),
                (Path::input_had_a_nul, "review_nul"),
                (Path::input_was_too_large, "review_too_large"),
                (Path::input_needs_a_new_terminal, "new_terminal"),
                (Path::input_left_a_gap, "offset_gap"),
                (Path::input_had_ended, "stdin_ended"),
            ] {
                is(path, says("error", error));
            }
            is(Path::deadline_was_held, line.get("paused").is_some());
            is(Path::exit_told_without_closed_outputs, says("end", "exited") && says("closed", "false"));
        }
        _ => {}
    }
}

fn of_end(facts: &Facts<'_>, call: &Called<'_>, is: &mut impl FnMut(Path, bool)) {
    let Some(exited) = facts.first(call, "process_exited") else { return };
    let Some(started) = facts.of_kind(call, "attempt_started").last() else { return };
    let denied = !facts.says(exited, "evidence").is_empty();
    if let Some(end) = facts.own_end(call, facts.says(started, "under") == "profile") {
        let own = facts.says(exited, "reason") == "exited";
        let window = facts.window();
        for (exit, denial, at) in [
            (Path::exit_before_the_bound, Path::denial_before_the_bound, end.at + 1 == window),
            (Path::exit_at_the_bound, Path::denial_at_the_bound, end.at == window),
            (Path::exit_after_the_bound, Path::denial_after_the_bound, end.at == window + 1),
        ] {
            is(exit, own && at);
            is(denial, own && at && denied);
        }
    }
    is(Path::denial_late_and_surfaced, denied && facts.says(exited, "early") == "false");
    let yielded = call.answers.iter().any(|at| *at < exited && facts.says(*at, "end") == "yielded");
    is(Path::denial_after_a_yield, denied && yielded);
    let closed = facts.of_kind(call, "outputs_closed").last();
    is(Path::outputs_closed_before_exit, closed.is_some_and(|closed| closed < exited));
    is(
        Path::exit_before_outputs_closed,
        closed.is_some_and(|closed| closed > exited && facts.t(closed) > facts.t(exited)),
    );
    is(Path::output_after_the_exit_was_told, facts.of_kind(call, "output").any(|at| at > exited));
    is(
        Path::daemon_was_ended,
        facts.says(exited, "reason") == "cleaned" && facts.acts_like(call, |act| act.daemon.is_some()),
    );
}

fn of_retry(facts: &Facts<'_>, call: &Called<'_>, is: &mut impl FnMut(Path, bool)) {
    if facts.first(call, "attempt_denied").is_none() {
        return;
    }
    let asked = facts.questions.iter().any(|question| question.who == call.name && question.kind == "retry");
    is(Path::retry_was_asked_about, asked);
    is(Path::retry_was_silent, !asked);
    let second = facts.of_kind(call, "attempt_started").any(|at| facts.says(at, "n") == "2");
    let code = facts.first(call, "process_exited").map_or("", |at| facts.says(at, "code"));
    is(Path::retry_succeeded, second && code == "0");
    is(Path::retry_failed_too, second && code != "0");
}

fn of_programs(facts: &Facts<'_>, call: &Called<'_>, is: &mut impl FnMut(Path, bool)) {
    let Some(started) = facts.first(call, "attempt_started") else { return };
    is(Path::burst, facts.acts_like(call, |act| act.out.as_ref().is_some_and(|out| out.len() > 8_000)));
    let no_text = |act: &crate::scenario::Act| act.out_b64.as_ref().map(|bytes| bytes.0.clone());
    is(
        Path::bytes_that_are_no_text,
        facts.acts_like(call, |act| no_text(act).is_some_and(|bytes| bytes.contains(&0))),
    );
    let cut = |bytes: bytes::Bytes| !bytes.contains(&0) && std::str::from_utf8(&bytes).is_err();
    is(Path::split_character, facts.acts_like(call, |act| no_text(act).is_some_and(cut)));
    let asked =
        facts.questions.iter().any(|question| question.who == call.name && question.kind == "command");
    is(
        Path::grant_spared_a_question,
        call.when.escalate == Some(true) && !asked && facts.says(started, "under") == "bypassed",
    );
    let again = facts.starts().any(|other| {
        other.name != call.name
            && other.when.request.is_some()
            && other.when.request == call.when.request
            && other.lines.is_empty()
    });
    is(Path::request_came_again, again);
}

/// What a caller's blow met.
fn of_step(facts: &Facts<'_>, step: Step, is: &mut impl FnMut(Path, bool)) {
    let Some(when) = facts.scenario.when.get(step.step).map(|when| when.get_ref()) else { return };
    let open = |question: &&super::facts::Question<'_>| {
        question.asked < step.line && question.decided.first().is_none_or(|closed| *closed >= step.line)
    };
    let asking = |name: &str| facts.questions.iter().filter(open).any(|question| question.who == name);
    match when.op {
        Op::Clean => is(Path::clean_while_asking, facts.questions.iter().any(|question| open(&question))),
        Op::Update | Op::OwnerNetwork => {
            let changed = facts.run.lines.get(step.line).is_some_and(|line| line.kind == "policy_changed");
            is(
                Path::policy_changed_under_a_question,
                changed && facts.questions.iter().any(|question| open(&question)),
            );
        }
        Op::Write => {
            let answer =
                when.call.as_deref().and_then(|name| facts.call(name)).and_then(|call| call.answers.first());
            let range = answer.and_then(|at| facts.says(*at, "stdin").split_once(".."));
            let length =
                range.and_then(|(from, to)| Some(to.parse::<u64>().ok()? - from.parse::<u64>().ok()?));
            let sent =
                when.input.as_ref().map_or(0, |input| input.len() as u64) * when.times.unwrap_or(1) as u64;
            is(Path::input_was_stopped, length.is_some_and(|length| length > 0 && length < sent));
        }
        Op::Interrupt | Op::Disconnect => {
            for call in facts.starts().filter(|call| call.done.is_some_and(|done| done.line <= step.line)) {
                let struck = match when.op {
                    Op::Disconnect => when.call.as_deref() == Some(call.name),
                    _ => when.turn.as_deref() == Some(call.when.turn.as_deref().unwrap_or("t")),
                };
                let waits = call.answers.first().is_none_or(|at| *at >= step.line);
                if struck && waits {
                    blow(facts, call, step, when.op == Op::Disconnect, asking(call.name), is);
                }
            }
        }
        _ => {}
    }
}

fn blow(
    facts: &Facts<'_>,
    call: &Called<'_>,
    step: Step,
    gone: bool,
    asking: bool,
    is: &mut impl FnMut(Path, bool),
) {
    let started = facts.of_kind(call, "attempt_started").filter(|at| *at < step.line).last();
    let pick = |interrupt, left| if gone { left } else { interrupt };
    let Some(started) = started else {
        is(pick(Path::interrupt_while_asking, Path::gone_while_asking), asking);
        let starts = facts.first(call, "attempt_started").is_some();
        is(pick(Path::interrupt_while_starting, Path::gone_while_starting), !asking && starts);
        return;
    };
    let since = step.t - facts.t(started);
    is(pick(Path::interrupt_in_the_window, Path::gone_in_the_window), since <= facts.window());
    is(pick(Path::interrupt_while_waiting, Path::gone_while_waiting), since > facts.window());
    let interactive = matches!(call.when.mode, None | Some(Mode::Interactive));
    let due = call.when.yield_ms.unwrap_or(10_000).clamp(250, 30_000);
    is(Path::interrupt_at_the_yield, !gone && interactive && since == due);
    let retry = asking || facts.of_kind(call, "attempt_denied").any(|at| at < step.line);
    is(Path::interrupt_around_a_retry, !gone && retry);
}
