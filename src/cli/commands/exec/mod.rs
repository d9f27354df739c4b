//! `uexec exec`: runs one command, as if there were no service between.
//!
//! ```text
//!   server running? ── yes ──► its socket ─┐
//!        └── no ──► embedded server ───────┴─► session ─► ExecCommand{follow, BLOCK} ─► drive ─► exit code
//!                                                            ▲            ▲
//!                                             input (stdin) ─┘            └─ signals (Ctrl-C)
//! ```

mod detach;
mod drive;
mod input;
mod signals;

use std::time::Duration;

use clap::ValueEnum;

use self::drive::Drive;
use crate::cli::args::{Global, duration, milliseconds};
use crate::cli::connect::{self, Client};
use crate::cli::embedded::Embedded;
use crate::cli::failure::Failure;
use crate::cli::output;
use crate::cli::output::Sink;
use crate::cli::session::{self, FOR_EXEC, LABEL, SessionArg};
use crate::cli::terminal::{self, RawTerminal};
use crate::grpc::auth::Role;
use crate::grpc::pb;

/// The kill ladder of a session takes three seconds at most; a server that takes longer than this hangs.
const CLOSE_MAX: Duration = Duration::from_secs(10);

/// Run a command, stream its output, and exit with its code
#[derive(Debug, clap::Args)]
#[command(after_long_help = LONG_HELP)]
pub(crate) struct Args {
    #[command(flatten)]
    session: SessionArg,
    /// Run it on a terminal
    #[arg(short = 't', long)]
    tty: bool,
    /// Forward our stdin to it
    #[arg(short = 'i', long, visible_alias = "interactive")]
    stdin: bool,
    /// Do not wait: print the process id and leave it running
    #[arg(short = 'd', long, conflicts_with = "stdin")]
    detach: bool,
    /// Its working directory [default: ours, or that of the session]
    #[arg(short = 'C', long, value_name = "DIR")]
    cwd: Option<String>,
    /// Set a variable for it
    #[arg(short = 'e', long, value_name = "NAME=VALUE", value_parser = variable)]
    env: Vec<pb::EnvVar>,
    /// Take COMMAND as a line for a shell, several words joined by spaces; --shell=zsh names the shell
    #[arg(long, value_name = "SHELL", num_args = 0..=1, require_equals = true, default_missing_value = "")]
    shell: Option<String>,
    /// Take COMMAND as a program and its arguments, also if it is one word
    #[arg(long, conflicts_with = "shell")]
    argv: bool,
    /// Do not make the shell a login shell, which reads the profile files
    #[arg(long)]
    no_login: bool,
    /// End it after so long, and exit with 124
    #[arg(long, value_name = "TIME", value_parser = duration)]
    timeout: Option<Duration>,
    /// End it after so long without output, and exit with 124
    #[arg(long, value_name = "TIME", value_parser = duration)]
    no_output_timeout: Option<Duration>,
    /// Run it in a sandbox
    #[arg(long, value_name = "PROFILE")]
    sandbox: Option<Sandbox>,
    /// Whether the sandbox has a network [default: off]
    #[arg(long, value_name = "MODE", requires = "sandbox")]
    network: Option<Network>,
    /// What the sandbox cannot read, a path or a glob; may be repeated
    #[arg(long, value_name = "PATH", requires = "sandbox")]
    deny_read: Vec<String>,
    /// Ask for it to be run without the session's sandbox; somebody must approve
    #[arg(long)]
    escalate: bool,
    /// Why, for whoever approves
    #[arg(long, value_name = "TEXT", requires = "escalate")]
    justification: Option<String>,
    /// The command: one word is a line for a shell, several are a program and its arguments
    #[arg(required = true, trailing_var_arg = true, value_name = "COMMAND")]
    command: Vec<String>,
}

const LONG_HELP: &str = "\
The command:
  uexec exec -- 'echo $HOME; exit 3'   one word: a line for the session's shell
  uexec exec -- ls -l 'my file'        several: program and arguments, no shell, nothing is expanded
  uexec exec --shell -- echo a '&&' b  forced: words joined by spaces, then a line for the shell
  uexec exec --argv -- my-program      forced: a program without arguments

Without a running server (no socket in the runtime directory, no --server) the command runs in a server inside this
process, with full access unless there is a --sandbox, with our environment, nobody is asked, and everything it started
ends with it. With one it runs there: in a session of its own that is closed afterwards, or in --session. A server whose
agents may not have full access needs --sandbox, or a session that is there.

Ctrl-C sends it SIGINT, a second one ends it with all it started, a third does not wait for its last words.

Exit codes: its own; 128+n if signal n ended it; 124 after a timeout; 125 if the service failed or refused, or the
command line is wrong; 126 if the program cannot be executed; 127 if there is none; 141 if our stdout was closed.";

