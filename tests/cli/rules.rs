//! `uexec rules`: what rules say of a command, without a server.

use std::fs;

use crate::harness::{Done, Place};

struct Rules {
    place: Place,
}

impl Rules {
    fn new(system: &str) -> Self {
        let place = Place::new();
        let at = |name: &str| place.path().join(name);
        fs::create_dir_all(at("project/.unified-exec")).expect("made");
        fs::write(at("system.toml"), system).expect("written");
        fs::write(
            at("project/.unified-exec/rules.toml"),
            "[[prefix]]\npattern = [\"make\"]\n[[prefix]]\npattern = [\"git\"]\n",
        )
        .expect("written");
        let config = format!(
            "[rules]\nsystem = [{:?}]\nuser = {:?}\ntrusted_projects = [{:?}]\n[session]\nshell = \"/bin/sh\"\n",
            at("system.toml"),
            at("user.toml"),
            at("project")
        );
        fs::write(at("uexec.toml"), config).expect("written");
        Self { place }
    }

    fn check(&self, args: &[&str]) -> Done {
        let mut command = self.place.command(&[&["rules", "check"], args].concat());
        crate::harness::finish(command.env("UEXEC_CONFIG", "uexec.toml"), b"")
    }
}

const SYSTEM: &str = r#"
[[prefix]]
pattern = ["ls"]

[[prefix]]
pattern = ["git", "push"]
decision = "forbidden"
justification = "others see it"

[[prefix]]
pattern = ["npm"]
decision = "prompt"
"#;

#[test]
fn the_code_says_what_is_to_become_of_a_command() {
    let rules = Rules::new(SYSTEM);
    for (line, code) in [
        ("ls -l | ls", 0),
        ("ls; git push", 1),
        ("npm test", 3),
        ("ls; rm -rf x", 3),
        ("ls; wc", 4),
        ("ls > x", 4),
        ("echo $(git push)", 1),
    ] {
        let done = rules.check(&["--", line]);
        assert_eq!(done.code, code, "{line}: {done:?}");
    }
    assert_eq!(rules.check(&["--", "ls", ";", "git", "push"]).code, 0, "several words are no line");
    assert_eq!(rules.check(&["--argv", "--", "ls; wc"]).code, 4, "nor is one, if one says so");
}

#[test]
fn each_command_is_explained() {
    let rules = Rules::new(SYSTEM);
    let done = rules.check(&["--", "ls -l && git push origin; sudo rm -rf x"]);
    let file = rules.place.path().join("system.toml");
    let expected = format!(
        "ls -l\n  allow      {file}:3: ls\n\
         git push origin\n  forbidden  {file}:6: git push\n  because    others see it\n\
         sudo rm -rf x\n  dangerous  no rule\n  danger     rm -rf removes files without asking back\n\
         forbidden: a rule forbids it\n",
        file = file.display()
    );
    assert_eq!(done.text(), expected);
    let json = rules.check(&["--json", "--", "ls; npm test"]).json();
    assert_eq!(json["decision"], "prompt");
    assert_eq!(json["segments"][1]["words"], serde_json::json!(["npm", "test"]));
    assert_eq!(json["segments"][0]["decision"], "allow");
    assert_eq!(json["argv"], serde_json::json!(["/bin/sh", "-lc", "ls; npm test"]));
}

#[test]
fn a_projects_rules_count_inside_and_loosen_nothing() {
    let rules = Rules::new(SYSTEM);
    assert_eq!(rules.check(&["--", "make"]).code, 4);
    assert_eq!(rules.check(&["--cwd", "project", "--", "make"]).code, 0);
    assert_eq!(rules.check(&["--cwd", "project", "--", "git push"]).code, 1);
}

#[test]
fn a_wrong_file_of_rules_is_named() {
    let rules = Rules::new("\n[[prefix]]\npattern = [\"a\"]\nmatch = [\"b\"]\n");
    let done = rules.check(&["--", "ls"]);
    assert_eq!(done.code, 2);
    assert!(done.stderr.contains("system.toml:4:10: an example of `match` fails"), "{done:?}");
}

#[cfg(not(feature = "starlark"))]
#[test]
fn a_build_without_starlark_says_how_to_get_it() {
    let done = Place::new().uexec(&["rules", "import", "x.rules"]);
    assert!(done.code == 2 && done.stderr.contains("--features starlark"), "{done:?}");
}

#[cfg(feature = "starlark")]
#[test]
fn rules_of_codex_become_rules_of_ours() {
    let rules = Rules::new("");
    let at = |name: &str| rules.place.path().join(name);
    fs::write(at("x.rules"), "prefix_rule(pattern = [\"git\", [\"push\"]], decision = \"forbidden\")\n")
        .expect("written");
    assert_eq!(rules.place.uexec(&["rules", "import", "x.rules", "-o", "user.toml"]).ok(), "");
    assert_eq!(rules.check(&["--", "git push"]).code, 1);
    let again = rules.place.uexec(&["rules", "import", "x.rules", "-o", "user.toml"]);
    assert!(again.code == 2 && again.stderr.contains("user.toml"), "{again:?}");
}
