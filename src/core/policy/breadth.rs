//! Which rules nobody should add in passing: those that would allow nearly everything.
//!
//! An approval can leave a rule behind. Its words were looked at once, and whatever begins with them runs from then on
//! without a question and without a sandbox. A person who wants more than this lets through can write it into the file.

use super::danger::danger;
use super::reach::starts_others;
use super::rules::base_name;

/// Words of a rule that is added; the longest that is worth reading.
const WORDS_MAX: usize = 64;

/// Bytes of all words of a rule that is added.
const BYTES_MAX: usize = 4_096;

/// Programs that run, read or change anything they are told to, wherever.
const ANYTHING: &[&str] = &[
    "rm",
    "dd",
    "mv",
    "cp",
    "ln",
    "chmod",
    "chown",
    "tee",
    "install",
    "rsync",
    "scp",
    "sftp",
    "ssh",
    "mosh",
    "curl",
    "wget",
    "nc",
    "ncat",
    "socat",
    "docker",
    "podman",
    "nerdctl",
    "kubectl",
    "lxc",
    "crictl",
    "systemd-run",
    "systemctl",
    "at",
    "batch",
    "crontab",
    "gdb",
    "lldb",
    "bwrap",
    "firejail",
    "tmux",
    "screen",
    "expect",
    "awk",
    "gawk",
    "mawk",
    "sed",
    "ed",
    "vi",
    "vim",
    "nvim",
    "emacs",
    "less",
    "more",
    "man",
    "tar",
    "zip",
    "source",
    ".",
    "alias",
    "export",
    "hash",
    "enable",
    "set",
    "shopt",
    "mount",
    "powershell",
    "pwsh",
    "osascript",
    "launchctl",
    "open",
    "entr",
    "watchexec",
    "dbus-run-session",
    "faketime",
    "proot",
    "fakeroot",
];

/// Interpreters: they run a file, a module, or what follows an option.
const INTERPRETERS: &[&str] = &[
    "python", "pypy", "node", "nodejs", "deno", "bun", "perl", "ruby", "irb", "php", "lua", "luajit",
    "tclsh", "wish", "Rscript", "R", "java", "jshell", "groovy", "scala", "elixir", "erl", "ghci", "runghc",
    "ocaml", "guile", "racket", "julia", "swift", "dotnet", "tsx", "ts-node",
];

/// Programs whose next word says what they do.
const MULTIPLE: &[&str] = &[
    "git",
    "hg",
    "svn",
    "jj",
    "gh",
    "glab",
    "npm",
    "npx",
    "pnpm",
    "pnpx",
    "yarn",
    "bunx",
    "corepack",
    "pip",
    "pipx",
    "uv",
    "uvx",
    "poetry",
    "hatch",
    "rye",
    "conda",
    "mamba",
    "make",
    "gmake",
    "just",
    "task",
    "rake",
    "bundle",
    "gem",
    "cargo",
    "rustup",
    "go",
    "mvn",
    "gradle",
    "sbt",
    "bazel",
    "buck2",
    "cmake",
    "ninja",
    "meson",
    "ant",
    "composer",
    "mix",
    "cabal",
    "stack",
    "nix",
    "nix-shell",
    "brew",
    "apt",
    "apt-get",
    "dnf",
    "yum",
    "pacman",
    "apk",
    "snap",
    "flatpak",
    "terraform",
    "tofu",
    "pulumi",
    "ansible",
    "ansible-playbook",
    "aws",
    "gcloud",
    "az",
    "helm",
    "vagrant",
    "direnv",
    "mise",
    "asdf",
    "tox",
    "nox",
    "turbo",
    "nx",
    "lerna",
];

/// Their words that run whatever comes next.
const RUNNERS: &[&str] = &[
    "run",
    "run-script",
    "exec",
    "x",
    "dlx",
    "shell",
    "develop",
    "tool",
    "alias",
    "config",
    "filter-branch",
    "bisect",
];

