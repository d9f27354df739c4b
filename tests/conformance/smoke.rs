use crate::run::*;
use unified_exec::core::process::ExitStatus;
use unified_exec::core::signal::*;
use unified_exec::core::spawn::*;
use unified_exec::host::clock::Clock;
use unified_exec::host::ports::*;
use unified_exec::spawn::*;

async fn go(trees: Trees) {
    let s = LocalSpawner::start(Clock::start(), Options { trees }).unwrap();
    eprintln!("{s:?}");
    for kind in [Kind::Pipes, Kind::Terminal] {
        let c = Running::new(s.spawn(plan(&["sh", "-c", "echo hi; exit 7"], kind.stdio())).await.unwrap());
        let seen = c.ended().await;
        eprintln!("{seen:?} {:?}", seen.text());
        assert_eq!(seen.exited.unwrap().status, ExitStatus::Code(7));
        soon("gone", c.control().tree_gone()).await;

        let c = Running::new(
            s.spawn(plan(
                &[
                    "sh",
                    "-c",
                    "setsid sleep 1000 & (setsid sh -c 'sleep 1001 & sleep 1002' & ) ; echo ok; wait",
                ],
                kind.stdio(),
            ))
            .await
            .unwrap(),
        );
        c.says("ok").await;
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        eprintln!("{:?}", c.control().descendants().await);
        assert_eq!(c.control().signal(Signal::USR1, Scope::Process), Ok(()));
        let e = c.exited().await;
        eprintln!("{e:?}");
        eprintln!("{:?}", c.control().descendants().await);
        c.control().kill_tree();
        soon("gone", c.control().tree_gone()).await;
        assert_eq!(c.control().descendants().await, vec![]);
        c.ended().await;
    }
    let start = std::time::Instant::now();
    for _ in 0..200 {
        let c = Running::new(s.spawn(plan(&["/bin/true"], Stdio::Pipes { stdin: false })).await.unwrap());
        c.ended().await;
    }
    eprintln!("{:?} each", start.elapsed() / 200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn smoke_cgroup() {
    go(Trees::Cgroups).await
}
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn smoke_table() {
    go(Trees::ProcessTable).await
}
