//! The field cases: failures that people reported for systems like ours, played over gRPC against the real server.
//!
//! `open.jsonl` are the cases as they were handed to us, `ours.jsonl` more of the same kind. Every case gets a session
//! and a directory of its own and is played step by step ([`play`]); what its programs wrote and how they ended is
//! compared with what the case expects ([`expect`]), and what only a service can tell with its `service_expect`
//! ([`facts`]). What a script cannot say stands in [`service`].
//!
//! `CASE=A02,E09 cargo test --test cases field_cases -- --nocapture` plays some of them; `OVERLAY=1` plays them with the
//! environment that the service gives by default instead of the bare one; `AS_NOBODY=1` plays them all, as root, against a
//! server that runs as nobody. Cases for a user that is not root are always played so.

#![expect(
    clippy::disallowed_methods,
    reason = "tests start the server and shell lines themselves, and measure real time"
)]
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test ends with a panic")]

mod case;
mod client;
mod expect;
mod facts;
mod play;
mod process;
mod procfs;
mod refusal;
mod server;
mod service;
mod skip;

use std::fmt::Write as _;
use std::time::Instant;

use case::Case;
use play::Room;
use server::Server;

/// One test at a time: the marks by which processes are found are global, and times are measured.
static ALONE: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn field_cases() {
    play_all(include_str!("open.jsonl"), Room::Open).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn our_cases() {
    play_all(include_str!("ours.jsonl"), Room::Open).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn field_cases_in_a_sandbox() {
    play_all(include_str!("open.jsonl"), Room::Confined).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn our_cases_in_a_sandbox() {
    play_all(include_str!("ours.jsonl"), Room::Confined).await;
}

async fn play_all(lines: &str, room: Room) {
    let _alone = ALONE.lock().await;
    let only = std::env::var("CASE").ok();
    let wanted = |id: &str| only.as_ref().is_none_or(|only| only.split(',').any(|name| name == id));
    let everything_as_nobody = std::env::var_os("AS_NOBODY").is_some();
    let mut servers = Servers::default();
    let mut failed = String::new();
    let (mut passed, mut skipped) = (0, 0);
    for case in lines.lines().map(Case::parse).filter(|case| wanted(&case.id)) {
        if case.room == "sandboxed" && room == Room::Open {
            continue;
        }
        let ordinary = everything_as_nobody || skip::needs_ordinary_user(&case.id, room);
        let user = if ordinary { "nonroot" } else { case.user.as_str() };
        let server = match (skip::reason(&case.id, room), servers.of(user).await) {
            (None, Ok(server)) => server,
            (Some(reason), _) | (None, Err(reason)) => {
                println!("skip {} {}: {reason}", case.id, case.title);
                skipped += 1;
                continue;
            }
        };
        let begin = Instant::now();
        let result = play::repeatedly(server, &case, room).await;
        let seconds = begin.elapsed().as_secs_f64();
        match result {
            Ok(()) => {
                println!("ok   {} {seconds:.1}s {}", case.id, case.title);
                passed += 1;
            }
            Err(problem) => {
                println!("FAIL {} {seconds:.1}s {}: {problem}", case.id, case.title);
                let _ = writeln!(failed, "{}: {problem}", case.id);
                if let Some(lost) = servers.lost() {
                    panic!("{}: {lost}", case.id);
                }
            }
        }
    }
    println!("{passed} passed, {} failed, {skipped} skipped", failed.lines().count());
    assert!(failed.is_empty(), "failed cases:\n{failed}");
}

/// A server of our own user and, if that is root, one of nobody; started when first needed.
#[derive(Debug, Default)]
struct Servers {
    own: Option<Server>,
    nobody: Option<Server>,
}

impl Servers {
    fn lost(&mut self) -> Option<String> {
        [&mut self.own, &mut self.nobody].into_iter().flatten().find_map(Server::lost)
    }

    async fn of(&mut self, user: &str) -> Result<&Server, &'static str> {
        let root = rustix::process::geteuid().is_root();
        let (slot, nobody) = match (user, root) {
            ("root", false) => return Err("needs root"),
            ("nonroot", true) => (&mut self.nobody, true),
            _ => (&mut self.own, false),
        };
        if slot.is_none() {
            *slot = Some(if nobody { Server::start_as_nobody().await } else { Server::start().await });
        }
        slot.as_ref().ok_or("no server")
    }
}
