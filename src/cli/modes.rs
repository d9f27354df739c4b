//! What a program has switched on in our terminal, so that it can be switched off when we let go of the program.

use std::collections::BTreeSet;
use std::fmt::Write as _;

/// Modes that are off in a terminal at rest: keys of the cursor, mouse, focus, alternate screen, bracketed paste.
const OFF_AT_REST: [u16; 14] = [1, 9, 47, 1000, 1001, 1002, 1003, 1004, 1005, 1006, 1015, 1047, 1049, 2004];
/// Modes that are on at rest: line wrap, visible cursor.
const ON_AT_REST: [u16; 2] = [7, 25];
/// No sequence that we know is longer.
const PARAMETERS_MAX: usize = 64;

/// Reads the output of a program as it goes by.
#[derive(Debug, Default)]
pub(super) struct Modes {
    at: At,
    /// Modes that are not as at rest.
    changed: BTreeSet<u16>,
    keypad: bool,
    /// Keys reported in xterm's longer form.
    modified_keys: bool,
    /// Levels of kitty's keyboard protocol.
    keyboard_levels: u32,
    touched: bool,
}

/// Where in a sequence we are; frames may cut one anywhere.
#[derive(Debug, Default)]
enum At {
    #[default]
    Text,
    Escape,
    /// After `ESC [`, with the parameters so far.
    Control(String),
}

impl Modes {
    /// Sees some output.
    pub(super) fn see(&mut self, output: &[u8]) {
        for &byte in output {
            self.at = match (std::mem::take(&mut self.at), byte) {
                (_, 0x1b) => {
                    self.touched = true;
                    At::Escape
                }
                (At::Escape, b'[') => At::Control(String::new()),
                (At::Escape, b'=') => self.set_keypad(true),
                (At::Escape, b'>') => self.set_keypad(false),
                (At::Control(mut parameters), 0x20..=0x3f) if parameters.len() < PARAMETERS_MAX => {
                    parameters.push(char::from(byte));
                    At::Control(parameters)
                }
                (At::Control(parameters), 0x40..=0x7e) => {
                    self.sequence(&parameters, byte);
                    At::Text
                }
                _ => At::Text,
            };
        }
    }

    fn set_keypad(&mut self, on: bool) -> At {
        self.keypad = on;
        At::Text
    }

    fn sequence(&mut self, parameters: &str, last: u8) {
        let number = |text: &str| text.parse().unwrap_or(1);
        match (last, parameters.get(..1), parameters.get(1..)) {
            (b'h' | b'l', _, _) => self.set(parameters, last == b'h'),
            (b'm', Some(">"), Some(keys)) => {
                self.modified_keys = keys.strip_prefix("4;").is_some_and(|level| level != "0");
            }
            (b'u', Some(">"), _) => self.keyboard_levels = self.keyboard_levels.saturating_add(1),
            (b'u', Some("<"), Some(levels)) => {
                self.keyboard_levels = self.keyboard_levels.saturating_sub(number(levels));
            }
            _ => {}
        }
    }

    fn set(&mut self, parameters: &str, on: bool) {
        let Some(modes) = parameters.strip_prefix('?') else { return };
        for mode in modes.split(';').filter_map(|mode| mode.parse().ok()) {
            let at_rest = ON_AT_REST.contains(&mode);
            if !at_rest && !OFF_AT_REST.contains(&mode) {
                continue;
            }
            if on == at_rest {
                self.changed.remove(&mode);
            } else {
                self.changed.insert(mode);
            }
        }
    }

    /// What puts the terminal at rest again; empty if nothing was touched.
    pub(super) fn undo(&self) -> String {
        let mut sequence = String::new();
        if !self.touched {
            return sequence;
        }
        for mode in &self.changed {
            let switch = if ON_AT_REST.contains(mode) { 'h' } else { 'l' };
            // Writing into a String cannot fail.
            write!(sequence, "\x1b[?{mode}{switch}").ok();
        }
        if self.modified_keys {
            sequence.push_str("\x1b[>4m");
        }
        if self.keyboard_levels > 0 {
            write!(sequence, "\x1b[<{}u", self.keyboard_levels).ok();
        }
        if self.keypad {
            sequence.push_str("\x1b>");
        }
        sequence.push_str("\x1b[0m");
        sequence
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn undo(pieces: &[&[u8]]) -> String {
        let mut modes = Modes::default();
        pieces.iter().for_each(|piece| modes.see(piece));
        modes.undo()
    }

    #[test]
    fn only_what_was_switched_is_switched_back() {
        assert_eq!(undo(&[b"plain text"]), "");
        assert_eq!(undo(&[b"\x1b[31mred"]), "\x1b[0m");
        assert_eq!(undo(&[b"\x1b[?1049h\x1b[?25l\x1b="]), "\x1b[?25h\x1b[?1049l\x1b>\x1b[0m");
        assert_eq!(undo(&[b"\x1b[?1049h\x1b[?25l", b"\x1b[?25h\x1b[?1049l"]), "\x1b[0m");
        assert_eq!(undo(&[b"\x1b[?10", b"06;2004h"]), "\x1b[?1006l\x1b[?2004l\x1b[0m");
        assert_eq!(undo(&[b"\x1b[>4;2m\x1b[>1u\x1b[>1u\x1b[<u"]), "\x1b[>4m\x1b[<1u\x1b[0m");
        assert_eq!(undo(&[b"\x1b[>4;2m\x1b[>4m"]), "\x1b[0m");
        assert_eq!(undo(&[b"\x1b[4h\x1b[?9999h"]), "\x1b[0m");
    }
}
