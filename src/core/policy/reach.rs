//! The commands that a command starts in turn: `sudo rm`, `find -exec rm`, `bash -c 'rm …'`, and so on inwards.
//!
//! Caution follows a command to whatever it reaches; trust never does. So a mistake here can only ask once too often or
//! miss what is hidden well: this recognises what people and agents write, and is no protection against those who hide.
//! Shell text is split by whoever calls, who has a grammar.

use super::rules::base_name;

/// Nesting that no honest command has; what is nested deeper is not judged.
const DEPTH_MAX: usize = 8;

/// Commands that one command may reach before it is not judged; a long script has thousands.
const REACHED_MAX: usize = 65_536;

/// What a command reaches.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reached {
    /// The commands, without the first one itself.
    pub commands: Vec<Vec<String>>,
    /// Whether that is all: nesting and number are bounded.
    pub complete: bool,
}

/// What `words` starts in turn, as far as the words tell; `split` gives all commands of a text for a shell, wherever in
/// it they stand.
pub fn reach(words: &[String], split: &dyn Fn(&str) -> Vec<Vec<String>>) -> Reached {
    let mut reached = Reached { commands: Vec::new(), complete: true };
    follow(words, split, DEPTH_MAX, &mut reached);
    reached
}

fn follow(words: &[String], split: &dyn Fn(&str) -> Vec<Vec<String>>, depth: usize, reached: &mut Reached) {
    for inner in started_by(words) {
        let commands = match inner {
            Inner::Command(words) => vec![words],
            Inner::Script(text) => split(&text),
        };
        for command in commands.into_iter().filter(|command| !command.is_empty()) {
            if depth == 0 || reached.commands.len() >= REACHED_MAX {
                reached.complete = false;
                return;
            }
            follow(&command, split, depth - 1, reached);
            reached.commands.push(command);
        }
    }
}

/// Something that a command starts.
#[derive(Debug, PartialEq, Eq)]
enum Inner {
    /// These words.
    Command(Vec<String>),
    /// This text, by a shell.
    Script(String),
}

/// A program whose operands are, or end in, another command.
struct Wrapper {
    names: &'static [&'static str],
    /// Letters of the options that take a value.
    short: &'static str,
    /// Long options whose value is the next word.
    long: &'static [&'static str],
    /// Operands in front of the command.
    operands: usize,
}

const fn wrapper(
    names: &'static [&'static str],
    short: &'static str,
    long: &'static [&'static str],
    operands: usize,
) -> Wrapper {
    Wrapper { names, short, long, operands }
}

const WRAPPERS: &[Wrapper] = &[
    wrapper(
        &["sudo", "doas"],
        "ughpCRDTrtUa",
        &[
            "--user",
            "--group",
            "--host",
            "--prompt",
            "--close-from",
            "--chroot",
            "--chdir",
            "--command-timeout",
            "--role",
            "--type",
            "--other-user",
        ],
        0,
    ),
    wrapper(&["env"], "uCSa", &["--unset", "--chdir", "--split-string", "--argv0"], 0),
    wrapper(
        &["command", "builtin", "nohup", "setsid", "busybox", "toybox", "pkexec", "!", "noglob", "nocorrect"],
        "",
        &["--user"],
        0,
    ),
    wrapper(&["exec"], "a", &[], 0),
    wrapper(&["nice"], "n", &["--adjustment"], 0),
    wrapper(&["ionice"], "cnpPu", &["--class", "--classdata"], 0),
    wrapper(&["chrt"], "TPD", &["--sched-runtime", "--sched-period", "--sched-deadline"], 1),
    wrapper(&["taskset", "chroot"], "", &[], 1),
    wrapper(&["timeout"], "sk", &["--signal", "--kill-after"], 1),
    wrapper(&["time"], "fo", &["--format", "--output"], 0),
    wrapper(&["stdbuf"], "ioe", &["--input", "--output", "--error"], 0),
    wrapper(&["flock"], "wE", &["--timeout", "--wait", "--conflict-exit-code"], 1),
    wrapper(&["strace", "ltrace"], "eopsaEuPIObX", &["--output", "--trace", "--attach"], 0),
    wrapper(&["unshare", "nsenter"], "tRwSG", &["--target", "--root", "--wd", "--setuid", "--setgid"], 0),
    wrapper(&["setpriv"], "", &[], 0),
    wrapper(&["runuser"], "ugGsc", &["--user", "--group", "--supp-group", "--shell", "--command"], 0),
    wrapper(
        &["xargs"],
        "aEdILnPs",
        &[
            "--arg-file",
            "--delimiter",
            "--max-lines",
            "--max-args",
            "--max-procs",
            "--max-chars",
            "--process-slot-var",
        ],
        0,
    ),
];

