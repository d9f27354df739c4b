//! What may be read and written, and every way around it that we know of.

use std::fs;
use std::os::unix::fs::symlink;

use unified_exec::core::policy::{Files, Network, Profile};
use unified_exec::core::spawn::{Mechanism, SpawnError, Stdio};
use unified_exec::spawn::Options;

use crate::bench::{Bench, is_root};

const READ_ONLY: &[&str] = &["Read-only file system", "Permission denied"];
/// Root sees a hidden directory as an empty one.
const HIDDEN: &[&str] = &["Permission denied", "No such file"];
const SECRET: &str = "the secret itself";

#[test]
fn a_workspace_is_written_and_nothing_else() {
    let bench = Bench::new();
    bench
        .sh(&bench.workspace(), "echo text > file && mkdir -p a/b && mv file a/b/ && cat a/b/file")
        .succeeded();
    assert_eq!(fs::read_to_string(bench.path("ws/a/b/file")).unwrap(), "text\n");
    let beside = bench.path("beside");
    for line in [
        format!("echo x > {}/file", beside.display()),
        format!("mkdir {}/directory", beside.display()),
        "echo x > ../file".to_owned(),
        "echo x > /etc/file".to_owned(),
        "echo x > /usr/file".to_owned(),
        "echo x > /var/tmp/file".to_owned(),
        format!("ln -s {}/file link && echo x > link", beside.display()),
        format!("echo x > /proc/self/root{}/file", beside.display()),
        format!("echo x > /proc/1/root{}/file", beside.display()),
        format!("chmod 777 {}", beside.display()),
        format!("mv {} ../moved", bench.ws().display()),
    ] {
        bench.sh(&bench.workspace(), &line).denied(READ_ONLY);
    }
    assert_eq!(fs::read_dir(beside).unwrap().count(), 0);
}

#[test]
fn nothing_is_written_read_only_but_the_private_tmp() {
    let bench = Bench::new();
    let profile = Profile { files: Files::ReadOnly, ..bench.workspace() };
    bench.sh(&profile, "echo x > file").denied(READ_ONLY);
    let name = format!("/tmp/of-{}", std::process::id());
    bench.sh(&profile, &format!("echo x > {name} && cat {name}")).succeeded();
    assert!(!fs::exists(&name).unwrap(), "the private directory is not the system's");
}

#[test]
fn a_root_below_tmp_is_seen_and_nothing_beside_it() {
    let bench = Bench::within(std::env::temp_dir().as_path(), Options::default());
    let other = bench.write("beside/file", SECRET);
    bench.sh(&bench.workspace(), "echo text > file").succeeded();
    assert!(bench.path("ws/file").exists());
    bench.sh(&bench.workspace(), &format!("cat {}", other.display())).denied(&["No such file"]);
}

#[test]
fn a_root_that_is_a_link_is_where_it_leads() {
    let bench = Bench::new();
    symlink(bench.ws(), bench.path("link")).unwrap();
    let files = Files::WorkspaceWrite {
        writable_roots: vec![bench.path("link").display().to_string()],
        protected: vec![".git".to_owned()],
    };
    let profile = Profile { files, ..bench.workspace() };
    bench.sh(&profile, "echo x > ../link/file").succeeded();
    assert!(bench.path("ws/file").exists());
    bench.sh(&profile, "mkdir .git").denied(&["File exists"]);
}

#[test]
fn what_is_protected_stays_as_it_is() {
    let bench = Bench::new();
    bench.write("ws/.git/config", "mine");
    bench.write("ws/sub/keep/file", "mine");
    let profile = bench.workspace_protecting(&[".git", "sub/keep"]);
    for line in [
        "echo x > .git/config",
        "echo x > .git/new",
        "rm .git/config",
        "ln -s .git link && echo x > link/config",
        "mkdir other; echo evil > other/config; mv -T other .git",
        "mv .git gone",
        "rm -rf .git",
        "chmod 777 .git",
        "echo x > sub/keep/file",
        "mv sub gone && mkdir -p sub/keep && echo x > sub/keep/file",
        "mv sub/keep sub/gone",
    ] {
        bench.sh(&profile, line).denied(&["Read-only", "Permission denied", "Device or resource busy"]);
    }
    bench.sh(&profile, "ln .git/config hard && echo x > hard").denied(&["cross-device", "Read-only"]);
    assert_eq!(fs::read_to_string(bench.path("ws/.git/config")).unwrap(), "mine");
    assert_eq!(fs::read_to_string(bench.path("ws/sub/keep/file")).unwrap(), "mine");
    bench.sh(&profile, "echo x > sub/other").succeeded();
}

