//! Text views of bytes: where a piece may be cut, and characters that arrive in parts.

/// How many bytes of `data` end on a character boundary: all but an unfinished character of at most three bytes.
/// Malformed bytes are not waited for; they are complete as they are.
pub fn complete_len(data: &[u8]) -> usize {
    let last = data.len().saturating_sub(3);
    let Some(tail) = data.get(last..) else { return data.len() };
    let lead = tail.iter().rposition(|byte| !is_continuation(*byte));
    match lead.map(|lead| last + lead) {
        Some(lead) if is_unfinished(&data[lead..]) => lead,
        _ => data.len(),
    }
}

pub(super) const fn is_continuation(byte: u8) -> bool {
    byte & 0b1100_0000 == 0b1000_0000
}

fn is_unfinished(data: &[u8]) -> bool {
    std::str::from_utf8(data).is_err_and(|error| error.valid_up_to() == 0 && error.error_len().is_none())
}

/// Turns pieces of bytes into text as if they had come in one: a character that is split over pieces is carried,
/// at most three bytes of it; malformed bytes become U+FFFD.
#[derive(Clone, Copy, Debug, Default)]
pub struct Utf8Carry {
    carried: [u8; 3],
    len: usize,
}

impl Utf8Carry {
    /// Appends the text of `data` to `text`, except for a character that is not complete yet.
    pub fn push(&mut self, data: &[u8], text: &mut String) {
        let rest = self.complete(data, text);
        let (now, later) = rest.split_at(complete_len(rest));
        push_lossy(now, text);
        if !later.is_empty() {
            self.carried[..later.len()].copy_from_slice(later);
            self.len = later.len();
        }
    }

    /// Nothing comes any more: an unfinished character is malformed.
    pub fn finish(&mut self, text: &mut String) {
        push_lossy(&self.carried[..self.len], text);
        self.len = 0;
    }

    /// Bytes that wait for the rest of their character.
    pub fn carried(&self) -> usize {
        self.len
    }

    /// Takes what the carried character needs from the front of `data`.
    fn complete<'a>(&mut self, mut data: &'a [u8], text: &mut String) -> &'a [u8] {
        while let Some((byte, rest)) = data.split_first().filter(|_| self.len > 0) {
            let mut bytes = [0; 4];
            bytes[..self.len].copy_from_slice(&self.carried[..self.len]);
            bytes[self.len] = *byte;
            let bytes = &bytes[..=self.len];
            if is_unfinished(bytes) {
                self.carried[self.len] = *byte;
                self.len += 1;
                data = rest;
            } else if let Ok(character) = std::str::from_utf8(bytes) {
                text.push_str(character);
                self.len = 0;
                data = rest;
            } else {
                // The new byte is not part of the character; it begins something of its own.
                self.finish(text);
            }
        }
        data
    }
}

fn push_lossy(data: &[u8], text: &mut String) {
    for chunk in data.utf8_chunks() {
        text.push_str(chunk.valid());
        if !chunk.invalid().is_empty() {
            text.push(char::REPLACEMENT_CHARACTER);
        }
    }
}

#[cfg(test)]
mod tests;
