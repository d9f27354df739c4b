//! What is to be played.

use std::path::PathBuf;
use std::str::FromStr;

use sim::{LoadError, Scenario, generate};

/// A scenario by its file, or the random one of a seed.
#[derive(Clone, Debug)]
pub(crate) enum Source {
    File(PathBuf),
    Seed(u64),
}

impl FromStr for Source {
    type Err = std::convert::Infallible;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(text.parse().map_or_else(|_| Self::File(text.into()), Self::Seed))
    }
}

impl Source {
    pub(crate) fn scenario(&self) -> Result<Scenario, LoadError> {
        match self {
            Self::File(file) => Scenario::load(file),
            Self::Seed(seed) => Ok(generate(*seed)),
        }
    }
}