/// Programs that take `-c` and a text, and the shells among them.
const SHELLS: &[&str] =
    &["sh", "bash", "rbash", "dash", "ash", "zsh", "ksh", "mksh", "yash", "fish", "csh", "tcsh"];

/// Whether this program, by name or path, is a shell.
pub fn is_shell(program: &str) -> bool {
    SHELLS.contains(&base_name(program).unwrap_or(program))
}

/// Whether this program, by name or path, exists to start others.
pub(super) fn starts_others(program: &str) -> bool {
    let name = base_name(program).unwrap_or(program);
    is_shell(name)
        || WRAPPERS.iter().any(|wrapper| wrapper.names.contains(&name))
        || ["find", "fd", "fdfind", "eval", "trap", "su", "script", "watch", "parallel"].contains(&name)
}

fn started_by(words: &[String]) -> Vec<Inner> {
    let Some((program, arguments)) = words.split_first() else { return Vec::new() };
    let name = base_name(program).unwrap_or(program);
    let mut found = Vec::new();
    if let Some(wrapper) = WRAPPERS.iter().find(|wrapper| wrapper.names.contains(&name)) {
        found.extend(wrapped(wrapper, arguments).map(Inner::Command));
    }
    match name {
        "env" => found.extend(split_string(arguments)),
        "find" => found.extend(after_any(arguments, &["-exec", "-execdir", "-ok", "-okdir"])),
        "fd" | "fdfind" => found.extend(after_any(arguments, &["-x", "-X", "--exec", "--exec-batch"])),
        "eval" => found.push(Inner::Script(arguments.join(" "))),
        "trap" => {
            found.extend(arguments.iter().find(|word| !word.starts_with('-')).cloned().map(Inner::Script));
        }
        "su" | "runuser" | "script" | "flock" => found.extend(command_option(arguments)),
        "watch" => found.extend(wrapped(&WATCH, arguments).map(|words| Inner::Script(words.join(" ")))),
        "parallel" => found.extend(wrapped(&PARALLEL, arguments).map(|words| {
            let template: Vec<_> = words.into_iter().take_while(|word| !word.starts_with(":::")).collect();
            Inner::Script(template.join(" "))
        })),
        _ if is_shell(name) => found.extend(shell_text(arguments)),
        _ => {}
    }
    found
}

const WATCH: Wrapper = wrapper(&["watch"], "nq", &["--interval", "--equexit"], 0);
const PARALLEL: Wrapper = wrapper(
    &["parallel"],
    "jnNILdaSs",
    &["--jobs", "--max-args", "--delimiter", "--arg-file", "--joblog"],
    0,
);

/// The command of a wrapper: what follows its options, assignments and operands.
fn wrapped(wrapper: &Wrapper, arguments: &[String]) -> Option<Vec<String>> {
    let mut rest = arguments;
    while let Some((word, after)) = rest.split_first() {
        if word == "--" {
            rest = after;
            break;
        }
        let skipped = if let Some(letters) = word.strip_prefix('-') {
            1 + usize::from(takes_value(wrapper, word, letters))
        } else if is_assignment(word) {
            1
        } else {
            break;
        };
        rest = rest.get(skipped..)?;
    }
    // Behind `--` there may still be assignments.
    let assignments = rest.iter().take_while(|word| is_assignment(word)).count();
    let command = rest.get(assignments + wrapper.operands..)?;
    (!command.is_empty()).then(|| command.to_vec())
}

/// Whether the value of an option is the next word: the last letter of a cluster takes one, or the long name does.
fn takes_value(wrapper: &Wrapper, word: &str, letters: &str) -> bool {
    if letters.starts_with('-') {
        return wrapper.long.contains(&word);
    }
    let first = letters.char_indices().find(|(_, letter)| wrapper.short.contains(*letter));
    first.is_some_and(|(at, letter)| at + letter.len_utf8() == letters.len())
}

