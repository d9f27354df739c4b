//! Puts a transcript whose order inside one millisecond says nothing into the order that is expected, as far as it goes.

use super::is_expected;
use crate::run::Run;
use crate::scenario::{Expect, Expected, Order};
use crate::transcript::Line;

/// The lines of `run`; those of one millisecond in the order in which they are expected, others after them.
pub(super) fn arrange(expect: &Expect, run: &Run) -> Vec<Line> {
    let expected: Vec<&Expected> = expect.events.iter().map(|event| event.get_ref()).collect();
    let mut next = 0;
    let joined = run.joined();
    let mut arranged = Vec::with_capacity(joined.len());
    for group in joined.chunk_by(|one, other| one.t == other.t) {
        let order = match expect.order {
            Order::Exact => {
                let t = group.first().map(|line| line.t);
                let of_group: Vec<&Expected> = expected.iter().copied().filter(|one| one.t == t).collect();
                pair(&of_group, group)
            }
            Order::Subsequence => {
                let order = follow(expected.get(next..).unwrap_or_default(), group);
                next += order.len();
                order
            }
        };
        arranged.extend(order.iter().filter_map(|at| group.get(*at)).cloned());
        let rest = group.iter().enumerate().filter(|(at, _)| !order.contains(at));
        arranged.extend(rest.map(|(_, line)| line.clone()));
    }
    arranged
}

/// Places in `group` of what is expected, in its order, so that as much as possible has one: a pattern that says little
/// must not take the line that is the only one for another.
fn pair(expected: &[&Expected], group: &[Line]) -> Vec<usize> {
    let mut taken: Vec<Option<usize>> = vec![None; group.len()];
    for one in 0..expected.len() {
        assign(one, expected, group, &mut taken, &mut vec![false; group.len()]);
    }
    places(&taken, expected.len())
}

/// The same, until something has no place.
fn follow(expected: &[&Expected], group: &[Line]) -> Vec<usize> {
    let mut taken: Vec<Option<usize>> = vec![None; group.len()];
    let mut fits = |one: usize| assign(one, expected, group, &mut taken, &mut vec![false; group.len()]);
    let count = (0..expected.len()).take_while(|one| fits(*one)).count();
    places(&taken, count)
}

fn places(taken: &[Option<usize>], count: usize) -> Vec<usize> {
    (0..count).filter_map(|one| taken.iter().position(|by| *by == Some(one))).collect()
}

/// Finds a line for `one`, if need be by finding another one for whoever has it.
fn assign(
    one: usize,
    expected: &[&Expected],
    group: &[Line],
    taken: &mut [Option<usize>],
    seen: &mut [bool],
) -> bool {
    for (at, line) in group.iter().enumerate() {
        let fits = expected.get(one).is_some_and(|one| is_expected(one, line));
        if !fits || seen.get(at) != Some(&false) {
            continue;
        }
        seen.iter_mut().skip(at).take(1).for_each(|seen| *seen = true);
        let free = match taken.get(at).copied().flatten() {
            None => true,
            Some(other) => assign(other, expected, group, taken, seen),
        };
        if free {
            taken.iter_mut().skip(at).take(1).for_each(|by| *by = Some(one));
            return true;
        }
    }
    false
}
