//! `sim meta`: the same seeds in two processes, compared to the byte.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};

use sim::{Tier, generate, play};

use super::Failure;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// How many seeds
    #[arg(long, default_value_t = 1_000)]
    count: u64,
    /// The first one
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// How much of the product runs
    #[arg(long, default_value_t = Tier::Core)]
    tier: Tier,
    /// Print the transcripts of all seeds: what the two processes do
    #[arg(long, hide = true)]
    transcripts: bool,
}

pub(crate) fn run(out: &mut impl Write, args: &Args) -> Result<bool, Failure> {
    if args.transcripts { print(out, args) } else { compare(out, args) }
}

fn print(out: &mut impl Write, args: &Args) -> Result<bool, Failure> {
    for seed in args.seed..args.seed.saturating_add(args.count) {
        let scenario = generate(seed);
        let run = play(&scenario, args.tier);
        writeln!(out, "{SEED}{seed}")?;
        // The scenario too: the generator must draw the same.
        writeln!(out, "{scenario}")?;
        for line in &run.lines {
            writeln!(out, "{line}")?;
        }
        writeln!(out, "{:?} {:?} {} {} {}", run.waiting, run.missed, run.live, run.children, run.took)?;
    }
    Ok(true)
}

/// Begins the part of a seed.
const SEED: &str = "== seed ";

fn compare(out: &mut impl Write, args: &Args) -> Result<bool, Failure> {
    let (mut one, mut two) = (player(args)?, player(args)?);
    let differs = first_difference(&mut one, &mut two);
    for player in [&mut one, &mut two] {
        if differs.is_some() {
            // Whether it has ended already does not matter.
            player.kill().ok();
        }
        let status = player.wait()?;
        if differs.is_none() && !status.success() {
            return Err(Failure::Usage(format!("a process that plays ended with {status}")));
        }
    }
    match differs {
        Some((seed, lines)) => {
            writeln!(out, "FAIL: two processes differ at seed {seed}")?;
            writeln!(out, "  one: {}\n  two: {}", lines.0, lines.1)?;
            writeln!(
                out,
                "  reproduce: cargo run -p sim -- meta --seed {seed} --count 1 --tier {}",
                args.tier
            )?;
            Ok(false)
        }
        None => {
            writeln!(out, "{}: {} seeds in two processes, no byte differs", args.tier, args.count)?;
            Ok(true)
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "a second process of the simulator itself is the point")]
fn player(args: &Args) -> Result<Child, Failure> {
    let words = [
        "meta".to_owned(),
        "--transcripts".to_owned(),
        format!("--count={}", args.count),
        format!("--seed={}", args.seed),
        format!("--tier={}", args.tier),
    ];
    Ok(Command::new(std::env::current_exe()?).args(words).stdout(Stdio::piped()).spawn()?)
}

/// The seed at which two processes print different lines, and these.
fn first_difference(one: &mut Child, two: &mut Child) -> Option<(String, (String, String))> {
    let lines = |child: &mut Child| child.stdout.take().map(|out| BufReader::new(out).lines());
    let (mut one, mut two) = (lines(one)?, lines(two)?);
    let mut seed = String::new();
    loop {
        let next =
            |lines: &mut dyn Iterator<Item = std::io::Result<String>>| lines.next().and_then(Result::ok);
        match (next(&mut one), next(&mut two)) {
            (None, None) => return None,
            (Some(one), Some(two)) if one == two => {
                if let Some(begun) = one.strip_prefix(SEED) {
                    seed = begun.to_owned();
                }
            }
            (one, two) => return Some((seed, (one.unwrap_or_default(), two.unwrap_or_default()))),
        }
    }
}