#[test]
fn what_is_protected_and_missing_cannot_be_made_and_leaves_nothing() {
    let bench = Bench::new();
    let profile = bench.workspace_protecting(&[".git", "a/b"]);
    for line in [
        "mkdir .git/hooks",
        "git init -q .",
        "echo x > .git/config",
        "rmdir .git && mkdir .git && echo x > .git/config",
        "mkdir other; mv -T other .git",
        "ln -sfT /etc .git",
        "echo x > a/b/file",
        "rm -rf a; mkdir -p a/b; echo x > a/b/file",
        "mv a c",
    ] {
        bench.sh(&profile, line).denied(&[
            "Read-only",
            "Permission denied",
            "busy",
            "File exists",
            "cannot overwrite",
        ]);
    }
    for name in ["ws/.git", "ws/a"] {
        assert!(!bench.path(name).exists(), "{name} is left");
    }
}

#[test]
fn a_missing_path_stays_protected_while_another_child_ends() {
    let bench = Bench::new();
    let profile = bench.workspace();
    let line = "echo up; read; mkdir .git/hooks";
    let plan = bench.plan(&profile, &["bash", "-c", line], Stdio::Pipes { stdin: true });
    bench.block_on(async {
        let mut first = crate::run::Running::new(bench.start(plan).await.unwrap());
        first.says("up").await;
        let second = bench.plan(&profile, &["true"], Stdio::Pipes { stdin: false });
        let second = crate::run::Running::new(bench.start(second).await.unwrap());
        second.ended().await;
        crate::run::soon("the tree", second.control().tree_gone()).await;
        first.write(b"\n").await.unwrap();
        assert_ne!(first.ended().await.exited.unwrap().status.shell_code(), 0);
    });
}

#[test]
fn a_protected_link_is_refused() {
    let bench = Bench::new();
    symlink("/etc", bench.path("ws/.git")).unwrap();
    let plan = bench.plan(&bench.workspace(), &["true"], Stdio::Pipes { stdin: false });
    let refused = bench.try_run(plan).unwrap_err();
    assert!(matches!(refused, SpawnError::SandboxUnavailable { .. }), "{refused}");
}

fn denying(bench: &Bench, patterns: &[&str]) -> Profile {
    let deny_read = patterns.iter().map(|pattern| bench.path(pattern).display().to_string()).collect();
    Profile { deny_read, ..bench.workspace_protecting(&[]) }
}

#[test]
fn what_must_not_be_read_is_not_read_in_any_way() {
    let bench = Bench::new();
    bench.write("ws/conf/.env", SECRET);
    bench.write("beside/keys/id", SECRET);
    symlink("conf/.env", bench.path("ws/link")).unwrap();
    let profile = denying(&bench, &["ws/**/.env", "beside/keys"]);
    let keys = bench.path("beside/keys/id").display().to_string();
    let env = bench.path("ws/conf/.env").display().to_string();
    for line in [
        "cat conf/.env".to_owned(),
        "cat link".to_owned(),
        "ln -s conf/.env mine && cat mine".to_owned(),
        "ln conf/.env hard && cat hard".to_owned(),
        "cp conf/.env copy".to_owned(),
        "mv conf/.env moved && cat moved".to_owned(),
        "mv conf moved && cat moved/.env".to_owned(),
        format!("cat /proc/self/root{env}"),
        format!("cat /proc/1/root{env}"),
        format!("cat /proc/self/cwd/conf/.env /proc/1/cwd{env}"),
        "umount conf/.env && cat conf/.env".to_owned(),
        "unshare -rm sh -c 'umount conf/.env; cat conf/.env'".to_owned(),
        "unshare -m sh -c 'umount -l conf/.env; cat conf/.env'".to_owned(),
        "mkdir m; mount --bind . m && cat m/conf/.env".to_owned(),
        format!("cat {keys}"),
        format!("ls {} && cat {keys}", bench.path("beside/keys").display()),
        format!("cat /proc/self/root{keys}"),
        format!("chmod 777 {} && cat {keys}", bench.path("beside/keys").display()),
    ] {
        let ended = bench.sh(&profile, &line);
        assert!(!ended.text.contains(SECRET), "{line}: {}", ended.text);
        ended.denied(&[
            "Permission denied",
            "No such file",
            "Operation not permitted",
            "busy",
            "cross-device",
            "Read-only",
            "must be superuser",
            "not mounted",
            "permission denied",
        ]);
        // Some of these move the parent; put it back for the next.
        let moved = bench.path("ws/moved");
        if moved.is_dir() {
            fs::rename(moved, bench.path("ws/conf")).unwrap();
        }
    }
    assert_eq!(fs::read_to_string(bench.path("ws/conf/.env")).unwrap(), SECRET);
}

