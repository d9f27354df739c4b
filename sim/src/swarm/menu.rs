//! Which faults exist at all in a scenario, and how often each strikes.

use super::random::Random;

macro_rules! faults {
    ($($(#[$doc:meta])* $name:ident),* $(,)?) => {
        /// What can go wrong, or be unusual.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum Fault { $($(#[$doc])* $name),* }

        impl Fault {
            const ALL: [Self; [$(Self::$name),*].len()] = [$(Self::$name),*];
        }
    };
}

faults! {
    /// The spawner fails.
    SpawnError,
    /// The spawner takes its time.
    SlowSpawn,
    /// The spawner fails, or takes its time, the second time.
    SecondSpawn,
    /// Much output at once.
    Burst,
    /// Output byte by byte.
    Drip,
    /// A character in two pieces.
    SplitText,
    /// NUL, and bytes that are no text.
    Bytes,
    /// Outputs end before the program does.
    EofFirst,
    /// Output that was on the way when the program ended.
    LateOutput,
    /// A grandchild holds the outputs.
    Holder,
    /// A descendant leaves the group.
    Daemon,
    /// TERM is ignored.
    IgnoreTerm,
    /// Nothing but KILL ends the program.
    Hang,
    /// Not even KILL does, for it is stuck in the kernel.
    Stuck,
    /// A signal of its own making ends it.
    Signalled,
    /// Its end is heard of late.
    LateReap,
    /// A sandbox denies what it does.
    Denial,
    /// Nobody answers.
    Unanswered,
    /// The answer is no.
    Declined,
    /// An answer comes late.
    LateAnswer,
    /// An answer comes twice.
    SecondAnswer,
    /// An answer that the question does not take, or to no question.
    WrongAnswer,
    Interrupt,
    Clean,
    Terminate,
    Signal,
    Disconnect,
    /// Rights change.
    Update,
    /// The owner's network policy changes.
    OwnerNetwork,
    Hold,
    /// A request comes again.
    Repeat,
    OneShot,
    Follow,
    Terminal,
    Stdin,
    Write,
    /// More input than a pipe holds.
    BigWrite,
    /// The program closes its input, or a caller ends it.
    InputEnd,
    Poll,
    Wait,
    Attach,
    /// More processes than the table holds.
    Prune,
    /// Bounds on the life of a process.
    Timeouts,
    /// Connections through the proxy.
    Connect,
    /// No sandbox is asked for.
    Escalate,
    /// More rights are asked for.
    Additional,
    /// A kept approval is taken back.
    Revoke,
}

impl Fault {
    /// What its rate is drawn from. What ends a scenario early strikes less often, what opens one up more often.
    const fn rates(self) -> [u8; 6] {
        match self {
            Self::SpawnError | Self::Declined | Self::Unanswered | Self::Clean => [0, 0, 0, 5, 10, 30],
            Self::Prune => [0, 0, 0, 0, 0, 60],
            Self::Denial | Self::Write | Self::Stdin | Self::Terminal => [0, 0, 30, 60, 80, 90],
            _ => [0, 0, 0, 10, 30, 60],
        }
    }
}

/// How often each fault strikes, in percent; 0 for those that do not exist.
#[derive(Clone, Debug)]
pub(crate) struct Menu([u8; Fault::ALL.len()]);

impl Menu {
    /// Every fault exists in half of all scenarios; one scenario of eight has none.
    pub(crate) fn draw(random: &mut Random) -> Self {
        let mut rates = [0; Fault::ALL.len()];
        if random.below(8) > 0 {
            for (fault, rate) in Fault::ALL.into_iter().zip(&mut rates) {
                *rate = random.one_of(fault.rates());
            }
        }
        Self(rates)
    }

    pub(crate) fn rate(&self, fault: Fault) -> u8 {
        self.0.get(fault as usize).copied().unwrap_or(0)
    }

    /// Whether it strikes now.
    pub(crate) fn strikes(&self, fault: Fault, random: &mut Random) -> bool {
        let rate = self.rate(fault);
        rate > 0 && random.chance(rate)
    }
}
