//! `uexec`: parses, calls [`unified_exec::cli`], and exits with its code.

use std::process::ExitCode;

fn main() -> ExitCode {
    unified_exec::cli::run()
}
