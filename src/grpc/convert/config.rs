//! What a session is set to: from the wire on top of the server's defaults, back to the wire with every field filled
//! in, and whether it asks for more than it may.

use std::collections::BTreeMap;
use std::time::Duration;

use tonic::Status;

use super::command::{LOCAL, environment, resource_limits, resource_limits_to_wire, variables};
use super::process::confidence;
use super::rights::{approval_policy, policy_to_wire, profile, profile_to_wire};
use super::{Valid, bounded, count, invalid, millis, to_millis_u32};
use crate::core::command::{EnvPolicy, Inherit, check_shell};
use crate::core::limits::{Limits, WhenFull};
use crate::core::policy::Rights;
use crate::core::process::Confidence;
use crate::grpc::auth::Role;
use crate::grpc::server::SessionDefaults;
use crate::grpc::{pb, status};
use crate::host::Settings;

/// Patterns of one list of an environment policy.
const PATTERNS_MAX: usize = 256;
/// Longest path, as the kernel has it.
pub(super) const PATH_BYTES_MAX: usize = 4_096;
/// Live processes that a session may be given at most.
const PROCESSES_MAX: u32 = 4_096;
/// Shortest and longest setting of the largest poll.
const POLL_MS: std::ops::RangeInclusive<u32> = 5_000..=300_000;
/// Labels of a session.
const LABELS_MAX: usize = 64;
/// Longest key or value of a label.
const LABEL_BYTES_MAX: usize = 256;

/// A field of `SessionConfig`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::grpc) enum Field {
    Cwd,
    EnvironmentId,
    ApprovalPolicy,
    Sandbox,
    EnvPolicy,
    Shell,
    AllowLoginShell,
    Interactive,
    Limits,
    ProcessLimits,
    TableFull,
    MinConfidence,
}

