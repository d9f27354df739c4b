//! `uexec ps`: the processes of a session.

use crate::cli::args::Global;
use crate::cli::connect::Client;
use crate::cli::failure::Failure;
use crate::cli::session::SessionArg;
use crate::cli::table::Table;
use crate::cli::{exit, json, words};
use crate::grpc::pb;

/// List the processes of a session
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    session: SessionArg,
    /// Also those that ended lately
    #[arg(short = 'a', long)]
    all: bool,
    /// Also what each of them has started
    #[arg(long)]
    descendants: bool,
    /// Also each try at starting them: what held it, and how it ended
    #[arg(long)]
    attempts: bool,
}

/// Lists.
pub(crate) async fn run(global: &Global, args: Args) -> Result<u8, Failure> {
    let mut client = global.connect().await?;
    let session = args.session.resolve(&mut client).await?;
    let processes = all(&mut client, &session, &args).await?;
    if global.json {
        let list: Vec<_> =
            processes.iter().map(|process| json::value("Process", process)).collect::<Result<_, _>>()?;
        json::print(&serde_json::json!({ "session_id": session, "processes": list }))?;
        return Ok(exit::OK);
    }
    let mut table = Table::new(&["ID", "STATE", "TTY", "PID", "AGE", "OUTPUT", "COMMAND"]);
    for process in &processes {
        table.row(row(process));
        for attempt in process.attempts.iter().filter(|_| args.attempts) {
            let none = String::new;
            let pid = if attempt.os_pid == 0 { "-".to_owned() } else { attempt.os_pid.to_string() };
            let says = tried(attempt);
            table.row([none(), none(), none(), pid, none(), words::bytes(attempt.output_bytes), says]);
        }
        for below in &process.descendants {
            let none = String::new;
            table.row([
                none(),
                none(),
                none(),
                below.pid.to_string(),
                none(),
                none(),
                format!("└ {}", below.command),
            ]);
        }
    }
    table.print()?;
    Ok(exit::OK)
}

async fn all(client: &mut Client, session: &str, args: &Args) -> Result<Vec<pb::Process>, Failure> {
    let mut processes = Vec::new();
    let mut page_token = String::new();
    loop {
        let request = pb::ListProcessesRequest {
            session_id: session.to_owned(),
            include_ended: args.all,
            include_descendants: args.descendants,
            page_size: 1_000,
            page_token,
            ..Default::default()
        };
        let page = client.exec.list_processes(request).await?.into_inner();
        processes.extend(page.processes);
        page_token = page.next_page_token;
        if page_token.is_empty() {
            return Ok(processes);
        }
    }
}

/// `attempt 1: ended, exited with code 1, under bubblewrap seccomp, denied by the sandbox (likely): read-only /etc/x`
fn tried(attempt: &pb::Attempt) -> String {
    let state = words::name(attempt.state().as_str_name(), "ATTEMPT_STATE_");
    let mut says = vec![format!("└ attempt {}: {state}", attempt.attempt)];
    says.extend(attempt.exit.as_ref().map(exit::words));
    says.extend(attempt.enforced.as_ref().map(words::held));
    says.extend(attempt.evidence.as_ref().map(words::evidence));
    says.join(", ")
}

fn row(process: &pb::Process) -> [String; 7] {
    let state = match &process.exit {
        Some(end) => exit::words(end),
        None if process.phase() == pb::ProcessPhase::Asking => "asking".to_owned(),
        None => words::name(process.state().as_str_name(), "PROCESS_STATE_"),
    };
    let written = process.outputs.last().map_or(0, |log| log.end);
    [
        process.process_id.to_string(),
        state,
        if process.tty { "tty" } else { "-" }.to_owned(),
        if process.os_pid == 0 { "-".to_owned() } else { process.os_pid.to_string() },
        process.start_time.as_ref().map_or_else(|| "-".to_owned(), words::age),
        words::bytes(written),
        words::command(&process.argv),
    ]
}
