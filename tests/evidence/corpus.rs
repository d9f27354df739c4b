//! The corpus: every run is judged as its entry says.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use serde_json::Value;
use unified_exec::core::policy::{Files, Network, Profile};
use unified_exec::core::process::{Confidence, Ended, Evidence, ExitStatus};

/// Runs that the corpus has at least, of those that were denied and of those that merely fail.
const RUNS_MIN: usize = 60;

struct Run {
    id: String,
    profile: Profile,
    cwd: String,
    status: ExitStatus,
    output: String,
    expect: String,
    path: Option<String>,
}

fn profile(name: &str) -> Profile {
    let workspace = Profile {
        files: Files::WorkspaceWrite {
            writable_roots: vec!["/home/dev/project".into()],
            protected: vec![".git".into()],
        },
        network: Network::Off,
        deny_read: Vec::new(),
    };
    match name {
        "workspace" => workspace,
        "read_only" => Profile { files: Files::ReadOnly, ..workspace },
        "network" => Profile { network: Network::On, ..workspace },
        "deny_read" => Profile {
            deny_read: vec!["/home/dev/project/**/.env".into(), "/home/dev/project/keys".into()],
            ..workspace
        },
        other => panic!("no profile is called {other}"),
    }
}

fn runs() -> Vec<Run> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/evidence/corpus");
    let mut files: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let texts: Vec<String> = files.iter().map(|file| fs::read_to_string(file).unwrap()).collect();
    texts.iter().flat_map(|text| text.lines()).map(run).collect()
}

fn run(line: &str) -> Run {
    let entry: Value = serde_json::from_str(line).unwrap();
    let text = |key: &str| entry[key].as_str().unwrap_or_else(|| panic!("{key}: {line}")).to_owned();
    let status = match entry["signal"].as_i64() {
        Some(number) => ExitStatus::Signal { number: i32::try_from(number).unwrap(), core_dumped: false },
        None => ExitStatus::Code(i32::try_from(entry["exit"].as_i64().unwrap()).unwrap()),
    };
    Run {
        id: text("id"),
        profile: profile(&text("profile")),
        cwd: text("cwd"),
        status,
        output: text("output"),
        expect: text("expect"),
        path: entry["path"].as_str().map(str::to_owned),
    }
}

fn judge(run: &Run) -> (&'static str, Option<Evidence>) {
    let evidence = Evidence::of(&Ended {
        status: run.status,
        output: run.output.as_bytes(),
        profile: &run.profile,
        cwd: &run.cwd,
        early: true,
    });
    let name = match evidence.as_ref().map(|evidence| evidence.confidence) {
        None => "none",
        Some(Confidence::Likely) => "likely",
        Some(Confidence::Checked) => "checked",
        Some(Confidence::Certain) => "certain",
    };
    (name, evidence)
}

#[test]
fn every_run_is_judged_as_it_was() {
    let mut wrong = Vec::new();
    for run in runs() {
        let (found, evidence) = judge(&run);
        let path = evidence.as_ref().and_then(|evidence| evidence.path.clone());
        if found != run.expect || (run.path.is_some() && path != run.path) {
            wrong.push(format!("{}: {} {:?}, found {found}: {evidence:?}", run.id, run.expect, run.path));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn an_excerpt_is_a_piece_of_the_output() {
    for run in runs() {
        if let (_, Some(evidence)) = judge(&run) {
            assert!(run.output.contains(&evidence.excerpt), "{}: {}", run.id, evidence.excerpt);
        }
    }
}

#[test]
fn without_a_sandboxs_profile_only_words_are_left() {
    for mut run in runs() {
        run.profile = Profile::full_access();
        let (found, _) = judge(&run);
        assert_ne!(found, "checked", "{}: nothing is forbidden", run.id);
    }
}

#[test]
fn the_corpus_has_both_kinds_and_each_run_once() {
    let runs = runs();
    let ids: BTreeSet<&str> = runs.iter().map(|run| run.id.as_str()).collect();
    assert_eq!(ids.len(), runs.len(), "an id stands twice");
    let failing = runs.iter().filter(|run| run.expect == "none").count();
    assert!(failing >= RUNS_MIN && runs.len() - failing >= RUNS_MIN, "{failing} of {}", runs.len());
}
