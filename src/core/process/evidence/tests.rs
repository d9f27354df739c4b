use super::*;
use crate::core::policy::{Files, Network};

fn profile() -> Profile {
    Profile {
        files: Files::WorkspaceWrite { writable_roots: vec!["/w".into()], protected: vec![".git".into()] },
        network: Network::Off,
        deny_read: vec!["/w/.env".into()],
    }
}

fn of(code: i32, output: &str) -> Option<(Confidence, Option<String>)> {
    let profile = profile();
    let ended = Ended {
        status: ExitStatus::Code(code),
        output: output.as_bytes(),
        profile: &profile,
        cwd: "/w",
        early: true,
    };
    Evidence::of(&ended).map(|evidence| (evidence.confidence, evidence.path))
}

const LIKELY: Option<(Confidence, Option<String>)> = Some((Confidence::Likely, None));

fn checked(path: &str) -> Option<(Confidence, Option<String>)> {
    Some((Confidence::Checked, Some(path.to_owned())))
}

#[test]
fn words_alone_are_likely_whatever_their_case() {
    for text in ["Operation not permitted", "PERMISSION DENIED", "it failed: read-only file system\n"] {
        assert_eq!(of(1, text), LIKELY, "{text}");
    }
}

#[test]
fn a_sandboxs_name_is_no_evidence() {
    for code in [1, 2, 126, 127] {
        assert_eq!(of(code, "sandbox seccomp landlock: failed to write file"), None, "{code}");
    }
}

#[test]
fn usage_and_start_codes_count_only_with_words() {
    for code in [2, 126, 127] {
        assert_eq!(of(code, "no such thing"), None);
        assert_eq!(of(code, "sh: 1: cannot create /etc/x: Permission denied"), checked("/etc/x"));
    }
    assert_eq!(
        of(126, "bash: line 1: /etc/hosts: Permission denied"),
        None,
        "a file without the execute bit"
    );
}

#[test]
fn the_code_of_sigsys_is_likely_and_words_about_a_forbidden_path_are_more() {
    assert_eq!(of(159, ""), LIKELY);
    assert_eq!(of(159, "touch: cannot touch '/etc/x': Permission denied"), checked("/etc/x"));
}

#[test]
fn the_strongest_line_wins() {
    let output = "kill: (1) - Operation not permitted\ncat: a: Permission denied\nrm: cannot remove '/etc/x': Permission denied\n";
    assert_eq!(of(1, output), checked("/etc/x"));
    assert_eq!(of(1, "cat: a: Permission denied\nkill: (1) - Operation not permitted\n"), LIKELY);
}

#[test]
fn a_summary_without_a_path_is_explained_by_the_path_before_it() {
    assert_eq!(of(1, "cat: a.txt: Permission denied\nError: Permission denied\n"), None);
    let far = format!("cat: a.txt: Permission denied\n{}Error: Permission denied\n", "working\n".repeat(40));
    assert_eq!(of(1, &far), LIKELY);
}

#[test]
fn a_chain_of_causes_is_about_the_path_that_it_begins_with() {
    let chain = |path: &str| {
        format!("error: failed to open `{path}`\n\nCaused by:\n  Permission denied (os error 13)\n")
    };
    assert_eq!(of(101, &chain("/opt/t/lock")), checked("/opt/t/lock"));
    assert_eq!(of(101, &chain("/w/target/lock")), None);
}

#[test]
fn detours_lead_to_the_same_path() {
    for path in ["/proc/self/root/w/.env", "/proc/1/root/proc/self/cwd/.env", "sub/../.env", "/w//./.env"] {
        assert_eq!(of(1, &format!("cat: {path}: Permission denied")), checked("/w/.env"), "{path}");
    }
}

#[test]
fn a_login_and_a_server_refuse_for_themselves() {
    for text in [
        "git@github.com: Permission denied (publickey).",
        "dev@1.1.1.1: Permission denied (publickey,password).",
        "Permission denied, please try again.",
        "rpc error: code = PermissionDenied desc = permission denied",
        "HTTP 403: permission denied",
    ] {
        assert_eq!(of(1, text), None, "{text}");
    }
}

#[test]
fn an_open_network_makes_nothing_of_its_errors() {
    let profile = Profile { network: Network::On, ..profile() };
    for output in
        ["curl: (6) Could not resolve host: example.com", "OSError: [Errno 101] Network is unreachable"]
    {
        let ended = Ended {
            status: ExitStatus::Code(1),
            output: output.as_bytes(),
            profile: &profile,
            cwd: "/w",
            early: false,
        };
        assert_eq!(Evidence::of(&ended), None, "{output}");
    }
}

#[test]
fn colours_do_not_hide_a_path() {
    let output = "\u{1b}[31merror\u{1b}[0m: cannot create '\u{1b}[1m/etc/x\u{1b}[0m': Permission denied\r\n";
    assert_eq!(of(1, output), checked("/etc/x"));
}

#[test]
fn only_the_wait_status_is_certain() {
    let profile = profile();
    let of = |number| {
        let status = ExitStatus::Signal { number, core_dumped: false };
        Evidence::of(&Ended {
            status,
            output: b"touch: cannot touch '/etc/x': Permission denied",
            profile: &profile,
            cwd: "/w",
            early: false,
        })
    };
    assert_eq!(
        of(31).map(|evidence| (evidence.confidence, evidence.cause)),
        Some((Confidence::Certain, Cause::Sigsys))
    );
    assert_eq!(of(6), None);
}

#[test]
fn a_working_directory_below_tmp_is_read_only_though_tmp_is_not() {
    let at = |files: Files, output: &str| {
        let profile = Profile { files, network: Network::Off, deny_read: Vec::new() };
        let ended = Ended {
            status: ExitStatus::Code(1),
            output: output.as_bytes(),
            profile: &profile,
            cwd: "/tmp/project",
            early: true,
        };
        Evidence::of(&ended).map(|evidence| (evidence.confidence, evidence.path))
    };
    let inside = "touch: cannot touch 'note': Read-only file system";
    assert_eq!(at(Files::ReadOnly, inside), checked("/tmp/project/note"));
    let absolute = "touch: cannot touch '/tmp/project/note': Read-only file system";
    assert_eq!(at(Files::ReadOnly, absolute), checked("/tmp/project/note"));
    let own = "touch: cannot touch '/tmp/other': Permission denied";
    assert_eq!(at(Files::ReadOnly, own), None);
    let writable =
        |root: &str| Files::WorkspaceWrite { writable_roots: vec![root.into()], protected: vec![] };
    assert_eq!(at(writable("/w"), absolute), checked("/tmp/project/note"));
    for root in ["/tmp/project", "/tmp"] {
        assert_eq!(at(writable(root), "rm: cannot remove '/tmp/project/note': Permission denied"), None);
    }
}
