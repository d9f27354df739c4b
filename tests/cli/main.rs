//! `uexec` as its users have it: the built binary, with their arguments, files, signals and terminals.
#![cfg(all(feature = "cli", unix))]

mod attach;
mod audit;
mod configuration;
mod doctor;
mod exec;
mod harness;
mod pinned;
mod reviewed;
mod rules;
mod serve;
mod sessions;
mod talk;