/// A profile that a sandbox enforces.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Sandbox {
    /// Nothing can be written
    ReadOnly,
    /// Only the working directory can be written
    WorkspaceWrite,
}

/// What a sandbox can reach.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Network {
    /// Nothing
    Off,
    /// Everything
    On,
}

fn variable(text: &str) -> Result<pb::EnvVar, String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => {
            Ok(pb::EnvVar { name: name.to_owned(), value: value.as_bytes().to_vec().into() })
        }
        _ => Err("give NAME=VALUE".to_owned()),
    }
}

impl Args {
    /// Whether the person types into it, so that our terminal must hand over every key.
    fn takes_over_terminal(&self) -> bool {
        self.tty && self.stdin && terminal::stdin_is_one()
    }

    fn command(&self) -> pb::Command {
        let mut command = pb::Command {
            cwd: self.cwd.clone().unwrap_or_default(),
            env: self.env.clone(),
            login: self.no_login.then_some(false),
            justification: self.justification.clone().unwrap_or_default(),
            ..Default::default()
        };
        if self.escalate {
            command.set_sandbox_permissions(pb::SandboxPermissions::RequireEscalated);
        }
        let line = self.shell.is_some() || (self.command.len() == 1 && !self.argv);
        if line {
            command.cmd = self.command.join(" ");
            command.shell = self.shell.clone().unwrap_or_default();
        } else {
            command.argv.clone_from(&self.command);
            command.login = None;
        }
        command
    }

    fn request(&self, session_id: String) -> pb::ExecCommandRequest {
        pb::ExecCommandRequest {
            session_id,
            command: Some(self.command()),
            tty: self.tty,
            stdin: self.stdin && !self.tty,
            full_terminal: self.tty,
            terminal_size: self.tty.then(terminal::size).flatten(),
            hard_timeout_ms: self.timeout.map_or(0, milliseconds),
            no_output_timeout_ms: self.no_output_timeout.map_or(0, milliseconds),
            follow: !self.detach,
            flow: pb::Flow::Block.into(),
            stream_output: Some(!self.detach),
            // Somebody who lets go does not want to wait: the shortest there is.
            yield_time_ms: self.detach.then_some(0),
            ..Default::default()
        }
    }

    fn profile(&self, sandbox: Sandbox, same_machine: bool) -> pb::SandboxProfile {
        let kind = match sandbox {
            Sandbox::ReadOnly => pb::SandboxKind::ReadOnly,
            Sandbox::WorkspaceWrite => pb::SandboxKind::WorkspaceWrite,
        };
        let mode = self.network.map(|network| match network {
            Network::Off => pb::NetworkMode::Off,
            Network::On => pb::NetworkMode::On,
        });
        let absolute = |path: &String| match std::path::absolute(path) {
            // The service says what is wrong with what is no path of ours.
            Ok(absolute) if same_machine => absolute.to_str().map_or_else(|| path.clone(), str::to_owned),
            _ => path.clone(),
        };
        pb::SandboxProfile {
            kind: kind.into(),
            deny_read: self.deny_read.iter().map(absolute).collect(),
            network: mode.map(|mode| pb::NetworkPolicy { mode: mode.into(), ..Default::default() }),
            ..Default::default()
        }
    }

    /// A session has its profile: what is asked for here would not count there, which nobody should find out later.
    fn check(&self) -> Result<(), Failure> {
        match (self.sandbox, self.session.named()) {
            (Some(_), Some(session)) => Err(Failure::usage(format!(
                "--sandbox is for a session of the command's own, and session {session} has a profile already"
            ))
            .hint(
                "leave one of them out (the session may come from $UEXEC_SESSION), or change the session's: \
                   `uexec sessions update --profile`",
            )),
            _ => Ok(()),
        }
    }

    /// What a session of our own is made with. Where the server sees our files, it starts in our directory. It is the
    /// person's own command: it gets what the person has, unless a sandbox is asked for.
    fn session(&self, made_for: &str, same_machine: bool) -> pb::CreateSessionRequest {
        let here = std::env::current_dir().ok().and_then(|dir| dir.to_str().map(str::to_owned));
        let sandbox = self.sandbox.map(|sandbox| self.profile(sandbox, same_machine));
        let cwd = here.filter(|_| same_machine).unwrap_or_default();
        let config = match sandbox {
            Some(_) => pb::SessionConfig { cwd, sandbox, ..Default::default() },
            None => pb::SessionConfig { cwd, ..session::full_access() },
        };
        pb::CreateSessionRequest {
            config: Some(config),
            labels: [(LABEL.to_owned(), made_for.to_owned())].into(),
        }
    }
}

