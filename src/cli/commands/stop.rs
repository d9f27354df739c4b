//! `uexec interrupt`, `clean`, `kill`: the three ways to stop something.

use crate::cli::args::Global;
use crate::cli::failure::Failure;
use crate::cli::session::SessionArg;
use crate::cli::{exit, json, output};
use crate::grpc::pb;

/// End every wait of a turn; no process dies, except commands that are run to completion
#[derive(Debug, clap::Args)]
pub(crate) struct InterruptArgs {
    #[command(flatten)]
    session: SessionArg,
    /// The turn [default: the anonymous one]
    #[arg(long, value_name = "TURN", default_value = "", hide_default_value = true)]
    turn: String,
}

/// End every process of a session, with groups and descendants
#[derive(Debug, clap::Args)]
pub(crate) struct CleanArgs {
    #[command(flatten)]
    session: SessionArg,
}

/// End processes with all they started (TERM, a second of grace, KILL), or send a signal
#[derive(Debug, clap::Args)]
pub(crate) struct KillArgs {
    #[command(flatten)]
    session: SessionArg,
    /// Send this signal instead, e.g. INT, HUP or 9
    #[arg(short = 's', long, value_name = "SIGNAL")]
    signal: Option<String>,
    /// Who gets the signal
    #[arg(long, requires = "signal", default_value = "group", value_name = "SCOPE")]
    scope: Scope,
    /// The processes
    #[arg(required = true, value_name = "ID")]
    processes: Vec<u32>,
}

/// Who gets a signal.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Scope {
    /// The process alone
    Process,
    /// Its process group
    Group,
    /// The group in the foreground of its terminal
    Foreground,
    /// The process and all its descendants
    Tree,
}

impl From<Scope> for pb::SignalScope {
    fn from(scope: Scope) -> Self {
        match scope {
            Scope::Process => Self::Process,
            Scope::Group => Self::Group,
            Scope::Foreground => Self::ForegroundGroup,
            Scope::Tree => Self::Tree,
        }
    }
}

/// Interrupts.
pub(crate) async fn interrupt(global: &Global, args: InterruptArgs) -> Result<u8, Failure> {
    let mut client = global.connect().await?;
    let session_id = args.session.resolve(&mut client).await?;
    let request = pb::InterruptRequest { session_id, turn_id: args.turn };
    let answer = client.session.interrupt(request).await?.into_inner();
    if global.json {
        json::print(&json::value("InterruptResponse", &answer)?)?;
    } else {
        let alive: Vec<String> = answer.alive_process_ids.iter().map(u32::to_string).collect();
        let alive =
            if alive.is_empty() { String::new() } else { format!("; lives on: {}", alive.join(", ")) };
        output::print(&format!("ended {} waits{alive}\n", answer.waits_ended))?;
    }
    Ok(exit::OK)
}

/// Cleans.
pub(crate) async fn clean(global: &Global, args: CleanArgs) -> Result<u8, Failure> {
    let mut client = global.connect().await?;
    let session_id = args.session.resolve(&mut client).await?;
    let request = pb::CleanBackgroundTerminalsRequest { session_id, ..Default::default() };
    let answer = client.session.clean_background_terminals(request).await?.into_inner();
    if global.json {
        json::print(&json::value("CleanBackgroundTerminalsResponse", &answer)?)?;
    } else {
        print_ended(&answer.ended)?;
        if answer.ended.is_empty() {
            output::note("nothing was running");
        }
    }
    Ok(told_survivors(&answer.survivors))
}

/// Kills.
pub(crate) async fn kill(global: &Global, args: KillArgs) -> Result<u8, Failure> {
    let mut client = global.connect().await?;
    let session = args.session.resolve(&mut client).await?;
    let mut code = exit::OK;
    for process_id in args.processes {
        let session_id = session.clone();
        if let Some(signal) = args.signal.clone() {
            let scope = pb::SignalScope::from(args.scope).into();
            let request =
                pb::SignalProcessRequest { session_id, process_id, signal, scope, ..Default::default() };
            let answer = client.exec.signal_process(request).await?.into_inner();
            if global.json {
                json::print_line(&json::value("SignalProcessResponse", &answer)?)?;
            }
            continue;
        }
        let request = pb::TerminateProcessRequest { session_id, process_id, ..Default::default() };
        let answer = client.exec.terminate_process(request).await?.into_inner();
        if global.json {
            json::print_line(&json::value("TerminateProcessResponse", &answer)?)?;
        } else {
            print_ended(&answer.ended)?;
        }
        code = code.max(told_survivors(&answer.survivors));
    }
    Ok(code)
}

/// Says what was ended.
pub(crate) fn print_ended(ended: &[pb::EndedProcess]) -> Result<(), Failure> {
    let lines: String = ended
        .iter()
        .map(|process| match &process.exit {
            Some(end) => format!("{} {}\n", process.process_id, exit::words(end)),
            None => format!("{} had ended; what it left behind was killed\n", process.process_id),
        })
        .collect();
    output::print(&lines)
}

/// Says what is still there; that is a no.
pub(crate) fn told_survivors(survivors: &[pb::Survivor]) -> u8 {
    for survivor in survivors {
        for process in &survivor.processes {
            output::note(&format!(
                "{} (pid {}) of process {} survived SIGKILL; it hangs in the kernel",
                process.command, process.pid, survivor.process_id
            ));
        }
    }
    if survivors.is_empty() { exit::OK } else { exit::NO }
}
