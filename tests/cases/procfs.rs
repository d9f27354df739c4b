//! Looks into /proc: the only witness that does not depend on the service.

use std::fs;
use std::time::Duration;

use tokio::time::{Instant, sleep};

/// Living processes that carry this variable in their environment, which every descendant inherits.
pub(crate) fn with_variable(variable: &str) -> Vec<u32> {
    let wanted = variable.as_bytes();
    pids()
        .filter(|pid| {
            fs::read(format!("/proc/{pid}/environ"))
                .is_ok_and(|environ| environ.split(|byte| *byte == 0).any(|entry| entry == wanted))
        })
        .filter(|pid| lives(*pid))
        .collect()
}

/// Living processes with this in their arguments, but for the shells whose line mentions it.
pub(crate) fn with_argument(marker: &str) -> Vec<u32> {
    let shells = ["/bin/bash -c", "bash -c", "/bin/sh -c", "sh -c"];
    pids()
        .filter(|pid| {
            fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|line| {
                let line = String::from_utf8_lossy(&line).replace('\0', " ");
                line.contains(marker) && !shells.iter().any(|shell| line.starts_with(shell))
            })
        })
        .filter(|pid| lives(*pid))
        .collect()
}

/// The state letter of a process and its parent.
pub(crate) fn state(pid: u32) -> Option<(char, u32)> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    Some((fields.next()?.chars().next()?, fields.next()?.parse().ok()?))
}

/// Zombies of a parent.
pub(crate) fn zombies_of(parent: u32) -> Vec<u32> {
    pids().filter(|pid| state(*pid) == Some(('Z', parent))).collect()
}

/// A number of /proc/PID/status, in bytes or as it stands.
pub(crate) fn status(pid: u32, field: &str) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let value = status.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
    let mut words = value.unwrap_or("0").split_whitespace();
    let number: u64 = words.next().and_then(|word| word.parse().ok()).unwrap_or(0);
    if words.next() == Some("kB") { number * 1024 } else { number }
}

/// Lets the peak of the resident size begin anew.
pub(crate) fn reset_peak(pid: u32) {
    let _ = fs::write(format!("/proc/{pid}/clear_refs"), "5");
}

/// Open descriptors.
pub(crate) fn descriptors(pid: u32) -> usize {
    fs::read_dir(format!("/proc/{pid}/fd")).map_or(0, Iterator::count)
}

/// Waits until something holds.
pub(crate) async fn until(within: Duration, mut holds: impl FnMut() -> bool) -> bool {
    let end = Instant::now() + within;
    loop {
        if holds() {
            return true;
        }
        if Instant::now() > end {
            return false;
        }
        sleep(Duration::from_millis(20)).await;
    }
}

fn lives(pid: u32) -> bool {
    state(pid).is_some_and(|(state, _)| state != 'Z')
}

fn pids() -> impl Iterator<Item = u32> {
    let entries = fs::read_dir("/proc").unwrap();
    entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
}
