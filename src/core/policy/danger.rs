//! Commands that need an answer whatever the rules leave open, because what they do cannot be undone.
//!
//! Today that is `rm` with `-f`: it removes without asking back. How it is reached, through `sudo`, `xargs` or a shell
//! within a shell, is the affair of [`reach`](super::reach()).

use super::rules::base_name;

/// Why a command is dangerous, if it is.
pub fn danger(words: &[String]) -> Option<String> {
    let (program, arguments) = words.split_first()?;
    if base_name(program).unwrap_or(program) != "rm" {
        return None;
    }
    let options = arguments.iter().take_while(|word| *word != "--");
    let force = options.into_iter().find(|word| is_force(word))?;
    Some(format!("rm {force} removes files without asking back"))
}

/// `-f`, alone or among others, and `--force` with its abbreviations.
fn is_force(word: &str) -> bool {
    match word.strip_prefix("--") {
        Some(long) => !long.is_empty() && "force".starts_with(long),
        None => word.strip_prefix('-').is_some_and(|letters| letters.contains('f')),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_dangerous(line: &str) -> bool {
        danger(&line.split(' ').map(str::to_owned).collect::<Vec<_>>()).is_some()
    }

    #[test]
    fn removal_by_force_is_dangerous_however_it_is_written() {
        for line in [
            "rm -f x",
            "rm -rf x",
            "rm -fr x",
            "rm -Rfv x",
            "rm -r -f x",
            "rm -r --force x",
            "rm --fo x",
            "rm x -rf",
            "/bin/rm -f x",
            "./rm -f x",
            "rm -r x -f --",
            "rm -f",
        ] {
            assert!(is_dangerous(line), "{line}");
        }
    }

    #[test]
    fn other_commands_are_not() {
        for line in [
            "rm x",
            "rm -r x",
            "rm -i x",
            "rm -- -f",
            "rm --recursive x",
            "rmdir -f",
            "git rm -f x",
            "echo rm -f",
            "ls",
            "",
        ] {
            assert!(!is_dangerous(line), "{line}");
        }
        assert_eq!(danger(&[]), None);
    }
}
