//! `uexec`: becomes the launcher of a child if it was started as that; otherwise parses, calls [`unified_exec::cli`], and
//! exits with its code.

use std::process::ExitCode;

fn main() -> ExitCode {
    unified_exec::spawn::launcher::run_if_asked();
    unified_exec::cli::run()
}
