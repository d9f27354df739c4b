//! What a caller asks to run.

use std::collections::BTreeSet;

use tonic::Status;

use super::{Valid, bounded, id, invalid};
use crate::core::command::{Command, EnvVar, Program, TerminalSize};
use crate::core::policy::Unsupported;
use crate::grpc::pb;
use crate::grpc::status;

/// The one environment of this version.
pub(in crate::grpc) const LOCAL: &str = "local";
/// Variables that one command, or one policy, may name.
pub(super) const VARIABLES_MAX: usize = 1_024;
/// Longest name of a variable.
const NAME_BYTES_MAX: usize = 1_024;
/// Longest name and value together: the kernel takes 131 072 bytes in one string, `=` and a null byte included.
const VARIABLE_BYTES_MAX: usize = 131_070;
/// Longest justification.
const JUSTIFICATION_BYTES_MAX: usize = 4_096;

/// How a command is connected: what stands beside it in a request.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Connection {
    pub(super) terminal: Option<TerminalSize>,
    pub(super) stdin: bool,
    pub(super) full_terminal: bool,
}

/// A command, and whether its descendants end with it.
pub(super) fn command(wire: Option<pb::Command>, connection: Connection) -> Result<(Command, bool), Status> {
    let Some(wire) = wire else { return Ok(invalid("command", "is required")?) };
    refuse_permissions(&wire)?;
    refuse_limits(wire.limits.as_ref())?;
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
    Ok((command, kill_descendants_on_exit))
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
        variables.push(EnvVar { name, value: value.into() });
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

fn refuse_permissions(wire: &pb::Command) -> Result<(), Status> {
    use pb::SandboxPermissions as Asked;
    let asked = match Asked::try_from(wire.sandbox_permissions) {
        Ok(asked) => asked,
        Err(_) => {
            let problem = format!("{} is no value of SandboxPermissions", wire.sandbox_permissions);
            return Ok(invalid("command.sandbox_permissions", problem)?);
        }
    };
    bounded("command.justification", &wire.justification, JUSTIFICATION_BYTES_MAX)?;
    let additional = wire.additional_permissions.is_some();
    match asked {
        Asked::Unspecified | Asked::UseDefault => {}
        Asked::WithAdditionalPermissions if !additional => {
            return Ok(invalid(
                "command.additional_permissions",
                "is required with WITH_ADDITIONAL_PERMISSIONS",
            )?);
        }
        Asked::RequireEscalated | Asked::WithAdditionalPermissions => {
            return Err(status::unsupported(Unsupported::SandboxPermissions));
        }
    }
    if additional {
        let problem = "is set, but sandbox_permissions does not ask for it";
        return Ok(invalid("command.additional_permissions", problem)?);
    }
    if !wire.justification.is_empty() {
        return Ok(invalid("command.justification", "is set, but sandbox_permissions asks for nothing")?);
    }
    if wire.prefix_rule.len() > 64 {
        return Ok(invalid("command.prefix_rule", "has more than 64 words")?);
    }
    Ok(())
}

/// Refuses every resource limit: none is enforced in this version, and none is ignored.
pub(super) fn refuse_limits(wire: Option<&pb::ResourceLimits>) -> Result<(), Status> {
    let Some(limits) = wire else { return Ok(()) };
    let pb::ResourceLimits { memory_bytes, max_pids, cpu_time_ms, open_files, file_size_bytes } = limits;
    let asked = [
        ("memory_bytes", memory_bytes.is_some()),
        ("max_pids", max_pids.is_some()),
        ("cpu_time_ms", cpu_time_ms.is_some()),
        ("open_files", open_files.is_some()),
        ("file_size_bytes", file_size_bytes.is_some()),
    ];
    match asked.into_iter().find(|(_, asked)| *asked) {
        Some((limit, _)) => Err(status::limit_unenforceable(limit)),
        None => Ok(()),
    }
}
