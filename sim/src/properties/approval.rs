//! Who is asked, what runs without a sandbox, and what follows a denial.

use super::Found;
use super::facts::{Called, Facts, Question};
use crate::rulebook::Decision;
use crate::scenario::Op;
use crate::scenario::service::{Policy, Says};

type Check = fn(&Facts<'_>, &mut Found);

pub(crate) const ALL: [(&str, &str, Check); 11] = [
    (
        "interrupt_withdraws_questions",
        "an interrupt closes what the starts of its turn wait to be asked about",
        interrupted,
    ),
    (
        "approved_retries_are_silent",
        "who was approved is not asked again about a retry, but under strict review",
        silent,
    ),
    ("nobody_is_asked_under_never", "under Never no person is asked", never_asks),
    (
        "no_sandbox_needs_leave",
        "an attempt runs without its sandbox only by a rule, an approval or a grant",
        leave,
    ),
    (
        "retry_needs_an_early_denial",
        "a second attempt follows an early denial, where policy and gates let it",
        retry,
    ),
    ("asked_once", "one question for each start and for each retry, and one retry", once),
    ("questions_close_once", "a question is closed once, and not before it was asked", close_once),
    ("no_means_nothing_runs", "what was declined, expired or withdrawn does not run", refused),
    ("change_withdraws_questions", "a change of the policy withdraws what is open", change_withdraws),
    (
        "forbidden_never_runs",
        "a command that a rule forbids, or that is dangerous under Never, does not run",
        forbidden,
    ),
    (
        "denials_that_pass_are_retried",
        "a denial that passes the gates gets its question or its second attempt",
        retried,
    ),
];

fn never_asks(facts: &Facts<'_>, found: &mut Found) {
    for question in &facts.questions {
        let policies = facts.policies(question.asked, question.asked);
        let never = policies.iter().all(|policy| matches!(policy, Some(Policy::Never)));
        // Strict review asks the automatic reviewer, whatever people may be asked.
        if never && !facts.may_be_strict(question.asked) {
            found.push(format!("question {} was asked under Never", question.number));
        }
    }
}

fn approves(facts: &Facts<'_>, question: &Question<'_>) -> bool {
    question.decided.first().is_some_and(|at| facts.says(*at, "state").starts_with("approved"))
}

fn question_of<'f>(facts: &'f Facts<'_>, call: &Called<'_>, kind: &str) -> Option<&'f Question<'f>> {
    facts.questions.iter().find(|question| question.who == call.name && question.kind == kind)
}

/// Whether an approval was kept before line `at` for what may be the same command.
fn granted(facts: &Facts<'_>, call: &Called<'_>, at: usize) -> bool {
    facts.questions.iter().filter(|question| question.kind == "command").any(|question| {
        let kept = |at: &usize| facts.says(*at, "state") == "approved_for_session";
        let same = facts.call(question.who).is_some_and(|other| {
            other.when.cmd == call.when.cmd && other.when.escalate == call.when.escalate
        });
        same && question.decided.iter().any(|decided| *decided < at && kept(decided))
    })
}

fn approved(facts: &Facts<'_>, call: &Called<'_>, at: usize) -> bool {
    let asked = question_of(facts, call, "command");
    asked.is_some_and(|question| {
        question.decided.first().is_some_and(|decided| *decided < at) && approves(facts, question)
    }) || granted(facts, call, at)
}

/// Whether every command of the line begins with words that a rule of the scenario, or of an answer, allows.
fn trusted(facts: &Facts<'_>, call: &Called<'_>) -> bool {
    let allowing = facts.scenario.rules.iter().filter(|(_, decision)| **decision == Decision::Allow);
    let mut allowed: Vec<Vec<&str>> = allowing.map(|(words, _)| words.split_whitespace().collect()).collect();
    for step in facts.scenario.when.iter().map(|when| when.get_ref()).filter(|when| when.op == Op::Decide) {
        allowed.extend(step.rule.as_ref().map(|words| words.iter().map(String::as_str).collect()));
    }
    let proposed = facts.starts().filter_map(|call| call.when.propose.as_ref());
    allowed.extend(proposed.map(|words| words.iter().map(String::as_str).collect::<Vec<_>>()));
    let line = call.when.cmd.as_deref().unwrap_or_default();
    line.split(" && ").all(|command| {
        let words: Vec<&str> = command.split_whitespace().collect();
        allowed.iter().any(|rule| words.starts_with(rule))
    })
}

fn leave(facts: &Facts<'_>, found: &mut Found) {
    for call in facts.starts() {
        for at in facts.of_kind(call, "attempt_started") {
            if facts.says(at, "n") != "1" || facts.says(at, "under") != "bypassed" {
                continue;
            }
            let escalated = call.when.escalate == Some(true) && approved(facts, call, at);
            if !escalated && !trusted(facts, call) {
                found.push(format!("{} ran without a sandbox, with neither rule nor approval", call.name));
            }
            let from = call.done.map_or(0, |step| step.line);
            if facts.always_denied_reads(from, at) || facts.always_owned_network(from, at) {
                found.push(format!(
                    "{} ran without a sandbox in spite of deny-read or the owner's policy",
                    call.name
                ));
            }
        }
    }
}

