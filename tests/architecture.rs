//! The import rules of `docs/architecture.md`, as a test: who may know whom, and what stands in one place only.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test")]

use std::fs;
use std::path::{Path, PathBuf};

/// A folder and what its code must not mention, with the reason that a failure shows.
struct Rule {
    folder: &'static str,
    forbidden: &'static [&'static str],
    reason: &'static str,
}

const RULES: &[Rule] = &[
    Rule {
        folder: "src/core",
        forbidden: &[
            "tokio",
            "tonic",
            "prost",
            "rustix",
            "nix::",
            "libc",
            "rand::",
            "serde",
            "futures",
            "crate::host",
            "crate::spawn",
            "crate::proxy",
            "crate::grpc",
            "crate::cli",
            "crate::config",
            "std::env",
            "std::fs",
            "std::process",
            "std::thread",
            "std::net",
            "std::sync::Mutex",
            "std::time::Instant",
            "SystemTime",
            "HashMap",
            "HashSet",
            "async fn",
            ".await",
        ],
        reason: "the core decides and never acts: no runtime, clock, environment, file system or randomness",
    },
    Rule {
        folder: "src/host",
        forbidden: &[
            "tonic",
            "prost",
            "rustix",
            "nix::",
            "libc",
            "crate::grpc",
            "crate::spawn",
            "crate::proxy",
            "crate::cli",
            "crate::config",
        ],
        reason: "the host knows the core and tokio; how children start is behind its ports",
    },
    Rule {
        folder: "src/spawn",
        forbidden: &[
            "tonic",
            "prost",
            "crate::grpc",
            "crate::proxy",
            "crate::cli",
            "crate::config",
            "core::session",
        ],
        reason: "adapters know the ports and the plan, not who asked",
    },
    Rule {
        folder: "src/audit",
        forbidden: &["tonic", "crate::grpc", "crate::spawn", "crate::proxy", "crate::cli", "crate::config"],
        reason: "the record is told what happened, and knows nobody who makes it happen",
    },
    Rule {
        folder: "src/telemetry",
        forbidden: &[
            "crate::spawn",
            "crate::proxy",
            "crate::rules",
            "crate::audit",
            "crate::cli",
            "crate::config",
        ],
        reason: "telemetry sees what goes into sessions and calls and what comes out, and is asked by nobody",
    },
    Rule {
        folder: "src/proxy",
        forbidden: &[
            "tonic",
            "prost",
            "crate::grpc",
            "crate::cli",
            "crate::spawn",
            "crate::config",
            "core::session",
            "core::approval",
        ],
        reason: "the proxy carries bytes as far as a gate opens; who asks whom is behind the gate",
    },
    Rule {
        folder: "src/grpc",
        forbidden: &["crate::spawn", "crate::proxy", "crate::cli"],
        reason: "the edge translates; it never sees how children start",
    },
    Rule {
        folder: "src/rules",
        forbidden: &[
            "tonic",
            "prost",
            "std::env",
            "std::process",
            "crate::grpc",
            "crate::spawn",
            "crate::cli",
            "crate::config",
            "core::session",
        ],
        reason: "rules know files, words and the port that they answer, not who asks or what is started",
    },
    Rule {
        folder: "src/config",
        forbidden: &["crate::cli", "tonic"],
        reason: "nobody depends on the command line",
    },
];

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn sources(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let entries = fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    for entry in entries {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(sources(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
    found.sort();
    found
}

/// Lines of product code: without comments, and without the tests at the end of a file.
fn code(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.lines()
        .enumerate()
        .take_while(|(_, line)| line.trim() != "#[cfg(test)]" || !line.starts_with('#'))
        .map(|(at, line)| (at + 1, line.split("//").next().unwrap_or("")))
}

fn is_test(path: &Path) -> bool {
    path.components().any(|part| part.as_os_str() == "tests")
        || path.file_name().is_some_and(|name| name == "tests.rs")
}

fn violations(text: &str, forbidden: &[&str]) -> Vec<(usize, String)> {
    code(text)
        .flat_map(|(at, line)| {
            forbidden
                .iter()
                .filter(move |word| line.contains(**word))
                .map(move |word| (at, (*word).to_owned()))
        })
        .collect()
}

#[test]
fn no_folder_knows_what_it_must_not() {
    let mut failures = Vec::new();
    for rule in RULES {
        for path in sources(&root().join(rule.folder)).iter().filter(|path| !is_test(path)) {
            let text = fs::read_to_string(path).unwrap();
            for (line, word) in violations(&text, rule.forbidden) {
                failures.push(format!("{}:{line} mentions `{word}`: {}", path.display(), rule.reason));
            }
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn a_planted_violation_is_found() {
    let text = "use tokio::sync::mpsc; // fine words\nlet x = 1; // tonic only in a comment\n#[cfg(test)]\nuse prost;\n";
    assert_eq!(violations(text, &["tokio", "tonic", "prost"]), [(1, "tokio".to_owned())]);
}

#[test]
fn nobody_depends_on_the_command_line() {
    for path in sources(&root().join("src")) {
        let inside = path.components().any(|part| part.as_os_str() == "cli");
        if inside || path.ends_with("main.rs") {
            continue;
        }
        let text = fs::read_to_string(&path).unwrap();
        assert!(violations(&text, &["crate::cli"]).is_empty(), "{} uses the command line", path.display());
    }
}

#[test]
fn unsafe_code_stands_in_one_file() {
    for path in sources(&root().join("src")) {
        let text = fs::read_to_string(&path).unwrap();
        let uses = code(&text).any(|(_, line)| line.contains("unsafe ") || line.contains("unsafe{"));
        assert!(!uses || path.ends_with("spawn/unix.rs"), "{} has unsafe code", path.display());
    }
}

#[test]
fn statuses_are_made_in_one_file() {
    let makers = [
        "Status::new",
        "Status::with_",
        "Status::invalid_argument",
        "Status::not_found",
        "Status::internal",
        "Status::unimplemented",
        "Status::unavailable",
        "Status::permission_denied",
        "Status::unauthenticated",
        "Status::failed_precondition",
        "Status::resource_exhausted",
        "Status::deadline_exceeded",
        "Status::aborted",
    ];
    for path in sources(&root().join("src/grpc")).iter().filter(|path| !is_test(path)) {
        if path.ends_with("status.rs") || path.components().any(|part| part.as_os_str() == "status") {
            continue;
        }
        let text = fs::read_to_string(path).unwrap();
        let found = violations(&text, &makers);
        assert!(found.is_empty(), "{}:{found:?}: errors become statuses in grpc/status.rs", path.display());
    }
}

#[test]
fn every_module_says_what_it_is() {
    for path in sources(&root().join("src")).iter().filter(|path| !is_test(path)) {
        let text = fs::read_to_string(path).unwrap();
        assert!(text.starts_with("//!"), "{} has no module page", path.display());
    }
}

#[test]
fn nothing_unfinished_lands() {
    let marks = [
        concat!("todo", "!("),
        concat!("unimplemented", "!("),
        concat!("#[", "ignore"),
        concat!("FIX", "ME"),
        concat!("XX", "X"),
    ];
    for folder in ["src", "sim", "tests", "benches"] {
        let folder = root().join(folder);
        for path in if folder.exists() { sources(&folder) } else { Vec::new() } {
            let text = fs::read_to_string(&path).unwrap();
            for mark in marks {
                assert!(!text.contains(mark), "{} has {mark}", path.display());
            }
        }
    }
}
