//! `uexec doctor`: what this machine can enforce, tried for real, without a server. It starts one within this process,
//! asks it what it can do, and has it run one command with the rights that sessions get that ask for nothing.

use std::fmt::Write as _;
use std::path::PathBuf;

use serde_json::json;

use crate::cli::args::Global;
use crate::cli::connect::Client;
use crate::cli::embedded::Embedded;
use crate::cli::failure::Failure;
use crate::cli::{compose, exit, json, output, words};
use crate::config::{Approval, Config};
use crate::core::spawn::LimitMechanism;
use crate::grpc::listen::RuntimeDirectory;
use crate::grpc::pb;
use crate::grpc::pb::exec_to_completion_response::Item;
use crate::host::ports::Spawner;

/// A shell that does nothing for so long hangs. Milliseconds.
const TRY_MAX_MS: u32 = 10_000;

/// Say what this machine can enforce, and what it lacks
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
No server is needed, and none is disturbed. Lines with ok are as they should be; with -- it is not there and does without;
with !! a server would not start, or would refuse what sessions get that ask for nothing.

Exit codes: 0 a server starts here and can enforce its default rights; 1 it does not.")]
pub(crate) struct Args {
    /// The configuration file that a server would use
    #[arg(long, value_name = "FILE", env = "UEXEC_CONFIG", hide_env_values = true)]
    config: Option<PathBuf>,
}

/// One thing that was looked at.
struct Finding {
    name: String,
    state: State,
    says: String,
    /// What to do about it.
    hints: Vec<String>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Fine,
    /// It is not there, and things work without.
    Lacking,
    /// Nothing goes without.
    Broken,
}

impl Finding {
    fn new(name: &str, state: State, says: impl Into<String>) -> Self {
        Self { name: name.to_owned(), state, says: says.into(), hints: Vec::new() }
    }

    fn fine(name: &str, says: impl Into<String>) -> Self {
        Self::new(name, State::Fine, says)
    }

    fn broken(name: &str, failure: &Failure) -> Self {
        Self { hints: failure.hints().to_vec(), ..Self::new(name, State::Broken, failure.message()) }
    }

    fn of(name: &str, found: Result<String, Failure>) -> Self {
        found.map_or_else(|failure| Self::broken(name, &failure), |says| Self::fine(name, says))
    }
}

/// Looks; the answer is no where a server does not start, or the default rights cannot be enforced.
pub(crate) async fn run(global: &Global, args: Args) -> Result<u8, Failure> {
    let (configuration, config) = configuration(&args);
    let mut findings = vec![configuration, runtime_directory(global, &config)];
    findings.push(Finding::of("rules", compose::check_rules(&config)));
    match machine(config).await {
        Ok(found) => findings.extend(found),
        Err(failure) => findings.push(Finding::broken("server", &failure)),
    }
    show(global, &findings)?;
    let broken = findings.iter().any(|finding| finding.state == State::Broken);
    Ok(if broken { exit::NO } else { exit::OK })
}

/// The configuration in force; where it is broken, the rest is told for the one without a file.
fn configuration(args: &Args) -> (Finding, Config) {
    let name = "configuration";
    let Some(file) = &args.config else {
        return (Finding::fine(name, "no file, which is fine"), Config::default());
    };
    match super::config::load(file) {
        Ok(config) => (Finding::fine(name, file.display().to_string()), config),
        Err(failure) => (Finding::broken(name, &failure), Config::default()),
    }
}

fn runtime_directory(global: &Global, config: &Config) -> Finding {
    let named = global.runtime_dir.is_none().then(|| config.listen.runtime_dir.clone()).flatten();
    let dir = named.unwrap_or_else(|| global.runtime_dir());
    let found = match dir.symlink_metadata() {
        Ok(_) => RuntimeDirectory::open(&dir)
            .map(|_| dir.display().to_string())
            .map_err(|error| Failure::new(error.to_string())),
        Err(_) => Ok(format!("{}, which a server makes", dir.display())),
    };
    Finding::of("runtime", found.map_err(|failure| failure.hint("name another with --runtime-dir")))
}

/// What a server here can do. It gets the rights to be tried, and nobody is there to be asked.
async fn machine(mut config: Config) -> Result<Vec<Finding>, Failure> {
    config.rights.default.approval = Approval::Never;
    config.rights.default.granular = None;
    config.rights.default.strict_review = false;
    config.rights.agent = None;
    config.reviewer = None;
    let (server, mut client, spawner) = Embedded::of(&config)?;
    let found = examined(&mut client, spawner.as_ref()).await;
    server.end().await;
    found
}

async fn examined(client: &mut Client, spawner: &dyn Spawner) -> Result<Vec<Finding>, Failure> {
    let can = client.environment.get_capabilities(pb::GetCapabilitiesRequest::default()).await?.into_inner();
    let here = can.environment.clone().unwrap_or_default();
    let shells = match here.shells.is_empty() {
        true => Err(Failure::new("none is found").hint("install bash, or set `session.shell`")),
        false => Ok(here.shells.join(" ")),
    };
    let mut findings = vec![
        Finding::fine("kernel", format!("{} {} {}", here.os, can.kernel, here.arch)),
        Finding::fine("user", here.user),
        Finding::of("shells", shells),
    ];
    findings.extend(can.sandbox_backends.iter().map(backend));
    findings.push(cgroups(can.cgroup_mode()));
    findings.push(limits(spawner));
    let profile = can.default_config.and_then(|config| config.sandbox).unwrap_or_default();
    let kind = words::name(profile.kind().as_str_name(), "SANDBOX_KIND_");
    let tried = tried(client, &kind).await.map_err(with_way_out);
    findings.push(Finding::of("default", tried));
    Ok(findings)
}

