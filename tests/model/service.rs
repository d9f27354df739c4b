//! The service itself, driven through its public handles in virtual time, and looked at in the model's words.

mod asked;
mod seen;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use tokio::runtime::{Builder, Runtime};
use tokio::task::{JoinHandle, yield_now};
use unified_exec::core::command::{Defaults, EnvPolicy};
use unified_exec::core::ids::{ApprovalId, ProcessId};
use unified_exec::core::limits::{Limits, WhenFull};
use unified_exec::core::session::{Condition, Decide, Hold, Update, WaitFor};
use unified_exec::core::signal::Scope;
use unified_exec::core::spawn::ResourceLimits;
use unified_exec::host::clock::Clock;
use unified_exec::host::stream::{CallStream, Item};
use unified_exec::host::{Host, Owner, Ports, SessionHandle, Settings};
use unified_exec::spawn::fake::FakeSpawner;

use crate::model::{EXPIRY, TABLE};
use crate::picture::Picture;
use crate::stage::{Boxes, Names, argv};
use crate::step::{Ask, Change, Policy, Profile, SESSIONS, What, Which, Whom};
use asked::{options, rights_of, signal_of, start, turn, verdict, write};
use seen::Seen;

const MS: fn(u64) -> Duration = Duration::from_millis;
/// Turns that everybody who is ready to run gets before anybody looks: far more than the longest chain of tasks that wake
/// one another at one instant.
const TURNS: usize = 120;
const HERE: [&str; 2] = ["/work", "/elsewhere"];

/// A call that was made, and what came of it.
struct Made {
    seen: Arc<Mutex<Option<Seen>>>,
    task: JoinHandle<()>,
    hung_up: bool,
}

struct Caller {
    session: SessionHandle,
    /// Of every command, once it was seen; one that never was has been refused.
    ids: Vec<Option<ProcessId>>,
    calls: Vec<Made>,
    policy: Policy,
    profile: Profile,
}

pub(crate) struct Service {
    runtime: Runtime,
    host: Host,
    boxes: Arc<Boxes>,
    callers: Vec<Caller>,
}

impl Service {
    pub(crate) fn new(rights: [(Policy, Profile); SESSIONS]) -> Self {
        let runtime = Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        let inside = runtime.enter();
        let clock = Clock::start();
        let boxes = Arc::new(Boxes(FakeSpawner::new(clock)));
        let spawner: Arc<Boxes> = Arc::clone(&boxes);
        let ports = Ports { rulebook: Arc::new(Names), ..Ports::of(spawner) };
        let host = Host::new(ports, clock, Vec::new(), 7);
        let callers = rights.into_iter().enumerate().map(|(number, (policy, profile))| {
            let settings = Settings {
                defaults: Defaults {
                    cwd: HERE[0].to_owned(),
                    shell: "sh".to_owned(),
                    allow_login: true,
                    env: EnvPolicy::default(),
                    inherited: Vec::new(),
                },
                rights: rights_of(policy, profile),
                process_limits: ResourceLimits::default(),
                limits: Limits {
                    processes_max: TABLE[number],
                    when_full: WhenFull::Evict,
                    approval_expiry: Some(MS(EXPIRY)),
                    ..Limits::default()
                },
                interactive: true,
            };
            let session = host.create(Owner::new("one"), settings).unwrap();
            Caller { session, ids: Vec::new(), calls: Vec::new(), policy, profile }
        });
        let callers = callers.collect();
        drop(inside);
        Self { runtime, host, boxes, callers }
    }

    /// Lets time pass; whatever was due by then has happened.
    pub(crate) fn advance(&mut self, ms: u64) {
        self.runtime.block_on(async {
            if ms > 0 {
                tokio::time::sleep(MS(ms)).await;
            }
            settle().await;
        });
    }

