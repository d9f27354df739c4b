use std::fs;
use std::path::Path;

use tempfile::TempDir;

use super::*;
use crate::core::policy::RuleDecision::{self, Allow, Forbidden, Prompt};

struct Place {
    dir: TempDir,
    sources: Sources,
}

impl Place {
    fn new() -> Self {
        let dir = TempDir::new().unwrap();
        let at = |name: &str| dir.path().join(name);
        fs::create_dir_all(at("system")).unwrap();
        fs::create_dir_all(at("project/.unified-exec")).unwrap();
        let sources = Sources {
            system: Some(vec![at("system")]),
            user: Some(at("home/rules.toml")),
            trusted_projects: vec![at("project")],
        };
        Self { dir, sources }
    }

    fn at(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        fs::create_dir_all(self.at(name).parent().unwrap()).unwrap();
        fs::write(self.at(name), text).unwrap();
    }

    fn open(&self) -> Book {
        Book::open(self.sources.clone()).unwrap()
    }

    fn refusal(&self) -> String {
        Book::open(self.sources.clone()).unwrap_err().to_string()
    }
}

fn rule(decision: &str, pattern: &str) -> String {
    format!("[[prefix]]\npattern = [\"{}\"]\ndecision = \"{decision}\"\n", pattern.replace(' ', "\", \""))
}

fn words(line: &str) -> Vec<String> {
    line.split(' ').map(str::to_owned).collect()
}

fn decision(book: &Book, line: &str, cwd: &Path) -> Option<RuleDecision> {
    let assessment = book.consult(&words(line), cwd.to_str().unwrap());
    assessment.segments[0].rule.as_ref().map(|rule| rule.decision)
}

fn anywhere(book: &Book, line: &str) -> Option<RuleDecision> {
    decision(book, line, Path::new("/"))
}

#[test]
fn the_strictest_of_all_layers_counts() {
    let place = Place::new();
    place.write("system/a.toml", &rule("forbidden", "git push"));
    place.write("system/b.toml", &rule("prompt", "make"));
    place.write("system/ignored.txt", "nonsense");
    place.write("system/.hidden.toml", "nonsense");
    place.write("home/rules.toml", &rule("allow", "git"));
    place.write("project/.unified-exec/rules.toml", &(rule("allow", "make") + &rule("allow", "just")));
    let book = place.open();
    let project = place.at("project");
    assert_eq!(decision(&book, "git push", &project), Some(Forbidden));
    assert_eq!(decision(&book, "git log", &project), Some(Allow));
    assert_eq!(decision(&book, "make", &project), Some(Prompt));
    assert_eq!(decision(&book, "just", &project), Some(Allow));
    assert_eq!(anywhere(&book, "just"), None);
}

#[cfg(unix)]
#[test]
fn a_project_is_known_by_its_real_path_too() {
    let mut place = Place::new();
    place.write("project/.unified-exec/rules.toml", &rule("prompt", "make"));
    std::os::unix::fs::symlink(place.at("project"), place.at("link")).unwrap();
    place.sources.trusted_projects = vec![place.at("link")];
    let book = place.open();
    assert_eq!(decision(&book, "make", &place.at("link")), Some(Prompt));
    assert_eq!(decision(&book, "make", &place.at("project")), Some(Prompt));
}

#[test]
fn a_broken_file_is_an_error_at_the_start() {
    let place = Place::new();
    place.write("system/a.toml", "[[prefix]]\npattern = []\n");
    assert!(place.refusal().contains("a.toml:2:11: `pattern`"), "{}", place.refusal());
    let mut missing = Place::new();
    missing.sources.system = Some(vec![missing.at("none.toml")]);
    assert!(missing.refusal().contains("none.toml"), "{}", missing.refusal());
    let nothing = Place::new();
    fs::remove_dir_all(nothing.at("project")).unwrap();
    assert_eq!(anywhere(&nothing.open(), "ls"), None, "users and projects need have no file");
}

#[cfg(unix)]
#[test]
fn files_that_cannot_be_trusted_are_not_read() {
    use std::os::unix::fs::PermissionsExt as _;
    let place = Place::new();
    place.write("home/rules.toml", &rule("allow", "ls"));
    fs::set_permissions(place.at("home/rules.toml"), fs::Permissions::from_mode(0o666)).unwrap();
    assert!(place.refusal().contains("everybody can write to it"), "{}", place.refusal());
    fs::remove_file(place.at("home/rules.toml")).unwrap();
    fs::create_dir(place.at("home/rules.toml")).unwrap();
    place.open();
    fs::remove_dir(place.at("home/rules.toml")).unwrap();
    place.write("home/rules.toml", &"#".repeat(600_000));
    assert!(place.refusal().contains("bytes"), "{}", place.refusal());
}

