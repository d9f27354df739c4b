//! The code, the contract's enum and the page for callers say the same of every reason.

use std::collections::{BTreeMap, BTreeSet};

use tonic::Code;

use super::refusal::code;
use super::*;

const PROTO: &str = include_str!("../../../proto/unified_exec/v1/error_reason.proto");
const PAGE: &str = include_str!("../../../docs/status-codes.md");
const MAPPING: &str = include_str!("../status.rs");

/// What the contract or the page says of a reason.
#[derive(Debug, PartialEq, Eq)]
struct Said {
    code: String,
    facts: BTreeSet<String>,
}

fn facts(text: &str, (open, close): (char, char)) -> BTreeSet<String> {
    let Some((_, rest)) = text.split_once(open) else { return BTreeSet::new() };
    let inside = rest.rsplit_once(close).map_or(rest, |(inside, _)| inside);
    inside.split(", ").map(|fact| fact.trim_matches('`').to_owned()).collect()
}

fn of_the_contract() -> BTreeMap<String, Said> {
    let (mut said, mut comment) = (BTreeMap::new(), String::new());
    for line in PROTO.lines().map(str::trim) {
        if let Some(text) = line.strip_prefix("//") {
            comment.push_str(text);
        } else if let Some(rest) = line.strip_prefix("ERROR_REASON_") {
            let (name, _) = rest.split_once(" = ").unwrap();
            let code = comment.trim().split('.').next().unwrap().to_owned();
            let whole = comment.replace("  ", " ");
            said.insert(name.to_owned(), Said { code, facts: facts(&whole, ('{', '}')) });
            comment.clear();
        } else {
            comment.clear();
        }
    }
    said.remove("UNSPECIFIED");
    said
}

/// The rows of the page: those of this release, and those of later ones.
fn of_the_page() -> (BTreeMap<String, Said>, BTreeMap<String, Said>) {
    let (now, later) = PAGE.split_once("## Reserved").unwrap();
    let rows = |text: &str| {
        let rows = text.lines().filter_map(|line| line.strip_prefix("| `")).map(|line| {
            let cells: Vec<&str> = line.trim_end_matches(" |").split(" | ").collect();
            let [reason, code, when, named, answer] = cells[..] else { panic!("{line}") };
            assert!(!when.is_empty() && !answer.is_empty(), "{line}");
            let facts =
                if named == "–" { BTreeSet::new() } else { facts(&format!("{{{named}}}"), ('{', '}')) };
            (reason.trim_end_matches('`').to_owned(), Said { code: code.to_owned(), facts })
        });
        rows.collect()
    };
    (rows(now), rows(later))
}

fn reasons() -> impl Iterator<Item = (String, ErrorReason)> {
    (1..=1_000)
        .filter_map(|number| ErrorReason::try_from(number).ok())
        .map(|reason| (reason.as_str_name().trim_start_matches("ERROR_REASON_").to_owned(), reason))
}

#[test]
fn the_page_lists_every_reason_of_the_contract_once_with_its_code_and_facts() {
    let contract = of_the_contract();
    assert_eq!(contract.len(), reasons().count());
    let (mut page, reserved) = of_the_page();
    for (reason, said) in reserved {
        assert!(page.insert(reason.clone(), said).is_none(), "{reason} is on the page twice");
    }
    assert_eq!(page, contract);
}

#[test]
fn the_code_gives_every_reason_the_code_of_the_contract() {
    let contract = of_the_contract();
    for (name, reason) in reasons() {
        let upper_snake = |code: Code| {
            let words = format!("{code:?}");
            let split = words.char_indices().flat_map(|(at, letter)| {
                let gap = (at > 0 && letter.is_uppercase()).then_some('_');
                gap.into_iter().chain([letter.to_ascii_uppercase()])
            });
            split.collect::<String>()
        };
        assert_eq!(upper_snake(code(reason)), contract[&name].code, "{name}");
    }
}

#[test]
fn a_reason_is_answered_by_this_release_or_is_reserved() {
    let (answered, reserved) = of_the_page();
    for (name, reason) in reasons() {
        let used = [',', ')'].iter().any(|end| MAPPING.contains(&format!("ErrorReason::{reason:?}{end}")));
        assert_eq!(answered.contains_key(&name), used, "{name}");
        assert_eq!(reserved.contains_key(&name), !used, "{name}");
    }
}

#[test]
fn a_refusal_fits_into_headers_whatever_it_is_about() {
    let long = "ü".repeat(100_000);
    let status = cwd_not_found("command.cwd", &long);
    let mut headers = http::HeaderMap::new();
    status.add_header(&mut headers).unwrap();
    let bytes: usize = headers.values().map(http::HeaderValue::len).sum();
    assert!(bytes < 8 * 1024, "{bytes}");
    let details = status.get_error_details();
    assert_eq!(details.error_info().unwrap().domain, "unified-exec");
    assert_eq!(details.bad_request().unwrap().field_violations[0].field, "command.cwd");
}

#[test]
fn the_path_of_a_malformed_field_is_read_from_the_decoder() {
    use prost::Message as _;
    // Field 4 (command), field 1 (cmd), no UTF-8.
    let error = crate::grpc::pb::ExecCommandRequest::decode(&[0x22, 4, 0x0a, 2, 0xff, 0xfe][..]).unwrap_err();
    let details = malformed_message(&error).get_error_details();
    assert_eq!(details.bad_request().unwrap().field_violations[0].field, "command.cmd");
}
