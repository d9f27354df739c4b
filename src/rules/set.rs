//! All layers of rules as they are at one moment, and what they say of a command.

use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use sha2::{Digest as _, Sha256};

use super::Kind;
use super::script::Script;
use crate::core::policy::{
    Assessment, Layer, NetworkRule, RuleMatch, STANDARD_DIRECTORIES, Segment, base_name, danger, is_shell,
    reach, stands_for, strictest,
};

/// Stands first in the canonical form of a line that is not one plain command. No program has an empty name, so no
/// command's words can be taken for it.
const LINE_MARK: &str = "";

/// Bytes of the digest that names a set of rules; more than enough against chance and search.
const FINGERPRINT_BYTES: usize = 16;

/// A layer, and where it holds.
#[derive(Clone, Debug)]
pub(super) struct Origin {
    pub(super) kind: Kind,
    /// Spellings of the directory whose commands a project's rules are for; empty for other layers.
    pub(super) roots: Vec<PathBuf>,
    pub(super) layer: Layer,
    /// Names what the layer says.
    digest: [u8; 32],
}

impl Origin {
    pub(super) fn new(kind: Kind, roots: Vec<PathBuf>, layer: Layer) -> Self {
        let digest = Sha256::digest(format!("{kind:?} {roots:?}\n{}", layer.normalised())).into();
        Self { kind, roots, layer, digest }
    }

    fn holds_in(&self, cwd: &Path) -> bool {
        self.kind != Kind::Project || self.roots.iter().any(|root| cwd.starts_with(root))
    }
}

/// All layers, the most trusted first.
#[derive(Clone, Debug)]
pub(super) struct Set {
    origins: Vec<Origin>,
    network: Option<Arc<[NetworkRule]>>,
}

/// The layers that hold for one command.
struct View<'a> {
    layers: Vec<&'a Layer>,
    /// How many of them are no project's.
    shared: usize,
    /// How many of them may lend trust.
    trusting: usize,
    fingerprint: String,
}

impl Set {
    pub(super) fn new(origins: Vec<Origin>) -> Self {
        let rules: Vec<NetworkRule> =
            origins.iter().flat_map(|origin| origin.layer.network().iter().cloned()).collect();
        let network = (!rules.is_empty()).then(|| rules.into());
        Self { origins, network }
    }

    pub(super) fn network(&self) -> Option<Arc<[NetworkRule]>> {
        self.network.clone()
    }

    pub(super) fn assess(&self, argv: &[String], cwd: &str) -> Assessment {
        let view = self.view(Path::new(cwd));
        let fingerprint = view.fingerprint.clone();
        if let Some((shell, mode, text)) = shell_line(argv) {
            let script = Script::parse(text);
            if let Some(commands) = script.plain() {
                return view.line(argv, shell, [mode, text], commands, fingerprint);
            }
            let canonical = vec![LINE_MARK.to_owned(), mode.to_owned(), text.to_owned()];
            return Assessment { segments: vec![view.segment(argv.to_vec())], canonical, fingerprint };
        }
        Assessment { segments: vec![view.segment(argv.to_vec())], canonical: argv.to_vec(), fingerprint }
    }

    fn view(&self, cwd: &Path) -> View<'_> {
        let (place, is_certain) = without_dots(cwd);
        let origins: Vec<&Origin> = self.origins.iter().filter(|origin| origin.holds_in(&place)).collect();
        let shared = origins.iter().filter(|origin| origin.kind != Kind::Project).count();
        let mut digest = Sha256::new();
        for origin in &origins {
            digest.update(origin.digest);
        }
        View {
            layers: origins.iter().map(|origin| &origin.layer).collect(),
            shared,
            trusting: if is_certain { origins.len() } else { shared },
            fingerprint: hex(&digest.finalize()[..FINGERPRINT_BYTES]),
        }
    }
}

impl View<'_> {
    /// A line that is nothing but plain commands.
    fn line(
        mut self,
        argv: &[String],
        shell: &str,
        [mode, text]: [&str; 2],
        commands: Vec<Vec<String>>,
        fingerprint: String,
    ) -> Assessment {
        if commands.iter().any(|words| changes_directory(words)) {
            // From there on, the commands are not where the project's rules are.
            self.trusting = self.trusting.min(self.shared);
        }
        let canonical = match commands.as_slice() {
            [words] => words.clone(),
            _ => vec![LINE_MARK.to_owned(), mode.to_owned(), text.to_owned()],
        };
        // What an unknown program makes of a line is its own affair: its commands cannot lend it their trust.
        let stranger = (!self.is_familiar(shell)).then(|| argv.to_vec());
        let segments = stranger.into_iter().chain(commands).map(|words| self.segment(words)).collect();
        Assessment { segments, canonical, fingerprint }
    }

    /// Judges words: rules of any kind for themselves, and caution for all that they reach.
    fn segment(&self, words: Vec<String>) -> Segment {
        let reached = reach(&words, &|text| Script::parse(text).loose());
        let own = strictest(&self.layers, self.trusting, &words);
        let inner = reached.commands.iter().filter_map(|words| strictest(&self.layers, 0, words));
        let rule = own.into_iter().chain(inner).reduce(stricter);
        let unclear = (!reached.complete).then(|| "it nests commands too deeply to be judged".to_owned());
        let danger =
            danger(&words).or_else(|| reached.commands.iter().find_map(|words| danger(words))).or(unclear);
        Segment { words, rule, danger }
    }

    /// Whether this is one of the system's shells, or one that the system or the user has listed as such.
    fn is_familiar(&self, shell: &str) -> bool {
        let Some(name) = base_name(shell) else { return true };
        let layers = self.layers.get(..self.shared).unwrap_or_default();
        let listed = self.shared.checked_sub(1).is_some_and(|last| stands_for(layers, last, shell, name));
        listed || STANDARD_DIRECTORIES.iter().any(|directory| shell == format!("{directory}/{name}"))
    }
}

/// The earlier of two, unless the other is stricter.
fn stricter(one: RuleMatch, other: RuleMatch) -> RuleMatch {
    if other.decision > one.decision { other } else { one }
}

/// Shell, mode and text of `[shell, "-c" | "-lc", text]`. Other ways to call a shell are judged whole.
fn shell_line(argv: &[String]) -> Option<(&str, &str, &str)> {
    let [shell, mode, text] = argv else { return None };
    let name = base_name(shell).unwrap_or(shell);
    let splits = ["bash", "zsh", "sh", "dash"].contains(&name) && is_shell(name);
    (splits && (mode == "-c" || mode == "-lc")).then_some((shell, mode, text))
}

fn changes_directory(words: &[String]) -> bool {
    let program = words.iter().find(|word| !["builtin", "command"].contains(&word.as_str()));
    program.is_some_and(|program| ["cd", "chdir", "pushd", "popd"].contains(&program.as_str()))
}

/// A path without `.` and `..`, and whether there was no `..`: behind a link, that leads elsewhere.
fn without_dots(path: &Path) -> (PathBuf, bool) {
    let mut clean = PathBuf::new();
    let mut is_certain = true;
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => {
                clean.pop();
                is_certain = false;
            }
            part => clean.push(part),
        }
    }
    (clean, is_certain)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
#[path = "set/tests.rs"]
mod tests;
