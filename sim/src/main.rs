//! `sim run FILE..` judges scenarios; `sim replay FILE` prints a transcript; `sim explain COMMAND` walks a decision.

use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;

use unified_exec_sim::{Scenario, explain, judge, play};

const USAGE: &str = "usage: sim run FILE..      play scenarios and hold them against what they expect\n       \
                     sim replay FILE     print the transcript of a scenario\n       \
                     sim explain COMMAND [--policy P] [--strict-review] [--sandbox S] [--network N] [--deny-read [PATH]]\n\
                     \x20           [--owner-network] [--rule \"WORDS=allow|prompt|forbidden\"] [--escalate] [--tty] [--stdin]\n\
                     \x20                       walk the decision about a command\n";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let mut out = io::stdout().lock();
    let done = match args.split_first() {
        Some((command, files)) if command == "run" && !files.is_empty() => run(&mut out, files),
        Some((command, [file])) if command == "replay" => replay(&mut out, file),
        Some((command, args)) if command == "explain" => match explain(args) {
            Ok(page) => out.write_all(page.as_bytes()).map(|()| true),
            Err(error) => return fail(&format!("sim: {error}\n{USAGE}")),
        },
        _ => return fail(USAGE),
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        // A reader that has seen enough, such as `head`, is no failure.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(error) => fail(&format!("sim: {error}\n")),
    }
}

fn fail(words: &str) -> ExitCode {
    // Nothing is left to tell it to if stderr is closed.
    drop(io::stderr().write_all(words.as_bytes()));
    ExitCode::from(2)
}

fn run(out: &mut impl Write, files: &[String]) -> io::Result<bool> {
    let mut failed = 0;
    writeln!(out, "{:<6} {:>6} {:>10}  scenario", "", "events", "virtual ms")?;
    for file in files {
        let scenario = match Scenario::load(Path::new(file)) {
            Ok(scenario) => scenario,
            Err(error) => {
                failed += 1;
                writeln!(out, "{:<6} {:>6} {:>10}  {error}", "ERROR", "", "")?;
                continue;
            }
        };
        let run = play(&scenario);
        let verdict = judge(&scenario, &run);
        let word = if verdict.passed() { "ok" } else { "FAIL" };
        writeln!(
            out,
            "{word:<6} {:>6} {:>10}  {}: {}",
            run.lines.len(),
            run.took,
            stem(file),
            scenario.title
        )?;
        if !verdict.passed() {
            failed += 1;
            for failure in &verdict.failures {
                writeln!(out, "  ! {failure}")?;
            }
            write!(out, "{}", verdict.comparison)?;
            writeln!(out, "  reproduce: cargo run -p unified-exec-sim -- run {file}")?;
        }
    }
    writeln!(out, "{} scenarios, {} passed, {failed} failed", files.len(), files.len() - failed)?;
    Ok(failed == 0)
}

fn replay(out: &mut impl Write, file: &str) -> io::Result<bool> {
    match Scenario::load(Path::new(file)) {
        Ok(scenario) => {
            for line in play(&scenario).lines {
                writeln!(out, "{line}")?;
            }
            Ok(true)
        }
        Err(error) => {
            writeln!(out, "{error}")?;
            Ok(false)
        }
    }
}

fn stem(file: &str) -> &str {
    Path::new(file).file_stem().and_then(|stem| stem.to_str()).unwrap_or(file)
}
