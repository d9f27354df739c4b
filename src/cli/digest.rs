//! What tells one question from every other, as people give it.

use std::fmt;
use std::str::FromStr;

use bytes::Bytes;

/// SHA-256 over everything that is to be judged, in hex.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Digest(Bytes);

impl Digest {
    /// As it is on the wire.
    pub(super) fn into_bytes(self) -> Bytes {
        self.0
    }
}

impl From<Bytes> for Digest {
    fn from(bytes: Bytes) -> Self {
        Self(bytes)
    }
}

impl FromStr for Digest {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let byte = |pair: &[u8]| {
            let text =
                std::str::from_utf8(pair).ok().filter(|text| text.bytes().all(|c| c.is_ascii_hexdigit()))?;
            u8::from_str_radix(text, 16).ok()
        };
        let bytes: Option<Vec<u8>> = text.as_bytes().chunks(2).map(byte).collect();
        bytes
            .filter(|_| text.len() == 64)
            .map(|bytes| Self(bytes.into()))
            .ok_or("give the 64 hex digits that `uexec approvals show` tells")
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_is_sixty_four_hex_digits() {
        let text = "0f".repeat(32);
        assert_eq!(text.parse::<Digest>().expect("well formed").to_string(), text);
        for wrong in ["", "0f", &"0f".repeat(33), &"0g".repeat(32), &"+f".repeat(32), &"é".repeat(32)] {
            assert!(wrong.parse::<Digest>().is_err(), "{wrong}");
        }
    }
}
