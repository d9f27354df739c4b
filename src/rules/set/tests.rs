use proptest::prelude::*;

use super::*;
use crate::core::policy::{PrefixRule, RuleDecision};

use RuleDecision::{Allow, Forbidden, Prompt};

fn words(line: &str) -> Vec<String> {
    shlex::split(line).expect("a line of a test")
}

fn layer(rules: &[(RuleDecision, &str)]) -> Layer {
    let mut layer = Layer::default();
    for (decision, pattern) in rules {
        let pattern = words(pattern).into_iter().map(|word| vec![word]).collect();
        let place = "t:1".to_owned();
        layer.add_prefix(PrefixRule { pattern, decision: *decision, justification: None, place });
    }
    layer
}

fn set(rules: &[(RuleDecision, &str)]) -> Set {
    Set::new(vec![Origin::new(Kind::User, Vec::new(), layer(rules))])
}

fn with_project(user: &[(RuleDecision, &str)], project: &[(RuleDecision, &str)]) -> Set {
    Set::new(vec![
        Origin::new(Kind::User, Vec::new(), layer(user)),
        Origin::new(Kind::Project, vec!["/p".into()], layer(project)),
    ])
}

fn bash(text: &str) -> Vec<String> {
    vec!["/bin/bash".to_owned(), "-lc".to_owned(), text.to_owned()]
}

/// Each segment as `words: decision`, with `!` where it is dangerous.
fn judged(set: &Set, argv: &[String]) -> Vec<String> {
    let segments = set.assess(argv, "/w").segments.into_iter();
    segments
        .map(|segment| {
            let rule = segment.rule.map_or_else(|| "-".to_owned(), |rule| format!("{:?}", rule.decision));
            format!("{}: {rule}{}", segment.words.join(" "), if segment.danger.is_some() { "!" } else { "" })
        })
        .collect()
}

#[test]
fn each_command_of_a_line_is_judged_by_itself() {
    let set = set(&[(Allow, "ls"), (Allow, "git"), (Forbidden, "git push")]);
    assert_eq!(
        judged(&set, &bash("ls -l && git log | wc; git push")),
        ["ls -l: Allow", "git log: Allow", "wc: -", "git push: Forbidden"]
    );
    assert_eq!(judged(&set, &words("git push origin")), ["git push origin: Forbidden"]);
    for shell in ["sh", "/usr/bin/zsh", "dash"] {
        assert_eq!(judged(&set, &[shell.into(), "-c".into(), "ls".into()]), ["ls: Allow"]);
    }
}

#[test]
fn no_trust_reaches_into_what_cannot_be_split() {
    let set = set(&[(Allow, "ls"), (Allow, "echo")]);
    for text in ["ls $(x)", "ls > y", "ls *", "ls &", "(ls)", "A=b ls", "if ls; then echo; fi"] {
        assert_eq!(judged(&set, &bash(text)), [format!("/bin/bash -lc {text}: -")], "{text}");
    }
    for argv in [
        vec!["bash", "-c", "ls", "name"],
        vec!["bash", "-ic", "ls"],
        vec!["bash", "-x", "-c", "ls"],
        vec!["env", "ls"],
        vec!["sudo", "ls"],
        vec!["fish", "-c", "ls"],
    ] {
        let argv: Vec<String> = argv.into_iter().map(str::to_owned).collect();
        assert_eq!(judged(&set, &argv), [format!("{}: -", argv.join(" "))]);
    }
}

#[test]
fn caution_reaches_everywhere() {
    let set =
        set(&[(Allow, "sudo"), (Allow, "bash"), (Allow, "echo"), (Forbidden, "git push"), (Prompt, "make")]);
    for text in [
        "git push > log",
        "echo $(git push)",
        "if true; then git push; fi",
        "sudo -u me git push",
        "A=b git push",
        "git push &",
        "bash -c 'git push'",
        "echo x | xargs git push",
        "f() { git push; }; f",
        "echo 'git push' | bash",
        "/opt/git push",
    ] {
        let judged = judged(&set, &bash(text));
        assert!(judged.iter().any(|it| it.ends_with(": Forbidden")), "{text}: {judged:?}");
    }
    assert_eq!(judged(&set, &words("sudo make")), ["sudo make: Prompt"]);
    assert_eq!(judged(&set, &words("sudo ls")), ["sudo ls: Allow"]);
}

#[test]
fn danger_is_seen_wherever_it_is() {
    let set = set(&[(Allow, "ls")]);
    for text in [
        "rm -rf x",
        "ls; rm -f x",
        "sudo rm -rf x",
        "find . -exec rm -rf {} +",
        "ls | xargs rm -rf",
        "trap 'rm -rf x' EXIT",
        "bash -c 'rm -rf x'",
        "sudo env A=b bash -lc 'cd x && rm -rf y'",
        "echo $(rm -rf x)",
        "rm -rf $HOME",
        "rm -rf x > y",
        "bash <<EOF\nrm -rf x\nEOF",
        "timeout 5 rm -rf x",
        "command rm --force x",
        "x=1; for i in *; do rm -fr \"$i\"; done",
        "rm -rf x (",
    ] {
        let judged = judged(&set, &bash(text));
        assert!(judged.iter().any(|it| it.ends_with('!')), "{text}: {judged:?}");
    }
    for text in
        ["ls", "rm x", "echo 'rm -rf x'", "git commit -m 'rm -rf x'", "echo rm -rf x", "echo \"$x rm -rf\""]
    {
        let judged = judged(&set, &bash(text));
        assert!(judged.iter().all(|it| !it.ends_with('!')), "{text}: {judged:?}");
    }
    let nested = (0..12).fold("rm".to_owned(), |line, _| format!("sudo {line}"));
    assert!(judged(&set, &bash(&nested))[0].ends_with('!'), "too deep to be judged");
}

