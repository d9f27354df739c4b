//! `uexec capabilities`: what the server can do.

use crate::cli::args::Global;
use crate::cli::failure::Failure;
use crate::cli::{exit, json, output, words};
use crate::grpc::pb;

/// Show what the server can do
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The environment
    #[arg(long, value_name = "ID", default_value = "local")]
    environment: String,
}

/// Shows.
pub(crate) async fn run(global: &Global, args: Args) -> Result<u8, Failure> {
    let mut client = global.connect().await?;
    let request = pb::GetCapabilitiesRequest { environment_id: args.environment };
    let answer = client.environment.get_capabilities(request).await?.into_inner();
    if global.json {
        json::print(&json::value("GetCapabilitiesResponse", &answer)?)?;
    } else {
        output::print(&text(&answer))?;
    }
    Ok(exit::OK)
}

fn text(answer: &pb::GetCapabilitiesResponse) -> String {
    let mut facts = vec![("version", answer.version.clone()), ("kernel", answer.kernel.clone())];
    if let Some(environment) = &answer.environment {
        facts.push(("machine", format!("{} {}", environment.os, environment.arch)));
        facts.push(("user", environment.user.clone()));
        facts.push(("directory", environment.cwd.clone()));
        facts.push(("shells", environment.shells.join(" ")));
    }
    facts.push(("cgroups", words::name(answer.cgroup_mode().as_str_name(), "CGROUP_MODE_")));
    for backend in &answer.sandbox_backends {
        let state = words::name(backend.state().as_str_name(), "BACKEND_STATE_");
        let reason = if backend.reason.is_empty() { String::new() } else { format!(": {}", backend.reason) };
        facts.push(("sandbox", format!("{} {state}{reason}", backend.name)));
    }
    if let Some(limits) = &answer.limits {
        facts.push(("processes", format!("{} a session", limits.processes_per_session)));
    }
    facts.push(("features", answer.features.join(" ")));
    facts.retain(|(_, fact)| !fact.is_empty());
    facts
        .iter()
        .map(|(name, fact)| format!("{name:<10} {}", words::shown(fact)).trim_end().to_owned() + "\n")
        .collect()
}
