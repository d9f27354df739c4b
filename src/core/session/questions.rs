//! Questions: asking, answering, expiry, withdrawal, and the grants that answers leave behind.
//!
//! A question is closed once, by whatever comes first: an answer, an expiry, a failed review, or being withdrawn. What
//! follows from that depends on what it was asked for.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use super::timers::Timer;
use super::wait::WaitKind;
use super::{
    Answer, Decide, DecideError, Effect, FeedKind, NotApproved, Progress, Session, StartError, WriteError,
};
use crate::core::approval::{
    Approval, Decision, Grant, GrantKey, Permissions, Question, Review, State, Subject, Verdict,
};
use crate::core::command::LOCAL_ENVIRONMENT;
use crate::core::ids::{ApprovalId, CallId, ConnectionId, GrantId, ProcessId, RequestId, TurnId};
use crate::core::limits::{GRANTS_MAX, QUESTIONS_CLOSED_MAX, QUESTIONS_OPEN_MAX};
use crate::core::orchestrate::allows;
use crate::core::policy::Profile;
use crate::core::time::Instant;

/// Every question that a session remembers.
#[derive(Debug, Default)]
pub(super) struct Questions {
    /// In the order in which they were asked.
    all: VecDeque<Asked>,
    open: usize,
    grants: BTreeMap<GrantKey, Grant>,
    /// Answers that wait for their rule to be added.
    adding: BTreeMap<CallId, Decide>,
}

#[derive(Clone, Debug)]
struct Asked {
    question: Arc<Question>,
    state: State,
    purpose: Purpose,
}

impl Asked {
    fn approval(&self) -> Approval {
        Approval { question: (*self.question).clone(), state: self.state.clone() }
    }
}

/// What an answer decides about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    /// The start of its process.
    Start,
    /// A second attempt of its process.
    Retry,
    /// The input that this call brought.
    Input(CallId),
    /// These connections, all to the same place.
    Connection(Vec<ConnectionId>),
}

/// What is to be asked; the rest of a question is known.
#[derive(Debug)]
pub(super) struct Matter {
    pub(super) purpose: Purpose,
    pub(super) subject: Subject,
    pub(super) turn: TurnId,
    pub(super) request: Option<RequestId>,
    pub(super) permissions: Permissions,
    pub(super) profile: Profile,
    pub(super) reason: String,
    pub(super) rule: Option<String>,
    pub(super) strict: bool,
}

/// A question cannot be asked: too many are open.
#[derive(Clone, Copy, Debug)]
pub(super) struct TooMany;

impl Questions {
    fn find(&self, id: &ApprovalId) -> Option<&Asked> {
        self.all.iter().find(|asked| asked.question.id == *id)
    }

    /// How many are open.
    pub(super) const fn open(&self) -> usize {
        self.open
    }

    /// Those that are open, oldest first.
    pub(super) fn open_ids(&self) -> Vec<ApprovalId> {
        self.open_where(|_| true)
    }

    /// Whether this one is open.
    pub(super) fn is_open(&self, id: &ApprovalId) -> bool {
        self.find(id).is_some_and(|asked| asked.state == State::Open)
    }

    /// The open ones that `wanted` picks, oldest first.
    fn open_where(&self, wanted: impl Fn(&Asked) -> bool) -> Vec<ApprovalId> {
        let open = self.all.iter().filter(|asked| asked.state == State::Open && wanted(asked));
        open.map(|asked| asked.question.id.clone()).collect()
    }

    fn forget_oldest(&mut self) {
        while self.all.len() - self.open > QUESTIONS_CLOSED_MAX {
            let Some(oldest) = self.all.iter().position(|asked| asked.state != State::Open) else { return };
            self.all.remove(oldest);
        }
    }

    /// Whether a grant spares the question; it counts as used then.
    pub(super) fn spares(&mut self, key: &GrantKey) -> bool {
        match self.grants.get_mut(key) {
            Some(grant) => {
                grant.uses += 1;
                true
            }
            None => false,
        }
    }

