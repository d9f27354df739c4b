//! The pictures of the docs: fresh, each explained, and checked by a command that can fail.

use std::fs;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Runs `sim gallery` from the root of the repository; what it prints, and whether all was well.
#[expect(clippy::disallowed_methods, reason = "the command's exit code is what CI goes by")]
fn gallery(args: &[&str]) -> (String, bool) {
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_sim"));
    match command.arg("gallery").args(args).current_dir(root()).output() {
        Ok(done) => (String::from_utf8_lossy(&done.stdout).into_owned(), done.status.success()),
        Err(error) => (error.to_string(), false),
    }
}

/// The names of the pictures in the docs.
fn pictures() -> Vec<String> {
    let entries = fs::read_dir(root().join("docs/simulation")).into_iter().flatten().flatten();
    let mut names: Vec<String> =
        entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

#[test]
fn the_pictures_of_the_docs_are_fresh() {
    assert_eq!(gallery(&["docs/simulation", "sim/scenarios", "--check"]), (String::new(), true));
}

#[test]
fn the_docs_show_every_picture_with_its_scenario() {
    let docs = fs::read_to_string(root().join("docs/simulation.md")).unwrap();
    let pictures = pictures();
    assert_eq!(pictures.len(), 10);
    for picture in pictures {
        let name = picture.strip_suffix(".svg").unwrap();
        let (_, section) = docs.split_once(&format!("### `{name}`\n\n")).expect(name);
        let text = section.split_once("\n\n![").expect(name).0;
        assert!((40..400).contains(&text.len()) && !text.contains('#'), "{name}: {text}");
        assert!(section.contains(&format!("](simulation/{picture})")), "{name}");
    }
}

#[test]
fn a_stale_missing_or_needless_picture_is_told_and_drawn_anew() {
    let folder = std::env::temp_dir().join(format!("sim-gallery-{}", std::process::id()));
    let at = folder.to_str().unwrap();
    let (said, drawn) = gallery(&[at, "sim/scenarios"]);
    assert!(drawn && said.lines().count() == 10, "{said}");
    assert_eq!(gallery(&[at, "sim/scenarios", "--check"]), (String::new(), true));
    fs::write(folder.join("disconnect.svg"), "<svg/>").unwrap();
    fs::remove_file(folder.join("yield_and_poll.svg")).unwrap();
    fs::write(folder.join("old.svg"), "<svg/>").unwrap();
    let (said, fine) = gallery(&[at, "sim/scenarios", "--check"]);
    assert!(!fine, "{said}");
    for problem in ["disconnect.svg: is stale", "yield_and_poll.svg: No such file", "old.svg: no scenario"] {
        assert!(said.contains(problem), "{said}");
    }
    assert!(said.contains("not as it would be drawn: 3"), "{said}");
    assert!(gallery(&[at, "sim/scenarios"]).1);
    assert_eq!(gallery(&[at, "sim/scenarios", "--check"]), (String::new(), true));
    assert!(!folder.join("old.svg").exists());
    fs::remove_dir_all(folder).unwrap();
}
