//! Names of files, titles and tags.

use super::Subject;

/// Titles stand in tables and above pictures.
const TITLE_LETTERS: usize = 130;
/// What all scenarios that the campaign found and shrunk are named by instead.
const SHRUNK: &str = "regress";
/// Words in a file's name that say nothing about it.
const FILL: [&str; 12] = ["a", "an", "the", "of", "in", "at", "to", "is", "it", "its", "that", "with"];

pub(super) fn check(subject: &mut Subject<'_>) {
    let title = subject.scenario.title.clone();
    let at = subject.at("title");
    if title.trim().is_empty() {
        subject.find(at, "title", "is empty; say in one sentence what the scenario shows");
    } else if title.chars().count() > TITLE_LETTERS {
        subject.find(
            at,
            "title",
            format!("is longer than {TITLE_LETTERS} letters; details go into comments"),
        );
    } else if title.ends_with('.') {
        subject.find(at, "title", "ends with a full stop; titles stand in tables");
    }
    tags(subject);
    let name = subject.path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default().to_owned();
    let shrunk = subject.path.parent().is_some_and(|folder| folder.ends_with(SHRUNK));
    let plain = |letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == '_';
    if !shrunk && !name.chars().all(plain) {
        subject.find(0, "file", format!("{name:?}: names are lower case, words joined by `_`"));
    } else if !shrunk && !title.trim().is_empty() && !related(&name, &title) {
        let problem = format!("{name:?} and the title {title:?} have no word in common; rename one of them");
        subject.find(at, "file", problem);
    }
}

fn tags(subject: &mut Subject<'_>) {
    let tags = subject.scenario.tags.clone();
    let at = subject.at("tags");
    if tags.is_empty() {
        subject.find(at, "tags", "there are none; `sim run --filter TAG` would never pick it");
    }
    for (number, tag) in tags.iter().enumerate() {
        let plain = |letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == '-';
        if tag.is_empty() || !tag.chars().all(plain) {
            subject.find(at, "tags", format!("{tag:?}: tags are lower case, words joined by `-`"));
        }
        if tags.iter().take(number).any(|other| other == tag) {
            subject.find(at, "tags", format!("{tag:?} stands there twice"));
        }
    }
}

/// Whether a word of the name is in the title: equal, or alike in its first four letters, as `deny` and `denied`.
fn related(name: &str, title: &str) -> bool {
    let words = |text: &str| -> Vec<String> {
        let words = text.split(|letter: char| !letter.is_alphanumeric()).map(str::to_lowercase);
        words.filter(|word| !word.is_empty() && !FILL.contains(&word.as_str())).collect()
    };
    let root = |word: &str| -> String { word.chars().take(4).collect() };
    let in_title = words(title);
    words(name).iter().any(|word| in_title.iter().any(|other| root(other) == root(word)))
}
