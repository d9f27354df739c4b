//! What two plays of one scenario must have in common, whatever clock they go by: the feed in its order, what each call
//! was answered, and every byte that was said. Frames of output are joined, and times are dropped.
//!
//! Left open is what neither the kernel nor the contract settles: the order of what happens in one millisecond of the
//! fake, and whether the last output or the exit of a process is told first.

use std::collections::BTreeMap;
use std::fmt::{self, Write};

use crate::run::Run;
use crate::transcript::Line;
use crate::wall::EARLY_MAX;

/// What was told, each with its moment in milliseconds.
type Told = Vec<(u64, String)>;

/// The public side of a play.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Public {
    /// Events of the feed, each with its moment.
    pub(crate) feed: Told,
    /// What each caller and program was answered, in order, with its moment.
    pub(crate) answers: BTreeMap<String, Told>,
    /// What each attempt said.
    pub(crate) said: BTreeMap<(String, usize), Vec<u8>>,
    /// What is left at the end: processes, descendants included, calls without an answer, and questions.
    pub(crate) left: (usize, usize, Vec<String>, usize),
}

impl Public {
    pub(crate) fn of(run: &Run) -> Self {
        let (answers, feed): (Vec<&Line>, Vec<&Line>) =
            run.lines.iter().partition(|line| matches!(line.kind, "answer" | "connection"));
        let mut by_caller: BTreeMap<String, Told> = BTreeMap::new();
        for line in answers {
            by_caller.entry(line.who.to_string()).or_default().push((line.t, words(line)));
        }
        let mut waiting = run.waiting.clone();
        waiting.sort();
        Self {
            feed: joined(feed),
            answers: by_caller,
            said: run
                .said
                .iter()
                .filter(|(.., bytes)| !bytes.is_empty())
                .map(|(who, attempt, bytes)| ((who.clone(), *attempt), bytes.clone()))
                .collect(),
            left: (run.live, run.children, waiting, run.questions),
        }
    }

    /// Where `other`, which is not of the fake, differs from this; empty if nowhere.
    pub(crate) fn differences(&self, other: &Self) -> Vec<String> {
        let mut differ = Vec::new();
        let (expected, came) = self.aligned(other);
        for at in 0..expected.len().max(came.len()) {
            let (expected, came) = (expected.get(at), came.get(at));
            if expected.map(|line| &line.1) != came.map(|line| &line.1) {
                let shown = |line: Option<&(u64, String)>| line.map_or("nothing", |line| &line.1).to_owned();
                differ.push(format!("event {}: {}; the fake has {}", at + 1, shown(came), shown(expected)));
                break;
            }
        }
        let callers =
            self.answers.keys().chain(other.answers.keys().filter(|who| !self.answers.contains_key(*who)));
        for who in callers {
            let of = |public: &Self| -> Vec<String> {
                let answers = public.answers.get(who).into_iter().flatten();
                answers.map(|(_, words)| words.clone()).collect()
            };
            if of(self) != of(other) {
                differ.push(format!("{who} got {:?}; on the fake {:?}", of(other), of(self)));
            }
        }
        if self.said != other.said {
            differ.push(format!("said: {:?}; on the fake {:?}", shown(&other.said), shown(&self.said)));
        }
        if self.left != other.left {
            differ.push(format!(
                "left (live, children, waiting, questions): {:?}; on the fake {:?}",
                other.left, self.left
            ));
        }
        differ
    }

    /// How much later than on the fake things came at worst, and what came earlier than it may, in milliseconds.
    pub(crate) fn lateness(&self, other: &Self) -> (u64, Vec<String>) {
        let (expected, came) = self.aligned(other);
        let mut worst = 0;
        let mut early = Vec::new();
        for ((expected, words), (came, _)) in expected.iter().zip(&came) {
            worst = worst.max(came.saturating_sub(*expected));
            if came + EARLY_MAX < *expected {
                early.push(format!("{words} came at {came} ms, and {expected} ms on the fake"));
            }
        }
        (worst, early)
    }

    /// Both feeds, with the order of what is one millisecond here taken out of both.
    fn aligned(&self, other: &Self) -> (Told, Told) {
        let (mut expected, mut came) = (self.feed.clone(), other.feed.clone());
        let by_words = |line: &(u64, String)| line.1.clone();
        let mut start = 0;
        for group in self.feed.chunk_by(|a, b| a.0 == b.0) {
            let end = start + group.len();
            for feed in [&mut expected, &mut came] {
                let end = end.min(feed.len());
                if let Some(group) = feed.get_mut(start..end) {
                    group.sort_by_key(by_words);
                }
            }
            start = end;
        }
        (expected, came)
    }
}

/// Who, what, and what it says, but for moments and durations.
fn words(line: &Line) -> String {
    let mut words = format!("{} {}", line.who, line.kind);
    for (key, value) in line.keys.iter().filter(|(key, _)| !matches!(*key, "paused" | "held_until")) {
        // A string takes whatever is written.
        let _ = write!(words, " {key}={value}");
    }
    words
}

/// Joins frames of output that follow one another, after the exit of a process has been moved behind the output that is
/// told next.
fn joined(feed: Vec<&Line>) -> Told {
    let mut feed = feed;
    for at in 0..feed.len() {
        let is_exit = feed.get(at).is_some_and(|line| line.kind == "process_exited");
        let mut at = at;
        while is_exit
            && feed.get(at + 1).is_some_and(|next| next.kind == "output" && next.who == feed[at].who)
        {
            feed.swap(at, at + 1);
            at += 1;
        }
    }
    let mut out = Told::new();
    let mut open: Option<(&Line, &str)> = None;
    let close = |open: &mut Option<(&Line, &str)>, out: &mut Told| {
        if let Some((first, to)) = open.take() {
            let from = first.get("from").unwrap_or_default();
            let n = first.get("n").unwrap_or_default();
            out.push((first.t, format!("{} output from={from} to={to} n={n}", first.who)));
        }
    };
    for line in feed {
        let goes_on = |first: &Line, to: &str| {
            first.who == line.who && first.get("n") == line.get("n") && line.get("from") == Some(to)
        };
        match (&mut open, line.kind == "output") {
            (Some((first, to)), true) if goes_on(first, to) => *to = line.get("to").unwrap_or_default(),
            (_, is_output) => {
                close(&mut open, &mut out);
                if is_output {
                    open = Some((line, line.get("to").unwrap_or_default()));
                } else {
                    out.push((line.t, words(line)));
                }
            }
        }
    }
    close(&mut open, &mut out);
    out
}

/// As golden files hold it: the feed, without the order inside one millisecond; then answers; then what was said.
impl fmt::Display for Public {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (_, words) in self.aligned(self).0 {
            writeln!(f, "{words}")?;
        }
        for (_, words) in self.answers.values().flatten() {
            writeln!(f, "{words}")?;
        }
        for ((who, attempt), bytes) in &self.said {
            writeln!(f, "{who}/{attempt} said \"{}\"", bytes.escape_ascii())?;
        }
        let (live, children, waiting, questions) = &self.left;
        writeln!(
            f,
            "left: live={live} children={children} waiting={} questions={questions}",
            waiting.join(",")
        )
    }
}

fn shown(said: &BTreeMap<(String, usize), Vec<u8>>) -> Vec<String> {
    said.iter().map(|((who, n), bytes)| format!("{who}/{n}: {}", bytes.escape_ascii())).collect()
}
