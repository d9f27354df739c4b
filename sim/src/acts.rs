//! What acts mean: the one place that walks through an act list, for the model of L0 in virtual time and for
//! `scriptchild` in real time. Who plays it brings a [`Body`].
//!
//! - Acts are played in order, each no sooner than `at` after the spawn. What they do is done at once; none of them waits.
//! - `out` and `err` are whole: nothing is added to a line, and a terminal shows the same bytes (it echoes nothing).
//! - Input is read from the first `read_stdin` or `echo` on, as it comes. `echo` outlasts every `read_stdin`. Nothing
//!   is read by a program that has ended or has closed its input.
//! - An end (`exit`, `signal`) leaves descendants and bytes that were on the way. What is killed says nothing more.
//! - `hang` drops whatever acts are left, and reads no more.
//! - A descendant ignores what its parent ignored when it was forked.

use toml::Spanned;
use unified_exec::core::signal::Signal;

use crate::scenario::Act;
use crate::scenario::check::{parse_signal, target};

/// Where output goes; a terminal makes no difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Out {
    Stdout,
    Stderr,
}

/// How a program ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Exit(i32),
    DiesOf(Signal),
}

/// A descendant, which lives for `lives` milliseconds; 0 is until it is killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fork {
    /// Stays in the group and holds the outputs open.
    Holder { lives: u64 },
    /// Has left the group and holds nothing.
    Daemon { lives: u64 },
}

/// One act, read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Deed<'a> {
    Say(Out, &'a [u8]),
    End(End),
    Ignore(Signal),
    CloseOutputs,
    Hang,
    Fork(Fork),
    Read(u64),
    Echo,
    CloseInput,
    Connect(&'a str, u16),
}

impl Act {
    /// What it is, where it has exactly one field; `Err` says what is wrong with it.
    pub(crate) fn deed(&self) -> Result<Deed<'_>, String> {
        Ok(match self {
            Self { out: Some(text), .. } => Deed::Say(Out::Stdout, text.as_bytes()),
            Self { out_b64: Some(bytes), .. } => Deed::Say(Out::Stdout, &bytes.0),
            Self { err: Some(text), .. } => Deed::Say(Out::Stderr, text.as_bytes()),
            Self { err_b64: Some(bytes), .. } => Deed::Say(Out::Stderr, &bytes.0),
            Self { exit: Some(code), .. } => Deed::End(End::Exit(*code)),
            Self { signal: Some(name), .. } => Deed::End(End::DiesOf(parse_signal("signal", name)?)),
            Self { ignore: Some(name), .. } => Deed::Ignore(parse_signal("ignore", name)?),
            Self { eof: Some(true), .. } => Deed::CloseOutputs,
            Self { hang: Some(true), .. } => Deed::Hang,
            Self { fork_holder: Some(lives), .. } => Deed::Fork(Fork::Holder { lives: *lives }),
            Self { daemon: Some(lives), .. } => Deed::Fork(Fork::Daemon { lives: *lives }),
            Self { read_stdin: Some(bytes), .. } => Deed::Read(*bytes),
            Self { echo: Some(true), .. } => Deed::Echo,
            Self { close_stdin: Some(true), .. } => Deed::CloseInput,
            Self { connect: Some(to), .. } => {
                let (host, port) =
                    target(to).ok_or_else(|| format!("`connect`: {to:?} is not `host:port`"))?;
                Deed::Connect(host, port)
            }
            _ => return Err(format!("`{}`: leave it out, or say true", self.given().join(", "))),
        })
    }
}

/// Whether a signal ends whoever neither catches nor ignores it. Stopping is not played.
pub(crate) const fn is_deadly(signal: Signal) -> bool {
    !matches!(
        signal,
        Signal::CHLD
            | Signal::CONT
            | Signal::URG
            | Signal::WINCH
            | Signal::STOP
            | Signal::TSTP
            | Signal::TTIN
            | Signal::TTOU
    )
}

