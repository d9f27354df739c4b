//! What the service works with here: children that play scripts, with and without a sandbox, and rules that go by a
//! command's name.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use unified_exec::core::output::Stream;
use unified_exec::core::policy::{Assessment, NetworkRule, RuleDecision, RuleMatch, Segment};
use unified_exec::core::process::ExitStatus;
use unified_exec::core::signal::Signal;
use unified_exec::core::spawn::{SpawnError, SpawnPlan};
use unified_exec::host::ports::{AddRuleError, Assessing, BoxFuture, Rulebook, Spawned, Spawner};
use unified_exec::spawn::fake::{Act, FakeSpawner, Fork, Script};

use crate::model::child::{DENIAL, words};
use crate::step::{Command, Exec, Program, Then};

const MS: fn(u64) -> Duration = Duration::from_millis;

/// What the `number`th command of a session is called: by its rule, and by which scripts it plays.
pub(crate) fn argv(session: usize, number: usize, command: Command) -> Vec<String> {
    vec![format!("{command:?}"), format!("{session}.{number}")]
}

/// A sandbox that exists in name only: what runs in it plays another script.
#[derive(Debug)]
pub(crate) struct Boxes(pub(crate) FakeSpawner);

impl Boxes {
    /// Which attempt a script is for: the first one, with or without a sandbox, or the second.
    pub(crate) fn teach(&self, session: usize, number: usize, exec: &Exec) {
        let name = &argv(session, number, exec.command)[1];
        self.0.program(format!("{name} sandboxed"), script(&exec.program, (number, 1), true));
        self.0.program(format!("{name} free 1"), script(&exec.program, (number, 1), false));
        self.0.program(format!("{name} free 2"), script(&exec.program, (number, 2), false));
    }
}

impl Spawner for Boxes {
    fn spawn(&self, mut plan: SpawnPlan) -> BoxFuture<Result<Spawned, SpawnError>> {
        let name = plan.argv[1].clone();
        let sandboxed = plan.sandbox.take().is_some();
        let again = self.0.plans().iter().any(|earlier| earlier.argv[0] == format!("{name} sandboxed"));
        plan.argv[0] = match (sandboxed, again) {
            (true, _) => format!("{name} sandboxed"),
            (false, false) => format!("{name} free 1"),
            (false, true) => format!("{name} free 2"),
        };
        self.0.spawn(plan)
    }
}

fn script(program: &Program, (number, attempt): (usize, usize), sandboxed: bool) -> Script {
    let mut script = if program.start_fails(sandboxed) {
        Script::failing(SpawnError::ProgramMissing { program: "it".to_owned() })
    } else {
        Script::new()
    };
    script = script.starts_after(MS(program.starts));
    if program.ignores_term {
        script = script.at_once(Act::OnSignal(Signal::TERM, Vec::new()));
    }
    if let Some(descendant) = program.descendant {
        let (lives, holds_outputs) = (descendant.lives.map(MS), descendant.holds_outputs);
        script = script.at_once(Act::Fork(Fork { lives, holds_outputs, ..Fork::new("descendant") }));
    }
    if let Some(after) = program.denied.filter(|_| sandboxed) {
        return script.says(MS(0), DENIAL).exits(MS(after), 1);
    }
    let mut said = 0;
    for (after, length) in &program.says {
        let bytes = Bytes::from(words(number, attempt, said, *length));
        script = script.then(MS(*after), Act::Out(Stream::Stdout, bytes));
        said += length;
    }
    match program.then {
        Then::Exits { after, code } => script.then(MS(after), Act::Exit(ExitStatus::Code(code))),
        Then::Lives => script,
        Then::Echoes => script.at_once(Act::Echo).exits(MS(0), 0),
    }
}

/// Rules that go by the first word.
#[derive(Debug)]
pub(crate) struct Names;

impl Rulebook for Names {
    fn assess(&self, argv: Vec<String>, _: String) -> Assessing {
        let is = |command: Command| argv[0] == format!("{command:?}");
        let rules = [
            (Command::Allowed, RuleDecision::Allow),
            (Command::Prompted, RuleDecision::Prompt),
            (Command::Forbidden, RuleDecision::Forbidden),
        ];
        let rule = rules.into_iter().find(|(command, _)| is(*command)).map(|(_, decision)| RuleMatch {
            decision,
            rule: "a rule".to_owned(),
            justification: None,
        });
        let danger = is(Command::Dangerous).then(|| "it is".to_owned());
        let canonical = vec![argv[0].clone()];
        let segments = vec![Segment { words: argv, rule, danger }];
        Assessing::Now(Assessment { segments, canonical, fingerprint: "names".to_owned() })
    }

    fn owner_network(&self) -> Option<Arc<[NetworkRule]>> {
        None
    }

    fn allow(&self, _: Vec<String>) -> BoxFuture<Result<(), AddRuleError>> {
        let reason = "rules go by names here".to_owned();
        Box::pin(std::future::ready(Err(AddRuleError::ReadOnly { reason })))
    }
}
