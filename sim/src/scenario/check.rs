//! What the types of the file format do not say: which fields go together, and which names exist.

use std::collections::BTreeSet;
use std::str::FromStr as _;

use unified_exec::core::signal::Signal;

use crate::acts;
use crate::scenario::{Act, How, Link, Op, Quiet, Scenario, When};
use crate::tier::Tier;
use crate::transcript::Pattern;

impl Scenario {
    /// What the types do not say. Errors carry the byte at which the culprit begins.
    pub(crate) fn check(&self) -> Result<(), (usize, String)> {
        if *self.format.get_ref() != 1 {
            let problem = format!("`format`: this runner reads 1, not {}", self.format.get_ref());
            return Err((self.format.span().start, problem));
        }
        for (name, program) in &self.program {
            for acts in [&program.acts, &program.sandboxed, &program.unsandboxed] {
                let named = |problem| format!("act of program {name:?}: {problem}");
                acts::check(acts).map_err(|(at, problem)| (at, named(problem)))?;
            }
            let held = program.sandboxed.first().or_else(|| program.unsandboxed.first());
            if let (Some(_), Some(act)) = (program.acts.first(), held) {
                let problem = format!("program {name:?}: `acts` goes without `sandboxed` and `unsandboxed`");
                return Err((act.span().start, problem));
            }
        }
        for (name, program) in self.program.iter().filter(|(_, program)| !program.real.is_empty()) {
            let act = program.acts.first().or_else(|| program.sandboxed.first());
            if let Some(act) = act.or_else(|| program.unsandboxed.first()) {
                return Err((act.span().start, format!("program {name:?}: `real` goes without acts")));
            }
            if program.spawn_error.is_some() || program.second.is_some() {
                let problem = format!("program {name:?}: `real` goes without `spawn_error` and `second`");
                return Err((0, problem));
            }
        }
        self.check_tiers()?;
        let mut calls = BTreeSet::new();
        for when in &self.when {
            self.check_when(when.get_ref(), &mut calls).map_err(|problem| (when.span().start, problem))?;
        }
        let patterns = self
            .expect
            .events
            .iter()
            .map(|event| (event.span(), "events", &event.get_ref().e))
            .chain(self.expect.never.iter().map(|never| (never.span(), "never", never.get_ref())))
            .chain(self.expect.quiet.iter().flat_map(|quiet| {
                let Quiet { from, to, no } = quiet.get_ref();
                [from, to, no].map(|pattern| (quiet.span(), "quiet", pattern))
            }));
        for (span, field, pattern) in patterns {
            Pattern::parse(pattern).map_err(|error| (span.start, format!("`expect.{field}`: {error}")))?;
        }
        Ok(())
    }