    /// The open question about connections of a process to this place, to be joined.
    pub(super) fn join_connection(
        &mut self,
        process: ProcessId,
        to: (&str, u16),
        connection: ConnectionId,
    ) -> bool {
        let asked = self.all.iter_mut().find(|asked| {
            asked.state == State::Open
                && asked.question.process == process
                && matches!(&asked.question.subject, Subject::Connection { host, port }
                    if *port == to.1 && host.eq_ignore_ascii_case(to.0))
        });
        match asked.map(|asked| &mut asked.purpose) {
            Some(Purpose::Connection(connections)) => {
                connections.push(connection);
                true
            }
            _ => false,
        }
    }

    /// Connections of a process that wait for an answer.
    pub(super) fn connections_of(&self, process: ProcessId) -> usize {
        let of =
            self.all.iter().filter(|asked| asked.state == State::Open && asked.question.process == process);
        of.map(|asked| if let Purpose::Connection(waiting) = &asked.purpose { waiting.len() } else { 0 })
            .sum()
    }

    /// Drops a connection that waits; the question that nobody waits for any more.
    pub(super) fn leave_connection(&mut self, connection: ConnectionId) -> Option<ApprovalId> {
        for asked in self.all.iter_mut().filter(|asked| asked.state == State::Open) {
            if let Purpose::Connection(waiting) = &mut asked.purpose
                && let Some(at) = waiting.iter().position(|waits| *waits == connection)
            {
                waiting.remove(at);
                return waiting.is_empty().then(|| asked.question.id.clone());
            }
        }
        None
    }
}

impl Session {
    /// Asks whoever approves. The yield deadlines of the session stand still until the question is closed.
    pub(super) fn ask(&mut self, now: Instant, id: ProcessId, matter: Matter) -> Result<ApprovalId, TooMany> {
        if self.questions.open() >= QUESTIONS_OPEN_MAX {
            return Err(TooMany);
        }
        let approval = self.ids.approval_id();
        let Some(process) = self.processes.get(&id) else { return Err(TooMany) };
        let question = Arc::new(Question {
            id: approval.clone(),
            process: id,
            turn: matter.turn,
            request: matter.request,
            allowed: allowed(&matter.subject),
            subject: matter.subject,
            argv: process.argv.clone(),
            cwd: process.cwd.clone(),
            environment: LOCAL_ENVIRONMENT.to_owned(),
            tty: process.terminal.is_some(),
            permissions: matter.permissions,
            profile: matter.profile,
            justification: process.launch.justification.clone(),
            reason: matter.reason,
            rule: matter.rule,
            proposed_rule: process.launch.proposed_rule.clone(),
            strict: matter.strict,
            policy_revision: self.policy_revision,
            asked_at: now,
            expires_at: self.limits.approval_expiry.map(|expiry| now + expiry),
        });
        if !self.yields_are_held() {
            self.pause_yields(now);
        }
        if let Some(due) = question.expires_at {
            self.timers.set(Timer::Question(approval.clone()), due);
        }
        self.questions.open += 1;
        let asked = Asked { question: Arc::clone(&question), state: State::Open, purpose: matter.purpose };
        self.publish_question(now, &asked);
        self.tell_asking(id, &asked.purpose, &question);
        self.questions.all.push_back(asked);
        self.effects.push_back(Effect::Ask { question });
        Ok(approval)
    }

    /// Whether the yield deadlines of the session stand still.
    pub(super) fn yields_are_held(&self) -> bool {
        !self.holds.is_empty() || self.questions.open() > 0
    }

    fn tell_asking(&mut self, id: ProcessId, purpose: &Purpose, question: &Arc<Question>) {
        match purpose {
            Purpose::Start | Purpose::Retry => {
                self.tell_progress(id, &[Progress::Asking { question: Arc::clone(question) }]);
            }
            Purpose::Input(call) => {
                let callers = self.waits.get(call).map_or(&[][..], |wait| &wait.callers);
                let told = callers.iter().map(|call| Effect::Progress {
                    call: *call,
                    progress: Progress::Asking { question: Arc::clone(question) },
                });
                self.effects.extend(told.collect::<Vec<_>>());
            }
            Purpose::Connection(_) => {}
        }
    }

    /// The question that a start waits for, for a repeat of it that joins.
    pub(super) fn open_question(&self, approval: &ApprovalId) -> Option<Arc<Question>> {
        self.questions.find(approval).map(|asked| Arc::clone(&asked.question))
    }

