//! Makes a failing scenario small: parts of its file are left out, and numbers made round, as long as it fails the same
//! way.

use std::path::Path;

use toml::Value;

use crate::properties::properties;
use crate::run::Run;
use crate::scenario::{AtEnd, Scenario};

/// Round numbers, best first, and the instants at which something is decided.
const ROUND: [i64; 14] = [0, 1, 10, 100, 149, 150, 151, 200, 250, 1_000, 2_000, 5_000, 10_000, 100_000];

/// The smallest scenario found for which `fails` still holds; it holds for `scenario`.
pub fn shrink(scenario: &Scenario, fails: impl Fn(&Scenario) -> bool) -> Scenario {
    let Ok(Value::Table(table)) = toml::from_str(&scenario.to_string()) else { return scenario.clone() };
    let mut smallest = Smallest { table, best: scenario.clone(), fails };
    loop {
        let before = smallest.best.to_string();
        smallest.drop_steps();
        smallest.drop_parts();
        smallest.round();
        if smallest.best.to_string() == before {
            return smallest.best;
        }
    }
}

/// A failing scenario as a file of its own: its name, and its text with what came of it at the end.
pub fn regression(scenario: &Scenario, property: &str, found: &str, run: Option<&Run>) -> (String, String) {
    let mut scenario = scenario.clone();
    let says = properties().find(|(name, _)| *name == property).map_or(property, |(_, says)| says);
    scenario.title = says.to_owned();
    scenario.tags = vec!["regress".to_owned(), property.replace('_', "-")];
    if let Some(run) = run {
        let (live, children) = (run.live, run.children);
        scenario.expect.at_end =
            AtEnd { live, children, waiting: run.waiting.len(), questions: run.questions };
    }
    let text = scenario.to_string();
    let name = format!("{property}-{:08x}.toml", hash(&text));
    let head = format!("# Found by `sim swarm` and shrunk: {}\n", found.replace('\n', " "));
    (
        name,
        format!(
            "{head}# `at_end` is what came of it then; every property is held against it whatever it expects.\n{text}"
        ),
    )
}

/// FNV-1a, folded.
fn hash(text: &str) -> u32 {
    let hash = text
        .bytes()
        .fold(0xCBF2_9CE4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01B3));
    u32::try_from((hash ^ (hash >> 32)) & u64::from(u32::MAX)).unwrap_or(0)
}

/// A place in a file.
type Place = Vec<Key>;

#[derive(Clone, Debug)]
enum Key {
    Name(String),
    Item(usize),
}

struct Smallest<F> {
    /// The file of `best`.
    table: toml::Table,
    best: Scenario,
    fails: F,
}

impl<F: Fn(&Scenario) -> bool> Smallest<F> {
    /// Keeps a change if the file is still one of a scenario, and it still fails.
    fn attempt(&mut self, change: impl FnOnce(&mut Value)) -> bool {
        let mut value = Value::Table(self.table.clone());
        change(&mut value);
        let Value::Table(table) = value else { return false };
        if table == self.table {
            return false;
        }
        let Ok(text) = toml::to_string(&table) else { return false };
        match Scenario::parse(Path::new("shrunk"), &text) {
            Ok(scenario) if (self.fails)(&scenario) => {
                (self.table, self.best) = (table, scenario);
                true
            }
            Ok(_) | Err(_) => false,
        }
    }

    /// Steps go many at once, last ones first, so that whoever names another goes before it.
    fn drop_steps(&mut self) {
        let count = |of: &Self| of.best.when.len();
        let mut chunk = count(self) / 2;
        while chunk > 0 {
            let mut end = count(self);
            while end > 0 {
                let start = end.saturating_sub(chunk);
                self.attempt(|file| {
                    if let Some(Value::Array(steps)) = file.get_mut("when") {
                        steps.drain(start..end.min(steps.len()));
                    }
                });
                end = start.min(count(self));
            }
            chunk /= 2;
        }
    }

    /// Everything that can be left out, last and innermost parts first.
    fn drop_parts(&mut self) {
        let mut places = Vec::new();
        for name in ["service", "rules", "reviewer", "program", "when"] {
            if let Some(value) = self.table.get(name) {
                collect(value, &mut vec![Key::Name(name.to_owned())], &mut places);
            }
        }
        for place in places.into_iter().rev() {
            self.attempt(|file| remove(file, &place));
        }
    }

    fn round(&mut self) {
        let mut places = Vec::new();
        for name in ["service", "program", "when"] {
            if let Some(value) = self.table.get(name) {
                collect(value, &mut vec![Key::Name(name.to_owned())], &mut places);
            }
        }
        for place in places {
            let value = at(&mut Value::Table(self.table.clone()), &place).cloned();
            match value {
                Some(Value::Integer(number)) => {
                    for round in ROUND.into_iter().filter(|round| *round < number) {
                        let set = |file: &mut Value| {
                            if let Some(value) = at(file, &place) {
                                *value = Value::Integer(round);
                            }
                        };
                        if self.attempt(set) {
                            break;
                        }
                    }
                }
                Some(Value::String(text)) if text.len() > 1 => {
                    let last = matches!(place.last(), Some(Key::Name(name)) if name == "out" || name == "err" || name == "input");
                    if last {
                        self.attempt(|file| {
                            if let Some(value) = at(file, &place) {
                                *value = Value::String("x".into());
                            }
                        });
                    }
                }
                _ => {}
            }
        }
    }
}

fn collect(value: &Value, place: &mut Place, places: &mut Vec<Place>) {
    places.push(place.clone());
    match value {
        Value::Table(table) => {
            for (name, value) in table {
                place.push(Key::Name(name.clone()));
                collect(value, place, places);
                place.pop();
            }
        }
        Value::Array(items) => {
            for (item, value) in items.iter().enumerate() {
                place.push(Key::Item(item));
                collect(value, place, places);
                place.pop();
            }
        }
        _ => {}
    }
}

fn at<'v>(value: &'v mut Value, place: &[Key]) -> Option<&'v mut Value> {
    place.iter().try_fold(value, |value, key| match key {
        Key::Name(name) => value.get_mut(name),
        Key::Item(item) => value.get_mut(item),
    })
}

fn remove(file: &mut Value, place: &[Key]) {
    let Some((last, rest)) = place.split_last() else { return };
    match (at(file, rest), last) {
        (Some(Value::Table(table)), Key::Name(name)) => {
            table.remove(name);
        }
        (Some(Value::Array(items)), Key::Item(item)) if *item < items.len() => {
            items.remove(*item);
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::swarm::{Campaign, generate};
    use crate::tier::{Tier, play};

    #[test]
    fn a_failure_is_shrunk_to_what_it_needs() {
        let campaign = Campaign::new(Tier::Core, true);
        let seed = (0..500).find(|seed| campaign.fails(&generate(*seed), "canary")).expect("a canary sings");
        let small = shrink(&generate(seed), |scenario| campaign.fails(scenario, "canary"));
        assert!(campaign.fails(&small, "canary"));
        assert!(small.when.len() <= 2, "{small}");
        assert_eq!(small.program.len(), 1, "{small}");
        let (name, text) = regression(&small, "canary", "a\ntest", Some(&play(&small, Tier::Core)));
        assert!(name.starts_with("canary-") && name.ends_with(".toml"));
        let read = Scenario::parse(Path::new(&name), &text).expect("it is a file");
        assert!(campaign.fails(&read, "canary"));
    }
}
