//! The composition root: here, and only here, spawner, host and edge are put together.

mod reviewer;

use std::path::PathBuf;
use std::sync::Arc;

use rand::TryRng as _;
use rand::rngs::SysRng;

use super::failure::Failure;
use crate::audit::AuditLog;
use crate::config::{Config, detect_shell};
use crate::core::command::{Defaults, EnvVar};
use crate::core::policy::Rights;
use crate::core::spawn::ResourceLimits;
use crate::grpc::server::{Edge, EdgeOptions, SessionDefaults};
use crate::host::clock::Clock;
use crate::host::ports::{Rulebook, Spawner};
use crate::host::rulebooks::NoRules;
use crate::host::{Host, Ports, Settings};
use crate::proxy::AllowListProxy;
use crate::rules::{Book, Sources};
use crate::telemetry::Observability;

/// For whom a server works.
#[derive(Clone, Debug)]
pub(super) enum Purpose {
    /// For the person who has started it, in this very process, for one command of their own: no rules count.
    Own,
    /// For agents and reviewers.
    Others {
        /// Directories that exist; no command in a sandbox can see what is in them.
        hidden: Vec<PathBuf>,
        /// Where what happens is recorded.
        audit: Option<AuditLog>,
        /// Traces and metrics.
        telemetry: Option<Observability>,
    },
}

/// The server of a configuration, which nobody can reach yet. Must be called within a runtime.
pub(super) fn edge(config: &Config, purpose: Purpose) -> Result<Edge, Failure> {
    with_spawner(config, purpose).map(|(edge, _)| edge)
}

/// The same, and what starts its commands, for whoever wants to know what that can do.
pub(super) fn with_spawner(config: &Config, purpose: Purpose) -> Result<(Edge, Arc<dyn Spawner>), Failure> {
    let inherited = environment();
    let clock = Clock::start();
    let (rulebook, apart, audit, telemetry) = match purpose {
        Purpose::Own => (Arc::new(NoRules) as Arc<dyn Rulebook>, Apart::default(), None, None),
        Purpose::Others { hidden, audit, telemetry } => {
            let sources = sources(config, &inherited);
            let guarded = sources.guarded();
            (rules(sources)?, Apart { hidden, guarded }, audit, telemetry)
        }
    };
    let spawner = spawner(clock, apart)?;
    let rights = config.rights.default.rights();
    let agent_ceiling = config.rights.agent().rights();
    let ceiling = config.rights.ceiling.rights();
    let settings = settings(config, &inherited, rights)?;
    let mut ports = Ports {
        rulebook,
        reviewer: reviewer::reviewer(clock, config.reviewer.as_ref())?,
        proxy: Arc::new(AllowListProxy::new()),
        ..Ports::of(Arc::clone(&spawner))
    };
    if let Some(audit) = audit {
        ports.audit = Arc::new(audit);
    }
    if let Some(telemetry) = &telemetry {
        ports.telemetry = Arc::new(telemetry.clone());
    }
    settings
        .rights
        .check(ports.reviewer.is_automatic())
        .map_err(|missing| Failure::usage(format!("[rights.default] strict_review: {missing}")))?;
    let host = Host::new(ports, clock, inherited, seed()?);
    let mut options = EdgeOptions::new(SessionDefaults { settings, ceiling, agent_ceiling });
    options.allowed_origins.clone_from(&config.listen.allowed_origins);
    options.drain = config.server.drain();
    if let Some(telemetry) = telemetry {
        options.telemetry = Arc::new(telemetry);
    }
    Ok((Edge::new(host, options), spawner))
}

/// What commands in a sandbox are kept away from.
#[derive(Debug, Default)]
struct Apart {
    /// They cannot see it.
    hidden: Vec<PathBuf>,
    /// They cannot write it.
    guarded: Vec<PathBuf>,
}

fn sources(config: &Config, inherited: &[EnvVar]) -> Sources {
    config.rules.sources(variable(inherited, "XDG_CONFIG_HOME"), variable(inherited, "HOME"))
}

/// The rules of these sources, which are taken in again when their files change.
fn rules(sources: Sources) -> Result<Arc<dyn Rulebook>, Failure> {
    let book = Book::open(sources).map_err(|error| Failure::usage(error.to_string()))?;
    tokio::spawn(book.watch());
    Ok(Arc::new(book))
}

/// One of our own variables, if it is text.
fn variable<'a>(inherited: &'a [EnvVar], name: &str) -> Option<&'a str> {
    let value = inherited.iter().find(|var| var.name == name).map(|var| &*var.value);
    value.and_then(|value| std::str::from_utf8(value).ok())
}

fn settings(config: &Config, inherited: &[EnvVar], rights: Rights) -> Result<Settings, Failure> {
    let variable = |name: &str| variable(inherited, name);
    let cwd = match &config.session.cwd {
        Some(cwd) => cwd.clone(),
        None => here()?,
    };
    let shell = match &config.session.shell {
        Some(shell) => shell.clone(),
        None => detect_shell(variable("SHELL"), variable("PATH")),
    };
    Ok(Settings {
        defaults: Defaults {
            cwd,
            shell,
            allow_login: config.session.login_shell,
            env: config.environment.policy(),
            inherited: inherited.to_vec(),
        },
        rights,
        process_limits: ResourceLimits::default(),
        limits: config.limits.limits(),
        interactive: config.session.interactive,
    })
}

fn here() -> Result<String, Failure> {
    let dir = std::env::current_dir().map_err(|error| {
        Failure::new(format!("the working directory cannot be used: {error}"))
            .hint("change to one that exists")
    })?;
    dir.into_os_string().into_string().map_err(|dir| {
        Failure::new(format!("the working directory {} is not UTF-8", dir.display()))
            .hint("change to another, or set `session.cwd` in the configuration")
    })
}

/// Our own environment, once; values are bytes. A name that is not UTF-8 cannot be spoken of in the contract.
fn environment() -> Vec<EnvVar> {
    std::env::vars_os()
        .filter_map(|(name, value)| {
            Some(EnvVar { name: name.into_string().ok()?.into(), value: value.into_encoded_bytes().into() })
        })
        .collect()
}

/// Where ids come from; nobody should guess those of another server.
fn seed() -> Result<u64, Failure> {
    SysRng
        .try_next_u64()
        .map_err(|error| Failure::new(format!("the system gives no random numbers: {error}")))
}

/// Reads the rules of a configuration, and says how many files there are.
pub(super) fn check_rules(config: &Config) -> Result<String, Failure> {
    let sources = sources(config, &environment());
    let files = sources.files();
    Book::open(sources).map_err(|error| Failure::usage(error.to_string()))?;
    Ok(match &files[..] {
        [] => "none".to_owned(),
        files => files.iter().map(|file| file.display().to_string()).collect::<Vec<_>>().join(" "),
    })
}

#[cfg(unix)]
fn spawner(clock: Clock, apart: Apart) -> Result<Arc<dyn Spawner>, Failure> {
    use crate::spawn::{LocalSpawner, Options};
    let Apart { hidden, guarded } = apart;
    let spawner = LocalSpawner::start(clock, Options { hidden, guarded, ..Options::default() })
        .map_err(|error| Failure::new(format!("this system does not let us watch over children: {error}")))?;
    Ok(Arc::new(spawner))
}

#[cfg(not(unix))]
fn spawner(_: Clock, _: Apart) -> Result<Arc<dyn Spawner>, Failure> {
    Err(Failure::new("this version cannot start commands on Windows yet (terminals need ConPTY there)")
        .hint("run the server on Linux, or in WSL, and connect to it with --server http://host:port"))
}