fn retry(facts: &Facts<'_>, found: &mut Found) {
    for call in facts.starts() {
        let denied: Vec<usize> = facts.of_kind(call, "attempt_denied").collect();
        for at in &denied {
            if facts.says(*at, "early") != "true" {
                found.push(format!("{} was retried after a late denial", call.name));
            }
            let Some(first) = facts.first(call, "attempt_started") else { continue };
            let window = facts.window();
            let judged = question_of(facts, call, "retry").map_or(*at, |question| question.asked);
            // The exit itself is not in the transcript: it is judged at most 20 ms later, and heard of by then.
            let late = facts.own_end(call, true).map_or(0, |act| act.late);
            if facts.t(judged).saturating_sub(facts.t(first)) > window + late.max(20) {
                found.push(format!(
                    "{} was retried, and its first attempt cannot have ended in the window",
                    call.name
                ));
            }
            if facts.says(first, "under") != "profile" {
                found.push(format!("{} was denied by a sandbox that it did not have", call.name));
            }
            gates(facts, call, *at, judged, found);
        }
        for at in facts.of_kind(call, "attempt_started").filter(|at| facts.says(*at, "n") == "2") {
            if denied.len() != 1 || denied.iter().any(|denied| *denied > at) {
                found.push(format!("{} has a second attempt without one denial before it", call.name));
            }
        }
    }
}

fn gates(facts: &Facts<'_>, call: &Called<'_>, at: usize, judged: usize, found: &mut Found) {
    let wants = |policy: &Option<Policy>| match policy {
        Some(Policy::UnlessTrusted) => true,
        Some(Policy::Granular(granular)) => granular.sandbox_approval,
        Some(Policy::Never | Policy::OnRequest) | None => false,
    };
    if !facts.policies(judged, judged).iter().any(wants) {
        found.push(format!("{} was retried under a policy that wants no retries", call.name));
    }
    if facts.always_denied_reads(judged, judged) || facts.always_owned_network(judged, judged) {
        found.push(format!("{} was retried in spite of deny-read or the owner's policy", call.name));
    }
    let asked = question_of(facts, call, "retry");
    let answered = asked.is_some_and(|question| approves(facts, question));
    if !answered && (asked.is_some() || !approved(facts, call, at)) {
        found.push(format!("{} was retried, and nobody approved that", call.name));
    }
}

fn once(facts: &Facts<'_>, found: &mut Found) {
    for call in facts.starts() {
        for kind in ["command", "retry"] {
            let asked =
                facts.questions.iter().filter(|question| question.who == call.name && question.kind == kind);
            if asked.count() > 1 && !facts.is_repeated(call) {
                found.push(format!("{} was asked about twice: {kind}", call.name));
            }
        }
        if facts.of_kind(call, "attempt_started").count() > 2 && !facts.is_repeated(call) {
            found.push(format!("{} has more than two attempts", call.name));
        }
    }
}

fn close_once(facts: &Facts<'_>, found: &mut Found) {
    for question in &facts.questions {
        if question.decided.len() > 1 || question.decided.iter().any(|at| *at < question.asked) {
            found.push(format!("question {} was closed twice, or before it was asked", question.number));
        }
    }
    let closed = facts.run.lines.iter().filter(|line| line.kind == "approval_decided").count();
    if closed != facts.questions.iter().map(|question| question.decided.len()).sum::<usize>() {
        found.push("a question was closed that was never asked".to_owned());
    }
}

fn refused(facts: &Facts<'_>, found: &mut Found) {
    for question in &facts.questions {
        let Some(closed) = question.decided.first().copied().filter(|_| !approves(facts, question)) else {
            continue;
        };
        let Some(call) = facts.call(question.who).filter(|call| !facts.is_repeated(call)) else { continue };
        let ran = facts.of_kind(call, "attempt_started").any(|at| at > closed);
        if ran && (question.kind == "command" || question.kind == "retry") {
            found.push(format!(
                "{} ran although question {} was not answered with yes",
                call.name, question.number
            ));
        }
    }
}

fn change_withdraws(facts: &Facts<'_>, found: &mut Found) {
    let changes = facts.run.lines.iter().enumerate().filter(|(_, line)| line.kind == "policy_changed");
    for (at, line) in changes {
        for question in facts.questions.iter().filter(|question| question.asked < at) {
            let closed = question.decided.first().copied();
            if closed.is_none_or(|closed| closed > at && facts.t(closed) > line.t) {
                found.push(format!("question {} was open over a change of the policy", question.number));
            }
            let by_change = closed.filter(|closed| *closed > at && facts.t(*closed) == line.t);
            if by_change.is_some_and(|closed| facts.says(closed, "state") != "withdrawn") {
                found.push(format!("question {} was answered after the policy had changed", question.number));
            }
        }
    }
}