/// Why a rule that allows what begins with `words` would be too broad; `None` if it would not.
pub fn too_broad(words: &[String]) -> Option<String> {
    let Some((program, rest)) = words.split_first().filter(|(program, _)| !program.is_empty()) else {
        return Some("it names no program".to_owned());
    };
    if words.len() > WORDS_MAX || words.iter().map(String::len).sum::<usize>() > BYTES_MAX {
        return Some(format!("it has more than {WORDS_MAX} words or {BYTES_MAX} bytes"));
    }
    if program.contains('/') && !program.starts_with('/') {
        return Some(format!(
            "{program} is another program in every directory; name it by its absolute path"
        ));
    }
    let name = base_name(program).unwrap_or(program);
    if starts_others(name) {
        return Some(format!("{name} starts any other program"));
    }
    if ANYTHING.contains(&name) {
        return Some(format!("what {name} does is up to the words behind it, wherever they stand"));
    }
    if let Some(reason) = danger(words) {
        return Some(reason);
    }
    let next = rest.first().map(String::as_str);
    if is_interpreter(name) {
        return interpreter_too_broad(name, rest);
    }
    if !MULTIPLE.contains(&name) {
        return None;
    }
    match next {
        None => Some(format!("{name} does too many things; add the word that says which")),
        Some(option) if option.starts_with('-') => {
            Some(format!("options of {name} can change what it runs; begin with what it is to do"))
        }
        Some(runner) if RUNNERS.contains(&runner) && rest.len() < 2 => {
            Some(format!("{name} {runner} runs anything; add what it is to run"))
        }
        Some(_) => None,
    }
}

/// Interpreters are installed under names with their version: `python3.12`.
fn is_interpreter(name: &str) -> bool {
    INTERPRETERS.contains(&name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.' || c == '-'))
}

/// A module, or a file that is the same in every directory, is something that can be judged; other code is not.
fn interpreter_too_broad(name: &str, rest: &[String]) -> Option<String> {
    let words: Vec<&str> = rest.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["-m", module, ..] if !module.starts_with('-') => None,
        [file, ..] if file.starts_with('/') => None,
        _ => Some(format!("{name} runs any code; name a module with -m, or a file by its absolute path")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reason(line: &str) -> Option<String> {
        too_broad(&line.split(' ').map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn rules_that_would_allow_nearly_everything_are_refused() {
        for line in [
            "",
            "bash",
            "bash -c ls",
            "/bin/sh",
            "zsh -lc",
            "sudo ls",
            "env",
            "env A=b ls",
            "xargs ls",
            "find .",
            "timeout 5 ls",
            "rm",
            "rm x",
            "ssh host ls",
            "docker run x",
            "python",
            "python3 -c 1",
            "python3.12",
            "python x.py",
            "node -e 1",
            "perl -e 1",
            "ruby",
            "git",
            "git -c a=b log",
            "npm",
            "npm run",
            "npx",
            "make",
            "make -f x",
            "cargo",
            "cargo run",
            "uv run",
            "eval ls",
            "./gradlew build",
            "bin/x",
            "awk 1",
            "yarn dlx",
            "command ls",
            "nix develop",
            "/usr/bin/git",
        ] {
            assert!(reason(line).is_some(), "{line}");
        }
        assert!(too_broad(&[]).is_some());
        assert!(too_broad(&vec!["ls".to_owned(); WORDS_MAX + 1]).is_some());
        assert!(too_broad(&["ls".to_owned(), "x".repeat(BYTES_MAX)]).is_some());
    }

    #[test]
    fn rules_that_say_what_they_mean_are_not() {
        for line in [
            "ls",
            "ls -l",
            "git status",
            "git push origin",
            "/usr/bin/git log",
            "npm run build",
            "npm test",
            "cargo test",
            "make all",
            "python3 -m pytest",
            "python /opt/tool.py",
            "npx eslint",
            "rustc --version",
            "/opt/tool",
        ] {
            assert_eq!(reason(line), None, "{line}");
        }
    }
}
