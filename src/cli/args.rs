//! The command line: what all commands share.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};

use super::commands::{
    approvals, attach, audit, capabilities, completions, config, doctor, events, exec, logs, ps, resize,
    rules, serve, sessions, stop, wait, write,
};
use super::connect::{self, Client, Credentials, Server};
use super::failure::Failure;
use crate::grpc::auth::Role;
use crate::grpc::listen;

/// Runs commands for agents and people: keeps them alive as terminals, lets callers write to them, and ends them.
#[derive(Debug, Parser)]
#[command(name = "uexec", version, after_help = AFTER_HELP)]
pub(super) struct Cli {
    #[command(flatten)]
    pub(super) global: Global,
    #[command(subcommand)]
    pub(super) command: Command,
}

const AFTER_HELP: &str = "\
Exit codes: 0 done; 1 the answer is no; 2 wrong usage; 124 time is over; 125 the service failed or refused. `exec` \
exits with the command's own code; see `uexec exec --help`.";

/// What every command takes.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Connection and output")]
pub(super) struct Global {
    /// The server: unix:///path, http://host:port or https://host:port [default: the socket in the runtime directory]
    #[arg(long, global = true, env = "UEXEC_SERVER", value_name = "URL", hide_env_values = true)]
    pub(super) server: Option<Server>,
    /// The file that holds the token for a TCP server
    #[arg(long, global = true, env = "UEXEC_TOKEN_FILE", value_name = "FILE", hide_env_values = true)]
    token_file: Option<PathBuf>,
    /// Certificates (PEM) that an https server is checked against
    #[arg(long, global = true, env = "UEXEC_TLS_CA", value_name = "FILE", hide_env_values = true)]
    tls_ca: Option<PathBuf>,
    /// Our own certificate (PEM), for a server that asks for one
    #[arg(long, global = true, value_name = "FILE", requires = "client_key")]
    client_cert: Option<PathBuf>,
    /// Its private key (PEM)
    #[arg(long, global = true, value_name = "FILE", requires = "client_cert")]
    client_key: Option<PathBuf>,
    /// Where sockets and token files are [default: $XDG_RUNTIME_DIR/unified-exec, or /tmp/unified-exec-UID]
    #[arg(long, global = true, env = "UEXEC_RUNTIME_DIR", value_name = "DIR", hide_env_values = true)]
    pub(super) runtime_dir: Option<PathBuf>,
    /// Print JSON: one document, or one line for each item of a stream
    #[arg(long, global = true)]
    pub(super) json: bool,
}

impl Global {
    /// The runtime directory in force.
    pub(super) fn runtime_dir(&self) -> PathBuf {
        let named = self.runtime_dir.as_ref().filter(|dir| !dir.as_os_str().is_empty());
        if let Some(dir) = named {
            return std::path::absolute(dir).unwrap_or_else(|_| dir.clone());
        }
        // Not every system that sets the variable has made the directory.
        let session = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|dir| dir.is_dir());
        listen::default_directory(session.as_deref())
    }

    /// Connects to the server that is meant, as an agent.
    pub(super) async fn connect(&self) -> Result<Client, Failure> {
        self.connect_as(Role::Agent).await
    }

    /// Connects to the server that is meant, through the socket or with the token of this role.
    pub(super) async fn connect_as(&self, role: Role) -> Result<Client, Failure> {
        let runtime = self.runtime_dir();
        let server =
            self.server.clone().unwrap_or_else(|| Server::Unix(connect::local_socket(&runtime, role)));
        let credentials = Credentials {
            token: self.token_file.clone().or_else(|| connect::local_token(&runtime, role)),
            authority: self.tls_ca.clone(),
            identity: self.client_cert.clone().zip(self.client_key.clone()),
        };
        Client::connect(&server, &credentials).await
    }
}

/// The commands.
#[derive(Debug, Subcommand)]
pub(super) enum Command {
    Serve(serve::Args),
    #[command(flatten)]
    Client(ClientCommand),
    Config(config::Args),
    Rules(rules::Args),
    Audit(audit::Args),
    Completions(completions::Args),
}

/// The commands that speak to a server, or look at what one could do.
#[derive(Debug, Subcommand)]
pub(super) enum ClientCommand {
    Exec(exec::Args),
    Attach(attach::Args),
    Write(write::Args),
    Ps(ps::Args),
    Logs(logs::Args),
    Wait(wait::Args),
    Interrupt(stop::InterruptArgs),
    Clean(stop::CleanArgs),
    Kill(stop::KillArgs),
    Resize(resize::Args),
    Sessions(sessions::Args),
    Approvals(approvals::Args),
    Doctor(doctor::Args),
    Events(events::Args),
    Capabilities(capabilities::Args),
}

/// Reads `300`, `300ms`, `1.5s`, `2m`, `1h`; a bare number is seconds.
pub(super) fn duration(text: &str) -> Result<Duration, String> {
    let split = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let number: f64 = number.parse().map_err(|_| FORMS.to_owned())?;
    let unit = match unit {
        "ms" => 0.001,
        "" | "s" => 1.0,
        "m" => 60.0,
        "h" => 3_600.0,
        _ => return Err(FORMS.to_owned()),
    };
    Duration::try_from_secs_f64(number * unit).map_err(|_| FORMS.to_owned())
}

const FORMS: &str = "give a time such as 300ms, 5s, 2m or 1h";

/// Milliseconds on the wire. At least one: there, none means never.
pub(super) fn milliseconds(duration: Duration) -> u32 {
    u32::try_from(duration.as_millis()).unwrap_or(u32::MAX).max(1)
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_command_line_is_well_formed() {
        Cli::command().debug_assert();
    }

    #[test]
    fn times_are_read_as_people_write_them() {
        for (text, ms) in
            [("300ms", 300), ("5", 5_000), ("1.5s", 1_500), ("2m", 120_000), ("1h", 3_600_000), ("0", 0)]
        {
            assert_eq!(duration(text), Ok(Duration::from_millis(ms)), "{text}");
        }
        for text in ["", "s", "5 s", "-1s", "1d", "1e400s", "."] {
            assert!(duration(text).is_err(), "{text}");
        }
    }
}
