//! A scenario as a picture: what waited for what, and when what ended.
//!
//! ```text
//!  scenario ──► model ──► story ──► chart ──► axis, text ──► draw ──► SVG
//! ```
//! The same file gives the same bytes. Pictures are of tier L0, whose marks say what the public feed leaves out.

mod attempt;
mod axis;
mod chart;
mod draw;
mod legend;
mod story;
mod svg;
mod text;
mod words;

#[cfg(test)]
mod tests;

use std::io;

use crate::model;
use crate::scenario::Scenario;

/// A standalone SVG document that shows a run of `scenario`.
pub fn timeline(scenario: &Scenario) -> io::Result<String> {
    let (run, marks) = model::trace(scenario);
    draw::draw(&story::chart(scenario, &run, &marks))
}
