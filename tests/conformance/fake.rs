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
use unified_exec::spawn::fake::{Act, Done, End, FakeSpawner, Fork, Script, Step};

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
    std::sync::Arc::make_mut(&mut asked.env).push(EnvVar::new("A", "b"));
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

#[tokio::test(start_paused = true)]
async fn an_end_can_be_told_late_and_leave_bytes_on_the_way() {
    let fake = FakeSpawner::new(Clock::start());
    let on_the_way = vec![Step { after: MS(5), act: Act::Out(Stream::Stdout, "last".into()) }];
    let end = End { status: ExitStatus::Code(1), late: MS(30), on_the_way };
    fake.record().program("p", Script::new().then(MS(20), Act::End(end)));
    let asked = plan(&["p"], Kind::Pipes.stdio());
    let process = asked.env.last().map(|mark| String::from_utf8(mark.value.to_vec()).unwrap()).unwrap();
    let child = Running::new(fake.spawn(asked).await.unwrap());
    tokio::time::sleep(MS(26)).await;
    assert_eq!((child.seen().text().as_str(), child.seen().closed), ("last", true));
    assert_eq!((child.seen().exited, fake.alive(), fake.unreaped()), (None, 0, 1));
    tokio::time::sleep(MS(25)).await;
    assert_eq!(child.seen().exited.unwrap().at, Instant::from_millis(20), "when it was is what counts");
    assert_eq!((fake.said(&process, 0), fake.unreaped(), fake.timed()), (Some(b"last".to_vec()), 0, 0));
}

#[tokio::test(start_paused = true)]
async fn input_is_read_while_the_script_goes_on() {
    let fake = FakeSpawner::new(Clock::start());
    let script = Script::new().at_once(Act::Take(3)).then(MS(10), Act::Mirror).then(MS(10), Act::CloseInput);
    fake.program("p", script);
    let mut child = Running::new(fake.spawn(plan(&["p"], Kind::Pipes.stdio())).await.unwrap());
    child.write(b"12345").await.unwrap();
    tokio::time::sleep(MS(11)).await;
    assert_eq!(child.seen().text(), "45");
    child.write(b"6").await.unwrap();
    tokio::time::sleep(MS(10)).await;
    assert_eq!(child.seen().text(), "456");
    assert_eq!(child.write(b"7").await.unwrap_err().kind(), std::io::ErrorKind::BrokenPipe);
}

#[tokio::test(start_paused = true)]
async fn what_hangs_takes_only_kill_and_what_is_stuck_not_even_that() {
    let fake = FakeSpawner::new(Clock::start());
    fake.program("hangs", Script::new().at_once(Act::Hang).exits(MS(1), 0));
    let stuck = Script::new().at_once(Act::OnSignal(Signal::TERM, vec![])).at_once(Act::Stick);
    fake.program("stuck", stuck.at_once(Act::Fork(Fork::new("too"))));
    let hangs = Running::new(fake.spawn(plan(&["hangs"], Kind::Pipes.stdio())).await.unwrap());
    let stuck = Running::new(fake.spawn(plan(&["stuck"], Kind::Pipes.stdio())).await.unwrap());
    for child in [&hangs, &stuck] {
        tokio::time::sleep(MS(5)).await;
        child.control().signal(Signal::TERM, Scope::Tree).unwrap();
    }
    tokio::time::sleep(MS(5)).await;
    assert_eq!(
        (hangs.seen().exited, fake.alive()),
        (None, 3),
        "a descendant ignores what its parent ignores"
    );
    hangs.control().kill_tree();
    stuck.control().kill_tree();
    assert_eq!(hangs.exited().await.status.shell_code(), 137);
    assert_eq!((stuck.seen().exited, fake.alive()), (None, 2));
}

#[tokio::test(start_paused = true)]
async fn a_program_can_be_cast_for_each_start_anew() {
    let fake = FakeSpawner::new(Clock::start());
    fake.cast(std::sync::Arc::new(|plan, before| {
        (plan.argv == ["p"]).then(|| Script::new().exits(MS(1), if before == 0 { 1 } else { 0 }))
    }));
    let asked = plan(&["p"], Kind::Pipes.stdio());
    for code in [1, 0] {
        let child = Running::new(fake.spawn(asked.clone()).await.unwrap());
        assert_eq!(child.exited().await.status, ExitStatus::Code(code));
    }
    let other = fake.spawn(plan(&["q"], Kind::Pipes.stdio())).await.unwrap_err();
    assert_eq!(other, SpawnError::ProgramMissing { program: "q".into() });
}
