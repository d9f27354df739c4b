//! A scenario as the text of its file: what [`Scenario::parse`] reads back as the same scenario.

use std::fmt::{self, Display, Write};

use serde::Serialize;
use toml::{Spanned, Value};

use super::{AtEnd, Expect, Order, Program, Scenario};

/// Fields in the order in which people read them; all others follow, by name.
const FIRST: [&str; 17] = [
    "at", "on", "delay", "op", "call", "to", "turn", "cmd", "verdict", "question", "t", "e", "from", "no",
    "host", "policy", "sandbox",
];

impl Display for Scenario {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "format = {}", self.format.get_ref())?;
        writeln!(f, "title  = {}", text(&self.title))?;
        if !self.tags.is_empty() {
            writeln!(f, "tags   = {}", inline(&self.tags)?)?;
        }
        if let Some(run_to) = self.run_to {
            writeln!(f, "run_to = {run_to}")?;
        }
        if self.loose {
            writeln!(f, "loose  = true")?;
        }
        if let Some(why) = &self.fake_only {
            writeln!(f, "fake_only = {}", text(why))?;
        }
        if let Some(tol) = self.real_tol {
            writeln!(f, "real_tol = {tol}")?;
        }
        if !self.tiers.is_empty() {
            writeln!(f, "tiers  = {}", inline(&self.tiers)?)?;
        }
        section(f, "[link]", &fields(&self.link)?)?;
        section(f, "[service]", &fields(&self.service)?)?;
        section(f, "[rules]", &fields(&self.rules)?)?;
        if let Some(reviewer) = &self.reviewer {
            section(f, "[reviewer]", &fields(reviewer)?)?;
        }
        for (name, program) in &self.program {
            write_program(f, name, program)?;
        }
        for when in &self.when {
            section(f, "[[when]]", &fields(when.get_ref())?)?;
        }
        write_expect(f, &self.expect)
    }
}

fn write_program(f: &mut fmt::Formatter<'_>, name: &str, program: &Program) -> fmt::Result {
    writeln!(f, "\n[program.{}]", text(name))?;
    if program.spawn > 0 {
        writeln!(f, "spawn = {}", program.spawn)?;
    }
    if let Some(failure) = program.spawn_error {
        writeln!(f, "spawn_error = {}", inline(&failure)?)?;
    }
    if let Some(second) = &program.second {
        writeln!(f, "second = {}", inline(second)?)?;
    }
    if !program.real.is_empty() {
        writeln!(f, "real = {}", inline(&program.real)?)?;
    }
    rows(f, "acts", &program.acts)?;
    rows(f, "sandboxed", &program.sandboxed)?;
    rows(f, "unsandboxed", &program.unsandboxed)
}

fn write_expect(f: &mut fmt::Formatter<'_>, expect: &Expect) -> fmt::Result {
    writeln!(f, "\n[expect]")?;
    if expect.order != Order::default() {
        writeln!(f, "order = {}", inline(&expect.order)?)?;
    }
    rows(f, "events", &expect.events)?;
    rows(f, "never", &expect.never)?;
    rows(f, "quiet", &expect.quiet)?;
    for (name, count) in [("spawns", expect.spawns), ("questions", expect.questions)] {
        if let Some(count) = count {
            writeln!(f, "{name} = {count}")?;
        }
    }
    if expect.at_end != AtEnd::default() {
        writeln!(f, "at_end = {}", inline(&expect.at_end)?)?;
    }
    Ok(())
}

/// A table with a line for each field, or nothing if it has none.
fn section(f: &mut fmt::Formatter<'_>, header: &str, fields: &[(String, String)]) -> fmt::Result {
    if fields.is_empty() {
        return Ok(());
    }
    writeln!(f, "\n{header}")?;
    for (name, value) in fields {
        writeln!(f, "{name} = {value}")?;
    }
    Ok(())
}

