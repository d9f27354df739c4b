//! The command line `uexec`: the composition root of the service, and a client of it.
//!
//! ```text
//!   main ─► run ─► commands ─┬─ serve ──► compose (spawner, host, edge) ──► listeners
//!                            ├─ exec ───► embedded (the same, in process) ─┐
//!                            └─ others ─► connect ─────────────────────────┴─► gRPC ─► output, json, table
//! ```
//!
//! Even where server and client are one process, they speak through the contract; there is no second way in. Nobody
//! depends on this module. Every failure is a `failure::Failure`: what happened, what to do, and an exit code.

mod args;
mod commands;
mod compose;
mod connect;
mod digest;
mod embedded;
mod exit;
mod failure;
mod json;
mod logging;
mod modes;
mod output;
mod session;
mod signals;
mod table;
mod terminal;
mod words;

use std::ffi::OsString;
use std::io::Write as _;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser as _;
use clap::error::ErrorKind;

use self::args::{Cli, ClientCommand, Command, Global};
use self::failure::Failure;
use crate::config::{Config, Logging};

/// More than the few that read stdin, write stdout and start children would only be idle; see `docs/configuration.md`.
const BLOCKING_THREADS_MAX: usize = 4;

/// Killing and reaping what is left takes a fraction of this.
const HURRIED_END_MAX: Duration = Duration::from_secs(2);

/// Runs the command line of this process.
pub fn run() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return misunderstood(&error),
    };
    let as_json = cli.global.json;
    let is_exec = matches!(cli.command, Command::Client(ClientCommand::Exec(_)));
    match dispatch(cli) {
        Ok(code) => code.into(),
        Err(failure) => {
            tell(&failure, as_json);
            // Two may be the command's own code there.
            if is_exec && failure.code() == exit::USAGE { exit::FAILED } else { failure.code() }.into()
        }
    }
}

fn dispatch(Cli { global, command }: Cli) -> Result<u8, Failure> {
    match command {
        Command::Completions(args) => commands::completions::run(&args),
        Command::Config(args) => commands::config::run(&global, &args),
        Command::Rules(args) => commands::rules::run(&global, &args),
        Command::Audit(args) => commands::audit::run(&global, args),
        Command::Serve(args) => {
            let config = args.configuration(&global)?;
            let runtime = runtime(config.server.worker_threads.as_usize())?;
            let code = runtime.block_on(commands::serve::run(&global, config));
            // What still runs after a hurried end is killed as it is dropped.
            runtime.shutdown_timeout(HURRIED_END_MAX);
            code
        }
        Command::Client(command) => {
            let filter = std::env::var("UEXEC_LOG").ok();
            let logging = filter.map(|filter| Logging { filter, ..Logging::default() });
            let _log = logging.map(|logging| logging::start(&logging, None)).transpose()?;
            let runtime = runtime(Config::default().server.worker_threads.as_usize())?;
            let code = runtime.block_on(client(&global, command));
            // Not waited for: a thread may be reading a stdin on which nobody types any more.
            runtime.shutdown_background();
            code
        }
    }
}

async fn client(global: &Global, command: ClientCommand) -> Result<u8, Failure> {
    match command {
        ClientCommand::Exec(args) => commands::exec::run(global, args).await,
        ClientCommand::Attach(args) => commands::attach::run(global, args).await,
        ClientCommand::Write(args) => commands::write::run(global, args).await,
        ClientCommand::Ps(args) => commands::ps::run(global, args).await,
        ClientCommand::Logs(args) => commands::logs::run(global, args).await,
        ClientCommand::Wait(args) => commands::wait::run(global, args).await,
        ClientCommand::Interrupt(args) => commands::stop::interrupt(global, args).await,
        ClientCommand::Clean(args) => commands::stop::clean(global, args).await,
        ClientCommand::Kill(args) => commands::stop::kill(global, args).await,
        ClientCommand::Resize(args) => commands::resize::run(global, args).await,
        ClientCommand::Sessions(args) => commands::sessions::run(global, args).await,
        ClientCommand::Doctor(args) => commands::doctor::run(global, args).await,
        ClientCommand::Approvals(args) => commands::approvals::run(global, args).await,
        ClientCommand::Events(args) => commands::events::run(global, args).await,
        ClientCommand::Capabilities(args) => commands::capabilities::run(global, args).await,
    }
}

fn runtime(workers: usize) -> Result<tokio::runtime::Runtime, Failure> {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(workers)
        .max_blocking_threads(BLOCKING_THREADS_MAX)
        .thread_name("uexec")
        .enable_all()
        .build()
        .map_err(|error| Failure::new(format!("the system gives us no threads: {error}")))
}

/// Help and version are asked for; everything else is a wrong command line, which `exec` tells by another code.
fn misunderstood(error: &clap::Error) -> ExitCode {
    // Whoever closed the stream does not want to read it.
    error.print().ok();
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => exit::OK,
        _ if names_exec(std::env::args_os().skip(1)) => exit::FAILED,
        _ => exit::USAGE,
    }
    .into()
}

/// Whether the first word that is no option, nor the value of one, is `exec`.
fn names_exec(words: impl Iterator<Item = OsString>) -> bool {
    let mut words = words.map(|word| word.to_string_lossy().into_owned());
    while let Some(word) = words.next() {
        match word.as_str() {
            "--json" => {}
            // Every other option in front of the command takes a value.
            option if option.starts_with("--") && !option.contains('=') => drop(words.next()),
            option if option.starts_with('-') => {}
            command => return command == "exec",
        }
    }
    false
}

fn tell(failure: &Failure, as_json: bool) {
    if failure.is_quiet() {
        return;
    }
    let text = if as_json { format!("{}\n", failure.to_json()) } else { failure.to_text() };
    std::io::stderr().lock().write_all(text.as_bytes()).ok();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_exec_is_told_from_other_wrong_commands() {
        let names = |line: &str| names_exec(line.split(' ').map(OsString::from));
        assert!(names("exec --nope"));
        assert!(names("--json --server unix:///exec exec"));
        assert!(names("--server=x exec"));
        assert!(!names("ps exec"));
        assert!(!names("--server exec ps"));
        assert!(!names(""));
    }
}
