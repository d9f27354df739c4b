//! Resource limits: which of them are set how, on this machine, for a child started in this way; and which cannot hold
//! and are refused. Called by `start`; the launcher sets the limits of the process, the child's cgroup holds the others.
//!
//! | limit | cgroup | limit of the process |
//! |---|---|---|
//! | memory | `memory.max`, of all together | `RLIMIT_AS`, of each |
//! | processes | `pids.max`, of all together | `RLIMIT_NPROC`, only in a user namespace of its own: elsewhere it counts the user's other processes too, and root is exempt |
//! | processor time, open files, file size | | `RLIMIT_CPU`, `RLIMIT_NOFILE`, `RLIMIT_FSIZE`, of each |

use std::io;

use rustix::process::{Resource, Rlimit, getrlimit};

use super::Shared;
use super::cgroup::{Cgroup, Controllers};
use super::launcher::task::{Limit, LimitKind};
use crate::core::spawn::{EnforcedLimit, LimitMechanism, ResourceLimits, SpawnError};

/// Between the warning (SIGXCPU) and the end (SIGKILL) of what has used its processor time, in seconds.
const CPU_GRACE_SECONDS: u64 = 1;
/// The launcher, which is counted with the command in a namespace of their own.
const LAUNCHER_PROCESSES: u64 = 1;

/// How limits are enforced for one child.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub(super) struct Plan {
    /// Set by the launcher.
    pub(super) process: Vec<Limit>,
    /// Set in the child's cgroup.
    pub(super) memory_max: Option<u64>,
    pub(super) pids_max: Option<u64>,
    pub(super) enforced: Vec<EnforcedLimit>,
}

impl Plan {
    /// Whether the child needs a cgroup before its program runs.
    pub(super) const fn needs_cgroup(&self) -> bool {
        self.memory_max.is_some() || self.pids_max.is_some()
    }

    /// What the launcher sets: these, and for open files else what the service was started with, for it needs more
    /// itself than is good for a program that closes every possible descriptor, or uses select.
    pub(super) fn with_open_files(&self, original: Option<Rlimit>) -> Vec<Limit> {
        let mut all = self.process.clone();
        if let Some(original) = original
            && !all.iter().any(|limit| limit.kind == LimitKind::Nofile)
        {
            all.push(Limit { kind: LimitKind::Nofile, soft: original.current, hard: original.maximum });
        }
        all
    }

    /// Makes a cgroup with these limits and moves `members` into it.
    pub(super) fn confine(&self, shared: &Shared, members: &[u32]) -> Result<Cgroup, SpawnError> {
        let failed = |error: io::Error| {
            let limit = if self.memory_max.is_some() { "memory_bytes" } else { "max_pids" };
            SpawnError::LimitUnenforceable { limit, reason: format!("its cgroup cannot be made: {error}") }
        };
        let home = shared.home.as_ref().ok_or_else(|| failed(io::ErrorKind::Unsupported.into()))?;
        let cgroup = home.create().map_err(failed)?;
        let limited = cgroup
            .limit(self.memory_max, self.pids_max)
            .and_then(|()| members.iter().try_for_each(|member| cgroup.add(*member)));
        if let Err(error) = limited {
            cgroup.kill();
            let _ = cgroup.remove();
            return Err(failed(error));
        }
        Ok(cgroup)
    }

    fn limit(&mut self, name: &'static str, value: u64, kind: LimitKind, soft: u64, hard: u64) {
        self.process.push(Limit { kind, soft: Some(soft), hard: Some(hard) });
        self.enforced.push(EnforcedLimit { name, value, by: LimitMechanism::Rlimit });
    }

    fn limit_by_cgroup(&mut self, name: &'static str, value: u64) {
        self.enforced.push(EnforcedLimit { name, value, by: LimitMechanism::Cgroup });
    }
}