/// Whether this is `NAME=value`.
fn is_assignment(word: &str) -> bool {
    let is_name = |name: &str| {
        name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
            && name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
    };
    word.split_once('=').is_some_and(|(name, _)| is_name(name))
}

/// `env -S 'words'`.
fn split_string(arguments: &[String]) -> Option<Inner> {
    let at = arguments
        .iter()
        .position(|word| word.starts_with("--split-string") || (is_cluster(word) && word.contains('S')))?;
    let (option, rest) = (arguments.get(at)?, arguments.get(at + 1..)?.join(" "));
    let own = match option.strip_prefix("--split-string") {
        Some(value) => value.trim_start_matches('='),
        None => option.split_once('S').map_or("", |(_, value)| value),
    };
    Some(Inner::Script(format!("{own} {rest}")))
}

fn is_cluster(word: &str) -> bool {
    word.len() > 1 && word.starts_with('-') && !word.starts_with("--")
}

/// The commands that follow each of these options, up to `;` or `+`.
fn after_any(arguments: &[String], options: &[&str]) -> Vec<Inner> {
    let starts = arguments.iter().enumerate().filter(|(_, word)| options.contains(&word.as_str()));
    starts
        .filter_map(|(at, _)| arguments.get(at + 1..))
        .map(|rest| {
            rest.iter().take_while(|word| !["+", ";", "\\;"].contains(&word.as_str())).cloned().collect()
        })
        .map(Inner::Command)
        .collect()
}

/// `-c TEXT`, also at the end of a cluster, and `--command TEXT`.
fn command_option(arguments: &[String]) -> Option<Inner> {
    let at = arguments
        .iter()
        .position(|word| word.starts_with("--command") || (is_cluster(word) && word.ends_with('c')))?;
    let text = match arguments.get(at)?.split_once('=') {
        Some((_, text)) => text,
        None => arguments.get(at + 1)?,
    };
    Some(Inner::Script(text.to_owned()))
}

