//! The whole suite once more as an ordinary user, if it runs as root.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use crate::bench::{LAUNCHER_VARIABLE, is_root, launcher};

const USER: &str = "65534";
/// The name of the one test that must not start itself again.
const THIS: &str = "everything_holds_for_an_ordinary_user_too";

fn bring(from: &Path, to: &Path) {
    // Where the user cannot go, a copy can be.
    if fs::hard_link(from, to).is_err() {
        fs::copy(from, to).unwrap();
    }
    fs::set_permissions(to, fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn everything_holds_for_an_ordinary_user_too() {
    if !is_root() {
        return println!("not probed here: this is an ordinary user already");
    }
    let home = tempfile::tempdir_in("/var/tmp").unwrap();
    fs::set_permissions(home.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let (tests, uexec) = (home.path().join("tests"), home.path().join("uexec"));
    bring(&std::env::current_exe().unwrap(), &tests);
    bring(&launcher(), &uexec);
    let output = Command::new("setpriv")
        .args(["--reuid", USER, "--regid", USER, "--clear-groups"])
        .arg(tests)
        .args(["--skip", THIS, "--test-threads", "2"])
        .env(LAUNCHER_VARIABLE, uexec)
        .env("HOME", "/nonexistent")
        .current_dir("/")
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}\n{}", String::from_utf8_lossy(&output.stderr));
    assert!(!text.contains("running 0 tests"), "{text}");
    println!("{text}");
}
