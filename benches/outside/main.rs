//! The service from outside, beside the bare operating system, as ratios in one run.
//!
//! It starts the release binary of `uexec serve` on a Unix socket and asks it as a client would; the bare side does the
//! same with `posix_spawn`, a pipe and a pseudo-terminal in this process. Rounds are interleaved, so that both sides
//! see the same machine; a ratio is taken inside a round and the median of the rounds is printed.
//!
//! `cargo bench --bench outside [-- exec|sandbox|pipe|pty|echo|idle|churn|volume]`; the last two are run only when they are named:
//! they take long, and check instead of measure.

#![expect(clippy::panic, reason = "a measurement that cannot be taken has no other way to end")]

mod bare;
mod service;

use std::time::Duration;

/// Rounds of each measurement; odd, so that there is a median.
const ROUNDS: usize = 5;
/// Starts of `true` in one round.
const EXECS: usize = 60;
/// Keystrokes in one round.
const KEYS: usize = 300;
/// Bytes through a pipe in one round.
const PIPE_BYTES: u64 = 256 << 20;
/// Bytes through a terminal in one round.
const TERMINAL_BYTES: u64 = 32 << 20;
/// Idle terminals.
const TERMINALS: u32 = 1_000;
/// Short commands in a row, and how many before the descriptors are counted for the first time.
const CHURN: usize = 10_000;
const CHURN_WARM_UP: usize = 200;
/// Bytes of the large transfer.
const VOLUME_BYTES: u64 = 1 << 30;

/// Descriptors that come and go with the runtime's own business.
const DESCRIPTORS_SLACK: usize = 8;

fn main() {
    let wanted = std::env::args().skip(1).find(|arg| !arg.starts_with('-'));
    let wants = |name: &str| wanted.as_deref().is_none_or(|wanted| wanted == name);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let server = service::Server::start();
    let mut client = runtime.block_on(server.connect());

    println!("{:<34} {:>12} {:>12} {:>8}", "", "bare", "service", "ratio");
    if wants("exec") {
        let rounds: Vec<_> = (0..ROUNDS)
            .map(|_| (times(EXECS, bare::exec_true), runtime.block_on(client.exec_true(EXECS))))
            .collect();
        report("exec /bin/true, p50", &rounds, |times| percentile(times, 50));
        report("exec /bin/true, p99", &rounds, |times| percentile(times, 99));
    }
    if wants("sandbox") {
        sandboxed(&runtime, &server, &mut client);
    }
    if wants("pipe") {
        let rounds: Vec<_> = (0..ROUNDS)
            .map(|_| (bare::pipe(PIPE_BYTES), runtime.block_on(client.output(PIPE_BYTES, false))))
            .collect();
        report_rate("stdout through a pipe", &rounds, PIPE_BYTES);
    }
    if wants("pty") {
        let rounds: Vec<_> = (0..ROUNDS)
            .map(|_| (bare::terminal(TERMINAL_BYTES), runtime.block_on(client.output(TERMINAL_BYTES, true))))
            .collect();
        report_rate("output of a terminal", &rounds, TERMINAL_BYTES);
    }
    if wants("echo") {
        let rounds: Vec<_> =
            (0..ROUNDS).map(|_| (bare::echo(KEYS), runtime.block_on(client.echo(KEYS)))).collect();
        report("keystroke echo, p50", &rounds, |times| percentile(times, 50));
        report("keystroke echo, p99", &rounds, |times| percentile(times, 99));
    }
    if wants("idle") {
        let before = server.memory();
        runtime.block_on(client.idle_terminals(TERMINALS));
        let after = server.memory();
        println!(
            "{:<34} {:>9.1} KiB each, {} threads, {:.1} MiB base",
            format!("{TERMINALS} idle terminals"),
            after.saturating_sub(before) as f64 / 1024.0 / f64::from(TERMINALS),
            server.threads(),
            before as f64 / f64::from(1 << 20),
        );
    }
    if wanted.as_deref() == Some("churn") {
        let client = std::cell::RefCell::new(client);
        churn(&server, |count| {
            runtime.block_on(client.borrow_mut().exec_true(count));
        });
    } else if wanted.as_deref() == Some("volume") {
        let bare = bare::digest(VOLUME_BYTES);
        for (terminal, name) in [(false, "a pipe"), (true, "a terminal")] {
            let digest = runtime.block_on(client.digest(VOLUME_BYTES, terminal));
            assert_eq!(digest, bare, "through {name}");
            println!("{VOLUME_BYTES} bytes through {name} with BLOCK: the same SHA-256");
        }
    }
}

/// What bubblewrap and seccomp add to a start: here "bare" is the service without them.
fn sandboxed(runtime: &tokio::runtime::Runtime, server: &service::Server, plain: &mut service::Client) {
    let mut confined = runtime.block_on(server.connect_sandboxed());
    let rounds: Vec<_> = (0..ROUNDS)
        .map(|_| (runtime.block_on(plain.exec_true(EXECS)), runtime.block_on(confined.exec_true(EXECS))))
        .collect();
    report("exec sandboxed / not, p50", &rounds, |times| percentile(times, 50));
    let p50 = |times: &[Duration]| percentile(times, 50).as_secs_f64() * 1e3;
    let added = median(rounds.iter().map(|(plain, confined)| p50(confined) - p50(plain)).collect());
    println!("{:<34} {added:>24.1} ms", "added by the sandbox, p50");
}

/// Many short commands leave no zombie and no descriptor.
fn churn(server: &service::Server, run: impl Fn(usize)) {
    run(CHURN_WARM_UP);
    let before = server.descriptors();
    run(CHURN);
    let (after, zombies) = (server.descriptors(), server.zombies());
    println!(
        "{CHURN} short commands in a row: {zombies} zombies, descriptors {before} before, {after} after"
    );
    assert!(zombies == 0 && after <= before + DESCRIPTORS_SLACK, "something was left behind");
}

fn times(count: usize, mut once: impl FnMut() -> Duration) -> Vec<Duration> {
    (0..count).map(|_| once()).collect()
}

fn percentile(times: &[Duration], percent: usize) -> Duration {
    let mut sorted = times.to_vec();
    sorted.sort();
    sorted[(sorted.len() - 1) * percent / 100]
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn report(name: &str, rounds: &[(Vec<Duration>, Vec<Duration>)], of: impl Fn(&[Duration]) -> Duration) {
    let micros = |times: &[Duration]| of(times).as_secs_f64() * 1e6;
    let bare = median(rounds.iter().map(|(bare, _)| micros(bare)).collect());
    let service = median(rounds.iter().map(|(_, service)| micros(service)).collect());
    let ratio = median(rounds.iter().map(|(bare, service)| micros(service) / micros(bare)).collect());
    println!("{name:<34} {bare:>9.0} us {service:>9.0} us {ratio:>7.2}x");
}

fn report_rate(name: &str, rounds: &[(Duration, Duration)], bytes: u64) {
    let rate = |time: Duration| bytes as f64 / 1e6 / time.as_secs_f64();
    let bare = median(rounds.iter().map(|(bare, _)| rate(*bare)).collect());
    let service = median(rounds.iter().map(|(_, service)| rate(*service)).collect());
    let ratio = median(rounds.iter().map(|(bare, service)| rate(*service) / rate(*bare)).collect());
    println!("{name:<34} {bare:>7.0} MB/s {service:>7.0} MB/s {ratio:>7.2}x");
}
