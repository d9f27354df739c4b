//! The table of what is covered, in the docs, and the scenarios that are there: neither knows what the other lacks.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use sim::Scenario;

/// Every scenario below the folder: its tags, by its name.
fn scenarios(folder: &Path, found: &mut BTreeMap<String, Vec<String>>) {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let paths: BTreeSet<PathBuf> = entries.map(|entry| entry.path()).collect();
    for path in paths {
        if path.is_dir() {
            scenarios(&path, found);
        } else if let Ok(scenario) = Scenario::load(&path) {
            let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            found.insert(name, scenario.tags);
        }
    }
}

/// The scenarios and the tags that the table names.
fn table() -> (BTreeSet<String>, BTreeSet<String>) {
    let docs = include_str!("../../docs/simulation.md");
    let section = docs.split_once("\n## What is covered\n").map_or("", |(_, rest)| rest);
    let section = section.split_once("\n## ").map_or(section, |(section, _)| section);
    let (mut names, mut tags) = (BTreeSet::new(), BTreeSet::new());
    for row in section.lines().filter(|line| line.starts_with('|')) {
        for cell in row.split('|').nth(2).unwrap_or_default().split(',').map(str::trim) {
            let quoted = |text: &str| Some(text.strip_prefix('`')?.strip_suffix('`')?.to_owned());
            match cell.strip_prefix("tag ") {
                Some(tag) => tags.extend(quoted(tag)),
                None => names.extend(quoted(cell)),
            }
        }
    }
    (names, tags)
}

#[test]
fn every_scenario_that_the_table_names_is_there_and_every_one_that_is_there_is_in_it() {
    let mut found = BTreeMap::new();
    scenarios(&Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios"), &mut found);
    let (names, tags) = table();
    assert!(names.len() >= 100 && tags.len() >= 8 && found.len() >= 160);
    let missing: Vec<&String> = names.iter().filter(|name| !found.contains_key(*name)).collect();
    assert!(missing.is_empty(), "the table names what is not there: {missing:?}");
    let unused: Vec<&String> =
        tags.iter().filter(|tag| !found.values().any(|has| has.contains(tag))).collect();
    assert!(unused.is_empty(), "the table names tags that no scenario has: {unused:?}");
    let is_in =
        |name: &String, has: &[String]| names.contains(name) || has.iter().any(|tag| tags.contains(tag));
    let left: Vec<&String> =
        found.iter().filter(|(name, has)| !is_in(name, has)).map(|(name, _)| name).collect();
    assert!(left.is_empty(), "the table lacks, by name and by tag: {left:?}");
}
