#![expect(clippy::disallowed_methods, reason = "the judge of a splitter is the shell itself")]

use std::process::Command;

use proptest::prelude::*;

use super::*;

fn plain(text: &str) -> Option<Vec<String>> {
    Some(Script::parse(text).plain()?.into_iter().map(|words| words.join("|")).collect())
}

fn loose(text: &str) -> Vec<String> {
    Script::parse(text).loose().into_iter().map(|words| words.join(" ")).collect()
}

#[test]
fn plain_commands_are_split() {
    for (text, commands) in [
        ("ls", &["ls"][..]),
        ("  ls -l  \n", &["ls|-l"]),
        ("a && b || c; d | e\nf;", &["a", "b", "c", "d", "e", "f"]),
        ("git commit -m 'it is' -m \"a \\\"b\\\" \\$c\"", &["git|commit|-m|it is|-m|a \"b\" $c"]),
        ("ls a'b c'\"d\" ''", &["ls|ab cd|"]),
        ("\"ls\" 'x\ny'", &["ls|x\ny"]),
        ("make 2>&1 | tail -5", &["make", "tail|-5"]),
        ("make >/dev/null 2> /dev/null </dev/null", &["make"]),
        ("2>/dev/null make all", &["make|all"]),
        ("ls # all of them\npwd", &["ls", "pwd"]),
        ("git log HEAD~1 HEAD^ a=b x:y --z=1 1", &["git|log|HEAD~1|HEAD^|a=b|x:y|--z=1|1"]),
        ("echo grüße '$x' '*'", &["echo|grüße|$x|*"]),
    ] {
        assert_eq!(
            plain(text).as_deref(),
            Some(commands.iter().map(|it| (*it).to_owned()).collect::<Vec<_>>().as_slice()),
            "{text}"
        );
    }
}

#[test]
fn what_a_shell_would_change_is_not_plain() {
    for text in [
        "",
        " ",
        "# only words",
        "ls $x",
        "ls \"$x\"",
        "ls `x`",
        "ls $(x)",
        "ls <(x)",
        "ls *.rs",
        "ls a?",
        "ls [a]",
        "ls {a,b}",
        "ls ~",
        "ls ~/x",
        "ls a=~/x",
        "=ls",
        "ls =ls",
        "A=b ls",
        "A=b",
        "a[1]=b ls",
        "ls > x",
        "ls >> x",
        "ls < x",
        "ls &> /dev/null",
        "ls >/dev/null x",
        "ls > /dev/nullx",
        "ls 3>/dev/null",
        "ls >&3",
        "ls 2>&1 x > y",
        "ls >& x",
        "ls <<EOF\nx\nEOF",
        "ls <<< x",
        "ls &",
        "a & b",
        "(ls)",
        "{ ls; }",
        "! ls",
        "time ls",
        "noglob ls",
        "if a; then b; fi",
        "for i in a; do b; done",
        "f() { ls; }",
        "[ -f x ]",
        "[[ -f x ]]",
        "((1))",
        "export A=b",
        "unset A",
        "declare x",
        "local x",
        "ls \\x",
        "l\\s",
        "ls \\\n x",
        "ls $'x'",
        "ls $\"x\"",
        "ls \"a\\n\"",
        "ls \"!x\"",
        "ls !x",
        "a |& b",
        "a ;; b",
        "ls a#b",
        "ls '",
        "ls \"",
        "ls (",
        "coproc ls",
        "function f { ls; }",
        "{rm,-rf,x}",
        "ls\u{a0}x",
        "ls\rx",
        "\rls",
        "ls\r",
        "\\\nls",
        "\u{b}ls",
        "ls\u{b}x",
        "ls\0x",
        "case x in x) ls;; esac",
        "select x in a; do b; done",
        "\"\"",
        "then",
        "time -p",
    ] {
        assert_eq!(plain(text), None, "{text:?}");
    }
    assert_eq!(plain(&format!("ls {}", "x".repeat(SCRIPT_MAX))), None);
}

#[test]
fn every_command_is_found_wherever_it_stands() {
    for text in [
        "rm -rf x",
        "ls; rm -rf x",
        "ls $(rm -rf x)",
        "echo \"`rm -rf x`\"",
        "(rm -rf x)",
        "{ rm -rf x; }",
        "! rm -rf x",
        "rm -rf x &",
        "if true; then rm -rf x; fi",
        "for i in a; do rm -rf x; done",
        "while rm -rf x; do :; done",
        "f() { rm -rf x; }",
        "cat <(rm -rf x)",
        "case x in a) rm -rf x;; esac",
        "rm -rf x > y",
        "A=b rm -rf x",
        "\\rm -rf x",
        "r\\m '-rf' \"x\"",
        "2>y rm -rf x",
        "ls && rm -rf x || ls",
        "rm -rf x (",
        "if then rm -rf x",
        "ls | { rm -rf x; }",
        "x=$(rm -rf x)",
        "export A=$(rm -rf x)",
        "[[ -n $(rm -rf x) ]]",
        "$'rm' -rf x",
        "cat <<EOF\n$(rm -rf x)\nEOF",
    ] {
        assert!(loose(text).contains(&"rm -rf x".to_owned()), "{text}: {:?}", loose(text));
    }
    let long = format!("ls {}\nrm -rf x", "x".repeat(SCRIPT_MAX));
    assert!(loose(&long).contains(&"rm -rf x".to_owned()));
    assert!(!loose("echo 'rm -rf x' \"; rm -rf x\"").contains(&"rm -rf x".to_owned()));
}