/// Decides for a child that is in a user namespace of its own, or not.
pub(super) fn plan(
    limits: &ResourceLimits,
    controllers: Controllers,
    user_namespace: bool,
) -> Result<Plan, SpawnError> {
    let mut plan = Plan::default();
    if let Some(bytes) = limits.memory_bytes {
        if controllers.memory {
            plan.memory_max = Some(bytes);
            plan.limit_by_cgroup("memory_bytes", bytes);
        } else {
            let bytes = within_ours(bytes, Resource::As);
            plan.limit("memory_bytes", bytes, LimitKind::As, bytes, bytes);
        }
    }
    if let Some(count) = limits.pids_max.map(u64::from) {
        if controllers.pids {
            plan.pids_max = Some(count);
            plan.limit_by_cgroup("max_pids", count);
        } else if user_namespace && !rustix::process::geteuid().is_root() {
            let all = within_ours(count.saturating_add(LAUNCHER_PROCESSES), Resource::Nproc);
            plan.limit("max_pids", all.saturating_sub(LAUNCHER_PROCESSES), LimitKind::Nproc, all, all);
        } else {
            return Err(no_pids());
        }
    }
    if let Some(time) = limits.cpu_time {
        let seconds = time.as_secs() + u64::from(time.subsec_nanos() > 0);
        let soft = within_ours(seconds, Resource::Cpu);
        let hard = within_ours(soft.saturating_add(CPU_GRACE_SECONDS), Resource::Cpu);
        plan.limit("cpu_time_ms", soft.saturating_mul(1000), LimitKind::Cpu, soft, hard);
    }
    if let Some(count) = limits.open_files_max.map(u64::from) {
        let count = within_ours(count, Resource::Nofile);
        plan.limit("open_files", count, LimitKind::Nofile, count, count);
    }
    if let Some(bytes) = limits.file_size_bytes {
        let bytes = within_ours(bytes, Resource::Fsize);
        plan.limit("file_size_bytes", bytes, LimitKind::Fsize, bytes, bytes);
    }
    Ok(plan)
}

/// By what each limit is enforced for a command without a sandbox, by its name on the wire.
pub(super) fn mechanisms(
    controllers: Controllers,
    has_launcher: bool,
) -> Vec<(&'static str, Option<LimitMechanism>)> {
    let process = has_launcher.then_some(LimitMechanism::Rlimit);
    let cgroup = |has: bool| (has && has_launcher).then_some(LimitMechanism::Cgroup);
    vec![
        ("memory_bytes", cgroup(controllers.memory).or(process)),
        ("max_pids", cgroup(controllers.pids)),
        ("cpu_time_ms", process),
        ("open_files", process),
        ("file_size_bytes", process),
    ]
}

/// A limit above our own is no limit: ours holds.
fn within_ours(value: u64, resource: Resource) -> u64 {
    getrlimit(resource).maximum.map_or(value, |ours| value.min(ours))
}

fn no_pids() -> SpawnError {
    SpawnError::LimitUnenforceable {
        limit: "max_pids",
        reason: "this service has no delegated cgroup 2 controller `pids`, and the limit of the process counts all of \
                 the user's processes and none of root's; delegate the controller, or run the service as an ordinary \
                 user and the command in a sandbox"
            .to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const NONE: Controllers = Controllers { memory: false, pids: false };

    #[test]
    fn controllers_take_what_they_can() {
        let limits =
            ResourceLimits { memory_bytes: Some(1 << 30), pids_max: Some(10), ..ResourceLimits::default() };
        let plan = plan(&limits, Controllers { memory: true, pids: true }, false).unwrap();
        assert!(plan.needs_cgroup() && plan.process.is_empty());
        assert!(plan.enforced.iter().all(|limit| limit.by == LimitMechanism::Cgroup));
    }

    #[test]
    fn without_a_controller_processes_cannot_be_counted_outside_a_namespace() {
        let limits = ResourceLimits { pids_max: Some(10), ..ResourceLimits::default() };
        let refused = plan(&limits, NONE, false).unwrap_err();
        assert!(matches!(refused, SpawnError::LimitUnenforceable { limit: "max_pids", .. }));
    }

    #[test]
    fn processor_time_is_rounded_up_and_warned_of() {
        let limits =
            ResourceLimits { cpu_time: Some(Duration::from_millis(1200)), ..ResourceLimits::default() };
        let plan = plan(&limits, NONE, false).unwrap();
        assert_eq!(plan.process, [Limit { kind: LimitKind::Cpu, soft: Some(2), hard: Some(3) }]);
        assert_eq!((plan.enforced[0].name, plan.enforced[0].value), ("cpu_time_ms", 2000));
    }
}
