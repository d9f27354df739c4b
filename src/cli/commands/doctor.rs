//! `uexec doctor`: what this machine can enforce, tried for real, without a server.

use std::fmt::Write as _;

use serde_json::json;

use crate::cli::args::Global;
use crate::cli::failure::Failure;
use crate::cli::{compose, exit, json, output};
use crate::config::Config;
use crate::core::spawn::Mechanism;
use crate::host::ports::{Backend, BackendState};

/// Say what this machine can enforce, and what it lacks
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The configuration file that a server would use
    #[arg(long, value_name = "FILE", env = "UEXEC_CONFIG")]
    config: Option<std::path::PathBuf>,
}

/// One thing that was looked at.
struct Finding {
    name: String,
    fine: bool,
    says: String,
}

/// Looks; the answer is no where the default rights cannot be enforced.
pub(crate) async fn run(global: &Global, args: Args) -> Result<u8, Failure> {
    let config = match &args.config {
        Some(file) => Config::load(file).map_err(|error| Failure::usage(error.to_string()))?,
        None => Config::default(),
    };
    let spawner = compose::bare_spawner()?;
    let backends = spawner.backends().await;
    let cgroups = spawner.uses_cgroups();
    let mut findings: Vec<Finding> = backends.iter().map(finding).collect();
    findings.push(Finding {
        name: "cgroups".to_owned(),
        fine: cgroups,
        says: if cgroups {
            "hold descendants together"
        } else {
            "none: descendants are found in the process table"
        }
        .to_owned(),
    });
    findings.push(rules(&config));
    let works = |mechanism: Mechanism| {
        let is_it = |backend: &&Backend| backend.name == mechanism.as_str();
        backends.iter().find(is_it).is_some_and(|backend| backend.state == BackendState::Available)
    };
    let profile = config.rights.default.rights().profile;
    let whole = works(Mechanism::Bubblewrap) && works(Mechanism::Seccomp);
    let enforced = profile.restricts_nothing() || whole;
    findings.push(Finding {
        name: "default".to_owned(),
        fine: enforced,
        says: if enforced {
            "what sessions get that ask for nothing can be enforced".to_owned()
        } else {
            "what sessions get that ask for nothing is refused here: install bubblewrap and allow it namespaces, or see \
             [rights.default] in docs/configuration.md"
                .to_owned()
        },
    });
    show(global, &findings)?;
    Ok(if enforced { exit::OK } else { exit::NO })
}

fn finding(backend: &Backend) -> Finding {
    let (fine, says) = match &backend.state {
        BackendState::Available if backend.version.is_empty() => (true, "works".to_owned()),
        BackendState::Available => (true, format!("works, version {}", backend.version)),
        BackendState::Unavailable { reason } => (false, reason.clone()),
        BackendState::Unsupported => (false, "nobody has written it for this platform".to_owned()),
    };
    Finding { name: backend.name.to_owned(), fine, says }
}

fn rules(config: &Config) -> Finding {
    let name = "rules".to_owned();
    match compose::check_rules(config) {
        Ok(files) => Finding { name, fine: true, says: files },
        Err(failure) => Finding { name, fine: false, says: failure.to_text().trim_end().to_owned() },
    }
}

fn show(global: &Global, findings: &[Finding]) -> Result<(), Failure> {
    if global.json {
        let list: Vec<_> = findings
            .iter()
            .map(|finding| json!({ "name": finding.name, "ok": finding.fine, "detail": finding.says }))
            .collect();
        return json::print(&json!({ "findings": list }));
    }
    let mut text = String::new();
    for finding in findings {
        let mark = if finding.fine { "ok" } else { "--" };
        // Writing into a String cannot fail.
        let _ = writeln!(text, "{mark}  {:<12} {}", finding.name, finding.says);
    }
    output::print(&text)
}
