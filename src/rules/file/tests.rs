use proptest::prelude::*;

use super::*;
use crate::core::policy::strategies;

fn read(kind: Kind, text: &str) -> Result<Layer, String> {
    let mut layer = Layer::default();
    read_into(&mut layer, kind, Path::new("r.toml"), text).map_err(|error| error.to_string())?;
    Ok(layer)
}

fn decision(layer: &Layer, line: &str) -> Option<RuleDecision> {
    let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
    strictest(&[layer], 1, &words).map(|found| found.decision)
}

#[test]
fn a_file_says_what_it_says() {
    let layer = read(
        Kind::System,
        r#"
        [[prefix]]
        pattern = ["git", ["push", "fetch"]]
        decision = "prompt"
        justification = "others see it"
        match = ["git push origin", ["git", "fetch"], "/opt/git/git push"]
        not_match = ["git log", "git 'push x'"]

        [[prefix]]
        pattern = ["ls"]

        [[host_executable]]
        name = "git"
        paths = ["/opt/git/git"]

        [[network]]
        host = "*.Example.org"
        ports = [443]
        decision = "allow"
        justification = "ours"
        "#,
    )
    .expect("right");
    assert_eq!(decision(&layer, "git fetch x"), Some(RuleDecision::Prompt));
    assert_eq!(decision(&layer, "ls -l"), Some(RuleDecision::Allow), "the default");
    let found = strictest(&[&layer], 1, &["git".to_owned(), "push".to_owned()]).expect("matches");
    assert_eq!(found.rule, "r.toml:3: git push|fetch");
    assert_eq!(found.justification.as_deref(), Some("others see it"));
    let rule =
        NetworkRule { host: "*.example.org".into(), ports: vec![443], decision: NetworkDecision::Allow };
    assert_eq!(layer.network(), [rule]);
}

#[test]
fn the_last_definition_of_a_program_counts() {
    let definition = |paths: &str| format!("[[host_executable]]\nname = \"git\"\npaths = [{paths}]\n");
    let text =
        format!("[[prefix]]\npattern = [\"git\"]\n{}{}", definition("\"/a/git\""), definition("\"/b/git\""));
    let layer = read(Kind::User, &text).expect("right");
    assert_eq!(decision(&layer, "/a/git"), None);
    assert_eq!(decision(&layer, "/b/git"), Some(RuleDecision::Allow));
    let layer = read(Kind::User, &format!("{text}{}", definition(""))).expect("right");
    assert_eq!(decision(&layer, "/b/git"), None, "an empty list lists none");
}

#[test]
fn what_is_wrong_is_named_with_its_place() {
    for (text, place, words) in [
        ("[[prefix]]\npattern = []\n", "r.toml:2:11:", "1 to 64 words"),
        ("[[prefix]]\npattern = [\"a\", []]\n", "r.toml:2:17:", "alternatives"),
        ("[[prefix]]\npattern = [\"a\", [\"\"]]\n", "r.toml:2:17:", "1 to 1024 bytes"),
        ("[[prefix]]\npattern = [\"a\", 3]\n", "r.toml:2:11:", "must be a word, or a list"),
        ("[[prefix]]\npattern = \"a\"\n", "r.toml:2:11:", "expected a sequence"),
        ("[[prefix]]\ndecision = \"allow\"\n", "r.toml:1:1:", "missing field `pattern`"),
        ("[[prefix]]\npattern = [\"a\"]\ndecision = \"deny\"\n", "r.toml:3:12:", "unknown variant"),
        ("[[prefix]]\npattern = [\"a\"]\nreason = \"x\"\n", "r.toml:3:1:", "unknown field"),
        ("[[prefix]]\npattern = [\"a\"]\njustification = \" \"\n", "r.toml:3:17:", "leave it out"),
        (
            "[[prefix]]\npattern = [\"a\"]\nmatch = [\"a x\",\n \"b\"]\n",
            "r.toml:4:2:",
            "does not match [\"b\"]",
        ),
        ("[[prefix]]\npattern = [\"a\"]\nnot_match = [[\"a\"]]\n", "r.toml:3:14:", "matches [\"a\"]"),
        ("[[prefix]]\npattern = [\"a\"]\nmatch = [\"a '\"]\n", "r.toml:3:10:", "do not close"),
        ("[[host_executable]]\nname = \"a/b\"\npaths = []\n", "r.toml:2:8:", "bare name"),
        (
            "[[host_executable]]\nname = \"a\"\npaths = [\"b/a\"]\n",
            "r.toml:3:10:",
            "absolute path that ends in /a",
        ),
        (
            "[[host_executable]]\nname = \"a\"\npaths = [\"/b\"]\n",
            "r.toml:3:10:",
            "absolute path that ends in /a",
        ),
        ("[[host_executable]]\nname = \"a\"\n", "r.toml:1:1:", "missing field `paths`"),
        ("[[network]]\nhost = \"a:80\"\ndecision = \"deny\"\n", "r.toml:2:8:", "is no host"),
        ("[[network]]\nhost = \"a\"\nports = [0]\ndecision = \"deny\"\n", "r.toml:3:10:", "1 to 65535"),
        ("[[network]]\nhost = \"a\"\n", "r.toml:1:1:", "missing field `decision`"),
        ("[prefix]\n", "r.toml:1:1:", "expected a sequence"),
        ("x = 1\n", "r.toml:1:1:", "unknown field"),
        ("nonsense", "r.toml:1:", ""),
    ] {
        let refusal = read(Kind::System, text).expect_err(text);
        assert!(refusal.starts_with(place) && refusal.contains(words), "{text:?} gave {refusal}");
    }
}

