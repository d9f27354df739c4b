//! The part that performs: one driver task per session feeds the pure core and carries out its effects.

pub mod clock;
pub mod log;
pub mod pattern;
pub mod ports;
