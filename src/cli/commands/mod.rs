//! The commands, one module each: its arguments, and what it does with them.

pub(super) mod approvals;
pub(super) mod attach;
pub(super) mod audit;
pub(super) mod capabilities;
pub(super) mod completions;
pub(super) mod config;
pub(super) mod doctor;
pub(super) mod events;
pub(super) mod exec;
pub(super) mod logs;
pub(super) mod ps;
pub(super) mod resize;
pub(super) mod rules;
pub(super) mod serve;
pub(super) mod sessions;
pub(super) mod stop;
pub(super) mod wait;
pub(super) mod write;