    fn publish_question(&mut self, now: Instant, asked: &Asked) {
        let approval = Box::new(asked.approval());
        let (turn, request) = (asked.question.turn.clone(), asked.question.request.clone());
        let kind = match asked.state {
            State::Open => FeedKind::ApprovalRequested(approval),
            _ => FeedKind::ApprovalDecided(approval),
        };
        self.publish(now, Some(asked.question.process), kind);
        if let Some(Effect::Publish(event)) = self.effects.back_mut() {
            event.turn = Some(turn);
            event.request = request;
        }
    }

    /// Closes a question that is open, and tells so. What follows is the caller's.
    fn close_question(&mut self, now: Instant, id: &ApprovalId, state: State) -> Option<Asked> {
        let asked = self
            .questions
            .all
            .iter_mut()
            .find(|asked| asked.question.id == *id && asked.state == State::Open)?;
        asked.state = state;
        let asked = asked.clone();
        self.questions.open -= 1;
        self.questions.forget_oldest();
        self.timers.stop(&Timer::Question(id.clone()));
        self.effects.push_back(Effect::Unask { approval: id.clone() });
        self.publish_question(now, &asked);
        if !self.yields_are_held() {
            self.resume_yields(now);
        }
        Some(asked)
    }

    pub(super) fn on_decide(&mut self, now: Instant, call: CallId, decide: Decide) {
        match self.check_decision(&decide) {
            Err(refusal) => self.reply(call, Answer::Decided(Err(refusal))),
            Ok(words) if decide.verdict == Verdict::ApproveAndAddRule => {
                self.effects.push_back(Effect::AllowRule { call, words: words.clone() });
                self.questions.adding.insert(call, Decide { rule: words, ..decide });
            }
            Ok(_) => self.decide(now, call, decide),
        }
    }

    /// Whether a question takes this answer; with the words of the rule that comes with it.
    fn check_decision(&self, decide: &Decide) -> Result<Vec<String>, DecideError> {
        let approval = decide.approval.clone();
        let Some(asked) = self.questions.find(&approval) else {
            return Err(DecideError::Unknown { approval });
        };
        if asked.state != State::Open {
            return Err(DecideError::NotOpen { approval, state: Box::new(asked.state.clone()) });
        }
        if self.questions.adding.values().any(|first| first.approval == approval) {
            return Err(DecideError::Deciding { approval });
        }
        if !asked.question.allowed.contains(&decide.verdict) {
            return Err(DecideError::NotAllowed { approval, verdict: decide.verdict });
        }
        let words =
            if decide.rule.is_empty() { asked.question.proposed_rule.clone() } else { decide.rule.clone() };
        if decide.verdict == Verdict::ApproveAndAddRule && words.is_empty() {
            return Err(DecideError::RuleEmpty);
        }
        Ok(words)
    }

    pub(super) fn on_rule_added(&mut self, now: Instant, call: CallId, result: Result<(), String>) {
        let Some(decide) = self.questions.adding.remove(&call) else { return };
        match result {
            Ok(()) => self.decide(now, call, decide),
            Err(reason) => self.reply(call, Answer::Decided(Err(DecideError::Rule { reason }))),
        }
    }

    fn decide(&mut self, now: Instant, call: CallId, decide: Decide) {
        // It may have been closed while its rule was added.
        if let Err(refusal) = self.check_decision(&decide) {
            return self.reply(call, Answer::Decided(Err(refusal)));
        }
        let Decide { approval, verdict, text, rule, by } = decide;
        let rule = if verdict == Verdict::ApproveAndAddRule { rule } else { Vec::new() };
        let decision = Decision { verdict, text, rule, by, at: now };
        self.settle_question(now, &approval, State::Decided(decision));
        let closed = self.questions.find(&approval).map(|asked| Box::new(asked.approval()));
        self.reply(call, Answer::Decided(closed.ok_or(DecideError::Unknown { approval })));
    }

