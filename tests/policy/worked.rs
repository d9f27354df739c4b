//! The worked answers of the behaviour's last table, with commands that stand for `npm install`.

use std::time::Duration;

use unified_exec::core::approval::Verdict;
use unified_exec::core::ids::TurnId;
use unified_exec::core::policy::ApprovalPolicy;
use unified_exec::core::session::{Mode, WaitEnd};

use crate::stage::{Scene, Stage, scene};

const SHORTLY: Mode = Mode::Interactive { yield_time: Some(Duration::from_millis(250)) };

#[tokio::test]
async fn a_command_that_outlives_its_yield_has_an_id_and_a_poll_sees_its_end() {
    for policy in [ApprovalPolicy::Never, ApprovalPolicy::OnRequest] {
        let stage = Stage::set(Scene { early_window: Duration::from_millis(50), ..scene(policy) });
        let collected = stage.run("sleep 2; echo done", SHORTLY).await.unwrap();
        let process = collected.result.live_process().expect("it lives on");
        let polled = stage.poll(process).await;
        assert_eq!(polled.result.exit.map(|exit| exit.shell_code()), Some(0));
        assert!(polled.text.text.contains("done"), "{}", polled.text.text);
        assert_eq!(stage.told().await.spawns, 1);
    }
}

#[tokio::test]
async fn an_editor_lives_through_an_interrupt_and_is_gone_after_a_clean() {
    let stage = Stage::set(scene(ApprovalPolicy::Never));
    let collected = stage.run_on_terminal("vim -u NONE -i NONE file.txt", SHORTLY).await.unwrap();
    let process = collected.result.live_process().expect("vim lives");
    stage.session.interrupt(TurnId::new("t")).await.unwrap();
    let written = stage.write(process, "next turn", "ihello\u{1b}:w\r").await;
    assert_eq!((written.result.end, written.result.live_process()), (WaitEnd::Yielded, Some(process)));
    let file = stage.workspace().join("file.txt");
    for _ in 0..100 {
        if file.exists() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "hello\n");
    let report = stage.session.clean().await.unwrap();
    assert_eq!((report.ended.len(), report.survivors.len()), (1, 0), "{report:?}");
    let told = stage.poll(process).await;
    assert!(told.result.exit.is_some(), "the first call after the end is told of it");
    let refused = stage.try_write(process, "later", "x").await.unwrap_err();
    assert!(refused.contains("ended"), "{refused}");
}

#[tokio::test]
async fn asking_again_with_an_escalation_starts_without_a_sandbox() {
    let stage = Stage::set(scene(ApprovalPolicy::OnRequest));
    let denied = stage.run(&stage.touch(), Mode::Follow).await.unwrap();
    assert!(denied.result.evidence.is_some() && !stage.forbidden().exists());
    let escalated = Scene { escalate: true, answer: Verdict::Approve, ..scene(ApprovalPolicy::OnRequest) };
    let again = Stage::set(escalated);
    again.run(&again.touch(), Mode::Follow).await.unwrap();
    let told = again.told().await;
    assert!(again.forbidden().exists());
    assert_eq!((told.spawns, told.sandboxed), (1, Some(false)));
}
