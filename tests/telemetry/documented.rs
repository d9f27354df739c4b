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

const SHOWN: &[(&str, &str)] = &[
    ("alerts.yml", include_str!("../../observability/alerts.yml")),
    ("overview.json", include_str!("../../observability/grafana/overview.json")),
    ("approvals.json", include_str!("../../observability/grafana/approvals.json")),
    ("session.json", include_str!("../../observability/grafana/session.json")),
];

/// As Prometheus has it.
fn series() -> Vec<String> {
    let unit = |unit: &str| match unit {
        "s" => "_seconds",
        "By" => "_bytes",
        _ => "",
    };
    let name = |of: &unified_exec::telemetry::Described| of.name.replace('.', "_") + unit(of.unit);
    let of_kind = |of: &unified_exec::telemetry::Described| match of.kind {
        "histogram" => ["_bucket", "_count", "_sum"].map(|part| name(of) + part).to_vec(),
        "counter" => vec![name(of) + "_total"],
        _ => vec![name(of)],
    };
    INSTRUMENTS.iter().flat_map(of_kind).collect()
}

#[test]
fn alerts_and_dashboards_show_what_is_measured_by_labels_that_it_has() {
    let series = series();
    let attributes: Vec<String> =
        INSTRUMENTS.iter().flat_map(|of| of.attributes.iter().map(|name| name.replace('.', "_"))).collect();
    for (file, text) in SHOWN {
        let words = text.split(|letter: char| !(letter.is_ascii_alphanumeric() || letter == '_'));
        let named = words.filter(|word| word.starts_with("unified_exec_") || word.starts_with("rpc_"));
        for word in named {
            let known = series.iter().any(|name| name == word) || attributes.iter().any(|name| name == word);
            assert!(known, "{file}: {word} is neither measured nor a label");
        }
        if file.ends_with(".json") {
            let board: serde_json::Value = serde_json::from_str(text).unwrap();
            assert!(board["panels"].as_array().is_some_and(|panels| !panels.is_empty()), "{file}");
        }
    }
}
