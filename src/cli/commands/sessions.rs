//! `uexec sessions`: list, create, show, update, close.

use clap::{Subcommand, ValueEnum};

use super::stop::{print_ended, told_survivors};
use crate::cli::args::Global;
use crate::cli::connect::Client;
use crate::cli::failure::Failure;
use crate::cli::session::{self, SessionArg};
use crate::cli::table::Table;
use crate::cli::{exit, json, output, words};
use crate::grpc::pb;

/// List, create, show, update and close sessions
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: Option<What>,
}

/// What to do.
#[derive(Debug, Subcommand)]
enum What {
    /// List the sessions you can use; this is the default
    List,
    /// Make a session, and print its id
    Create {
        #[command(flatten)]
        change: Change,
        /// A label of your own
        #[arg(long, value_name = "NAME=VALUE", value_parser = label)]
        label: Vec<(String, String)>,
    },
    /// Show a session
    Show {
        #[command(flatten)]
        session: SessionArg,
    },
    /// Change a session
    Update {
        #[command(flatten)]
        session: SessionArg,
        #[command(flatten)]
        change: Change,
    },
    /// End every process of a session, and forget it
    Close {
        #[command(flatten)]
        session: SessionArg,
    },
}

/// What can be set on a session; what is not given is left to the server.
#[derive(Debug, clap::Args)]
struct Change {
    /// Working directory, absolute
    #[arg(short = 'C', long, value_name = "DIR")]
    cwd: Option<String>,
    /// Shell for commands that name none
    #[arg(long)]
    shell: Option<String>,
    /// Whether shells may be login shells
    #[arg(long, value_name = "BOOL")]
    login_shell: Option<bool>,
    /// Everything, without questions: the same as --approval never --profile full-access --network on
    #[arg(long, conflicts_with_all = ["approval", "profile", "network"])]
    full_access: bool,
    /// When somebody is asked
    #[arg(long, value_name = "POLICY")]
    approval: Option<Approval>,
    /// What may be written
    #[arg(long)]
    profile: Option<Profile>,
    /// What may be reached; with --profile
    #[arg(long, requires = "profile")]
    network: Option<Network>,
    /// Most live processes
    #[arg(long, value_name = "N")]
    max_processes: Option<u32>,
}

/// When somebody is asked.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Approval {
    Never,
    OnRequest,
    UnlessTrusted,
}

/// What may be written.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Profile {
    ReadOnly,
    WorkspaceWrite,
    FullAccess,
    External,
}

/// What may be reached.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Network {
    Off,
    On,
}

fn label(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("give NAME=VALUE")?;
    Ok((name.to_owned(), value.to_owned()))
}

impl Change {
    /// The configuration, and the names of the fields that are set in it.
    fn config(&self) -> (pb::SessionConfig, Vec<String>) {
        let mut config = pb::SessionConfig::default();
        let mut fields = Vec::new();
        let mut set = |field: &str| fields.push(field.to_owned());
        if let Some(cwd) = &self.cwd {
            set("cwd");
            config.cwd.clone_from(cwd);
        }
        if let Some(shell) = &self.shell {
            set("shell");
            config.shell.clone_from(shell);
        }
        if self.login_shell.is_some() {
            set("allow_login_shell");
            config.allow_login_shell = self.login_shell;
        }
        if let Some(approval) = self.approval {
            set("approval_policy");
            let mode = match approval {
                Approval::Never => pb::ApprovalMode::Never,
                Approval::OnRequest => pb::ApprovalMode::OnRequest,
                Approval::UnlessTrusted => pb::ApprovalMode::UnlessTrusted,
            };
            config.approval_policy = Some(pb::ApprovalPolicy { mode: mode.into(), ..Default::default() });
        }
        if let Some(profile) = self.profile {
            set("sandbox");
            config.sandbox = Some(self.sandbox(profile));
        }
        if self.full_access {
            set("approval_policy");
            set("sandbox");
            let everything = session::full_access();
            config.approval_policy = everything.approval_policy;
            config.sandbox = everything.sandbox;
        }
        if self.max_processes.is_some() {
            set("limits");
            let max_processes = self.max_processes;
            config.limits = Some(pb::SessionLimits { max_processes, ..Default::default() });
        }
        (config, fields)
    }

    fn sandbox(&self, profile: Profile) -> pb::SandboxProfile {
        let kind = match profile {
            Profile::ReadOnly => pb::SandboxKind::ReadOnly,
            Profile::WorkspaceWrite => pb::SandboxKind::WorkspaceWrite,
            Profile::FullAccess => pb::SandboxKind::FullAccess,
            Profile::External => pb::SandboxKind::External,
        };
        let network = self.network.map(|network| pb::NetworkPolicy {
            mode: match network {
                Network::Off => pb::NetworkMode::Off,
                Network::On => pb::NetworkMode::On,
            }
            .into(),
            rules: Vec::new(),
        });
        pb::SandboxProfile { kind: kind.into(), network, ..Default::default() }
    }
}