#[test]
fn text_that_is_fed_to_a_shell_is_a_command_of_it() {
    for text in [
        "bash <<EOF\nrm -rf x\nEOF",
        "sudo bash -s <<'EOF'\nrm -rf x\nEOF",
        "bash <<< 'rm -rf x'",
        "echo 'rm -rf x' | sh",
        "printf \"rm -rf x\" | sudo bash",
        "ls | bash <<EOF\nrm -rf x\nEOF",
    ] {
        let found = loose(text);
        assert!(found.iter().any(|it| it.trim_end().ends_with("sh -c rm -rf x")), "{text}: {found:?}");
    }
    assert!(!loose("cat <<EOF\nrm -rf x\nEOF").iter().any(|it| it.contains(" -c ")));
}

#[test]
fn characters_that_the_scanners_table_does_not_have_are_letters_to_it() {
    for text in
        ["é", "a \u{3000}", "${日本}", "日=1 a", "$\u{10ffff}{x}", "<<終\nrm -rf x\n終\n", "a=(日 [本]=x)"]
    {
        let script = Script::parse(text);
        assert!(script.tree.is_some(), "{text}");
        script.plain();
    }
    assert_eq!(Script::parse("echo 日本 'é ü'").plain().unwrap(), [["echo", "日本", "é ü"]]);
}

/// What bash runs: every command there is becomes a function that prints its words, and nothing else can be found.
fn run_by_bash(text: &str) -> Option<Vec<Vec<String>>> {
    let names = "a b c";
    // In one write: the commands of a pipeline print at the same time.
    let print = "() { printf '%s\\0' \"$FUNCNAME\" \"$@\" $'\\1' >&3; }";
    let functions: String = names.split(' ').map(|name| format!("{name}{print}\n")).collect();
    let dir = tempfile::tempdir().ok()?;
    let said = dir.path().join("said");
    let done = Command::new("/bin/bash")
        .args(["--noprofile", "--norc", "-c", "eval \"$1\"; exec 3>\"$2\"; eval \"$3\"", "x"])
        .args([&functions, said.to_str()?, text])
        .env_clear()
        .current_dir(dir.path())
        .stderr(std::process::Stdio::null())
        .status();
    done.ok()?;
    let said = String::from_utf8(std::fs::read(said).ok()?).ok()?;
    let mut commands = vec![Vec::new()];
    for word in said.split_terminator('\0') {
        match word {
            "\u{1}" => commands.push(Vec::new()),
            word => commands.last_mut()?.push(word.to_owned()),
        }
    }
    commands.pop();
    Some(commands)
}

fn sorted(mut commands: Vec<Vec<String>>) -> Vec<Vec<String>> {
    commands.sort();
    commands
}

fn piece() -> impl Strategy<Value = &'static str> {
    let tame = [
        "a ",
        "b ",
        "c ",
        " ",
        "\n",
        ";",
        " | ",
        " && ",
        "'q r'",
        "\"s t\"",
        " -1 ",
        " x=y",
        " 2>&1 ",
        " >/dev/null ",
    ];
    let wild = [
        "a", "'", "\"", "\\", "x", "$x", "*", "{x,y}", "~", "=", "#", "!", "&", "`", "$(", ")", "(", "\t",
        "<", "[x]", ",", "é", "time ", "\\\n", "\\\"", "2", ">", "^", "%", "\r", "do ", "\u{a0}",
    ];
    prop_oneof![8 => prop::sample::select(tame.to_vec()), 1 => prop::sample::select(wild.to_vec())]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    /// Pieces of shell text, glued without a plan: whatever the splitter calls plain, bash runs to the word.
    #[test]
    fn bash_runs_the_words_of_plain_text(pieces in prop::collection::vec(piece(), 1..12)) {
        let text = pieces.concat();
        if let Some(commands) = Script::parse(&text).plain() {
            // Other words than these three would be looked up by bash, and not be printed.
            if commands.iter().all(|words| ["a", "b", "c"].contains(&words[0].as_str())) {
                // Commands of a pipeline print in whatever order; all of them print.
                prop_assert_eq!(run_by_bash(&text).map(sorted), Some(sorted(commands)), "{:?}", text);
            }
        }
    }

    #[test]
    fn quoted_words_come_back(commands in prop::collection::vec(prop::collection::vec("[ -~é\n]{0,12}", 0..4), 1..4)) {
        let lines: Vec<Vec<String>> = commands
            .into_iter()
            .map(|words| std::iter::once("a".to_owned()).chain(words).collect())
            .collect();
        let quoted: Vec<String> = lines
            .iter()
            .map(|words| words.iter().map(|word| format!("'{}'", word.replace('\'', "'\"'\"'"))).collect::<Vec<_>>().join(" "))
            .collect();
        let text = quoted.join("; ");
        prop_assert_eq!(Script::parse(&text).plain(), Some(lines));
    }

    #[test]
    fn no_text_makes_it_panic(text in "\\PC{0,64}|[\\x00-\\x7f]{0,64}", bytes in prop::collection::vec(any::<u8>(), 0..64)) {
        for text in [text.as_str(), &String::from_utf8_lossy(&bytes)] {
            let script = Script::parse(text);
            script.plain();
            script.loose();
        }
    }
}
