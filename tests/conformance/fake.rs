//! What only the fake can show: every moment is the script's.

use std::time::Duration;

use unified_exec::core::command::EnvVar;
use unified_exec::core::output::Stream;
use unified_exec::core::process::ExitStatus;
use unified_exec::core::signal::{Scope, Signal};
use unified_exec::core::spawn::{SpawnError, Stdio};
use unified_exec::core::time::Instant;
use unified_exec::host::clock::Clock;
use unified_exec::host::ports::Spawner;
use unified_exec::spawn::fake::{Act, Done, FakeSpawner, Fork, Script, Step};

use crate::run::{Kind, Running, plan};

const MS: fn(u64) -> Duration = Duration::from_millis;

#[tokio::test(start_paused = true)]
async fn a_script_keeps_its_times_to_the_nanosecond() {
    let fake = FakeSpawner::new(Clock::start());
    fake.program("p", Script::new().starts_after(MS(7)).says(MS(100), "a").exits(MS(50), 3));
    let child = fake.spawn(plan(&["p"], Kind::Pipes.stdio())).await.unwrap();
    let exited = Running::new(child).exited().await;
    assert_eq!((exited.status, exited.at), (ExitStatus::Code(3), Instant::from_millis(157)));
}

#[tokio::test(start_paused = true)]
async fn a_caught_signal_plays_its_steps_and_the_rest_goes_on() {
    let fake = FakeSpawner::new(Clock::start());
    let steps = vec![Step { after: MS(10), act: Act::Out(Stream::Stdout, "caught ".into()) }];
    fake.program(
        "p",
        Script::new().at_once(Act::OnSignal(Signal::TERM, steps)).says(MS(100), "rest").exits(MS(0), 0),
    );
    let child = Running::new(fake.spawn(plan(&["p"], Kind::Pipes.stdio())).await.unwrap());
    tokio::time::sleep(MS(40)).await;
    child.control().signal(Signal::TERM, Scope::Process).unwrap();
    let seen = child.ended().await;
    assert_eq!(seen.text(), "caught rest");
    assert_eq!(seen.exited.unwrap().at, Instant::from_millis(100), "what was under way kept its time");
}

#[tokio::test(start_paused = true)]
async fn a_start_can_fail_and_is_noted() {
    let fake = FakeSpawner::new(Clock::start());
    let error = SpawnError::Exhausted { resource: "terminals", reason: "as the script says".into() };
    fake.program("p", Script::failing(error.clone()));
    let mut asked = plan(&["p", "x"], Stdio::Pipes { stdin: false });
    asked.env.push(EnvVar::new("A", "b"));
    assert_eq!(fake.spawn(asked.clone()).await.unwrap_err(), error);
    assert_eq!(fake.plans(), [asked]);
    assert_eq!((fake.done(), fake.unreaped()), (vec![], 0));
}

#[tokio::test(start_paused = true)]
async fn a_process_that_hangs_in_the_kernel_survives_a_kill() {
    let fake = FakeSpawner::new(Clock::start());
    let fork = Fork { unkillable: true, lives: Some(MS(5_000)), ..Fork::new("stuck") };
    fake.program("p", Script::new().at_once(Act::Fork(fork)));
    let child = Running::new(fake.spawn(plan(&["p"], Kind::Pipes.stdio())).await.unwrap());
    tokio::time::sleep(MS(1)).await;
    child.control().kill_tree();
    child.exited().await;
    assert_eq!(child.control().descendants().await.len(), 1);
    child.control().tree_gone().await;
    assert!(child.control().descendants().await.is_empty());
    let pid = child.pid.unwrap();
    assert!(fake.done().starts_with(&[Done::Started { pid, program: "p".into() }, Done::Killed { pid }]));
    assert_eq!(fake.unreaped(), 0);
}

#[tokio::test(start_paused = true)]
async fn control_c_on_a_terminal_is_a_signal() {
    let fake = FakeSpawner::new(Clock::start());
    fake.program("p", Script::new());
    let mut child = Running::new(fake.spawn(plan(&["p"], Kind::Terminal.stdio())).await.unwrap());
    child.write(b"ab\x03").await.unwrap();
    assert_eq!(child.exited().await.status.shell_code(), 130);
}
