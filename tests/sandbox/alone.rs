//! The fallback: Landlock and a filter without namespaces. It enforces what it can, and refuses the rest.

use unified_exec::core::policy::{Files, Network, Profile};
use unified_exec::core::spawn::{Mechanism, SpawnError, Stdio};
use unified_exec::host::ports::BackendState;
use unified_exec::spawn::{Layers, Options};

use crate::bench::Bench;

fn bench() -> Option<Bench> {
    let bench = Bench::with(Options { sandbox: Layers::LandlockOnly, ..Options::default() });
    let backends = bench.block_on(bench.spawner.backends());
    let landlock = backends.iter().find(|backend| backend.name == "landlock").unwrap();
    let version: u32 = landlock.version.parse().unwrap_or(0);
    if version < 6 {
        println!("not probed here: Landlock {version}");
        return None;
    }
    assert!(matches!(backends[0].state, BackendState::Unavailable { .. }), "{backends:?}");
    Some(bench)
}

#[test]
fn a_workspace_without_protected_paths_is_held() {
    let Some(bench) = bench() else { return };
    let profile = bench.workspace_protecting(&[]);
    let plan =
        bench.plan(&profile, &["bash", "-c", "echo text > file && cat file"], Stdio::Pipes { stdin: false });
    let (ended, enforced) = bench.try_run(plan).unwrap();
    assert_eq!(ended.succeeded(), "text\n");
    assert_eq!(enforced.mechanisms, [Mechanism::Seccomp, Mechanism::Landlock]);
    for line in ["echo x > ../beside/file", "echo x > /etc/file", "mkdir ../beside/x", "mv file ../beside/"] {
        bench.sh(&profile, line).denied(&["Permission denied", "cross-device"]);
    }
    for line in [
        format!("kill -0 {}", std::process::id()),
        format!("cat /proc/{}/environ", std::process::id()),
        "echo x > /dev/tcp/127.0.0.1/9".to_owned(),
        "unshare -rm true".to_owned(),
        "mknod disk b 8 0".to_owned(),
    ] {
        bench.sh(&profile, &line).denied(&["Operation not permitted", "Permission denied"]);
    }
    let sockets = "import socket; socket.socketpair(); socket.socket(socket.AF_UNIX)";
    bench.python(&profile, sockets).denied(&["PermissionError"]);
    let datagrams = "import socket; socket.socketpair(type=socket.SOCK_DGRAM)";
    bench.python(&profile, datagrams).denied(&["PermissionError"]);
    let read_only = Profile { files: Files::ReadOnly, ..profile };
    bench.sh(&read_only, "echo x > file").denied(&["Permission denied"]);
    bench.sh(&read_only, "echo x > /tmp/file").denied(&["Permission denied"]);
}

#[test]
fn what_needs_namespaces_is_refused_with_the_way_out() {
    let Some(bench) = bench() else { return };
    let plain = bench.workspace_protecting(&[]);
    for profile in [
        bench.workspace(),
        Profile { deny_read: vec!["/etc/passwd".to_owned()], ..plain.clone() },
        Profile { network: Network::Proxied { rules: Vec::new() }, ..plain },
    ] {
        let plan = bench.plan(&profile, &["true"], Stdio::Pipes { stdin: false });
        let refused = bench.try_run(plan).unwrap_err();
        let SpawnError::SandboxUnavailable { reason } = &refused else { panic!("{refused}") };
        assert!(reason.contains("install bubblewrap"), "{reason}");
    }
}

#[test]
fn the_services_own_directory_is_hidden_here_too() {
    let home = tempfile::tempdir_in("/var/tmp").unwrap();
    std::fs::write(home.path().join("token"), "the secret itself").unwrap();
    let options =
        Options { sandbox: Layers::LandlockOnly, hidden: vec![home.path().to_owned()], ..Options::default() };
    let bench = Bench::with(options);
    let profile = bench.workspace_protecting(&[]);
    let line = format!("cat {}/token", home.path().display());
    let plan = bench.plan(&profile, &["bash", "-c", &line], Stdio::Pipes { stdin: false });
    match bench.try_run(plan) {
        Ok((ended, _)) => drop(ended.denied(&["Permission denied"])),
        Err(error) => println!("not probed here: {error}"),
    }
}

#[test]
fn switched_off_everything_that_restricts_is_refused() {
    let bench = Bench::with(Options { sandbox: Layers::None, ..Options::default() });
    let plan = bench.plan(&bench.workspace(), &["true"], Stdio::Pipes { stdin: false });
    assert!(matches!(bench.try_run(plan).unwrap_err(), SpawnError::SandboxUnavailable { .. }));
    let free = bench.plan(&Profile::full_access(), &["true"], Stdio::Pipes { stdin: false });
    bench.try_run(free).unwrap().0.succeeded();
}

#[test]
fn what_works_is_told() {
    let bench = Bench::new();
    let backends = bench.block_on(bench.spawner.backends());
    let names: Vec<_> = backends.iter().map(|backend| backend.name).collect();
    assert_eq!(names, ["bubblewrap", "seccomp", "landlock"]);
    assert_eq!(backends[0].state, BackendState::Available, "{backends:?}");
    assert!(backends[0].version.starts_with(|first: char| first.is_ascii_digit()), "{backends:?}");
}
