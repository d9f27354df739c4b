//! Of every scenario there is a picture that can be read.

use std::fs;
use std::path::Path;

use quick_xml::Reader;
use quick_xml::events::Event;

use super::{text, timeline};
use crate::scenario::Scenario;

struct Text {
    class: String,
    x: f64,
    y: f64,
    words: String,
}

impl Text {
    /// Left, right, top and bottom.
    fn area(&self) -> [f64; 4] {
        let size = match self.class.as_str() {
            "title" => text::TITLE,
            "name" => text::BOLD,
            "small" | "tick" | "gap" => text::SMALL,
            _ => text::NORMAL,
        };
        let wide = text::width(&self.words, size);
        let left = if matches!(self.class.as_str(), "tick" | "gap") { self.x - wide / 2.0 } else { self.x };
        [left, left + wide, self.y - size * 0.8, self.y + size * 0.2]
    }
}

/// Size of a picture, and every text in it.
fn read(svg: &str) -> ([f64; 2], Vec<Text>) {
    let mut reader = Reader::from_str(svg);
    let (mut size, mut texts) = ([0.0; 2], Vec::new());
    let mut open: Option<Text> = None;
    loop {
        match reader.read_event().expect("it is well formed") {
            Event::Start(element) => {
                let says = |name: &str| {
                    let found = element.try_get_attribute(name).expect("attributes can be read");
                    found
                        .map(|value| String::from_utf8(value.value.into_owned()).unwrap())
                        .unwrap_or_default()
                };
                let number = |name| says(name).parse().unwrap_or(0.0);
                match element.name().as_ref() {
                    b"svg" => size = [number("width"), number("height")],
                    b"text" => {
                        let (x, y) = (number("x"), number("y"));
                        open = Some(Text { class: says("class"), x, y, words: String::new() });
                    }
                    _ => {}
                }
            }
            Event::Text(words) => {
                if let Some(text) = &mut open {
                    text.words.push_str(&words.decode().unwrap());
                }
            }
            Event::GeneralRef(letter) => {
                if let Some(text) = &mut open {
                    text.words.push_str(match letter.decode().unwrap().as_ref() {
                        "quot" => "\"",
                        "apos" => "'",
                        "lt" => "<",
                        "gt" => ">",
                        _ => "&",
                    });
                }
            }
            Event::End(_) => texts.extend(open.take()),
            Event::Eof => return (size, texts),
            _ => {}
        }
    }
}

/// The scenarios of the folder, by name.
fn scenarios() -> Vec<(String, Scenario)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios");
    let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let files = files.filter(|path| path.extension().is_some_and(|extension| extension == "toml"));
    let mut scenarios: Vec<(String, Scenario)> =
        files.map(|path| (path.display().to_string(), Scenario::load(&path).unwrap())).collect();
    scenarios.sort_by(|a, b| a.0.cmp(&b.0));
    scenarios
}

#[test]
fn no_text_covers_another_and_none_leaves_the_picture() {
    for (name, scenario) in scenarios() {
        let ([wide, tall], texts) = read(&timeline(&scenario).unwrap());
        assert!(texts.len() > 5, "{name}");
        for (at, text) in texts.iter().enumerate() {
            let [left, right, top, bottom] = text.area();
            let inside = left >= 0.0 && right <= wide && top >= 0.0 && bottom <= tall;
            assert!(inside, "{name}: {:?} leaves the picture", text.words);
            for other in &texts[at + 1..] {
                let [from, to, high, low] = other.area();
                let covers = left < to && from < right && top < low && high < bottom;
                assert!(!covers, "{name}: {:?} covers {:?}", text.words, other.words);
            }
        }
    }
}

#[test]
fn the_same_scenario_gives_the_same_bytes_and_stands_alone() {
    for (name, scenario) in scenarios() {
        let svg = timeline(&scenario).unwrap();
        assert_eq!(svg, timeline(&scenario).unwrap(), "{name}");
        assert!(svg.contains("<title id=\"title\">") && svg.contains("<desc id=\"desc\">"), "{name}");
        let foreign = svg.replace("http://www.w3.org/2000/svg", "");
        assert!(!foreign.contains("http") && !foreign.contains("<image"), "{name}: {foreign}");
    }
}

/// What stands in the picture of a scenario of the folder.
fn words_of(name: &str) -> Vec<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios").join(name);
    let (_, texts) = read(&timeline(&Scenario::load(&path).unwrap()).unwrap());
    texts.into_iter().map(|text| text.words).collect()
}

/// Asserts that all of `expected` stand in the picture.
fn shows(name: &str, expected: &[&str]) {
    let words = words_of(name);
    for expected in expected {
        assert!(words.iter().any(|text| text == expected), "{name} lacks {expected:?}: {words:?}");
    }
}

#[test]
fn a_picture_says_who_waited_what_was_asked_and_what_ended_when() {
    shows(
        "granular_not_approved_asks_for_the_retry.toml",
        &["exec a", "attempt 1", "in the sandbox", "exit 1", "window ends (150)", "question 1"],
    );
    shows(
        "granular_not_approved_asks_for_the_retry.toml",
        &["again, unsandboxed?", "approved by person", "attempt 2", "without the sandbox", "answer: exit 0"],
    );
    shows(
        "interrupt_vs_clean.toml",
        &[
            "interrupted, still running",
            "TERM",
            "KILL",
            "ended by Clean (137)",
            "grace between TERM and KILL",
        ],
    );
    shows("disconnect.toml", &["client gone", "the spawner works", "yields: still running"]);
    // What is heard of late ended when it ended.
    shows("denial_at_149.toml", &["149", "180", "exit 1", "denied"]);
    shows(
        "grandchild_holds_pipe.toml",
        &["descendant", "holds the outputs", "outputs closed", "answer: met"],
    );
}

#[test]
fn a_long_time_in_which_nothing_happens_is_cut_and_says_so() {
    shows("late_denial_is_never_retried.toml", &["torn: cut"]);
    assert!(!words_of("granular_not_approved_asks_for_the_retry.toml").contains(&"torn: cut".to_owned()));
}