    pub(super) fn on_reviewed(&mut self, now: Instant, id: &ApprovalId, review: Review) {
        let decided = |verdict, text| {
            State::Decided(Decision { verdict, text, rule: Vec::new(), by: AUTOMATIC.to_owned(), at: now })
        };
        let state = match review {
            Review::Allow { text } => decided(Verdict::Approve, text),
            Review::Deny { text } => decided(Verdict::Decline, text),
            Review::Failed { cause } => State::ReviewFailed { cause, at: now },
            Review::AskPerson if !self.may_ask_person(id) => decided(
                Verdict::Decline,
                "the reviewer leaves it to a person, and nobody may be asked".to_owned(),
            ),
            Review::AskPerson => return,
        };
        self.settle_question(now, id, state);
    }

    /// Whether the policy lets a person be asked what an automatic reviewer was: strict review also sees what it does not.
    /// A command that strict review alone wants to see is one about the sandbox, for no rule led to it.
    fn may_ask_person(&self, id: &ApprovalId) -> bool {
        let Some(asked) = self.questions.find(id).filter(|asked| asked.question.strict) else { return true };
        allows(&self.rights.policy, |granular| match asked.question.subject {
            Subject::Command | Subject::Retry { .. } => granular.sandbox_approval,
            Subject::Input { .. } => granular.stdin,
            Subject::Connection { .. } => granular.network,
        })
    }

    pub(super) fn on_question_expired(&mut self, now: Instant, id: &ApprovalId) {
        self.settle_question(now, id, State::Expired { at: now });
    }

    /// Closes a question, and does what its end means.
    fn settle_question(&mut self, now: Instant, id: &ApprovalId, state: State) {
        let Some(asked) = self.close_question(now, id, state) else { return };
        let refusal = match &asked.state {
            State::Decided(decision) if decision.verdict.approves() => {
                self.grant(now, &asked, decision);
                None
            }
            State::Open => return,
            closed => Some(not_approved(&asked.question, closed)),
        };
        let abort = matches!(&refusal, Some(NotApproved::TurnAborted { .. }));
        self.follow(now, &asked, refusal);
        if abort {
            let turn = asked.question.turn.clone();
            self.end_waits_of(now, &turn);
        }
    }

    /// What an answer leads to.
    fn follow(&mut self, now: Instant, asked: &Asked, refusal: Option<NotApproved>) {
        let id = asked.question.process;
        match (&asked.purpose, refusal) {
            (Purpose::Start, None) => {
                if let Some(process) = self.processes.get_mut(&id) {
                    process.launch.approved = true;
                }
                self.start_first(now, id);
            }
            (Purpose::Start, Some(refusal)) => self.refuse_start(now, id, refusal.into()),
            (Purpose::Retry, None) => self.retry(now, id),
            (Purpose::Retry, Some(_)) => self.surface_denial(now, id),
            (Purpose::Input(_), None) => self.deliver_reviewed(now, id),
            (Purpose::Input(call), Some(refusal)) => self.drop_reviewed(now, id, *call, refusal.into()),
            (Purpose::Connection(connections), refusal) => {
                let to = (&asked.question.subject, id);
                self.answer_connections(connections, to, refusal.is_none());
            }
        }
    }

    /// Keeps an approval for the session.
    fn grant(&mut self, now: Instant, asked: &Asked, decision: &Decision) {
        if decision.verdict != Verdict::ApproveForSession || self.questions.grants.len() >= GRANTS_MAX {
            return;
        }
        let question = &asked.question;
        let key = match &question.subject {
            Subject::Command => {
                let process = self.processes.get(&question.process);
                process.and_then(|process| process.key())
            }
            Subject::Connection { host, port } => Some(connection_key(host, *port)),
            Subject::Retry { .. } | Subject::Input { .. } => None,
        };
        let Some(key) = key else { return };
        let grant = Grant {
            id: self.ids.grant_id(),
            key: key.clone(),
            approval: question.id.clone(),
            at: now,
            by: decision.by.clone(),
            uses: 0,
        };
        self.questions.grants.insert(key, grant);
    }

    /// Takes back one question: nobody needs its answer any more. Whoever waits for what it was about is not told here.
    pub(super) fn withdraw(&mut self, now: Instant, id: &ApprovalId) -> bool {
        self.close_question(now, id, State::Withdrawn { at: now }).is_some()
    }

