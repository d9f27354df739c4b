//! Every way in which a start fails, told apart, with nothing left behind.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use unified_exec::core::command::EnvVar;
use unified_exec::core::process::ExitStatus;
use unified_exec::core::spawn::{SpawnError, SpawnPlan};

use crate::run::{Running, plan};
use crate::subject::{Subject, over_local};

over_local! {
    play,
    a_program_is_missing,
    a_program_may_not_be_executed,
    an_interpreter_is_missing,
    a_file_is_no_program,
    a_script_without_a_first_line_is_run_by_the_shell,
    a_working_directory_is_missing,
    a_working_directory_is_a_file,
    a_relative_program_starts_at_the_childs_directory,
    the_childs_own_path_is_searched,
    arguments_are_too_large,
    a_null_byte_is_refused,
}

fn write(path: &Path, text: &[u8], mode: u32) -> String {
    std::fs::write(path, text).unwrap();
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    path.to_str().unwrap().to_owned()
}

async fn fails(subject: &Subject, plan: SpawnPlan) -> SpawnError {
    match subject.spawner.spawn(plan).await {
        Ok(spawned) => panic!("it started: {spawned:?}"),
        Err(error) => error,
    }
}

fn of(subject: &Subject, program: &str) -> SpawnPlan {
    plan(&[program], subject.kind.stdio())
}

async fn a_program_is_missing(subject: Subject) {
    for program in ["no-such-program", "/no/such/program", "./no-such-program", "/etc/passwd/x"] {
        let missing = SpawnError::ProgramMissing { program: program.to_owned() };
        assert_eq!(fails(&subject, of(&subject, program)).await, missing);
    }
}

async fn a_program_may_not_be_executed(subject: Subject) {
    for program in ["/etc/passwd", "/etc", "/dev/null"] {
        let denied = SpawnError::ProgramDenied { program: program.to_owned() };
        assert_eq!(fails(&subject, of(&subject, program)).await, denied);
    }
}

async fn an_interpreter_is_missing(subject: Subject) {
    let folder = tempfile::tempdir().unwrap();
    let script = write(&folder.path().join("script"), b"#!/no/such/interpreter -x\necho hi\n", 0o755);
    let missing = SpawnError::InterpreterMissing {
        program: script.clone(),
        interpreter: "/no/such/interpreter".to_owned(),
    };
    assert_eq!(fails(&subject, of(&subject, &script)).await, missing);
}

async fn a_file_is_no_program(subject: Subject) {
    let folder = tempfile::tempdir().unwrap();
    let binary = write(&folder.path().join("binary"), b"MZ\0\x01\x02\n", 0o755);
    let format = SpawnError::ProgramFormat { program: binary.clone() };
    assert_eq!(fails(&subject, of(&subject, &binary)).await, format);
}

async fn a_script_without_a_first_line_is_run_by_the_shell(subject: Subject) {
    let folder = tempfile::tempdir().unwrap();
    let script = write(&folder.path().join("script"), b"echo \"$0 got $1\"; exit 9\n", 0o755);
    let plan = plan(&[&script, "this"], subject.kind.stdio());
    let seen = Running::new(subject.spawner.spawn(plan).await.unwrap()).ended().await;
    assert_eq!(seen.text().trim_end(), format!("{script} got this"));
    assert_eq!(seen.exited.unwrap().status, ExitStatus::Code(9));
}

async fn a_working_directory_is_missing(subject: Subject) {
    let plan = SpawnPlan { cwd: "/no/such/directory".to_owned(), ..of(&subject, "true") };
    let missing = SpawnError::CwdMissing { path: "/no/such/directory".to_owned() };
    assert_eq!(fails(&subject, plan).await, missing);
}

async fn a_working_directory_is_a_file(subject: Subject) {
    let plan = SpawnPlan { cwd: "/etc/passwd".to_owned(), ..of(&subject, "true") };
    let denied =
        SpawnError::CwdDenied { path: "/etc/passwd".to_owned(), reason: "Not a directory".to_owned() };
    assert_eq!(fails(&subject, plan).await, denied);
}

async fn a_relative_program_starts_at_the_childs_directory(subject: Subject) {
    let folder = tempfile::tempdir().unwrap();
    write(&folder.path().join("here"), b"#!/bin/sh\npwd\n", 0o755);
    let cwd = folder.path().canonicalize().unwrap().to_str().unwrap().to_owned();
    let plan = SpawnPlan { cwd: cwd.clone(), ..of(&subject, "./here") };
    let seen = Running::new(subject.spawner.spawn(plan).await.unwrap()).ended().await;
    assert_eq!(seen.text().trim_end(), cwd);
}

async fn the_childs_own_path_is_searched(subject: Subject) {
    let folder = tempfile::tempdir().unwrap();
    write(&folder.path().join("only-here"), b"#!/bin/sh\necho found\n", 0o755);
    let mut plan = of(&subject, "only-here");
    for var in std::sync::Arc::make_mut(&mut plan.env) {
        if var.name == "PATH" {
            *var = EnvVar::new("PATH", format!("/no/such:{}:/bin", folder.path().display()));
        }
    }
    let seen = Running::new(subject.spawner.spawn(plan).await.unwrap()).ended().await;
    assert_eq!(seen.text().trim_end(), "found");
}

async fn arguments_are_too_large(subject: Subject) {
    let fits = "x".repeat(131_071);
    let child =
        Running::new(subject.spawner.spawn(plan(&["true", &fits], subject.kind.stdio())).await.unwrap());
    assert_eq!(child.exited().await.status, ExitStatus::Code(0));
    let large = "x".repeat(131_072);
    match fails(&subject, plan(&["true", &large], subject.kind.stdio())).await {
        SpawnError::TooLarge { program, largest_bytes, size_bytes, limit_bytes } => {
            assert_eq!((program.as_str(), largest_bytes), ("true", 131_072));
            assert!(size_bytes > 131_072 && limit_bytes >= 131_072);
        }
        other => panic!("{other:?}"),
    }
    let many: Vec<&str> = std::iter::once("true").chain(std::iter::repeat_n(fits.as_str(), 100)).collect();
    match fails(&subject, plan(&many, subject.kind.stdio())).await {
        SpawnError::TooLarge { size_bytes, limit_bytes, .. } => assert!(size_bytes > limit_bytes),
        other => panic!("{other:?}"),
    }
}

async fn a_null_byte_is_refused(subject: Subject) {
    let error = fails(&subject, plan(&["true", "a\0b"], subject.kind.stdio())).await;
    assert!(matches!(error, SpawnError::System { action: "pass", .. }), "{error:?}");
}