/// An array with a line for each item, or nothing if it has none.
fn rows<T: Serialize>(f: &mut fmt::Formatter<'_>, name: &str, items: &[Spanned<T>]) -> fmt::Result {
    if items.is_empty() {
        return Ok(());
    }
    writeln!(f, "{name} = [")?;
    for item in items {
        writeln!(f, "  {},", inline(item.get_ref())?)?;
    }
    writeln!(f, "]")
}

/// Names and values of a table, in the order of [`FIRST`].
fn fields<T: Serialize>(of: &T) -> Result<Vec<(String, String)>, fmt::Error> {
    let Value::Table(table) = Value::try_from(of).map_err(|_| fmt::Error)? else { return Err(fmt::Error) };
    ordered(table).into_iter().map(|(name, value)| Ok((key(&name), value_text(value)?))).collect()
}

fn ordered(table: toml::Table) -> Vec<(String, Value)> {
    let rank = |name: &str| FIRST.iter().position(|first| *first == name).unwrap_or(FIRST.len());
    let mut entries: Vec<(String, Value)> = table.into_iter().collect();
    entries.sort_by(|(a, _), (b, _)| rank(a).cmp(&rank(b)).then_with(|| a.cmp(b)));
    entries
}

/// A value as it stands in a file, on one line.
pub(crate) fn inline<T: Serialize>(value: &T) -> Result<String, fmt::Error> {
    value_text(Value::try_from(value).map_err(|_| fmt::Error)?)
}

fn value_text(value: Value) -> Result<String, fmt::Error> {
    match value {
        Value::Table(table) if table.is_empty() => Ok("{}".to_owned()),
        Value::Table(table) => {
            let mut out = String::from("{ ");
            for (at, (name, value)) in ordered(table).into_iter().enumerate() {
                let comma = if at == 0 { "" } else { ", " };
                write!(out, "{comma}{} = {}", key(&name), value_text(value)?)?;
            }
            out.push_str(" }");
            Ok(out)
        }
        Value::Array(items) => {
            let items: Vec<String> = items.into_iter().map(value_text).collect::<Result<_, _>>()?;
            Ok(format!("[{}]", items.join(", ")))
        }
        Value::String(string) => Ok(text(&string)),
        other => Ok(other.to_string()),
    }
}

fn key(name: &str) -> String {
    let bare =
        !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte));
    if bare { name.to_owned() } else { text(name) }
}

/// A basic string on one line, whatever is in it.
fn text(string: &str) -> String {
    let mut out = String::from("\"");
    for c in string.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            '\r' => out.push_str("\\r"),
            c if c.is_control() => out.extend(format!("\\u{:04X}", u32::from(c)).chars()),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};

    use super::*;

    fn files(folder: &Path, found: &mut Vec<PathBuf>) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                files(&path, found);
            } else if path.extension().is_some_and(|extension| extension == "toml") {
                found.push(path);
            }
        }
    }

    #[test]
    fn what_is_written_is_read_back_and_written_alike() {
        let mut found = Vec::new();
        files(&Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios"), &mut found);
        assert!(found.len() > 100);
        for path in found {
            let scenario = Scenario::load(&path).unwrap();
            let written = scenario.to_string();
            let again = Scenario::parse(&path, &written).unwrap_or_else(|error| panic!("{error}\n{written}"));
            assert_eq!(again.to_string(), written);
            let tier = crate::Tier::ALL.into_iter().find(|tier| scenario.plays_on(*tier)).unwrap();
            let lines = |of: &Scenario| crate::play(of, tier).lines;
            assert_eq!(lines(&again), lines(&scenario), "{}", path.display());
            let judged = crate::judge(&again, &crate::play(&again, tier));
            assert!(judged.passed(), "{:?}\n{written}", judged.failures);
        }
    }

    #[test]
    fn text_holds_whatever_is_in_it() {
        for string in ["", "a \"b\" \\c", "1\n2\r\t\0\u{7f}\u{1b}é €"] {
            let table: toml::Table = toml::from_str(&format!("x = {}", text(string))).unwrap();
            assert_eq!(table["x"].as_str(), Some(string));
        }
    }
}
