//! `EnvironmentService`: the one environment of this version, and what this server can do.

use std::path::Path;
use std::time::Duration;

use tonic::{Request, Response, Status};

use super::auth::Caller;
use super::convert::{self, KEEPALIVE_DEFAULT, LOCAL};
use super::pb::environment_service_server::EnvironmentService;
use super::shared::{SESSIONS_PER_OWNER, Shared};
use super::{door, pb, place};
use crate::core::limits;
use crate::core::spawn::{LimitMechanism, Mechanism};
use crate::host::ports::{Backend, BackendState};

/// What holds a command by itself.
const HOLDERS: [Mechanism; 2] = [Mechanism::Bubblewrap, Mechanism::Landlock];
/// Limits that a cgroup holds where its controllers are delegated.
const CONTROLLED: [&str; 2] = ["memory_bytes", "max_pids"];

/// The service.
#[derive(Clone, Debug)]
pub(super) struct EnvironmentApi {
    shared: Shared,
}

impl EnvironmentApi {
    pub(super) const fn new(shared: Shared) -> Self {
        Self { shared }
    }

    async fn local(&self) -> pb::Environment {
        let defaults = &self.shared.defaults.settings.defaults;
        pb::Environment {
            environment_id: LOCAL.to_owned(),
            available: true,
            unavailable_reason: String::new(),
            os: std::env::consts::OS.to_owned(),
            arch: std::env::consts::ARCH.to_owned(),
            cwd: defaults.cwd.clone(),
            user: user().await,
            shells: place::shells(&defaults.shell, self.shared.host.inherited()).await,
        }
    }

    fn limits(&self) -> pb::Limits {
        let of = &self.shared.defaults.settings.limits;
        let millis = convert::to_millis_u32;
        pb::Limits {
            exec_yield_default_ms: millis(limits::EXEC_YIELD_DEFAULT),
            write_yield_default_ms: millis(limits::WRITE_YIELD_DEFAULT),
            yield_min_ms: millis(limits::YIELD_MIN),
            yield_max_ms: millis(limits::YIELD_MAX),
            poll_min_ms: millis(limits::POLL_YIELD_MIN),
            poll_max_ms: millis(of.poll_yield(Some(Duration::MAX))),
            early_exit_window_ms: millis(of.early_window),
            one_shot_timeout_default_ms: millis(of.one_shot_timeout(None)),
            one_shot_timeout_max_ms: millis(of.one_shot_timeout_max),
            kill_grace_ms: millis(limits::KILL_GRACE),
            tombstone_ms: millis(limits::TOMBSTONE_AGE),
            tombstones: convert::count(limits::TOMBSTONES_MAX),
            processes_per_session: convert::count(of.processes_max),
            protected_processes: convert::count(limits::PROTECTED_PROCESSES),
            sessions_per_owner: convert::count(SESSIONS_PER_OWNER),
            retained_head_bytes: limits::LOG_HEAD_BYTES as u64,
            retained_tail_bytes: limits::LOG_TAIL_BYTES as u64,
            output_frame_bytes: convert::count(limits::FRAME_BYTES_MAX),
            request_bytes: convert::count(door::MESSAGE_BYTES_MAX),
            output_tokens: of.output_tokens_max,
            feed_events: convert::count(limits::FEED_EVENTS_MAX),
            approval_expiry_ms: of.approval_expiry.map_or(0, millis),
            stdin_review_bytes: convert::count(limits::INPUT_REVIEW_BYTES_MAX),
            keepalive_interval_ms: millis(KEEPALIVE_DEFAULT),
        }
    }

    /// Only what has a bound of its own: policy and profile.
    fn ceiling(&self) -> pb::SessionConfig {
        let ceiling = &self.shared.defaults.ceiling;
        pb::SessionConfig {
            approval_policy: Some(convert::policy_to_wire(ceiling)),
            sandbox: Some(convert::profile_to_wire(&ceiling.profile)),
            ..Default::default()
        }
    }