/// The text that a shell is given by `-c`, wherever among its options that stands.
fn shell_text(arguments: &[String]) -> Option<Inner> {
    let mut has_text = false;
    let mut at = 0;
    while let Some(word) = arguments.get(at) {
        let is_option = word.len() > 1 && word.starts_with(['-', '+']);
        if let Some(text) = word.strip_prefix("--command=") {
            return Some(Inner::Script(text.to_owned()));
        }
        if !is_option || word == "--" {
            at += usize::from(word == "--" || word == "-");
            break;
        }
        at += 1;
        match word.strip_prefix("--") {
            Some("rcfile" | "init-file") => at += 1,
            Some("command") => has_text = true,
            Some(_) => {}
            None => {
                has_text |= word.starts_with('-') && word.contains('c');
                // Each takes the name of a setting.
                at += word.chars().filter(|letter| "oO".contains(*letter)).count();
            }
        }
    }
    has_text.then(|| arguments.get(at).cloned().map(Inner::Script))?
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Splits at `;` and blanks: a shell of a test.
    fn split(text: &str) -> Vec<Vec<String>> {
        text.split(';').map(|command| command.split_whitespace().map(str::to_owned).collect()).collect()
    }

    /// Words of a line; a `'` begins and ends a word with blanks.
    fn words(line: &str) -> Vec<String> {
        line.split('\'')
            .enumerate()
            .flat_map(|(at, part)| match at % 2 {
                0 => part.split_whitespace().map(str::to_owned).collect(),
                _ => vec![part.to_owned()],
            })
            .collect()
    }

    fn reaches(line: &str) -> bool {
        reach(&words(line), &split).commands.contains(&words("rm -rf x"))
    }

    #[test]
    fn wrappers_are_seen_through() {
        for line in [
            "sudo rm -rf x",
            "sudo -u root -E rm -rf x",
            "sudo -uroot rm -rf x",
            "sudo --user root A=b rm -rf x",
            "sudo -- rm -rf x",
            "doas -u root rm -rf x",
            "env rm -rf x",
            "env -i A=b C=d rm -rf x",
            "env - rm -rf x",
            "env -u HOME -- A=b rm -rf x",
            "env -S 'rm -rf x'",
            "env -iS 'rm -rf' x",
            "env '-Srm -rf x'",
            "env '--split-string=rm -rf x'",
            "command rm -rf x",
            "command -p rm -rf x",
            "builtin exec -a ls rm -rf x",
            "nice rm -rf x",
            "nice -n 5 rm -rf x",
            "nice -5 rm -rf x",
            "ionice -c 3 rm -rf x",
            "nohup rm -rf x",
            "timeout 5 rm -rf x",
            "timeout -s KILL -k 5 5 rm -rf x",
            "timeout --signal=KILL 5 rm -rf x",
            "time -f %e rm -rf x",
            "stdbuf -oL rm -rf x",
            "stdbuf -o L rm -rf x",
            "setsid -w rm -rf x",
            "busybox rm -rf x",
            "chroot /x rm -rf x",
            "taskset 3 rm -rf x",
            "flock -n /x rm -rf x",
            "flock /x -c 'rm -rf x'",
            "xargs rm -rf x",
            "xargs -0 -n 1 -I {} rm -rf x",
            "xargs -I{} rm -rf x",
            "find . -name y -exec rm -rf x ;",
            "find . -execdir rm -rf x +",
            "find . -exec ls ; -exec rm -rf x ;",
            "fd y -x rm -rf x",
            "eval rm -rf x",
            "eval 'ls; rm -rf x'",
            "trap 'rm -rf x' EXIT",
            "trap -- 'rm -rf x' EXIT",
            "su -c 'rm -rf x'",
            "su me '--command=rm -rf x'",
            "script -qc 'rm -rf x' /y",
            "watch -n 1 rm -rf x",
            "parallel -j 4 'rm -rf x' ::: a b",
            "/usr/bin/sudo /usr/bin/env rm -rf x",
            "sudo env nice timeout 5 rm -rf x",
            "runuser -u me -- rm -rf x",
            "unshare -r rm -rf x",
        ] {
            assert!(reaches(line), "{line}");
        }
    }

    #[test]
    fn shells_are_seen_through() {
        for line in [
            "bash -c 'rm -rf x'",
            "sh -lc 'ls; rm -rf x'",
            "bash -e -c 'rm -rf x'",
            "bash -euo pipefail -c 'rm -rf x'",
            "bash -ceuo pipefail 'rm -rf x'",
            "bash -c -e 'rm -rf x'",
            "bash +O extglob -c 'rm -rf x' name",
            "bash --norc --rcfile y -c 'rm -rf x'",
            "bash -c -- 'rm -rf x'",
            "/bin/dash -c 'rm -rf x'",
            "fish --command 'rm -rf x'",
            "fish '--command=rm -rf x'",
            "busybox sh -c 'rm -rf x'",
            "sudo bash -c 'rm -rf x'",
            "bash -c 'sudo rm -rf x'",
            "bash -c 'bash -c rm;eval rm -rf x'",
        ] {
            assert!(reaches(line), "{line}");
        }
    }

    #[test]
    fn words_that_are_not_started_are_not_reached() {
        for line in [
            "rm -rf x",
            "echo rm -rf x",
            "timeout rm -rf x",
            "grep -c 'rm -rf x'",
            "bash 'rm -rf x'",
            "bash script -c 'rm -rf x'",
            "env",
            "sudo",
            "sudo -u",
            "find . -name rm -rf x",
            "trap",
            "bash -c",
            "ls bash -c 'rm -rf x'",
            "bash -o",
            "env -S",
        ] {
            assert!(!reaches(line), "{line}");
        }
    }

    #[test]
    fn nesting_without_end_is_told() {
        let mut line = "rm".to_owned();
        for _ in 0..DEPTH_MAX {
            line = format!("sudo {line}");
        }
        assert!(reach(&words(&line), &split).complete);
        assert!(!reach(&words(&format!("sudo {line}")), &split).complete);
        let many = "ls;".repeat(REACHED_MAX + 1);
        assert!(!reach(&["sh".to_owned(), "-c".to_owned(), many], &split).complete);
    }
}
