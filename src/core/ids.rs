//! Names of things, and the seeded generator that draws them.

use std::fmt;
use std::sync::Arc;

macro_rules! text_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(Arc<str>);

        impl $name {
            /// Takes the text as it is; the edge bounds its length.
            pub fn new(text: impl Into<Arc<str>>) -> Self {
                Self(text.into())
            }

            /// The text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{:?}", &*self.0)
            }
        }
    };
}

text_id! {
    /// One agent conversation.
    SessionId
}
text_id! {
    /// One stretch of agent work inside a session, named by the caller; the empty name is a turn like any other.
    TurnId
}
text_id! {
    /// An approval question; unique on the server.
    ApprovalId
}
text_id! {
    /// A kept approval; unique on the server.
    GrantId
}
text_id! {
    /// A caller's name for one request, which makes it idempotent.
    RequestId
}

/// A process inside its session: 1000..=99999, random, not reused while its tombstone lives.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProcessId(u32);

impl ProcessId {
    /// The smallest id.
    pub const MIN: u32 = 1_000;
    /// The largest id.
    pub const MAX: u32 = 99_999;

    /// `None` outside 1000..=99999: such a process never existed.
    pub fn new(id: u32) -> Option<Self> {
        (Self::MIN..=Self::MAX).contains(&id).then_some(Self(id))
    }

    /// The number.
    pub const fn get(self) -> u32 {
        self.0
    }
}

impl fmt::Display for ProcessId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for ProcessId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Which try at starting a process: 1, or 2 after a denial.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct AttemptNumber(u8);

impl AttemptNumber {
    /// The first try.
    pub const FIRST: Self = Self(1);
    /// The try without a sandbox, after a denial.
    pub const SECOND: Self = Self(2);

    /// 1 or 2.
    pub const fn get(self) -> u8 {
        self.0
    }

    /// `None` for anything but 1 and 2.
    pub fn new(number: u32) -> Option<Self> {
        match number {
            1 => Some(Self::FIRST),
            2 => Some(Self::SECOND),
            _ => None,
        }
    }
}

/// One call of a client, numbered by the host.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct CallId(pub u64);

/// One delivery of input to a child.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct WriteId(pub u64);

/// What a request asked, as a digest: two requests with one id must have equal fingerprints.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Fingerprint(pub [u8; 32]);

/// A connection of a process that waits for an answer; the host counts them.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ConnectionId(pub u64);

/// Draws process ids and chunk ids. SplitMix64: the ids need to be unlike each other, not secret (a session is
/// reached through its owner's credential, never through a guessed id).
#[derive(Clone, Debug)]
pub struct IdGenerator {
    state: u64,
}

impl IdGenerator {
    /// The same seed draws the same ids.
    pub const fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A free process id, or `None` if all 99 000 are taken.
    pub fn process_id(&mut self, taken: impl Fn(ProcessId) -> bool) -> Option<ProcessId> {
        let span = u64::from(ProcessId::MAX - ProcessId::MIN + 1);
        let start = u32::try_from(self.next() % span).unwrap_or(0);
        (0..ProcessId::MAX - ProcessId::MIN + 1)
            .map(|step| ProcessId(ProcessId::MIN + (start + step) % (ProcessId::MAX - ProcessId::MIN + 1)))
            .find(|id| !taken(*id))
    }

    /// A session's id: 128 random bits.
    pub fn session_id(&mut self) -> String {
        format!("ses_{:016x}{:016x}", self.next(), self.next())
    }

    /// A question's id: 128 random bits.
    pub fn approval_id(&mut self) -> ApprovalId {
        ApprovalId::new(format!("apr_{:016x}{:016x}", self.next(), self.next()))
    }

    /// A grant's id: 128 random bits.
    pub fn grant_id(&mut self) -> GrantId {
        GrantId::new(format!("grt_{:016x}{:016x}", self.next(), self.next()))
    }

    /// A seed for another generator.
    pub fn seed(&mut self) -> u64 {
        self.next()
    }

    /// Six lower-case hex digits that name one answer to a model.
    pub fn chunk_id(&mut self) -> String {
        format!("{:06x}", self.next() & 0xFF_FFFF)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_in_range_and_skip_what_is_taken() {
        let mut ids = IdGenerator::new(7);
        let first = ids.process_id(|_| false).unwrap();
        assert!((ProcessId::MIN..=ProcessId::MAX).contains(&first.get()));
        let only = ProcessId(99_999);
        assert_eq!(ids.process_id(|id| id != only), Some(only));
        assert_eq!(ids.process_id(|_| true), None);
    }

    #[test]
    fn the_same_seed_draws_the_same_ids() {
        let draw = |seed| {
            let mut ids = IdGenerator::new(seed);
            (ids.process_id(|_| false), ids.chunk_id())
        };
        assert_eq!(draw(3), draw(3));
        assert_ne!(draw(3), draw(4));
    }
}