impl Field {
    pub(in crate::grpc) const ALL: [(&'static str, Self); 12] = [
        ("cwd", Self::Cwd),
        ("environment_id", Self::EnvironmentId),
        ("approval_policy", Self::ApprovalPolicy),
        ("sandbox", Self::Sandbox),
        ("env_policy", Self::EnvPolicy),
        ("shell", Self::Shell),
        ("allow_login_shell", Self::AllowLoginShell),
        ("interactive", Self::Interactive),
        ("limits", Self::Limits),
        ("process_limits", Self::ProcessLimits),
        ("table_full", Self::TableFull),
        ("min_confidence", Self::MinConfidence),
    ];
}

/// The fields that a mask names.
pub(in crate::grpc) fn mask(wire: Option<prost_types::FieldMask>) -> Result<Vec<Field>, Status> {
    let paths = wire.map(|mask| mask.paths).unwrap_or_default();
    if paths.is_empty() {
        return Ok(invalid("update_mask", "is required; name fields of `config`, or \"*\" for all")?);
    }
    if paths.iter().any(|path| path == "*") {
        return Ok(Field::ALL.map(|(_, field)| field).to_vec());
    }
    let known = |path: &String| Field::ALL.into_iter().find(|(name, _)| name == path).map(|(_, field)| field);
    paths
        .iter()
        .map(|path| {
            known(path).ok_or_else(|| {
                let problem = if path.contains('.') {
                    "lies inside a field; name the field"
                } else {
                    "is no field of SessionConfig"
                };
                status::invalid_field_mask(path, problem)
            })
        })
        .collect()
}

/// `base` with `fields` set as `wire` says; what is absent there is the server's default.
pub(in crate::grpc) fn settings(
    wire: pb::SessionConfig,
    fields: &[Field],
    base: Settings,
    default: &Settings,
) -> Result<Settings, Status> {
    let mut settings = base;
    let mut wire = wire;
    for field in fields {
        match field {
            Field::Cwd => {
                settings.defaults.cwd = absolute("config.cwd", &wire.cwd, &default.defaults.cwd)?;
            }
            Field::EnvironmentId => environment("config.environment_id", &wire.environment_id)?,
            Field::ApprovalPolicy => {
                let (policy, strict_review) = approval_policy(wire.approval_policy.take(), &default.rights)?;
                settings.rights.policy = policy;
                settings.rights.strict_review = strict_review;
            }
            Field::Sandbox => {
                settings.rights.profile = profile(wire.sandbox.take(), &default.rights.profile)?
            }
            Field::EnvPolicy => {
                settings.defaults.env = env_policy(wire.env_policy.take(), &default.defaults.env)?
            }
            Field::Shell => settings.defaults.shell = shell(&wire.shell, &default.defaults.shell)?,
            Field::AllowLoginShell => {
                settings.defaults.allow_login =
                    wire.allow_login_shell.unwrap_or(default.defaults.allow_login);
            }
            Field::Interactive => settings.interactive = wire.interactive.unwrap_or(default.interactive),
            Field::Limits => {
                let (when_full, min_confidence) = (settings.limits.when_full, settings.limits.min_confidence);
                let limits = limits(wire.limits.take(), &default.limits)?;
                settings.limits = Limits { when_full, min_confidence, ..limits };
            }
            Field::ProcessLimits => {
                settings.process_limits = match wire.process_limits.take() {
                    None => default.process_limits,
                    given => resource_limits("config.process_limits", given)?,
                };
            }
            Field::TableFull => {
                settings.limits.when_full = when_full(wire.table_full, default.limits.when_full)?
            }
            Field::MinConfidence => {
                settings.limits.min_confidence =
                    min_confidence(wire.min_confidence, default.limits.min_confidence)?;
            }
        }
    }
    Ok(settings)
}

/// The first field of `asked` that goes beyond what the caller may give: an agent may ask for rights up to its ceiling,
/// narrow the rest of the default, and keep what the session has; a reviewer may go up to the server's ceiling.
pub(in crate::grpc) fn widening(
    role: Role,
    asked: &Settings,
    current: &Settings,
    bounds: &SessionDefaults,
) -> Option<&'static str> {
    // Empty roots of a bound are those of whatever session it is about.
    let cwd = &asked.defaults.cwd;
    let wanted = asked.rights.clone().in_directory(cwd);
    let kept = current.rights.clone().in_directory(&current.defaults.cwd);
    let beyond = |bound: &Rights| {
        wanted
            .beyond(&bound.clone().in_directory(cwd))
            .and_then(|field| wanted.beyond(&kept).and(Some(field)))
    };
    match role {
        Role::Agent => beyond(&bounds.agent_ceiling).or_else(|| {
            beyond_besides_rights(asked, &bounds.settings).and_then(|_| beyond_besides_rights(asked, current))
        }),
        Role::Reviewer => beyond(&bounds.ceiling),
    }
}

fn beyond_besides_rights(asked: &Settings, bound: &Settings) -> Option<&'static str> {
    let (env, env_bound) = (&asked.defaults.env, &bound.defaults.env);
    let checks = [
        ("allow_login_shell", asked.defaults.allow_login && !bound.defaults.allow_login),
        ("interactive", asked.interactive && !bound.interactive),
        ("env_policy.inherit", inherited(env.inherit) > inherited(env_bound.inherit)),
        ("env_policy.default_excludes", env_bound.default_excludes && !env.default_excludes),
        ("env_policy.exclude", !env_bound.exclude.iter().all(|pattern| env.exclude.contains(pattern))),
        (
            "env_policy.include_only",
            !env_bound.include_only.is_empty()
                && (env.include_only.is_empty()
                    || !env.include_only.iter().all(|pattern| env_bound.include_only.contains(pattern))),
        ),
        ("limits.max_processes", asked.limits.processes_max > bound.limits.processes_max),
        ("limits.max_output_tokens", asked.limits.output_tokens_max > bound.limits.output_tokens_max),
        ("limits.max_poll_ms", asked.limits.poll_yield_max > bound.limits.poll_yield_max),
        (
            "limits.max_one_shot_timeout_ms",
            asked.limits.one_shot_timeout_max > bound.limits.one_shot_timeout_max,
        ),
        ("min_confidence", asked.limits.min_confidence < bound.limits.min_confidence),
        ("limits.approval_expiry_ms", expires(asked) > expires(bound)),
        ("process_limits", asked.process_limits.within(&bound.process_limits) != asked.process_limits),
    ];
    checks.into_iter().find(|(_, beyond)| *beyond).map(|(field, _)| field)
}