/// Does it.
pub(crate) async fn run(global: &Global, args: Args) -> Result<u8, Failure> {
    let mut client = global.connect().await?;
    match args.what.unwrap_or(What::List) {
        What::List => list(&mut client, global).await?,
        What::Create { change, label } => {
            let (config, _) = change.config();
            let request =
                pb::CreateSessionRequest { config: Some(config), labels: label.into_iter().collect() };
            let session = client.session.create_session(request).await?.into_inner().session;
            let session = session.unwrap_or_default();
            if global.json {
                json::print(&json::value("Session", &session)?)?;
            } else {
                output::print(&format!("{}\n", session.session_id))?;
            }
        }
        What::Show { session } => {
            let session_id = session.resolve(&mut client).await?;
            let answer = client.session.get_session(pb::GetSessionRequest { session_id }).await?.into_inner();
            show(global, &answer.session.unwrap_or_default())?;
        }
        What::Update { session, change } => {
            let session_id = session.resolve(&mut client).await?;
            let (config, paths) = change.config();
            if paths.is_empty() {
                return Err(Failure::usage("nothing to change")
                    .hint("give an option such as --cwd; `uexec sessions update --help`"));
            }
            let request = pb::UpdateSessionRequest {
                session_id,
                config: Some(config),
                update_mask: Some(prost_types::FieldMask { paths }),
                policy_revision: 0,
            };
            let answer = client.session.update_session(request).await?.into_inner();
            show(global, &answer.session.unwrap_or_default())?;
        }
        What::Close { session } => return close(&mut client, global, &session).await,
    }
    Ok(exit::OK)
}

async fn close(client: &mut Client, global: &Global, session: &SessionArg) -> Result<u8, Failure> {
    let session_id = session.resolve(client).await?;
    let answer = client.session.close_session(pb::CloseSessionRequest { session_id }).await?.into_inner();
    if global.json {
        json::print(&json::value("CloseSessionResponse", &answer)?)?;
    } else {
        print_ended(&answer.ended)?;
    }
    Ok(told_survivors(&answer.survivors))
}

async fn list(client: &mut Client, global: &Global) -> Result<(), Failure> {
    let sessions = session::all(client).await?;
    if global.json {
        let list: Vec<_> =
            sessions.iter().map(|session| json::value("Session", session)).collect::<Result<_, _>>()?;
        return json::print(&serde_json::json!({ "sessions": list }));
    }
    let mut table = Table::new(&["SESSION", "STATE", "LIVE", "AGE", "LABELS", "DIRECTORY"]);
    for session in &sessions {
        table.row([
            session.session_id.clone(),
            words::name(session.state().as_str_name(), "SESSION_STATE_"),
            session.live_processes.to_string(),
            session.create_time.as_ref().map_or_else(|| "-".to_owned(), words::age),
            labels(session),
            session.config.as_ref().map_or_else(String::new, |config| config.cwd.clone()),
        ]);
    }
    table.print()
}

fn labels(session: &pb::Session) -> String {
    let mut labels: Vec<String> =
        session.labels.iter().map(|(name, value)| format!("{name}={value}")).collect();
    labels.sort();
    if labels.is_empty() { "-".to_owned() } else { labels.join(",") }
}

fn show(global: &Global, session: &pb::Session) -> Result<(), Failure> {
    if global.json {
        return json::print(&json::value("Session", session)?);
    }
    let config = session.config.clone().unwrap_or_default();
    let policy = config.approval_policy.unwrap_or_default();
    let sandbox = config.sandbox.clone().unwrap_or_default();
    let network = sandbox.network.clone().unwrap_or_default();
    let facts = [
        ("session", session.session_id.clone()),
        ("owner", session.owner.clone()),
        ("state", words::name(session.state().as_str_name(), "SESSION_STATE_")),
        ("live", session.live_processes.to_string()),
        ("labels", labels(session)),
        ("directory", config.cwd.clone()),
        ("shell", config.shell.clone()),
        ("approval", words::name(policy.mode().as_str_name(), "APPROVAL_MODE_")),
        ("profile", words::name(sandbox.kind().as_str_name(), "SANDBOX_KIND_")),
        ("network", words::name(network.mode().as_str_name(), "NETWORK_MODE_")),
        ("revision", session.policy_revision.to_string()),
        ("events", format!("{}..={}", session.first_sequence, session.last_sequence)),
    ];
    let lines: String = facts.iter().map(|(name, fact)| format!("{name:<10} {fact}\n")).collect();
    output::print(&lines)
}
