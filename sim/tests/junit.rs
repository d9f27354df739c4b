//! What `sim run` writes for machines, and which scenarios it picks.

use std::fs;
use std::path::{Path, PathBuf};

use quick_junit::{NonSuccessKind, Report, TestCaseStatus};

/// A folder with one scenario that passes, one that fails with text that XML must escape, and one that cannot be used.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> std::io::Result<Self> {
        let folder = std::env::temp_dir().join(format!("sim-junit-{name}-{}", std::process::id()));
        fs::create_dir_all(&folder)?;
        let good =
            fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios/yield_and_poll.toml"))?;
        fs::write(folder.join("good.toml"), &good)?;
        let wrong = good.replacen(
            "[expect]",
            "[expect]\nspawns = 7\nnever = [\"a output\", \"a answer by=<&\\u0007\"]",
            1,
        );
        fs::write(folder.join("wrong.toml"), wrong.replacen("tags", "tags = [\"wrong\"]\n#", 1))?;
        fs::write(folder.join("unusable.toml"), "format = <&")?;
        Ok(Self(folder))
    }

    #[expect(clippy::disallowed_methods, reason = "the command and its exit code are the point")]
    fn run(&self, args: &[&str]) -> (String, Option<i32>) {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_sim"));
        match command.arg("run").args(args).current_dir(&self.0).output() {
            Ok(done) => {
                let said = [done.stdout, done.stderr].concat();
                (String::from_utf8_lossy(&said).into_owned(), done.status.code())
            }
            Err(error) => (error.to_string(), None),
        }
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn a_report_tells_what_passed_what_failed_and_what_could_not_be_used() {
    let folder = Folder::new("report").unwrap();
    let (said, code) = folder.run(&[".", "--junit", "report.xml"]);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("3 scenarios, 1 passed, 2 failed"), "{said}");
    assert!(said.contains("failed: unusable, wrong"), "{said}");
    let xml = fs::read_to_string(folder.0.join("report.xml")).unwrap();
    let report = Report::deserialize_from_str(&xml).expect("it is a valid report");
    let suite = &report.test_suites[0];
    assert_eq!((suite.name.as_str(), suite.tests, suite.failures, suite.errors), ("L0", 3, 1, 1));
    let names: Vec<&str> = suite.test_cases.iter().map(|case| case.name.as_str()).collect();
    assert_eq!(names, ["good", "unusable", "wrong"]);
    assert!(suite.test_cases.iter().all(|case| case.classname.as_ref().unwrap().as_str() == "."));
    assert!(matches!(suite.test_cases[0].status, TestCaseStatus::Success { .. }));
    let failure = |at: usize| match &suite.test_cases[at].status {
        TestCaseStatus::NonSuccess { kind, message, description, .. } => {
            let text = |of: &Option<quick_junit::XmlString>| of.as_ref().map(|text| text.as_str().to_owned());
            (*kind, text(message).unwrap_or_default(), text(description).unwrap_or_default())
        }
        other => panic!("{other:?}"),
    };
    let (kind, message, _) = failure(1);
    assert!(kind == NonSuccessKind::Error && message.contains("unusable.toml:1"), "{message}");
    let (kind, message, description) = failure(2);
    assert!(kind == NonSuccessKind::Failure && message.starts_with("never \"a output\", but"), "{message}");
    assert!(description.contains("spawns = 1, expected 7"), "{description}");
    assert!(
        description.contains("reproduce: cargo run -p sim -- run --tier L0 ./wrong.toml"),
        "{description}"
    );
    // The same bytes again: no clock, no random id.
    folder.run(&[".", "--junit", "again.xml"]);
    assert_eq!(xml, fs::read_to_string(folder.0.join("again.xml")).unwrap());
}

#[test]
fn a_filter_picks_scenarios_by_their_tags() {
    let folder = Folder::new("filter").unwrap();
    let (said, code) = folder.run(&["good.toml", "wrong.toml", "--filter", "poll"]);
    assert!(code == Some(0) && said.contains("1 scenarios, 1 passed, 0 failed"), "{said}");
    assert!(said.contains("good: ") && !said.contains("wrong: "), "{said}");
    let (said, code) = folder.run(&["good.toml", "wrong.toml", "--filter", "poll", "--filter", "wrong"]);
    assert!(code == Some(1) && said.contains("2 scenarios, 1 passed, 1 failed"), "{said}");
    let (said, code) = folder.run(&["good.toml", "--filter", "nobody-has-it"]);
    assert!(code == Some(2) && said.contains("no scenario has the tag nobody-has-it"), "{said}");
}