    /// Takes back every question that is open: what was to be judged is no longer what would be done.
    pub(super) fn withdraw_stale(&mut self, now: Instant) {
        for id in self.questions.open_where(|_| true) {
            if let Some(asked) = self.close_question(now, &id, State::Withdrawn { at: now }) {
                let process = asked.question.process;
                self.follow(now, &asked, Some(NotApproved::Stale { process }));
            }
        }
    }

    /// Takes back the questions about connections that `wanted` picks, and refuses the connections.
    pub(super) fn withdraw_connections(&mut self, now: Instant, wanted: impl Fn(&Question) -> bool) -> u32 {
        let picked = self
            .questions
            .open_where(|asked| matches!(asked.purpose, Purpose::Connection(_)) && wanted(&asked.question));
        for id in &picked {
            if let Some(asked) = self.close_question(now, id, State::Withdrawn { at: now }) {
                let process = asked.question.process;
                self.follow(now, &asked, Some(NotApproved::Stale { process }));
            }
        }
        u32::try_from(picked.len()).unwrap_or(u32::MAX)
    }

    pub(super) fn list_approvals(&self, include_closed: bool) -> Vec<Approval> {
        let wanted = |asked: &&Asked| include_closed || asked.state == State::Open;
        self.questions.all.iter().filter(wanted).map(Asked::approval).collect()
    }

    pub(super) fn describe_approval(&self, id: ApprovalId) -> Result<Box<Approval>, DecideError> {
        let found = self.questions.find(&id).map(|asked| Box::new(asked.approval()));
        found.ok_or(DecideError::Unknown { approval: id })
    }

    /// Kept approvals, oldest first.
    pub(super) fn list_grants(&self) -> Vec<Grant> {
        let mut grants: Vec<Grant> = self.questions.grants.values().cloned().collect();
        grants.sort_by(|a, b| a.at.cmp(&b.at).then_with(|| a.id.cmp(&b.id)));
        grants
    }

    pub(super) fn revoke(&mut self, id: &GrantId) -> Option<Box<Grant>> {
        let key = self.questions.grants.values().find(|grant| grant.id == *id)?.key.clone();
        self.questions.grants.remove(&key).map(Box::new)
    }
}

/// Who decided, when it was the automatic reviewer.
const AUTOMATIC: &str = "automatic";

/// The answers that a question takes. Nothing is kept of what is about one moment of one process.
fn allowed(subject: &Subject) -> Vec<Verdict> {
    use Verdict::{AbortTurn, Approve, ApproveAndAddRule, ApproveForSession, Decline};
    match subject {
        Subject::Command => vec![Approve, ApproveForSession, ApproveAndAddRule, Decline, AbortTurn],
        Subject::Connection { .. } => vec![Approve, ApproveForSession, Decline, AbortTurn],
        Subject::Retry { .. } | Subject::Input { .. } => vec![Approve, Decline, AbortTurn],
    }
}

fn not_approved(question: &Question, state: &State) -> NotApproved {
    let approval = question.id.clone();
    match state {
        State::Decided(Decision { verdict: Verdict::AbortTurn, text, .. }) => {
            NotApproved::TurnAborted { approval, turn: question.turn.clone(), text: text.clone() }
        }
        State::Decided(Decision { text, .. }) => NotApproved::Declined { approval, text: text.clone() },
        State::ReviewFailed { cause, .. } => NotApproved::ReviewFailed { approval, cause: cause.clone() },
        State::Expired { .. } => NotApproved::Expired { approval },
        State::Withdrawn { .. } | State::Open => NotApproved::Stale { process: question.process },
    }
}

/// What a grant must equal to spare the question about a connection.
pub(super) fn connection_key(host: &str, port: u16) -> GrantKey {
    GrantKey::Connection { environment: LOCAL_ENVIRONMENT.to_owned(), host: host.to_lowercase(), port }
}

impl From<TooMany> for StartError {
    fn from(_: TooMany) -> Self {
        Self::TooManyQuestions { limit: QUESTIONS_OPEN_MAX }
    }
}

impl From<TooMany> for WriteError {
    fn from(_: TooMany) -> Self {
        Self::TooManyQuestions { limit: QUESTIONS_OPEN_MAX }
    }
}

/// Whether a wait is one that a start's questions are told to.
pub(super) const fn is_start(kind: &WaitKind) -> bool {
    matches!(kind, WaitKind::Start { .. } | WaitKind::OneShot)
}