#[test]
fn a_file_with_another_name_is_hidden_under_both_or_refused() {
    let bench = Bench::new();
    let secret = bench.write("ws/.env", SECRET);
    fs::hard_link(&secret, bench.path("ws/earlier")).unwrap();
    let profile = denying(&bench, &["ws/.env"]);
    bench.sh(&profile, "cat .env").denied(HIDDEN);
    bench.sh(&profile, "cat earlier").denied(HIDDEN);

    fs::hard_link(&secret, bench.path("beside/outside")).unwrap();
    let plan = bench.plan(&profile, &["true"], Stdio::Pipes { stdin: false });
    let refused = bench.try_run(plan).unwrap_err();
    assert!(refused.to_string().contains("hard links"), "{refused}");
}

#[test]
fn a_child_left_over_from_before_shows_nothing() {
    let bench = Bench::new();
    bench.write("ws/.env", SECRET);
    let open = bench.plan(
        &Profile::full_access(),
        &["sh", "-c", "exec 7< .env; echo up; exec sleep 1000"],
        Stdio::Pipes { stdin: false },
    );
    bench.block_on(async {
        let before = crate::run::Running::new(bench.start(open).await.unwrap());
        before.says("up").await;
        let line =
            format!("cat /proc/{0}/root{1}/.env /proc/{0}/fd/7", before.pid.unwrap(), bench.ws().display());
        let plan =
            bench.plan(&denying(&bench, &["ws/.env"]), &["sh", "-c", &line], Stdio::Pipes { stdin: false });
        let after = crate::run::Running::new(bench.start(plan).await.unwrap()).ended().await;
        assert!(!after.text().contains(SECRET), "{}", after.text());
        assert_ne!(after.exited.unwrap().status.shell_code(), 0);
    });
}

#[test]
fn full_access_still_hides_what_must_not_be_read() {
    let bench = Bench::new();
    let secret = bench.write("beside/keys/id", SECRET);
    let profile = Profile {
        deny_read: vec![bench.path("beside/keys").display().to_string()],
        ..Profile::full_access()
    };
    bench.sh(&profile, &format!("cat {}", secret.display())).denied(HIDDEN);
    bench.sh(&profile, "echo x > ../beside/file").succeeded();
    assert!(bench.path("beside/file").exists());
}

#[test]
fn the_services_own_directory_is_hidden() {
    let home = tempfile::tempdir_in("/var/tmp").unwrap();
    fs::write(home.path().join("token"), SECRET).unwrap();
    let bench = Bench::with(Options { hidden: vec![home.path().to_owned()], ..Options::default() });
    for files in [Files::ReadOnly, Files::FullAccess] {
        let profile = Profile { files, network: Network::Off, deny_read: Vec::new() };
        bench.sh(&profile, &format!("cat {}/token", home.path().display())).denied(HIDDEN);
    }
}

#[test]
fn a_hidden_directory_tells_an_ordinary_user_so() {
    let bench = Bench::new();
    bench.write("beside/keys/id", SECRET);
    let ended = bench.sh(&denying(&bench, &["beside/keys"]), "ls -A ../beside/keys");
    if is_root() {
        assert_eq!(ended.succeeded(), "", "root sees nothing in it");
    } else {
        ended.denied(&["Permission denied"]);
    }
}

#[test]
fn root_writes_what_others_own_in_a_workspace() {
    if !is_root() {
        return println!("not probed here: only root writes the files of others");
    }
    let bench = Bench::new();
    let file = bench.write("ws/theirs", "");
    std::os::unix::fs::chown(&file, Some(65534), Some(65534)).unwrap();
    fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    bench.sh(&bench.workspace(), "echo text > theirs && cat theirs").succeeded();
}

#[test]
fn the_kernels_switches_are_out_of_reach() {
    let bench = Bench::new();
    for line in [
        // What it is already, so that nothing breaks if this fails.
        "cat /proc/sys/kernel/core_pattern > /tmp/was && cat /tmp/was > /proc/sys/kernel/core_pattern",
        "echo h > /proc/sysrq-trigger",
        "echo 1 > /sys/kernel/uevent_helper",
        "mknod disk b 8 0",
        "/usr/sbin/chroot / true",
    ] {
        bench.sh(&bench.workspace(), line).denied(&[
            "Read-only",
            "Permission denied",
            "Operation not permitted",
            "No such file",
        ]);
    }
}

#[test]
fn what_holds_the_child_is_told() {
    let bench = Bench::new();
    let plan = bench.plan(&bench.workspace(), &["true"], Stdio::Pipes { stdin: false });
    let (_, enforced) = bench.try_run(plan).unwrap();
    assert_eq!(enforced.mechanisms[..2], [Mechanism::Bubblewrap, Mechanism::Seccomp]);
}