/// When questions expire; never is the latest.
fn expires(settings: &Settings) -> Duration {
    settings.limits.approval_expiry.unwrap_or(Duration::MAX)
}

const fn inherited(inherit: Inherit) -> u8 {
    match inherit {
        Inherit::Nothing => 0,
        Inherit::Core => 1,
        Inherit::All => 2,
    }
}

fn absolute(field: &str, path: &str, default: &str) -> Valid<String> {
    if path.is_empty() {
        return Ok(default.to_owned());
    }
    bounded(field, path, PATH_BYTES_MAX)?;
    if !path.starts_with('/') {
        return invalid(field, format!("{path:?} is not an absolute path"));
    }
    if path.contains('\0') {
        return invalid(field, "has a null byte; the system takes none");
    }
    Ok(path.to_owned())
}

fn shell(asked: &str, default: &str) -> Result<String, Status> {
    if asked.is_empty() {
        return Ok(default.to_owned());
    }
    bounded("config.shell", asked, PATH_BYTES_MAX)?;
    check_shell("shell", asked).map_err(|error| status::invalid_command("config.", error))?;
    Ok(asked.to_owned())
}

/// A value of an enum of the wire; one that this version does not know is refused.
pub(in crate::grpc) fn known<E: TryFrom<i32>>(field: &str, value: i32) -> Valid<E> {
    E::try_from(value).or_else(|_| invalid(field, format!("{value} is no value of this field")))
}

fn env_policy(wire: Option<pb::EnvPolicy>, default: &EnvPolicy) -> Valid<EnvPolicy> {
    let Some(wire) = wire else { return Ok(default.clone()) };
    let inherit = match known("config.env_policy.inherit", wire.inherit)? {
        pb::EnvInherit::Unspecified => default.inherit,
        pb::EnvInherit::All => Inherit::All,
        pb::EnvInherit::Core => Inherit::Core,
        pb::EnvInherit::None => Inherit::Nothing,
    };
    for (field, list) in [("exclude", &wire.exclude), ("include_only", &wire.include_only)] {
        let field = format!("config.env_policy.{field}");
        if list.len() > PATTERNS_MAX {
            return invalid(
                field,
                format!("has {} patterns; at most {PATTERNS_MAX} are allowed", list.len()),
            );
        }
        list.iter().try_for_each(|pattern| bounded(&field, pattern, 1_024).map(drop))?;
    }
    if wire.set.len() > PATTERNS_MAX {
        return invalid("config.env_policy.set", format!("has more than {PATTERNS_MAX} variables"));
    }
    Ok(EnvPolicy {
        inherit,
        default_excludes: wire.default_excludes.unwrap_or(true),
        exclude: wire.exclude,
        set: variables("config.env_policy.set", wire.set)?,
        include_only: wire.include_only,
    })
}

fn limits(wire: Option<pb::SessionLimits>, default: &Limits) -> Result<Limits, Status> {
    let Some(wire) = wire else { return Ok(default.clone()) };
    let mut limits = default.clone();
    if let Some(processes) = wire.max_processes {
        if !(1..=PROCESSES_MAX).contains(&processes) {
            return Ok(invalid("config.limits.max_processes", format!("is outside 1..={PROCESSES_MAX}"))?);
        }
        limits.processes_max = usize::try_from(processes).unwrap_or(usize::MAX);
    }
    if let Some(tokens) = wire.max_output_tokens {
        limits.output_tokens_max = tokens;
    }
    if let Some(poll) = wire.max_poll_ms {
        if !POLL_MS.contains(&poll) {
            return Ok(invalid("config.limits.max_poll_ms", format!("is outside {POLL_MS:?}"))?);
        }
        limits.poll_yield_max = millis(poll);
    }
    if let Some(timeout) = wire.max_one_shot_timeout_ms {
        if timeout == 0 {
            return Ok(invalid("config.limits.max_one_shot_timeout_ms", "must be at least 1")?);
        }
        limits.one_shot_timeout_max = millis(timeout);
    }
    if let Some(expiry) = wire.approval_expiry_ms {
        limits.approval_expiry = (expiry > 0).then(|| millis(expiry));
    }
    Ok(limits)
}