#[test]
fn connections_are_opened_by_the_system_alone() {
    let entry = |decision: &str| format!("[[network]]\nhost = \"a\"\ndecision = \"{decision}\"\n");
    for decision in ["allow", "ask", "deny"] {
        assert!(read(Kind::System, &entry(decision)).is_ok());
        assert_eq!(read(Kind::User, &entry(decision)).is_ok(), decision != "allow");
        let refusal = read(Kind::Project, &entry(decision)).expect_err("a project");
        assert!(refusal.contains("whole server"), "{refusal}");
    }
}

#[test]
fn sizes_are_bounded() {
    let many = "[[prefix]]\npattern = [\"a\"]\n".repeat(ENTRIES_MAX + 1);
    assert!(read(Kind::User, &many).expect_err("too many").contains("entries"));
    let long = format!("[[prefix]]\npattern = [{}]\n", "\"a\",".repeat(PATTERN_MAX + 1));
    assert!(read(Kind::User, &long).expect_err("too long").contains("words"));
    let word = format!("[[prefix]]\npattern = [\"{}\"]\n", "a".repeat(TEXT_MAX + 1));
    assert!(read(Kind::User, &word).expect_err("too long").contains("bytes"));
}

/// A rule as an entry of a file, with these examples.
fn entry(rule: &PrefixRule, examples: &str) -> String {
    let words =
        |words: &[String]| toml::Value::Array(words.iter().cloned().map(toml::Value::String).collect());
    let pattern: Vec<String> =
        rule.pattern.iter().map(|alternatives| words(alternatives).to_string()).collect();
    let decision = match rule.decision {
        RuleDecision::Allow => "allow",
        RuleDecision::Prompt => "prompt",
        RuleDecision::Forbidden => "forbidden",
    };
    format!("[[prefix]]\npattern = [{}]\ndecision = \"{decision}\"\n{examples}", pattern.join(", "))
}

/// A command that a rule matches: of each alternative the one that `picks` says, and more words.
fn example(rule: &PrefixRule, picks: usize, more: &[String]) -> Vec<String> {
    let picked = rule.pattern.iter().map(|alternatives| alternatives[picks % alternatives.len()].clone());
    picked.chain(more.iter().cloned()).collect()
}

proptest! {
    #[test]
    fn rules_that_are_written_down_read_back_the_same(
        rules in prop::collection::vec(strategies::rule_of("\\PC{1,6}|[\"'\\\\\n\t#\\[\\]]{1,3}"), 0..6)
    ) {
        let text: String = rules.iter().map(|rule| entry(rule, "")).collect();
        let layer = read(Kind::User, &text).unwrap();
        prop_assert_eq!(layer.normalised(), strategies::layer_of(rules).normalised());
    }

    #[test]
    fn examples_hold_or_the_file_is_refused(
        rule in strategies::rule_of("[a-c]{1,2}"),
        picks: usize,
        more in prop::collection::vec("[a-c]", 0..3),
    ) {
        let words: Vec<String> = example(&rule, picks, &more).iter().map(|word| format!("{word:?}")).collect();
        let kept = |examples: String| read(Kind::User, &entry(&rule, &examples));
        let given = |key: &str, words: &[String]| kept(format!("{key} = [[{}]]\n", words.join(", ")));
        prop_assert!(given("match", &words).is_ok());
        prop_assert!(given("not_match", &words).unwrap_err().contains("matches"));
        let short = &words[..rule.pattern.len() - 1];
        if !short.is_empty() {
            prop_assert!(given("not_match", short).is_ok());
            prop_assert!(given("match", short).unwrap_err().contains("does not match"));
        }
    }

    #[test]
    fn no_file_makes_it_panic(text in "(\\[\\[(prefix|network)\\]\\]\n|pattern = |match = |host = |\\[|\"|\\]|a|\n|\\PC){0,24}") {
        read(Kind::System, &text).ok();
    }
}

#[test]
fn the_documented_file_is_right() {
    let page = include_str!("../../../docs/rules.md");
    let example =
        page.split("```toml\n").nth(1).and_then(|rest| rest.split("```").next()).expect("an example");
    read(Kind::System, example).expect("valid");
}
