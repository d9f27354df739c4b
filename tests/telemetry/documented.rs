//! The table of the documentation and the instruments of the code are the same.

use unified_exec::telemetry::INSTRUMENTS;

const PAGE: &str = include_str!("../../docs/observability.md");

#[test]
fn every_instrument_is_in_the_table_as_it_is() {
    let rows: Vec<&str> = PAGE
        .split_once("<!-- instruments -->")
        .and_then(|(_, rest)| rest.split_once("<!-- /instruments -->"))
        .map(|(table, _)| table.lines().filter(|line| line.starts_with("| `")).collect())
        .unwrap_or_default();
    let expected: Vec<String> = INSTRUMENTS
        .iter()
        .map(|of| {
            let attributes: Vec<String> = of.attributes.iter().map(|name| format!("`{name}`")).collect();
            format!(
                "| `{}` | {} | {} | {} | {} |",
                of.name,
                of.kind,
                of.unit,
                attributes.join(", "),
                of.says.trim()
            )
        })
        .collect();
    assert_eq!(rows, expected, "the table should be:\n{}", expected.join("\n"));
}
