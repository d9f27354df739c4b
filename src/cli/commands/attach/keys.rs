//! The keys that let go of a process: typed in a row, they never reach it.

use std::str::FromStr;

/// A sequence of keys, such as `ctrl-],d`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct DetachKeys(Vec<u8>);

impl FromStr for DetachKeys {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let keys: Option<Vec<u8>> = text.split(',').map(key).collect();
        match keys {
            Some(keys) if keys.len() >= 2 => Ok(Self(keys)),
            _ => {
                Err("give at least two keys with commas between, each a character or ctrl-X: ctrl-],d"
                    .to_owned())
            }
        }
    }
}

fn key(text: &str) -> Option<u8> {
    let (name, is_control) = match text.strip_prefix("ctrl-") {
        Some(name) => (name, true),
        None => (text, false),
    };
    let &[byte] = name.as_bytes() else { return None };
    match byte.to_ascii_uppercase() {
        upper @ b'@'..=b'_' if is_control => Some(upper & 0x1f),
        _ if !is_control && byte.is_ascii_graphic() => Some(byte),
        _ => None,
    }
}

/// Looks for the keys in what is typed.
#[derive(Debug)]
pub(super) struct Scanner {
    keys: Vec<u8>,
    /// How many of them were typed last, and are held back.
    held: usize,
}

/// What comes of some typed bytes.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Scanned {
    /// Goes to the process.
    pub(super) input: Vec<u8>,
    /// Whether the person lets go; whatever was typed after that is dropped.
    pub(super) detach: bool,
}

impl Scanner {
    /// A scanner for these keys.
    pub(super) fn new(keys: DetachKeys) -> Self {
        Self { keys: keys.0, held: 0 }
    }

    /// Takes what was typed.
    pub(super) fn scan(&mut self, typed: &[u8]) -> Scanned {
        let mut input = Vec::with_capacity(typed.len());
        for &byte in typed {
            if byte == self.keys[self.held] {
                self.held += 1;
                if self.held == self.keys.len() {
                    self.held = 0;
                    return Scanned { input, detach: true };
                }
                continue;
            }
            let held = std::mem::take(&mut self.held);
            input.extend_from_slice(&self.keys[..held]);
            match byte == self.keys[0] {
                // The first key twice is that key once: there must be a way to type it.
                true if held == 1 => {}
                true => self.held = 1,
                false => input.push(byte),
            }
        }
        Scanned { input, detach: false }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scanned(typed: &[&[u8]]) -> (Vec<u8>, bool) {
        let mut scanner = Scanner::new("ctrl-],d".parse().expect("keys"));
        let mut all = Vec::new();
        for piece in typed {
            let Scanned { input, detach } = scanner.scan(piece);
            all.extend(input);
            if detach {
                return (all, true);
            }
        }
        (all, false)
    }

    #[test]
    fn the_keys_let_go_and_everything_else_passes() {
        assert_eq!(scanned(&[b"ab\x1ddxx"]), (b"ab".to_vec(), true));
        assert_eq!(scanned(&[b"ab\x1d", b"d"]), (b"ab".to_vec(), true));
        assert_eq!(scanned(&[b"\x1dx"]), (b"\x1dx".to_vec(), false));
        assert_eq!(scanned(&[b"\x1d\x1dd"]), (b"\x1dd".to_vec(), false));
        assert_eq!(scanned(&[b"d\x00\xff"]), (b"d\x00\xff".to_vec(), false));
    }

    #[test]
    fn keys_are_named_as_people_write_them() {
        assert_eq!("ctrl-p,ctrl-q".parse(), Ok(DetachKeys(vec![0x10, 0x11])));
        assert_eq!("~,.".parse(), Ok(DetachKeys(b"~.".to_vec())));
        for text in ["", "d", "ctrl-]", "ctrl-", "ctrl-1,d", "a,", "é,d"] {
            assert!(text.parse::<DetachKeys>().is_err(), "{text}");
        }
    }
}