#[test]
fn what_breaks_later_stays_as_it_was() {
    let place = Place::new();
    place.write("system/a.toml", &rule("forbidden", "git push"));
    place.write("home/rules.toml", &rule("allow", "ls"));
    let book = place.open();
    let before = book.consult(&words("ls"), "/").fingerprint;
    place.write("system/a.toml", "[[prefix]]\npatern = []\n");
    place.write("home/rules.toml", &rule("prompt", "ls"));
    let errors = book.reload();
    assert_eq!(errors.len(), 1);
    assert!(errors[0].to_string().contains("a.toml:2:1"), "{errors:?}");
    assert_eq!(anywhere(&book, "git push"), Some(Forbidden), "the layer stays");
    assert_eq!(anywhere(&book, "ls"), Some(Prompt), "others go on");
    assert_ne!(book.consult(&words("ls"), "/").fingerprint, before);
    place.write("system/a.toml", "");
    assert!(book.reload().is_empty());
    assert_eq!(anywhere(&book, "git push"), None);
}

#[tokio::test(start_paused = true)]
async fn changes_on_disk_are_taken_in_without_a_restart() {
    let place = Place::new();
    let book = place.open();
    let task = tokio::spawn(book.watch());
    place.write("system/a.toml", &rule("forbidden", "git push"));
    while anywhere(&book, "git push").is_none() {
        tokio::time::sleep(LOOK / 4).await;
    }
    place.write("project/.unified-exec/rules.toml", &rule("prompt", "make"));
    while decision(&book, "make", &place.at("project")).is_none() {
        tokio::time::sleep(LOOK / 4).await;
    }
    fs::remove_file(place.at("system/a.toml")).unwrap();
    while anywhere(&book, "git push").is_some() {
        tokio::time::sleep(LOOK / 4).await;
    }
    drop(book);
    task.await.unwrap();
}

#[test]
fn what_still_changes_is_not_taken_in() {
    let place = Place::new();
    place.write("system/a.toml", &rule("forbidden", "git push"));
    let book = place.open();
    let sources = &place.sources;
    let seen = look(&book.0, sources, look(&book.0, sources, (None, None)));
    fs::remove_file(place.at("system/a.toml")).unwrap();
    let seen = look(&book.0, sources, seen);
    place.write("system/a.toml", &rule("forbidden", "git"));
    let seen = look(&book.0, sources, seen);
    assert_eq!(anywhere(&book, "git push"), Some(Forbidden), "it was replaced, and never gone");
    look(&book.0, sources, seen);
    assert_eq!(anywhere(&book, "git log"), Some(Forbidden));
}

#[tokio::test]
async fn an_added_rule_counts_at_once_and_is_written_once() {
    let place = Place::new();
    place.write("home/rules.toml", "# mine");
    let book = place.open();
    assert_eq!(anywhere(&book, "cargo test -q"), None);
    book.allow(words("cargo test")).await.unwrap();
    assert_eq!(anywhere(&book, "cargo test -q"), Some(Allow));
    assert_eq!(anywhere(&book, "cargo build"), None);
    let text = fs::read_to_string(place.at("home/rules.toml")).unwrap();
    assert!(text.starts_with("# mine\n") && text.contains("pattern = [\"cargo\", \"test\"]"), "{text}");
    book.allow(words("cargo test")).await.unwrap();
    book.allow(words("cargo test x")).await.unwrap();
    assert_eq!(fs::read_to_string(place.at("home/rules.toml")).unwrap(), text, "it says so already");
    assert_eq!(anywhere(&place.open(), "cargo test"), Some(Allow), "it is there after a restart");
    let odd = vec!["ls".to_owned(), "a \"b\" 'c'\n\\d\u{7f}".to_owned()];
    book.allow(odd.clone()).await.unwrap();
    let again = place.open().consult(&odd, "/").segments.remove(0);
    assert_eq!(again.rule.map(|rule| rule.decision), Some(Allow));
}

#[tokio::test]
async fn many_writers_lose_nothing() {
    let place = Place::new();
    let books = [place.open(), place.open()];
    let adding: Vec<_> =
        (0..20).map(|at| tokio::spawn(books[at % 2].allow(words(&format!("tool{at} x"))))).collect();
    for added in adding {
        added.await.unwrap().unwrap();
    }
    let book = place.open();
    for at in 0..20 {
        assert_eq!(anywhere(&book, &format!("tool{at} x")), Some(Allow), "{at}");
    }
    let names = fs::read_dir(place.at("home")).unwrap().map(|entry| entry.unwrap().file_name());
    let mut names: Vec<_> = names.collect();
    names.sort();
    assert_eq!(names, [".rules.toml.lock", "rules.toml"], "nothing is left behind");
}

