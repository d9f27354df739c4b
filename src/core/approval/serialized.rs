//! How large an input is for whoever reviews it: the length of its JSON form, with nothing left out.

use crate::core::ids::ProcessId;

/// Bytes of `{"action":"write_stdin","process_id":N,"input":"…","eof":B,"reason":"…"}`. Control characters, quotes and
/// bytes that are no UTF-8 count as they are escaped.
pub(crate) fn input_review_bytes(process: ProcessId, input: &[u8], eof: bool, reason: &str) -> usize {
    let frame =
        format!(r#"{{"action":"write_stdin","process_id":{process},"input":"","eof":{eof},"reason":""}}"#);
    frame.len() + input.utf8_chunks().map(chunk_bytes).sum::<usize>() + text_bytes(reason)
}

/// A byte that is no UTF-8 stands as `\u00NN`.
const ESCAPED_BYTES: u8 = 6;

fn chunk_bytes(chunk: std::str::Utf8Chunk<'_>) -> usize {
    text_bytes(chunk.valid()) + chunk.invalid().len() * usize::from(ESCAPED_BYTES)
}

fn text_bytes(text: &str) -> usize {
    text.bytes().map(|byte| usize::from(escaped(byte))).sum()
}

/// How many bytes one byte of UTF-8 text stands as.
const fn escaped(byte: u8) -> u8 {
    match byte {
        b'"' | b'\\' | b'\n' | b'\r' | b'\t' | 0x08 | 0x0c => 2,
        0x00..=0x1f | 0x7f => ESCAPED_BYTES,
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_escaped_counts_as_it_is_escaped() {
        let process = ProcessId::new(1000).unwrap();
        let empty = input_review_bytes(process, b"", false, "");
        assert_eq!(
            empty,
            r#"{"action":"write_stdin","process_id":1000,"input":"","eof":false,"reason":""}"#.len()
        );
        let bytes = |input: &[u8]| input_review_bytes(process, input, false, "") - empty;
        assert_eq!(bytes(b"ls"), 2);
        assert_eq!(bytes(b"\n"), 2);
        assert_eq!(bytes(b"\x1b"), 6, r"\u001b");
        assert_eq!(bytes("é".as_bytes()), 2);
        assert_eq!(bytes(b"\xff"), 6);
        assert_eq!(input_review_bytes(process, b"", false, "why") - empty, 3);
    }
}
