//! What a caller asks to run.

use std::collections::BTreeSet;
use std::time::Duration;

use tonic::Status;

use super::approval::{WORDS_BYTES_MAX, permissions, rule_words};
use super::config::known;
use super::{Valid, bounded, id, invalid};
use crate::core::approval::Permissions;
use crate::core::command::{Command, EnvVar, LOCAL_ENVIRONMENT, Program, TerminalSize};
use crate::core::spawn::ResourceLimits;
use crate::grpc::pb;
use crate::grpc::status;

/// The one environment of this version.
pub(in crate::grpc) const LOCAL: &str = LOCAL_ENVIRONMENT;
/// Variables that one command, or one policy, may name.
pub(super) const VARIABLES_MAX: usize = 1_024;
/// Longest name of a variable.
const NAME_BYTES_MAX: usize = 1_024;
/// Longest name and value together: the kernel takes 131 072 bytes in one string, `=` and a null byte included.
const VARIABLE_BYTES_MAX: usize = 131_070;

/// How a command is connected: what stands beside it in a request.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Connection {
    pub(super) terminal: Option<TerminalSize>,
    pub(super) stdin: bool,
    pub(super) full_terminal: bool,
}

/// What a command wants beyond being run.
#[derive(Debug)]
pub(super) struct Wanted {
    pub(super) permissions: Permissions,
    pub(super) justification: String,
    pub(super) proposed_rule: Vec<String>,
}

/// A command as it was asked for.
#[derive(Debug)]
pub(super) struct Asked {
    pub(super) command: Command,
    pub(super) wanted: Wanted,
    pub(super) limits: ResourceLimits,
    pub(super) kill_descendants_on_exit: bool,
}

/// A command, and what it wants.
pub(super) fn command(wire: Option<pb::Command>, connection: Connection) -> Result<Asked, Status> {
    let Some(mut wire) = wire else { return Ok(invalid("command", "is required")?) };
    let wanted = wanted(&mut wire)?;
    let limits = resource_limits("command.limits", wire.limits.take())?;
    environment("command.environment_id", &wire.environment_id)?;
    let kill_descendants_on_exit = wire.kill_descendants_on_exit;
    let program = program(wire.cmd, wire.argv, wire.shell, wire.login)?;
    let command = Command {
        program,
        cwd: (!wire.cwd.is_empty()).then_some(wire.cwd),
        env: variables("command.env", wire.env)?,
        terminal: connection.terminal,
        stdin: connection.stdin,
        full_terminal: connection.full_terminal,
    };
    Ok(Asked { command, wanted, limits, kill_descendants_on_exit })
}

fn program(cmd: String, argv: Vec<String>, shell: String, login: Option<bool>) -> Valid<Program> {
    match (cmd.is_empty(), argv.is_empty()) {
        (true, true) => invalid("command.cmd", "is empty; give a shell line, or a program in `argv`"),
        (false, false) => invalid("command.argv", "is given beside `cmd`; give one of them"),
        (false, true) => Ok(Program::Shell { cmd, shell: (!shell.is_empty()).then_some(shell), login }),
        (true, false) if !shell.is_empty() => {
            invalid("command.shell", "has no meaning with `argv`; leave it out, or give a line in `cmd`")
        }
        (true, false) => Ok(Program::Argv(argv)),
    }
}

/// Variables with names that can be, each once.
pub(super) fn variables(field: &str, wire: Vec<pb::EnvVar>) -> Valid<Vec<EnvVar>> {
    if wire.len() > VARIABLES_MAX {
        return invalid(field, format!("has {} variables; at most {VARIABLES_MAX} are allowed", wire.len()));
    }
    let mut names = BTreeSet::new();
    let mut variables = Vec::with_capacity(wire.len());
    for (at, variable) in wire.into_iter().enumerate() {
        let pb::EnvVar { name, value } = variable;
        bounded(&format!("{field}[{at}].name"), &name, NAME_BYTES_MAX)?;
        if name.is_empty() || name.contains(['=', '\0']) {
            return invalid(format!("{field}[{at}].name"), format!("{name:?} is no name for a variable"));
        }
        if value.contains(&0) {
            return invalid(format!("{field}[{at}].value"), "has a null byte; the system takes none");
        }
        if name.len() + value.len() > VARIABLE_BYTES_MAX {
            let bytes = name.len() + value.len();
            return invalid(
                format!("{field}[{at}]"),
                format!("has {bytes} bytes; the kernel takes {VARIABLE_BYTES_MAX}"),
            );
        }
        if !names.insert(name.clone()) {
            return invalid(format!("{field}[{at}].name"), format!("{name:?} is given twice"));
        }
        variables.push(EnvVar { name: name.into(), value: Vec::from(value).into() });
    }
    Ok(variables)
}

