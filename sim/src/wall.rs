//! Holds a play by the wall's clock against what its scenario expects. Things may be late, by as much as the scenario lets
//! them, and frames of output may be cut otherwise; which comes first of what is close is left to `conform`.

use crate::scenario::{Expected, Order, Scenario};
use crate::transcript::{Line, Pattern};

/// How late things may come on real children unless a scenario says otherwise, in milliseconds: far beyond what was ever
/// measured on a machine that is not overrun.
const TOLERANCE: u64 = 1_500;
/// The kernel can be late, and not early; a clock that is read twice can differ by as much, in milliseconds.
pub(crate) const EARLY_MAX: u64 = 2;

/// How late things may come in this scenario, in milliseconds.
pub(crate) fn tolerance(scenario: &Scenario) -> u64 {
    scenario.real_tol.unwrap_or(TOLERANCE)
}

/// The transcript in the order of what is expected, as far as it came; everything else stays where it was, at the end.
/// Moments within the tolerance are as expected, and so are the frames of output that are expected.
pub(crate) fn arrange(scenario: &Scenario, lines: &[Line]) -> Vec<Line> {
    let tolerance = tolerance(scenario);
    let expect = &scenario.expect;
    let mut left: Vec<&Line> = lines.iter().collect();
    let mut arranged = Vec::new();
    for expected in expect.events.iter().map(|event| event.get_ref()) {
        let Ok(pattern) = Pattern::parse(&expected.e) else { continue };
        let came = |line: &&Line| pattern.matches(line) && in_time(expected, line.t, tolerance);
        let Some(at) = left.iter().position(came) else { continue };
        // What is expected in part is expected in this order.
        let skipped = if expect.order == Order::Subsequence { at } else { 0 };
        arranged.extend(left.drain(..skipped).cloned());
        let mut line = left.remove(at - skipped).clone();
        line.t = expected.t.unwrap_or(line.t);
        arranged.push(line);
    }
    arranged.extend(left.into_iter().cloned());
    arranged
}

fn in_time(expected: &Expected, came: u64, tolerance: u64) -> bool {
    expected.t.is_none_or(|t| (t.saturating_sub(EARLY_MAX)..=t + tolerance).contains(&came))
}
