//! `sim`: the simulator's command line.

mod commands;

use std::io;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use sim::scriptchild::EXIT_BROKEN;

use crate::commands::{
    Failure, bench, cast, conform, explain, gallery, import, lint, meta, record, replay, run, scriptchild,
    shrink, swarm, timeline,
};

/// A play is many small allocations, all of one thread.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Plays timing scenarios against unified-exec, and proves that the same seed gives the same bytes.
#[derive(Debug, Parser)]
#[command(name = "sim", version)]
struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Play scenarios and hold them against what they expect
    Run(run::Args),
    /// Print the transcript of a scenario
    Replay(replay::Args),
    /// Play random scenarios and hold them against every property
    Swarm(swarm::Args),
    /// Make a failing scenario small
    Shrink(shrink::Args),
    /// Play the same seeds in two processes, and compare every byte
    Meta(meta::Args),
    /// Measure scenarios a second by tier
    Bench(bench::Args),
    /// Hold real children to the fake: the same public transcript of each scenario
    Conform(conform::Args),
    /// Record true programs as a scenario that the fake plays to the same public transcript
    Record(record::Args),
    /// Make a scenario of a recorded event feed
    Import(import::Args),
    /// Walk the decision about a command
    Explain(explain::Args),
    /// Find what is wrong in scenario files beyond their syntax
    Lint(lint::Args),
    /// Draw a scenario as SVG
    Timeline(timeline::Args),
    /// Show the terminal of a scenario as an asciicast
    Cast(cast::Args),
    /// Draw the scenarios of the gallery, or check that their pictures are fresh
    Gallery(gallery::Args),
    /// Play an act list in real time, as a child
    Scriptchild(scriptchild::Args),
}

fn main() -> ExitCode {
    // On L3 this program is the launcher of its own sandboxes.
    unified_exec::spawn::launcher::run_if_asked();
    let args = Args::parse();
    let mut out = io::stdout().lock();
    let done = match args.command {
        Command::Run(args) => run::run(&mut out, &args),
        Command::Replay(args) => replay::run(&mut out, &args),
        Command::Swarm(args) => swarm::run(&mut out, &args),
        Command::Shrink(args) => shrink::run(&mut out, &args),
        Command::Meta(args) => meta::run(&mut out, &args),
        Command::Bench(args) => bench::run(&mut out, &args),
        Command::Conform(args) => conform::run(&mut out, &args),
        Command::Record(args) => record::run(&mut out, &args),
        Command::Import(args) => import::run(&mut out, &args),
        Command::Cast(args) => cast::run(&mut out, &args),
        Command::Explain(args) => explain::run(&mut out, &args),
        Command::Lint(args) => lint::run(&mut out, &args),
        Command::Timeline(args) => timeline::run(&mut out, &args),
        Command::Gallery(args) => gallery::run(&mut out, &args),
        Command::Scriptchild(args) => scriptchild::run(&args),
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        // A reader that has seen enough, such as `head`, is no failure.
        Err(Failure::Output(error)) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("sim: {failure}");
            match failure {
                Failure::Child(_) => ExitCode::from(EXIT_BROKEN),
                _ => ExitCode::from(2),
            }
        }
    }
}
