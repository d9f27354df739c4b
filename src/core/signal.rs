//! Signals by name, and whom they reach.

use std::fmt;

macro_rules! signals {
    ($($name:ident = $number:literal),* $(,)?) => {
        /// A signal that a caller may send. Numbers are Linux's on x86-64 and aarch64.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        pub enum Signal { $(#[doc = concat!("SIG", stringify!($name))] $name),* }

        impl Signal {
            /// Every signal that can be named.
            pub const ALL: &'static [Self] = &[$(Self::$name),*];

            /// Its number.
            pub const fn number(self) -> i32 {
                match self { $(Self::$name => $number),* }
            }

            /// Its name without `SIG`.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$name => stringify!($name)),* }
            }
        }
    };
}

signals! {
    HUP = 1, INT = 2, QUIT = 3, ILL = 4, TRAP = 5, ABRT = 6, BUS = 7, FPE = 8, KILL = 9, USR1 = 10, SEGV = 11,
    USR2 = 12, PIPE = 13, ALRM = 14, TERM = 15, STKFLT = 16, CHLD = 17, CONT = 18, STOP = 19, TSTP = 20, TTIN = 21,
    TTOU = 22, URG = 23, XCPU = 24, XFSZ = 25, VTALRM = 26, PROF = 27, WINCH = 28, IO = 29, PWR = 30, SYS = 31,
}

impl Signal {
    /// Reads `TERM`, `SIGTERM`, `term` or `15`.
    pub fn parse(text: &str) -> Option<Self> {
        let upper = text.trim().to_ascii_uppercase();
        let name = upper.strip_prefix("SIG").unwrap_or(&upper);
        Self::ALL.iter().copied().find(|signal| signal.name() == name || signal.number().to_string() == name)
    }

    /// The signal with this number, if it has a name.
    pub fn from_number(number: i32) -> Option<Self> {
        Self::ALL.iter().copied().find(|signal| signal.number() == number)
    }
}

impl fmt::Display for Signal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SIG{}", self.name())
    }
}

/// Whom a signal reaches.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Scope {
    /// The process that was started.
    Process,
    /// Its process group.
    Group,
    /// The group in the foreground of its terminal; on pipes the same as `Group`.
    Foreground,
    /// The group and every descendant, also those that left it.
    Tree,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_in_every_common_form() {
        for text in ["TERM", "SIGTERM", "sigterm", " term ", "15"] {
            assert_eq!(Signal::parse(text), Some(Signal::TERM), "{text}");
        }
        for text in ["", "SIG", "NOPE", "0", "-1", "99"] {
            assert_eq!(Signal::parse(text), None, "{text}");
        }
    }
}