    /// A caller asks; whatever follows at this instant has followed.
    pub(crate) fn ask(&mut self, number: usize, ask: &Ask) {
        let session = self.callers[number].session.clone();
        let runtime = self.runtime.handle().clone();
        let _inside = runtime.enter();
        match ask {
            Ask::HangUp(pick) => self.hang_up(number, *pick),
            Ask::Exec(exec) => {
                let command = self.callers[number].ids.len();
                self.boxes.teach(number, command, exec);
                let asked = start(exec, argv(number, command, exec.command));
                self.made(number, async move { stream(session.exec(asked, options(true)).await).await });
            }
            Ask::Write { to, input, wait } => {
                let process = self.id(number, *to);
                let streams = wait.is_some();
                let asked = write(process, *input, *wait);
                self.made(number, async move { stream(session.write(asked, options(streams)).await).await });
            }
            Ask::Wait { on, what, timeout } => {
                let asked = WaitFor {
                    turn: turn(1),
                    process: self.id(number, *on),
                    condition: match what {
                        What::Exit => Condition::Exit,
                        What::Closed => Condition::Closed,
                        What::Output => Condition::Output,
                    },
                    from: None,
                    timeout: timeout.map(MS),
                };
                self.made(number, async move { Seen::Wait(session.wait(asked).await) });
            }
            Ask::Signal { to, signal, tree } => {
                let (process, signal) = (self.id(number, *to), signal_of(*signal));
                let scope = if *tree { Scope::Tree } else { Scope::Process };
                self.made(number, async move { Seen::Control(session.signal(process, signal, scope).await) });
            }
            Ask::Terminate(whom) => {
                let process = self.id(number, *whom);
                self.made(number, async move { Seen::Terminate(session.terminate(process).await) });
            }
            Ask::Clean => self.made(number, async move { Seen::Ended(session.clean().await) }),
            Ask::Interrupt(number_of_turn) => {
                let turn = turn(*number_of_turn);
                self.made(number, async move { Seen::Interrupted(session.interrupt(turn).await) });
            }
            Ask::Hold { lease, ms } => {
                let hold = Hold { lease: format!("lease {lease}"), duration: MS(*ms) };
                self.made(number, async move { Seen::Held(session.hold(hold).await) });
            }
            Ask::Decide { which, answer } => {
                let decide = Decide {
                    approval: self.question(number, *which),
                    verdict: verdict(*answer),
                    text: String::new(),
                    rule: Vec::new(),
                    by: "a person".to_owned(),
                };
                self.made(number, async move { Seen::Decided(Box::new(session.decide(decide).await)) });
            }
            Ask::Update { change, stale } => {
                let update = self.update(number, *change, *stale);
                self.made(number, async move { Seen::Updated(Box::new(session.update(update).await)) });
            }
        }
        self.runtime.block_on(settle());
        if matches!(ask, Ask::Exec(_)) {
            self.learn_id(number);
        }
    }

    fn made(&mut self, number: usize, call: impl Future<Output = Seen> + Send + 'static) {
        let seen = Arc::new(Mutex::new(None));
        let place = Arc::clone(&seen);
        let task = self.runtime.spawn(async move {
            let came = call.await;
            *place.lock().unwrap() = Some(came);
        });
        self.callers[number].calls.push(Made { seen, task, hung_up: false });
    }

    fn hang_up(&mut self, number: usize, pick: u8) {
        let waits = |made: &&mut Made| !made.hung_up && made.seen.lock().unwrap().is_none();
        let mut waiting: Vec<&mut Made> = self.callers[number].calls.iter_mut().filter(waits).collect();
        if !waiting.is_empty() {
            let at = usize::from(pick) % waiting.len();
            waiting[at].hung_up = true;
            waiting[at].task.abort();
        }
    }

    /// Keeps in mind which process the last command became.
    fn learn_id(&mut self, number: usize) {
        let listed = self.runtime.block_on(self.callers[number].session.processes(true)).unwrap();
        let caller = &mut self.callers[number];
        let new = listed.into_iter().map(|view| view.id).find(|id| !caller.ids.contains(&Some(*id)));
        caller.ids.push(new);
    }