#[test]
fn an_unknown_shell_is_judged_too() {
    let set = set(&[(Allow, "ls")]);
    let argv = vec!["/tmp/bash".to_owned(), "-c".to_owned(), "ls".to_owned()];
    assert_eq!(judged(&set, &argv), ["/tmp/bash -c ls: -", "ls: Allow"]);
    assert_eq!(judged(&set, &["./bash".to_owned(), "-c".to_owned(), "ls".to_owned()]).len(), 2);
    let mut listing = layer(&[(Allow, "ls")]);
    listing.set_executable("bash".into(), vec!["/tmp/bash".into()]);
    let known = Set::new(vec![Origin::new(Kind::User, Vec::new(), listing.clone())]);
    assert_eq!(judged(&known, &argv), ["ls: Allow"]);
    let project = Set::new(vec![Origin::new(Kind::Project, vec!["/w".into()], listing)]);
    assert_eq!(judged(&project, &argv).len(), 2, "a project's word is not enough");
}

#[test]
fn a_projects_rules_hold_in_its_directory() {
    let set = with_project(&[(Prompt, "make install")], &[(Allow, "make"), (Forbidden, "npm")]);
    let rule = |line: &str, cwd: &str| {
        let assessment = set.assess(&bash(line), cwd);
        assessment.segments.last().and_then(|segment| segment.rule.as_ref()).map(|rule| rule.decision)
    };
    for cwd in ["/p", "/p/", "/p/src", "/p/./src"] {
        assert_eq!(rule("make all", cwd), Some(Allow), "{cwd}");
        assert_eq!(rule("npm test", cwd), Some(Forbidden), "{cwd}");
        assert_eq!(rule("make install", cwd), Some(Prompt), "it cannot loosen");
    }
    for cwd in ["/", "/pp", "/q/p", "p", "", "/p/../q"] {
        assert_eq!(rule("make all", cwd), None, "{cwd}");
        assert_eq!(rule("npm test", cwd), None, "{cwd}");
    }
    assert_eq!(rule("make all", "/p/link/.."), None, "that may lead out");
    assert_eq!(rule("npm test", "/p/link/.."), Some(Forbidden));
    assert_eq!(rule("cd /tmp && make all", "/p"), None, "it has left");
    assert_eq!(rule("cd /tmp && npm test", "/p"), Some(Forbidden));
}

#[test]
fn one_plain_command_is_canonical_by_its_words() {
    let set = set(&[]);
    let canonical = |argv: &[String]| set.assess(argv, "/").canonical;
    assert_eq!(canonical(&bash("ls  'a b'")), ["ls", "a b"]);
    assert_eq!(canonical(&words("ls 'a b'")), ["ls", "a b"]);
    assert_eq!(canonical(&bash("ls; pwd")), ["", "-lc", "ls; pwd"]);
    assert_eq!(canonical(&bash("ls $x")), ["", "-lc", "ls $x"]);
    assert_eq!(canonical(&["sh".into(), "-c".into(), "ls $x".into()]), ["", "-c", "ls $x"]);
}

#[test]
fn a_fingerprint_names_the_rules_that_hold() {
    let print = |set: &Set, cwd: &str| set.assess(&words("ls"), cwd).fingerprint;
    let one = with_project(&[(Allow, "ls")], &[(Allow, "make")]);
    let other = with_project(&[(Allow, "ls")], &[(Allow, "make"), (Prompt, "npm")]);
    assert_eq!(print(&one, "/p"), print(&one, "/p/x"));
    assert_ne!(print(&one, "/p"), print(&other, "/p"));
    assert_eq!(print(&one, "/w"), print(&other, "/w"), "another project is no concern of this place");
    assert_ne!(print(&one, "/w"), print(&with_project(&[(Prompt, "ls")], &[]), "/w"));
    assert_eq!(print(&one, "/w").len(), 2 * FINGERPRINT_BYTES);
}

#[test]
fn rules_for_connections_are_the_owners_if_there_are_any() {
    assert_eq!(set(&[(Allow, "ls")]).network(), None);
    let mut system = Layer::default();
    let rule = NetworkRule {
        host: "*".into(),
        ports: Vec::new(),
        decision: crate::core::policy::NetworkDecision::Deny,
    };
    system.add_network(rule.clone());
    let set = Set::new(vec![Origin::new(Kind::System, Vec::new(), system)]);
    assert_eq!(set.network().as_deref(), Some([rule].as_slice()));
}

proptest! {
    #[test]
    fn anything_can_be_judged(
        argv in prop::collection::vec("bash|sh|-c|-lc|sudo|rm|-rf|\\PC{0,24}", 0..6),
        cwd in "(/|p|\\.\\.|\\PC){0,8}",
    ) {
        let set = with_project(&[(Allow, "ls")], &[(Forbidden, "rm")]);
        prop_assert!(!set.assess(&argv, &cwd).segments.is_empty());
    }

    /// A line is trusted only if all its commands would be on their own.
    #[test]
    fn a_line_is_trusted_as_its_commands_are(commands in prop::collection::vec("(ls|cat|rm)( -?[a-z]{1,2}){0,2}", 1..5)) {
        let set = set(&[(Allow, "ls"), (Prompt, "cat -n")]);
        let whole = judged(&set, &bash(&commands.join(" && ")));
        let single: Vec<String> = commands.iter().flat_map(|command| judged(&set, &words(command))).collect();
        prop_assert_eq!(whole, single);
    }
}
