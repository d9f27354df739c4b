//! Landlock and a filter alone, as on a machine without namespaces: what they cannot hold is refused.

use unified_exec::core::policy::{Files, Network, Profile};
use unified_exec::core::spawn::{Mechanism, SpawnError, Stdio};
use unified_exec::spawn::{Layers, Options};

use crate::bench::Bench;

fn bench() -> Bench {
    Bench::with(Options { sandbox: Layers::LandlockOnly, ..Options::default() })
}

fn refused(bench: &Bench, profile: &Profile) -> String {
    let plan = bench.plan(profile, &["true"], Stdio::Pipes { stdin: false });
    match bench.try_run(plan) {
        Err(SpawnError::SandboxUnavailable { reason }) => reason,
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_needs_namespaces_is_refused_with_the_way_out() {
    let bench = bench();
    for profile in [
        bench.workspace(),
        Profile { deny_read: vec!["/etc/shadow".into()], ..bench.workspace_protecting(&[]) },
        Profile { network: Network::Proxied { rules: Vec::new() }, ..bench.workspace_protecting(&[]) },
    ] {
        let reason = refused(&bench, &profile);
        assert!(reason.contains("bubblewrap"), "{reason}");
    }
}

#[test]
fn what_they_can_hold_they_hold() {
    let bench = bench();
    let profile = bench.workspace_protecting(&[]);
    let plan =
        bench.plan(&profile, &["bash", "-c", "echo x > file && cat file"], Stdio::Pipes { stdin: false });
    let (ended, enforced) = match bench.try_run(plan) {
        Ok(done) => done,
        Err(error) => return println!("not probed here: {error}"),
    };
    ended.succeeded();
    assert_eq!(enforced.mechanisms, [Mechanism::Seccomp, Mechanism::Landlock]);
    bench.sh(&profile, "echo x > ../beside/file").denied(&["Permission denied"]);
    bench.sh(&profile, "echo x > /etc/file").denied(&["Permission denied"]);
    let read_only = Profile { files: Files::ReadOnly, ..profile.clone() };
    bench.sh(&read_only, "echo x > file").denied(&["Permission denied"]);
    let code = "import socket; socket.create_connection(('127.0.0.1', 1), 2)";
    bench.python(&profile, code).denied(&["not permitted", "Permission denied"]);
}

#[test]
fn switched_off_means_refused() {
    let bench = Bench::with(Options { sandbox: Layers::None, ..Options::default() });
    assert!(refused(&bench, &bench.workspace()).contains("switched off"));
}