    fn id(&self, number: usize, whom: Whom) -> ProcessId {
        let (of, pick) = match whom {
            Whom::Own(pick) => (number, pick),
            Whom::Foreign(pick) => ((number + 1) % SESSIONS, pick),
        };
        let ids = &self.callers[of].ids;
        let known = (!ids.is_empty()).then(|| ids[usize::from(pick) % ids.len()]).flatten();
        known.unwrap_or_else(|| ProcessId::new(ProcessId::MAX).unwrap())
    }

    fn question(&self, number: usize, which: Which) -> ApprovalId {
        let session = &self.callers[number].session;
        let (closed_too, pick) = match which {
            Which::Open(pick) => (false, pick),
            Which::Any(pick) => (true, pick),
            Which::Unknown => return ApprovalId::new("nobody's"),
        };
        let listed = self.runtime.block_on(session.approvals(closed_too)).unwrap();
        match listed.len() {
            0 => ApprovalId::new("nobody's"),
            length => listed[usize::from(pick) % length].question.id.clone(),
        }
    }

    fn update(&mut self, number: usize, change: Change, stale: bool) -> Update {
        let view = self.runtime.block_on(self.callers[number].session.describe()).unwrap();
        let revision = view.policy_revision + u64::from(stale);
        let caller = &mut self.callers[number];
        let (mut policy, mut profile) = (caller.policy, caller.profile);
        let mut update = Update { if_revision: Some(revision), ..Update::default() };
        match change {
            Change::Policy(new) => policy = new,
            Change::Profile(new) => profile = new,
            Change::Cwd(cwd) => {
                update.cwd = Some(HERE[usize::from(cwd)].to_owned());
                return update;
            }
        }
        update.rights = Some(rights_of(policy, profile));
        if !stale {
            (caller.policy, caller.profile) = (policy, profile);
        }
        update
    }

    /// What can be seen of a session now.
    pub(crate) fn picture(&self, number: usize) -> Picture {
        let caller = &self.callers[number];
        let session = &caller.session;
        let (view, processes, questions) = self.runtime.block_on(async {
            (session.describe().await, session.processes(true).await, session.approvals(false).await)
        });
        let view = view.unwrap();
        let ranks: BTreeMap<ProcessId, usize> =
            caller.ids.iter().enumerate().filter_map(|(rank, id)| id.map(|id| (id, rank))).collect();
        Picture {
            revision: view.policy_revision,
            live: view.live,
            processes: processes.unwrap().iter().map(|view| (ranks[&view.id], seen::process(view))).collect(),
            questions: questions.unwrap().iter().map(|asked| seen::question(asked, &ranks)).collect(),
            calls: caller
                .calls
                .iter()
                .map(|made| seen::reply(made.seen.lock().unwrap().as_ref(), made.hung_up, &ranks))
                .collect(),
        }
    }

    /// Ends everything. Nobody is left to wait, and no child lives.
    pub(crate) fn end(self) {
        self.runtime.block_on(async {
            self.host.shutdown().await;
            settle().await;
        });
        assert_eq!(self.boxes.0.unreaped(), 0, "children outlive the service");
        for made in self.callers.iter().flat_map(|caller| &caller.calls) {
            let answered = made.seen.lock().unwrap().is_some();
            assert!(made.hung_up || answered, "a call was never answered");
        }
    }
}

async fn settle() {
    for _ in 0..TURNS {
        yield_now().await;
    }
}

/// Follows a call to its end, with all that it was sent of its last attempt.
async fn stream(mut call: CallStream) -> Seen {
    let mut output: BTreeMap<u8, Vec<u8>> = BTreeMap::new();
    loop {
        match call.next().await {
            Some(Ok(Item::Output { attempt, piece })) => {
                output.entry(attempt.get()).or_default().extend_from_slice(&piece.data);
            }
            Some(Ok(Item::Gap { gap, .. })) => panic!("a short output has a gap: {gap:?}"),
            Some(Ok(Item::Result(collected))) => {
                let said = output.remove(&collected.result.attempt.get()).unwrap_or_default();
                return Seen::Result(Box::new(collected.result), Bytes::from(said));
            }
            Some(Ok(_)) => {}
            Some(Err(refused)) => return Seen::Refused(Box::new(refused)),
            None => panic!("a call ends without a result"),
        }
    }
}
