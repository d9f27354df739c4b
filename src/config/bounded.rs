//! Numbers that are within their bounds, or were never read.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// A whole number in `MIN..=MAX`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Bounded<const MIN: u64, const MAX: u64>(u64);

impl<const MIN: u64, const MAX: u64> Bounded<MIN, MAX> {
    /// The number, moved to the nearest bound if it is outside: for defaults, which are inside.
    pub const fn clamped(number: u64) -> Self {
        if number < MIN {
            Self(MIN)
        } else if number > MAX {
            Self(MAX)
        } else {
            Self(number)
        }
    }

    /// The number.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// The number as a count of things in memory; a machine that cannot count so far has them all.
    pub fn as_usize(self) -> usize {
        usize::try_from(self.0).unwrap_or(usize::MAX)
    }
}

impl<const MIN: u64, const MAX: u64> fmt::Debug for Bounded<MIN, MAX> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

impl<const MIN: u64, const MAX: u64> Serialize for Bounded<MIN, MAX> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u64(self.0)
    }
}

impl<'de, const MIN: u64, const MAX: u64> Deserialize<'de> for Bounded<MIN, MAX> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let number = i64::deserialize(deserializer)?;
        match u64::try_from(number) {
            Ok(inside) if (MIN..=MAX).contains(&inside) => Ok(Self(inside)),
            _ => Err(de::Error::custom(format!("{number} is outside {MIN}..={MAX}"))),
        }
    }
}