/// The environment that a command or session names; empty is the one there is.
pub(in crate::grpc) fn environment(field: &str, name: &str) -> Result<(), Status> {
    id(field, name)?;
    if name.is_empty() || name == LOCAL { Ok(()) } else { Err(status::environment_not_found(field, name)) }
}

/// A size with its defaults; zero is the default of its side.
pub(in crate::grpc) fn terminal_size(field: &str, wire: pb::TerminalSize) -> Valid<TerminalSize> {
    let TerminalSize { rows, cols } = TerminalSize::default();
    let side = |name: &str, asked: u32, default: u16| match u16::try_from(asked) {
        Ok(0) => Ok(default),
        Ok(side) => Ok(side),
        Err(_) => invalid(format!("{field}.{name}"), format!("{asked} is above 65535")),
    };
    Ok(TerminalSize { rows: side("rows", wire.rows, rows)?, cols: side("cols", wire.cols, cols)? })
}

fn wanted(wire: &mut pb::Command) -> Valid<Wanted> {
    let asked = known("command.sandbox_permissions", wire.sandbox_permissions)?;
    let justification = std::mem::take(&mut wire.justification);
    bounded("command.justification", &justification, WORDS_BYTES_MAX)?;
    let permissions = permissions(asked, wire.additional_permissions.take())?;
    if permissions == Permissions::Default && !justification.is_empty() {
        return invalid("command.justification", "is set, but sandbox_permissions asks for nothing");
    }
    let proposed_rule = rule_words("command.prefix_rule", std::mem::take(&mut wire.prefix_rule))?;
    Ok(Wanted { permissions, justification, proposed_rule })
}

/// Least memory that a process can be bounded to.
const MEMORY_BYTES_MIN: u64 = 1024 * 1024;
/// Fewest descriptors that a program can be expected to start with.
const OPEN_FILES_MIN: u32 = 16;

/// What each process may use.
pub(super) fn resource_limits(field: &str, wire: Option<pb::ResourceLimits>) -> Valid<ResourceLimits> {
    let pb::ResourceLimits { memory_bytes, max_pids, cpu_time_ms, open_files, file_size_bytes } =
        wire.unwrap_or_default();
    let at_least = |name: &str, given: Option<u64>, least: u64| match given {
        Some(given) if given < least => {
            invalid(format!("{field}.{name}"), format!("must be at least {least}"))
        }
        _ => Ok(()),
    };
    at_least("memory_bytes", memory_bytes, MEMORY_BYTES_MIN)?;
    at_least("max_pids", max_pids.map(u64::from), 1)?;
    at_least("cpu_time_ms", cpu_time_ms, 1)?;
    at_least("open_files", open_files.map(u64::from), u64::from(OPEN_FILES_MIN))?;
    Ok(ResourceLimits {
        memory_bytes,
        pids_max: max_pids,
        cpu_time: cpu_time_ms.map(Duration::from_millis),
        open_files_max: open_files,
        file_size_bytes,
    })
}

/// What each process may use.
pub(super) fn resource_limits_to_wire(limits: &ResourceLimits) -> pb::ResourceLimits {
    let ResourceLimits { memory_bytes, pids_max, cpu_time, open_files_max, file_size_bytes } = *limits;
    pb::ResourceLimits {
        memory_bytes,
        max_pids: pids_max,
        cpu_time_ms: cpu_time.map(|time| u64::try_from(time.as_millis()).unwrap_or(u64::MAX)),
        open_files: open_files_max,
        file_size_bytes,
    }
}