/// Runs the command.
pub(crate) async fn run(global: &Global, args: Args) -> Result<u8, Failure> {
    args.check()?;
    match find_server(global, &args).await? {
        Some(client) => on_server(client, global, &args).await,
        None => {
            let (embedded, client) = Embedded::start()?;
            let code = in_own_session(client, global, &args).await;
            embedded.end().await;
            code
        }
    }
}

/// `None` if there is no server, and none was asked for.
async fn find_server(global: &Global, args: &Args) -> Result<Option<Client>, Failure> {
    if global.server.is_some() {
        return global.connect().await.map(Some);
    }
    let socket = connect::local_socket(&global.runtime_dir(), Role::Agent);
    let found = Client::connect_if_there(&socket).await?;
    let needed_for = match args.session.named() {
        Some(session) => Some(format!("there is no server, and so no session {session}")),
        None if args.detach => Some("--detach needs a server that goes on when this command ends".to_owned()),
        None => None,
    };
    match (found, needed_for) {
        (None, Some(problem)) => Err(Failure::new(problem)
            .hint(format!("no server listens at {}; start one with `uexec serve`", socket.display()))),
        (found, _) => Ok(found),
    }
}

async fn on_server(mut client: Client, global: &Global, args: &Args) -> Result<u8, Failure> {
    let lasting = match args.session.named() {
        Some(session) => Some(session.to_owned()),
        None if args.detach => Some(detach::session(&mut client, args).await?),
        None => None,
    };
    match lasting {
        Some(session) if args.detach => detach::start(client, global, args, session).await,
        Some(session) => in_session(client, global, args, session).await,
        None => in_own_session(client, global, args).await,
    }
}

async fn in_own_session(mut client: Client, global: &Global, args: &Args) -> Result<u8, Failure> {
    let request = args.session(FOR_EXEC, client.same_machine);
    let session = created(client.session.create_session(request).await?.into_inner())?;
    let code = in_session(client.clone(), global, args, session.clone()).await;
    // What is left of it is the service's to report; the command's own end is what counts here.
    let closing = client.session.close_session(pb::CloseSessionRequest { session_id: session });
    match tokio::time::timeout(CLOSE_MAX, closing).await {
        Ok(Ok(_)) => {}
        Ok(Err(status)) => tracing::debug!(%status, "the session cannot be closed"),
        Err(_) => output::note("the server does not close the session; it may have left something behind"),
    }
    code
}

fn created(answer: pb::CreateSessionResponse) -> Result<String, Failure> {
    let session = answer.session.map(|session| session.session_id);
    session.ok_or_else(|| Failure::new("the server made a session and did not say which"))
}

async fn in_session(client: Client, global: &Global, args: &Args, session: String) -> Result<u8, Failure> {
    let request = args.request(session.clone());
    let raw = if args.takes_over_terminal() { Some(RawTerminal::enter()?) } else { None };
    let drive = Drive {
        client,
        session,
        sink: Sink::new(global.json),
        tty: args.tty,
        forwards_stdin: args.stdin,
        follows_size: raw.is_some(),
    };
    let code = drive.run(request).await;
    drop(raw);
    code
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;

    #[derive(Debug, clap::Parser)]
    struct Line {
        #[command(flatten)]
        args: Args,
    }

    fn command(words: &[&str]) -> pb::Command {
        let words = ["exec"].iter().chain(words);
        Line::try_parse_from(words).expect("well formed").args.command()
    }

    #[test]
    fn one_word_is_a_line_and_several_are_an_argv() {
        assert_eq!(command(&["--", "echo a; b"]).cmd, "echo a; b");
        assert_eq!(command(&["--", "ls", "-l", "--json"]).argv, ["ls", "-l", "--json"]);
        assert_eq!(command(&["ls", "-l"]).argv, ["ls", "-l"]);
        assert_eq!(command(&["--argv", "--", "ls"]).argv, ["ls"]);
        let forced = command(&["--shell=zsh", "--", "echo", "a", "&&", "b"]);
        assert_eq!((forced.cmd.as_str(), forced.shell.as_str()), ("echo a && b", "zsh"));
        assert_eq!(command(&["--shell", "--", "echo", "a"]).cmd, "echo a");
        assert_eq!(command(&["--no-login", "--", "x"]).login, Some(false));
        assert_eq!(command(&["--no-login", "--", "x", "y"]).login, None);
    }

    #[test]
    fn variables_are_name_and_value() {
        assert_eq!(command(&["-e", "A=b=c", "--", "x"]).env[0].value, "b=c");
        assert!(Line::try_parse_from(["exec", "-e", "A", "--", "x"]).is_err());
    }
}