    /// A file names no tier that cannot play it.
    fn check_tiers(&self) -> Result<(), (usize, String)> {
        for tier in &self.tiers {
            let known = Tier::from_str(tier.get_ref())
                .map_err(|problem| (tier.span().start, format!("`tiers`: {problem}")));
            known?;
        }
        let at = self.tiers.first().map_or(0, |tier| tier.span().start);
        if self.link != Link::default()
            && [Tier::Core, Tier::Host].into_iter().any(|tier| self.plays_on(tier))
        {
            return Err((at, "`[link]`: only L2 has one; add `tiers = [\"L2\"]`".into()));
        }
        for when in &self.when {
            let (at, when) = (when.span().start, when.get_ref());
            match (when.op, when.how) {
                (Op::Stall | Op::Resume | Op::Drain, _) if self.plays_on(Tier::Core) => {
                    let problem =
                        format!("{:?}: L0 has no clients that read; add `tiers = [\"L1\", \"L2\"]`", when.op);
                    return Err((at, problem));
                }
                (_, Some(How::Silent)) if self.plays_on(Tier::Core) || self.plays_on(Tier::Host) => {
                    let problem = "`how`: without a link nobody is silent; add `tiers = [\"L2\"]`".to_owned();
                    return Err((at, problem));
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Whether it can be played there.
    pub fn plays_on(&self, tier: Tier) -> bool {
        self.tiers.is_empty()
            || self.tiers.iter().any(|name| name.get_ref().eq_ignore_ascii_case(tier.name()))
    }

    fn check_when<'a>(&self, when: &'a When, calls: &mut BTreeSet<&'a str>) -> Result<(), String> {
        match (when.at, &when.on) {
            (Some(_), None) if when.delay.is_none() => {}
            (Some(_), None) => return Err("`delay` goes with `on`".into()),
            (None, Some(_)) => {}
            _ => return Err("needs either `at` or `on`".into()),
        }
        let (must, may) = when.op.fields();
        let given = when.given();
        if let Some(field) = must.iter().find(|field| !given.contains(field)) {
            return Err(format!("{:?} needs `{field}`", when.op));
        }
        if let Some(field) = given.iter().find(|field| !must.contains(field) && !may.contains(field)) {
            return Err(format!("{:?} takes no `{field}`", when.op));
        }
        if let Some(cmd) = when.cmd.as_ref().filter(|cmd| !self.program.contains_key(*cmd)) {
            return Err(format!("`cmd`: no [program.{cmd:?}]"));
        }
        if let Some(name) = &when.signal {
            parse_signal("signal", name)?;
        }
        match when.op {
            Op::Decide if when.to.is_some() == when.question.is_some() => {
                return Err("Decide needs either `to` or `question`".into());
            }
            Op::Exec if when.escalate == Some(true) && when.additional.is_some() => {
                return Err("`escalate` and `additional`: a command asks for one of them".into());
            }
            _ => {}
        }
        if let Some(call) = when.call.as_deref() {
            let disconnects = matches!(when.op, Op::Disconnect | Op::Stall | Op::Resume);
            if disconnects != calls.contains(call) {
                let problem = if disconnects { "names no call before it" } else { "is taken" };
                return Err(format!("`call`: {call:?} {problem}"));
            }
            calls.insert(call);
        }
        match when.to.as_deref().filter(|to| !calls.contains(to)) {
            Some(to) => Err(format!("`to`: {to:?} names no call before it")),
            None => Ok(()),
        }
    }
}

/// Host and port of `host:port`.
pub(crate) fn target(to: &str) -> Option<(&str, u16)> {
    let (host, port) = to.rsplit_once(':')?;
    Some((host, port.parse().ok()?))
}

/// Reads a signal that has been checked before, or is checked now.
pub(crate) fn parse_signal(field: &str, name: &str) -> Result<Signal, String> {
    Signal::parse(name).ok_or_else(|| format!("`{field}`: no signal is called {name:?}"))
}

impl Op {
    /// Fields it must have, and fields it may have, besides its trigger.
    const fn fields(self) -> (&'static [&'static str], &'static [&'static str]) {
        match self {
            Self::Exec => (
                &["call", "cmd"],
                &[
                    "turn",
                    "request",
                    "yield",
                    "mode",
                    "timeout",
                    "hard_timeout",
                    "no_output_timeout",
                    "after_disconnect",
                    "tty",
                    "stdin",
                    "kill_descendants_on_exit",
                    "escalate",
                    "additional",
                    "justification",
                    "propose",
                ],
            ),
            Self::Write => {
                (&["call", "to"], &["turn", "request", "yield", "input", "times", "offset", "eof", "frame"])
            }
            Self::Poll => (&["call", "to"], &["turn", "request", "yield"]),
            Self::Wait => (&["call", "to", "until"], &["turn", "timeout"]),
            Self::Attach => (&["call", "to"], &[]),
            Self::Interrupt => (&["turn"], &["call"]),
            Self::Clean | Self::Close => (&[], &["call"]),
            Self::Terminate => (&["to"], &["call"]),
            Self::Signal => (&["to", "signal"], &["call", "scope"]),
            Self::Hold => (&["duration"], &["call", "lease"]),
            Self::Disconnect => (&["call"], &["how"]),
            Self::Stall | Self::Resume => (&["call"], &[]),
            Self::Drain => (&[], &["call"]),
            Self::Decide => (&["verdict"], &["call", "to", "question", "text", "rule"]),
            Self::Revoke => (&["grant"], &["call"]),
            Self::Update => (&["set"], &["call"]),
            Self::OwnerNetwork => (&[], &["owner_network"]),
        }
    }
}

macro_rules! given {
    ($type:ident { $($field:ident: $name:literal),* $(,)? }) => {
        impl $type {
            /// Names of the fields that are given.
            pub(crate) fn given(&self) -> Vec<&'static str> {
                let all = [$(($name, self.$field.is_some())),*];
                all.into_iter().filter(|(_, given)| *given).map(|(name, _)| name).collect()
            }
        }
    };
}

given!(When {
    call: "call",
    how: "how",
    to: "to",
    turn: "turn",
    request: "request",
    cmd: "cmd",
    yield_ms: "yield",
    mode: "mode",
    timeout: "timeout",
    hard_timeout: "hard_timeout",
    no_output_timeout: "no_output_timeout",
    after_disconnect: "after_disconnect",
    tty: "tty",
    stdin: "stdin",
    kill_descendants_on_exit: "kill_descendants_on_exit",
    input: "input",
    times: "times",
    offset: "offset",
    eof: "eof",
    frame: "frame",
    until: "until",
    signal: "signal",
    scope: "scope",
    lease: "lease",
    duration: "duration",
    escalate: "escalate",
    additional: "additional",
    justification: "justification",
    propose: "propose",
    question: "question",
    verdict: "verdict",
    text: "text",
    rule: "rule",
    grant: "grant",
    set: "set",
    owner_network: "owner_network",
});

given!(Act {
    out: "out",
    out_b64: "out_b64",
    err: "err",
    err_b64: "err_b64",
    exit: "exit",
    signal: "signal",
    ignore: "ignore",
    eof: "eof",
    hang: "hang",
    fork_holder: "fork_holder",
    daemon: "daemon",
    read_stdin: "read_stdin",
    echo: "echo",
    close_stdin: "close_stdin",
    connect: "connect",
});

impl Act {
    pub(crate) const FIELDS: [&str; 15] = [
        "out",
        "out_b64",
        "err",
        "err_b64",
        "exit",
        "signal",
        "ignore",
        "eof",
        "hang",
        "fork_holder",
        "daemon",
        "read_stdin",
        "echo",
        "close_stdin",
        "connect",
    ];
}