fn backend(backend: &pb::SandboxBackend) -> Finding {
    match backend.state() {
        pb::BackendState::Available if backend.version.is_empty() => Finding::fine(&backend.name, "works"),
        pb::BackendState::Available => {
            Finding::fine(&backend.name, format!("works, version {}", backend.version))
        }
        pb::BackendState::Unsupported => Finding::new(&backend.name, State::Lacking, "not for this platform"),
        pb::BackendState::Unavailable | pb::BackendState::Unspecified => {
            Finding::new(&backend.name, State::Lacking, backend.reason.clone())
        }
    }
}

fn cgroups(mode: pb::CgroupMode) -> Finding {
    let (state, says) = match mode {
        pb::CgroupMode::Controllers => {
            (State::Fine, "hold descendants together, and memory and processes to limits")
        }
        pb::CgroupMode::KillOnly => (State::Fine, "hold descendants together; they set no limits here"),
        pb::CgroupMode::None | pb::CgroupMode::Unspecified => {
            (State::Lacking, "none that we may write: descendants are found in the process table")
        }
    };
    Finding::new("cgroups", state, says)
}

/// `memory_bytes by rlimit, max_pids refused`
fn limits(spawner: &dyn Spawner) -> Finding {
    let limits = spawner.limit_mechanisms();
    let says = |(name, by): &(&str, Option<LimitMechanism>)| match by {
        Some(LimitMechanism::Cgroup) => format!("{name} by cgroup"),
        Some(LimitMechanism::Rlimit) => format!("{name} by rlimit"),
        None => format!("{name} only in a sandbox"),
    };
    let state = if limits.iter().any(|(_, by)| by.is_some()) { State::Fine } else { State::Lacking };
    Finding::new("limits", state, limits.iter().map(says).collect::<Vec<_>>().join(", "))
}

/// The usual way out of a sandbox that is not there is to ask us.
fn with_way_out(failure: Failure) -> Failure {
    match (failure.reason(), failure.hints()) {
        ("SANDBOX_UNAVAILABLE", _) => Failure::new(failure.message()).hint(RIGHTS),
        (_, []) => failure.hint(RIGHTS),
        _ => failure,
    }
}

const RIGHTS: &str = "see `[rights.default]` and `session.shell` in docs/configuration.md";

/// Runs a command that does nothing, with the default rights.
async fn tried(client: &mut Client, profile: &str) -> Result<String, Failure> {
    let made = client.session.create_session(pb::CreateSessionRequest::default()).await?.into_inner();
    let request = pb::ExecToCompletionRequest {
        session_id: made.session.unwrap_or_default().session_id,
        // Nobody's profile files are what is tried.
        command: Some(pb::Command { cmd: ":".to_owned(), login: Some(false), ..Default::default() }),
        timeout_ms: Some(TRY_MAX_MS),
        ..Default::default()
    };
    let mut items = client.exec.exec_to_completion(request).await?.into_inner();
    let mut wrote = Vec::new();
    let mut held = String::new();
    while let Some(answer) = items.message().await? {
        match answer.item {
            Some(Item::Output(frame)) => wrote.extend_from_slice(&frame.data),
            Some(Item::AttemptStarted(started)) => {
                held = started.enforced.unwrap_or_default().mechanisms.join(" ");
            }
            Some(Item::Result(result)) => return judged(&result, profile, &held, &wrote),
            _ => {}
        }
    }
    Err(Failure::new("a command was tried, and its end was not told"))
}

fn judged(result: &pb::ExecResult, profile: &str, held: &str, wrote: &[u8]) -> Result<String, Failure> {
    let end = result.exit.clone().unwrap_or_default();
    if exit::of(&end) != exit::OK {
        return Err(Failure::new(format!(
            "a shell that does nothing {} under {profile}: {}",
            exit::words(&end),
            words::exact_bytes(wrote)
        ))
        .hint(RIGHTS));
    }
    let held = if held.is_empty() { "nothing, as it restricts nothing" } else { held };
    Ok(format!("{profile} was tried, and is enforced by {held}"))
}

fn show(global: &Global, findings: &[Finding]) -> Result<(), Failure> {
    if global.json {
        let state = |state| match state {
            State::Fine => "ok",
            State::Lacking => "lacking",
            State::Broken => "broken",
        };
        let one = |found: &Finding| json!({ "name": found.name, "state": state(found.state), "detail": found.says, "hints": found.hints });
        let ok = findings.iter().all(|finding| finding.state != State::Broken);
        return json::print(&json!({ "ok": ok, "findings": findings.iter().map(one).collect::<Vec<_>>() }));
    }
    let mut text = String::new();
    for Finding { name, state, says, hints } in findings {
        let mark = match state {
            State::Fine => "ok",
            State::Lacking => "--",
            State::Broken => "!!",
        };
        let says = words::shown_lines(says, "\n                     ");
        // Writing into a String cannot fail.
        writeln!(text, "{}", format!("{mark}  {name:<16} {says}").trim_end()).ok();
        for hint in hints {
            writeln!(text, "      hint: {}", words::shown(hint)).ok();
        }
    }
    output::print(&text)
}
