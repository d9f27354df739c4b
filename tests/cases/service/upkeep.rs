//! What the service leaves in the system: no zombies, no descriptors, no terminals, no processes.

use std::time::Duration;

use super::{Stage, code, on_terminal, short};
use crate::procfs::{descriptors, until, with_argument, zombies_of};
use crate::server::Server;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn o01_no_zombie_is_left() {
    let stage = Stage::set().await;
    let session = &stage.session;
    for round in 0..4 {
        for number in 0..25 {
            let request = session.line("exit 3");
            let request = if number % 2 == 0 { on_terminal(request) } else { request };
            assert_eq!(code(&session.run(request).await.unwrap()), Some(3));
        }
        let starts = (0..25).map(|number| {
            let session = session.clone();
            tokio::spawn(async move {
                let request = short(session.line("sleep 8901.11 & exec sleep 8901.12"));
                let request = if number % 2 == 0 { on_terminal(request) } else { request };
                session.run(request).await.unwrap()
            })
        });
        for start in starts.collect::<Vec<_>>() {
            assert!(start.await.unwrap().process_id.is_some());
        }
        let cleaned = session.clean().await.unwrap();
        assert_eq!(cleaned.ended.len(), 25, "round {round}");
        assert!(cleaned.survivors.is_empty());
    }
    assert!(with_argument("8901.1").is_empty());
    let pid = stage.server.pid();
    assert!(until(Duration::from_secs(2), || zombies_of(pid).is_empty()).await, "{:?}", zombies_of(pid));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn o02_orphans_are_reaped_and_take_nobody_s_exit_code() {
    let stage = Stage::set().await;
    let session = &stage.session;
    let line = "(setsid bash -c 'sleep 0.2; exit 9' &) ; exit 4";
    let starts = (0..50).map(|_| {
        let session = session.clone();
        tokio::spawn(async move { session.sh(line).await })
    });
    for start in starts.collect::<Vec<_>>() {
        assert_eq!(code(&start.await.unwrap()), Some(4));
    }
    tokio::time::sleep(Duration::from_secs(1)).await;
    let pid = stage.server.pid();
    assert!(until(Duration::from_secs(1), || zombies_of(pid).is_empty()).await, "{:?}", zombies_of(pid));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn o04_descriptors_and_terminals_are_given_back() {
    let stage = Stage::set().await;
    let session = &stage.session;
    let terminals = || {
        let number = std::fs::read_to_string("/proc/sys/kernel/pty/nr").unwrap();
        number.trim().parse::<usize>().unwrap()
    };
    session.sh("true").await;
    let pid = stage.server.pid();
    let before = (descriptors(pid), terminals());
    let mut missing = session.line("true");
    missing.command.as_mut().unwrap().cwd = "/no/such/dir/qz".into();
    let long = vec!["/bin/true".into(), "x".repeat(131_072)];
    let long = session.request(long, Vec::new());
    for _ in 0..300 {
        let request = session.request(vec!["/bin/true".into()], Vec::new());
        assert_eq!(code(&session.run(on_terminal(request)).await.unwrap()), Some(0));
        for bad in [&missing, &long] {
            session.run(on_terminal(bad.clone())).await.unwrap_err();
        }
    }
    let back = || descriptors(pid) <= before.0 + 5 && terminals() <= before.1 + 5;
    let after = until(Duration::from_secs(3), back).await;
    assert!(after, "{before:?} before, {:?} after", (descriptors(pid), terminals()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c11_what_a_killed_service_leaves_ends_with_the_next_one() {
    let stage = Stage::set().await;
    let session = &stage.session;
    let line = "setsid sleep 8211.11 & exec sleep 8211.12";
    for request in [session.line(line), on_terminal(session.line(line))] {
        assert!(session.run(short(request)).await.unwrap().process_id.is_some());
    }
    assert_eq!(with_argument("8211.1").len(), 4);
    let Stage { server, _alone, .. } = stage;
    let runtime = server.kill().await;
    let next = Server::start_on(runtime).await;
    let gone = until(Duration::from_secs(5), || with_argument("8211.1").is_empty()).await;
    assert!(gone, "{:?}", with_argument("8211.1"));
    drop(next);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stopped_service_leaves_nothing() {
    let stage = Stage::set().await;
    let session = &stage.session;
    let line = "setsid sleep 8211.21 & exec sleep 8211.22";
    for request in [session.line(line), on_terminal(session.line(line))] {
        assert!(session.run(short(request)).await.unwrap().process_id.is_some());
    }
    let pid = rustix::process::Pid::from_raw(i32::try_from(stage.server.pid()).unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    let gone = until(Duration::from_secs(8), || with_argument("8211.2").is_empty()).await;
    assert!(gone, "{:?}", with_argument("8211.2"));
}