/// Checks an act list, before it is played; an error carries the byte at which the act begins.
pub(crate) fn check(acts: &[Spanned<Act>]) -> Result<(), (usize, String)> {
    let mut last = 0;
    let (mut over, mut echoes, mut closed) = (false, false, false);
    for act in acts {
        let (at, act) = (act.span().start, act.get_ref());
        let given = act.given();
        let [field] = given[..] else {
            let problem = format!("needs exactly one of {}; has {given:?}", Act::FIELDS.join(", "));
            return Err((at, problem));
        };
        let deed = act.deed().map_err(|problem| (at, problem))?;
        if act.at < last {
            return Err((at, format!("`at`: {} comes after {last}", act.at)));
        }
        if over && !matches!(deed, Deed::Say(..)) {
            let problem = format!("`{field}`: after its end only output that was on the way can come");
            return Err((at, problem));
        }
        if act.late > 0 && !matches!(deed, Deed::End(_)) {
            return Err((at, "`late`: goes with `exit` or `signal`".into()));
        }
        if closed && matches!(deed, Deed::Say(..) | Deed::Echo) || echoes && deed == Deed::CloseOutputs {
            return Err((at, format!("`{field}`: it would speak through outputs that it has closed")));
        }
        echoes |= deed == Deed::Echo;
        closed |= deed == Deed::CloseOutputs;
        over |= matches!(deed, Deed::End(_));
        last = act.at;
    }
    Ok(())
}

/// Whoever does what the acts say.
pub(crate) trait Body {
    fn say(&mut self, to: Out, bytes: &[u8]);
    /// `late` is how many milliseconds later the session is to hear of it.
    fn end(&mut self, end: End, late: u64);
    fn ignore(&mut self, signal: Signal);
    fn close_outputs(&mut self);
    /// Takes no signal any more but KILL.
    fn hang(&mut self);
    fn fork(&mut self, fork: Fork);
    fn close_input(&mut self);
    fn connect(&mut self, host: &str, port: u16);
}

/// How far an act list has been played.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Script<'a> {
    left: &'a [Spanned<Act>],
    /// `at` of the act played last.
    last_at: Option<u64>,
    /// How much input it reads.
    wanted: u64,
}

impl<'a> Script<'a> {
    pub(crate) const fn new(acts: &'a [Spanned<Act>]) -> Self {
        Self { left: acts, last_at: None, wanted: 0 }
    }

    /// What is left of it.
    pub(crate) const fn left(&self) -> &'a [Spanned<Act>] {
        self.left
    }

    /// Milliseconds after the spawn of the next act.
    pub(crate) fn next_at(&self) -> Option<u64> {
        self.left.first().map(|act| act.get_ref().at)
    }

    /// Milliseconds after the spawn of the act played last.
    pub(crate) const fn last_at(&self) -> Option<u64> {
        self.last_at
    }

    /// There is nothing more to play.
    pub(crate) const fn stop(&mut self) {
        self.left = &[];
    }

    /// Plays the next act.
    pub(crate) fn play(&mut self, body: &mut impl Body) {
        let Some((act, left)) = self.left.split_first() else { return };
        let act = act.get_ref();
        (self.left, self.last_at) = (left, Some(act.at));
        // Lists are checked before they are played.
        let Ok(deed) = act.deed() else { return };
        match deed {
            Deed::Say(to, bytes) => body.say(to, bytes),
            Deed::End(end) => body.end(end, act.late),
            Deed::Ignore(signal) => body.ignore(signal),
            Deed::CloseOutputs => body.close_outputs(),
            Deed::Hang => {
                self.stop();
                self.wanted = 0;
                body.hang();
            }
            Deed::Fork(fork) => body.fork(fork),
            Deed::Read(bytes) => self.wanted = self.wanted.saturating_add(bytes),
            Deed::Echo => self.wanted = u64::MAX,
            Deed::CloseInput => body.close_input(),
            Deed::Connect(host, port) => body.connect(host, port),
        }
    }

    /// Whether it says again what it reads.
    pub(crate) const fn echoes(&self) -> bool {
        self.wanted == u64::MAX
    }

    /// How many of `available` bytes of input it reads now.
    pub(crate) fn reads(&self, available: usize) -> usize {
        usize::try_from(self.wanted).unwrap_or(usize::MAX).min(available)
    }

    /// It has read so many.
    pub(crate) const fn has_read(&mut self, bytes: usize) {
        if !self.echoes() {
            self.wanted = self.wanted.saturating_sub(bytes as u64);
        }
    }
}
