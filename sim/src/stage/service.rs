//! The product's host over a scenario's children, and what must be left of it at the end: nothing.

use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::mpsc::UnboundedSender;
use tokio::task::yield_now;
use tokio::time::timeout;
use unified_exec::core::ids::ProcessId;
use unified_exec::core::session::ConnectionRefused;
use unified_exec::host::clock::Clock;
use unified_exec::host::ports::GateAnswer;
use unified_exec::host::{Host, Ports, Settings};
use unified_exec::spawn::fake::{Connected, FakeSpawner};

use super::heard::Heard;
use super::ports::{Reviews, Rules};
use super::{Cast, ROUNDS, children};
use crate::run::Run;
use crate::scenario::Scenario;
use crate::scenario::session::config;
use crate::tell;

/// A shutdown takes no longer: far beyond every ladder and grace of the service.
const SHUTDOWN_MAX: Duration = Duration::from_secs(3_600);

/// A host whose children, rules and reviewer are the scenario's; `tell` hears of connections.
pub(crate) fn host(scenario: &Scenario, tell: &UnboundedSender<Heard>) -> (Cast, Host) {
    let clock = Clock::start();
    let spawner = FakeSpawner::new(clock);
    spawner.cast(children::casting(scenario)).record();
    let (rules, reviews) = (Arc::new(Rules::new(scenario)), Arc::new(Reviews::new(scenario)));
    let (proxy, mut connected) = spawner.proxy();
    let tell = tell.clone();
    tokio::spawn(async move {
        while let Some(connected) = connected.recv().await {
            // Nobody listens once the scenario is over.
            tell.send(connection(connected)).ok();
        }
    });
    let ports = Ports {
        rulebook: Arc::clone(&rules) as _,
        reviewer: Arc::clone(&reviews) as _,
        proxy: Arc::new(proxy),
        ..Ports::of(Arc::new(spawner.clone()))
    };
    (Cast { spawner, rules, reviews }, Host::new(ports, clock, Vec::new(), 1))
}

/// What a scenario's session is created with.
pub(crate) fn settings(scenario: &Scenario) -> Settings {
    let config = config(scenario);
    Settings {
        defaults: config.defaults,
        rights: config.rights,
        process_limits: config.process_limits,
        limits: config.limits,
        interactive: config.interactive,
    }
}

/// What a program got for a connection, as it is told.
pub(crate) fn connection(connected: Connected) -> Heard {
    let Connected { process, host, port, answer } = connected;
    let Some(process) = process.parse().ok().and_then(ProcessId::new) else {
        return Heard::Broken(format!("a child's environment names process {process:?}"));
    };
    // The gate gives a refusal in words.
    let refusals = [
        ConnectionRefused::Denied { host: host.clone(), port },
        ConnectionRefused::NobodyAsked { host: host.clone(), port },
        ConnectionRefused::NotApproved { host: host.clone(), port },
        ConnectionRefused::Gone,
    ];
    let answer = match answer {
        GateAnswer::Allowed(egress) => Ok(egress),
        GateAnswer::Refused { reason } => {
            let same = refusals.into_iter().find(|refused| refused.to_string() == reason);
            Err(same.unwrap_or(ConnectionRefused::TooMany { limit: 0 }))
        }
    };
    Heard::Connection { process, keys: tell::connection(format!("{host}:{port}"), &answer) }
}

/// Shuts the host down, and tells what is left of it: no task, no child, no timer may be, but for children that nothing
/// can end.
pub(crate) async fn shut_down(cast: &Cast, host: Host, run: &mut Run) {
    if timeout(SHUTDOWN_MAX, host.shutdown()).await.is_err() {
        run.broken.push(format!("the host does not shut down within {} s", SHUTDOWN_MAX.as_secs()));
    }
    drop(host);
    for _ in 0..ROUNDS {
        yield_now().await;
    }
    let stuck = cast.spawner.alive();
    let tasks = Handle::current().metrics().num_alive_tasks();
    if stuck == 0 && cast.spawner.unreaped() > 0 {
        run.broken.push(format!("{} children are left unreaped", cast.spawner.unreaped()));
    }
    if stuck == 0 && tasks > 0 {
        run.broken.push(format!("{tasks} tasks are left"));
    }
}