    fn cgroup_mode(&self) -> pb::CgroupMode {
        let spawner = &self.shared.host.ports().spawner;
        let controlled = |(name, by): (&str, Option<LimitMechanism>)| {
            CONTROLLED.contains(&name) && by == Some(LimitMechanism::Cgroup)
        };
        let controlled = spawner.limit_mechanisms().into_iter().filter(|limit| controlled(*limit)).count();
        if !self.shared.host.uses_cgroups() {
            pb::CgroupMode::None
        } else if controlled == CONTROLLED.len() {
            pb::CgroupMode::Controllers
        } else {
            pb::CgroupMode::KillOnly
        }
    }

    /// What this very server can do, by what it was put together with and what was found on the machine.
    fn features(&self, backends: &[Backend]) -> Vec<String> {
        let ports = self.shared.host.ports();
        let works = |mechanism: Mechanism| {
            let works =
                |found: &Backend| found.name == mechanism.as_str() && found.state == BackendState::Available;
            backends.iter().any(works)
        };
        let features = [
            ("approvals", true),
            ("sandbox", HOLDERS.into_iter().any(works)),
            ("rules", ports.rulebook.takes_rules()),
            // Only a child with a network of its own can be led to the proxy and nowhere else.
            ("network_proxy", ports.proxy.carries() && works(Mechanism::Bubblewrap)),
            ("strict_review", ports.reviewer.is_automatic()),
        ];
        features.into_iter().filter(|(_, there)| *there).map(|(name, _)| name.to_owned()).collect()
    }
}

#[tonic::async_trait]
impl EnvironmentService for EnvironmentApi {
    async fn list_environments(
        &self,
        request: Request<pb::ListEnvironmentsRequest>,
    ) -> Result<Response<pb::ListEnvironmentsResponse>, Status> {
        Caller::of(&request)?;
        let wire = request.get_ref();
        let page = convert::page(&["ListEnvironments"], wire.page_size, &wire.page_token)?;
        let (environments, next_page_token) = page.cut(vec![self.local().await], |_| (0, 1));
        Ok(Response::new(pb::ListEnvironmentsResponse { environments, next_page_token }))
    }

    async fn get_capabilities(
        &self,
        request: Request<pb::GetCapabilitiesRequest>,
    ) -> Result<Response<pb::GetCapabilitiesResponse>, Status> {
        Caller::of(&request)?;
        convert::environment("environment_id", &request.get_ref().environment_id)?;
        let backends = self.shared.host.ports().spawner.backends().await;
        Ok(Response::new(pb::GetCapabilitiesResponse {
            environment: Some(self.local().await),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            kernel: read_line("/proc/sys/kernel/osrelease").await,
            cgroup_mode: self.cgroup_mode().into(),
            sandbox_backends: backends.iter().map(backend).collect(),
            limits: Some(self.limits()),
            features: self.features(&backends),
            default_config: Some(convert::config_to_wire(&self.shared.defaults.settings)),
            ceiling: Some(self.ceiling()),
        }))
    }
}

fn backend(found: &Backend) -> pb::SandboxBackend {
    let (state, reason) = match &found.state {
        BackendState::Available => (pb::BackendState::Available, ""),
        BackendState::Unavailable { reason } => (pb::BackendState::Unavailable, reason.as_str()),
        BackendState::Unsupported => (pb::BackendState::Unsupported, "it is not there on this platform"),
    };
    pb::SandboxBackend {
        name: found.name.to_owned(),
        state: state.into(),
        reason: reason.to_owned(),
        version: found.version.clone(),
    }
}

async fn read_line(path: impl AsRef<Path>) -> String {
    // Another system tells it elsewhere, and what is not known is left empty.
    tokio::fs::read_to_string(path).await.unwrap_or_default().trim().to_owned()
}

/// The name of the user that the service, and so every command, runs as.
async fn user() -> String {
    let uid = rustix::process::geteuid().as_raw().to_string();
    let users = read_line("/etc/passwd").await;
    let named = users.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        (fields.nth(1) == Some(uid.as_str())).then(|| name.to_owned())
    });
    named.unwrap_or(uid)
}