fn forbidden(facts: &Facts<'_>, found: &mut Found) {
    for call in facts.starts().filter(|call| facts.first(call, "attempt_started").is_some()) {
        let line = call.when.cmd.as_deref().unwrap_or_default();
        let begins = |words: &str| {
            let words: Vec<&str> = words.split_whitespace().collect();
            line.split(" && ")
                .any(|command| command.split_whitespace().collect::<Vec<_>>().starts_with(&words))
        };
        let rules = &facts.scenario.rules;
        if rules.iter().any(|(words, decision)| *decision == Decision::Forbidden && begins(words)) {
            found.push(format!("{} ran, and a rule forbids it", call.name));
        }
        let Some(at) = facts.first(call, "attempt_started") else { continue };
        let from = call.done.map_or(0, |step| step.line);
        let never = facts.policies(from, at).iter().all(|policy| matches!(policy, Some(Policy::Never)));
        if never && begins("rm -f") && !trusted(facts, call) {
            found.push(format!("{} ran, and it is dangerous under Never", call.name));
        }
    }
}

/// The gates from the other side, for runs in which nothing but the denial itself decides: nobody meddles with rights,
/// calls, input or processes.
fn retried(facts: &Facts<'_>, found: &mut Found) {
    let calm = |op| matches!(op, Op::Exec | Op::Poll | Op::Wait | Op::Attach | Op::Decide | Op::Hold);
    let mut steps = facts.run.steps.iter();
    let meddled = steps
        .find(|step| facts.scenario.when.get(step.step).is_some_and(|when| !calm(when.get_ref().op)))
        .map_or(usize::MAX, |step| step.line);
    let service = &facts.scenario.service;
    let strict_no = facts.scenario.reviewer.is_some_and(|reviewer| reviewer.automatic != Says::Allow);
    let gated = service.deny_read.as_ref().is_some_and(|paths| !paths.is_empty())
        || service.owner_network.is_some()
        || service.min_confidence.is_some()
        || strict_no;
    let wants = match service.policy {
        Some(Policy::UnlessTrusted) => true,
        Some(Policy::Granular(granular)) => granular.sandbox_approval,
        Some(Policy::Never | Policy::OnRequest) | None => false,
    };
    if gated || !wants {
        return;
    }
    for call in facts.starts().filter(|call| !facts.is_repeated(call) && !call.dropped) {
        let timeouts = [
            call.when.timeout,
            call.when.hard_timeout,
            call.when.no_output_timeout,
            call.when.after_disconnect,
        ];
        let bounded = timeouts.iter().any(Option::is_some);
        let Some(exited) = facts.first(call, "process_exited").filter(|at| !bounded && *at < meddled) else {
            continue;
        };
        let denied = !facts.says(exited, "evidence").is_empty() && facts.says(exited, "early") == "true";
        let first = facts.of_kind(call, "attempt_started").count() == 1
            && facts.of_kind(call, "spawn_failed").next().is_none()
            && question_of(facts, call, "retry").is_none();
        let waited = call.answers.first().is_some_and(|at| facts.says(*at, "end") == "exited");
        let interrupted = facts.run.lines.iter().take(exited).any(|line| line.kind == "interrupted");
        if denied && first && waited && !interrupted {
            found.push(format!(
                "{} was denied early, and there was neither question nor second attempt",
                call.name
            ));
        }
    }
}

fn silent(facts: &Facts<'_>, found: &mut Found) {
    for question in facts.questions.iter().filter(|question| question.kind == "retry") {
        let Some(call) = facts.call(question.who).filter(|call| !facts.is_repeated(call)) else { continue };
        let command = question_of(facts, call, "command");
        let yes = command.is_some_and(|command| approves(facts, command));
        if yes && !facts.may_be_strict(question.asked) {
            found.push(format!("{} was approved, and asked about again", call.name));
        }
    }
}

fn interrupted(facts: &Facts<'_>, found: &mut Found) {
    for (step, when) in facts.done_before(usize::MAX, Op::Interrupt) {
        for question in facts.questions.iter().filter(|question| question.asked < step.line) {
            let closed = question.decided.first().copied();
            let open = closed.is_none_or(|closed| closed >= step.line);
            let Some(call) = facts.call(question.who).filter(|call| open && !facts.is_repeated(call)) else {
                continue;
            };
            let of_turn = when.turn.as_deref() == Some(call.when.turn.as_deref().unwrap_or("t"));
            let waits = !call.dropped && call.answers.first().is_none_or(|at| *at >= step.line);
            let about_start = question.kind == "command" || question.kind == "retry";
            if of_turn && waits && about_start && closed.is_none_or(|closed| facts.t(closed) > step.t) {
                found.push(format!("question {} was open after an interrupt of its turn", question.number));
            }
        }
    }
}
