//! The programs of a scenario as scripts of the fake spawner.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use unified_exec::core::output::Stream;
use unified_exec::core::process::ExitStatus;
use unified_exec::core::signal::Signal;
use unified_exec::core::spawn::SpawnPlan;
use unified_exec::spawn::fake::{self, Act as Plays, Casting, Script, Step};

use crate::acts::{Deed, End, Fork, Out};
use crate::model::spawn_error;
use crate::scenario::{Program, Scenario};

/// Finds a start's script by the command line: the last word of the program's arguments.
pub(crate) fn casting(scenario: &Scenario) -> Arc<Casting> {
    let programs: BTreeMap<String, Program> = scenario.program.clone();
    Arc::new(move |plan: &SpawnPlan, before: usize| {
        Some(script(programs.get(plan.argv.last()?)?, plan, before))
    })
}

fn script(program: &Program, plan: &SpawnPlan, before: usize) -> Script {
    let (takes, failure) = program.start(before > 0);
    let takes = Duration::from_millis(takes);
    if let Some(failure) = failure {
        return Script::failing(spawn_error(failure, plan)).starts_after(takes);
    }
    let mut script = Script::new().starts_after(takes).confined();
    let mut last = 0;
    // Acts count from the spawn, steps from the one before; lists are checked before they are played.
    let mut acts = program.acts(plan.sandbox.is_some()).iter().filter_map(|act| {
        let act = act.get_ref();
        let after = Duration::from_millis(act.at.saturating_sub(last));
        last = act.at;
        Some((after, act.deed().ok()?, Duration::from_millis(act.late)))
    });
    while let Some((after, deed, late)) = acts.next() {
        let act = match deed {
            Deed::End(end) => {
                // What comes after the end belongs to it: output that was on the way.
                let on_the_way =
                    acts.by_ref().filter_map(|(after, deed, _)| Some(Step { after, act: plays(deed)? }));
                Some(Plays::End(fake::End { status: status(end), late, on_the_way: on_the_way.collect() }))
            }
            deed => plays(deed),
        };
        script = match act {
            Some(act) => script.then(after, act),
            None => script,
        };
    }
    script
}

const fn status(end: End) -> ExitStatus {
    match end {
        End::Exit(code) => ExitStatus::Code(code),
        End::DiesOf(signal) => ExitStatus::Signal { number: signal.number(), core_dumped: false },
    }
}

/// `None` for an end, which is more than an act of its own.
fn plays(deed: Deed<'_>) -> Option<Plays> {
    Some(match deed {
        Deed::Say(to, bytes) => {
            let stream = match to {
                Out::Stdout => Stream::Stdout,
                Out::Stderr => Stream::Stderr,
            };
            Plays::Out(stream, Bytes::copy_from_slice(bytes))
        }
        Deed::End(_) => return None,
        Deed::Ignore(Signal::KILL) => Plays::Stick,
        Deed::Ignore(signal) => Plays::OnSignal(signal, Vec::new()),
        Deed::CloseOutputs => Plays::CloseOutputs,
        Deed::Hang => Plays::Hang,
        Deed::Fork(Fork::Holder { lives: of }) => {
            Plays::Fork(fake::Fork { lives: lives(of), holds_outputs: true, ..fake::Fork::new("holder") })
        }
        Deed::Fork(Fork::Daemon { lives: of }) => {
            Plays::Fork(fake::Fork { lives: lives(of), left_group: true, ..fake::Fork::new("daemon") })
        }
        Deed::Read(bytes) => Plays::Take(bytes),
        Deed::Echo => Plays::Mirror,
        Deed::CloseInput => Plays::CloseInput,
        Deed::Connect(host, port) => Plays::Connect { host: host.to_owned(), port },
    })
}

fn lives(millis: u64) -> Option<Duration> {
    (millis > 0).then(|| Duration::from_millis(millis))
}