fn when_full(wire: i32, default: WhenFull) -> Valid<WhenFull> {
    Ok(match known("config.table_full", wire)? {
        pb::TableFull::Unspecified => default,
        pb::TableFull::Evict => WhenFull::Evict,
        pb::TableFull::Reject => WhenFull::Reject,
    })
}

fn min_confidence(wire: i32, default: Confidence) -> Valid<Confidence> {
    match known("config.min_confidence", wire)? {
        pb::Confidence::Unspecified => Ok(default),
        pb::Confidence::Likely => Ok(Confidence::Likely),
        pb::Confidence::Checked => Ok(Confidence::Checked),
        pb::Confidence::Certain => Ok(Confidence::Certain),
        pb::Confidence::None => {
            invalid("config.min_confidence", "NONE would take every failure for a denial")
        }
    }
}

/// The labels of a session.
#[expect(clippy::disallowed_types, reason = "how prost has maps; it is put in order here")]
pub(in crate::grpc) fn check_labels(
    wire: std::collections::HashMap<String, String>,
) -> Valid<BTreeMap<String, String>> {
    if wire.len() > LABELS_MAX {
        return invalid("labels", format!("has {} labels; at most {LABELS_MAX} are allowed", wire.len()));
    }
    for (key, value) in &wire {
        bounded("labels", key, LABEL_BYTES_MAX)?;
        bounded("labels", value, LABEL_BYTES_MAX)?;
    }
    Ok(wire.into_iter().collect())
}

/// What a session is set to, every field filled in.
pub(in crate::grpc) fn config_to_wire(settings: &Settings) -> pb::SessionConfig {
    let Settings { defaults, rights, process_limits, limits, interactive } = settings;
    pb::SessionConfig {
        cwd: defaults.cwd.clone(),
        environment_id: LOCAL.to_owned(),
        approval_policy: Some(policy_to_wire(rights)),
        sandbox: Some(profile_to_wire(&rights.profile)),
        env_policy: Some(env_to_wire(&defaults.env)),
        shell: defaults.shell.clone(),
        allow_login_shell: Some(defaults.allow_login),
        interactive: Some(*interactive),
        limits: Some(pb::SessionLimits {
            max_processes: Some(count(limits.processes_max)),
            max_output_tokens: Some(limits.output_tokens_max),
            max_poll_ms: Some(to_millis_u32(limits.poll_yield_max)),
            max_one_shot_timeout_ms: Some(to_millis_u32(limits.one_shot_timeout_max)),
            approval_expiry_ms: Some(limits.approval_expiry.map_or(0, to_millis_u32)),
        }),
        process_limits: Some(resource_limits_to_wire(process_limits)),
        table_full: match limits.when_full {
            WhenFull::Evict => pb::TableFull::Evict,
            WhenFull::Reject => pb::TableFull::Reject,
        }
        .into(),
        min_confidence: confidence(limits.min_confidence).into(),
    }
}

fn env_to_wire(policy: &EnvPolicy) -> pb::EnvPolicy {
    let set = |var: &crate::core::command::EnvVar| pb::EnvVar {
        name: var.name.to_string(),
        value: bytes::Bytes::from(var.value.to_vec()),
    };
    pb::EnvPolicy {
        inherit: match policy.inherit {
            Inherit::All => pb::EnvInherit::All,
            Inherit::Core => pb::EnvInherit::Core,
            Inherit::Nothing => pb::EnvInherit::None,
        }
        .into(),
        default_excludes: Some(policy.default_excludes),
        exclude: policy.exclude.clone(),
        set: policy.set.iter().map(set).collect(),
        include_only: policy.include_only.clone(),
    }
}