#[tokio::test]
async fn rules_that_would_allow_too_much_are_not_added() {
    let place = Place::new();
    let book = place.open();
    for line in ["bash", "git", "sudo ls", "python3 -c", "npm run", "rm -rf x", "./x"] {
        let refused = book.allow(words(line)).await.unwrap_err();
        assert!(matches!(refused, AddRuleError::TooBroad { .. }), "{line}: {refused}");
    }
    assert!(!place.at("home").exists(), "nothing was written");
}

#[tokio::test]
async fn a_rule_without_effect_is_not_added() {
    let place = Place::new();
    place.write("system/a.toml", &rule("prompt", "git push"));
    let book = place.open();
    let refused = book.allow(words("git push origin")).await.unwrap_err();
    let AddRuleError::Overruled { rule, .. } = refused else { panic!("{refused}") };
    assert!(rule.contains("a.toml:2: git push"), "{rule}");
    assert!(!place.at("home/rules.toml").exists());
    assert_eq!(anywhere(&book, "git push origin"), Some(Prompt));
}

#[tokio::test]
async fn where_no_rule_can_be_written_that_is_said() {
    let mut place = Place::new();
    place.write("home/rules.toml", "nonsense");
    let broken = Place::new();
    broken.write("home/rules.toml", "");
    let book = broken.open();
    broken.write("home/rules.toml", "nonsense");
    let refused = book.allow(words("ls")).await.unwrap_err();
    assert!(refused.to_string().contains("correct the file first"), "{refused}");
    place.sources.user = None;
    let refused = place.open().allow(words("ls")).await.unwrap_err();
    assert!(refused.to_string().contains("`rules.user`"), "{refused}");
    let mut nowhere = Place::new();
    nowhere.sources.user = Some("/proc/none/rules.toml".into());
    let refused = nowhere.open().allow(words("ls")).await.unwrap_err();
    assert!(matches!(refused, AddRuleError::System { .. }), "{refused}");
}

#[cfg(unix)]
#[tokio::test(start_paused = true)]
async fn a_file_that_others_keep_locked_is_not_waited_for_without_end() {
    use rustix::fs::{FlockOperation, flock};
    let place = Place::new();
    place.write("home/rules.toml", "");
    let lock = fs::File::create(place.at("home/.rules.toml.lock")).unwrap();
    flock(&lock, FlockOperation::LockExclusive).unwrap();
    let book = place.open();
    let refused = book.allow(words("ls")).await.unwrap_err();
    assert!(refused.to_string().contains("locked"), "{refused}");
    drop(lock);
    book.allow(words("ls")).await.unwrap();
}

#[cfg(unix)]
#[tokio::test]
async fn links_and_permissions_of_the_file_are_kept() {
    use std::os::unix::fs::PermissionsExt as _;
    let place = Place::new();
    place.write("dotfiles/rules.toml", "");
    fs::set_permissions(place.at("dotfiles/rules.toml"), fs::Permissions::from_mode(0o640)).unwrap();
    fs::create_dir_all(place.at("home")).unwrap();
    std::os::unix::fs::symlink(place.at("dotfiles/rules.toml"), place.at("home/rules.toml")).unwrap();
    place.open().allow(words("ls")).await.unwrap();
    assert!(fs::symlink_metadata(place.at("home/rules.toml")).unwrap().is_symlink());
    let mode = fs::metadata(place.at("dotfiles/rules.toml")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o640);
    let fresh = Place::new();
    fresh.open().allow(words("ls")).await.unwrap();
    let mode = |name: &str| fs::metadata(fresh.at(name)).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode("home"), mode("home/rules.toml")), (0o700, 0o600));
}

#[tokio::test]
async fn a_long_command_is_read_elsewhere_and_comes_to_the_same() {
    let place = Place::new();
    place.write("home/rules.toml", &rule("allow", "echo"));
    let line = format!("echo {}", "word ".repeat(400));
    let argv = ["bash", "-c", &line].map(str::to_owned).to_vec();
    match place.open().assess(argv, "/".to_owned()) {
        Assessing::Later(assessing) => assert!(assessing.await.is_trusted()),
        now => panic!("{now:?}"),
    }
}
