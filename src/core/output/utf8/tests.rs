use proptest::prelude::*;

use super::*;
use crate::core::output::strategies::bytes;

#[test]
fn a_piece_is_cut_before_an_unfinished_character_only() {
    assert_eq!(complete_len(b""), 0);
    assert_eq!(complete_len(b"ab"), 2);
    assert_eq!(complete_len("aé".as_bytes()), 3);
    assert_eq!(complete_len(b"a\xc3"), 1);
    assert_eq!(complete_len(b"a\xf0\x9f\x98"), 1);
    assert_eq!(complete_len("😀".as_bytes()), 4);
    assert_eq!(complete_len(b"\xff"), 1, "malformed bytes are not waited for");
    assert_eq!(complete_len(b"a\x80\x80\x80\x80"), 5);
    assert_eq!(complete_len(b"\xe0\x80"), 2, "no character begins like this");
}

#[test]
fn a_character_in_four_parts_comes_out_whole() {
    let (mut carry, mut text) = (Utf8Carry::default(), String::new());
    for byte in "😀".bytes() {
        carry.push(&[byte], &mut text);
    }
    assert_eq!((text.as_str(), carry.carried()), ("😀", 0));
}

#[test]
fn what_is_unfinished_at_the_end_is_malformed() {
    let (mut carry, mut text) = (Utf8Carry::default(), String::new());
    carry.push(b"a\xf0\x9f", &mut text);
    assert_eq!((text.as_str(), carry.carried()), ("a", 2));
    carry.finish(&mut text);
    assert_eq!(text, "a\u{fffd}");
}

proptest! {
    #[test]
    fn pieces_give_the_same_text_as_the_whole(bytes in bytes(), sizes in prop::collection::vec(0..9_usize, 0..80)) {
        let (mut carry, mut text) = (Utf8Carry::default(), String::new());
        let mut rest = &bytes[..];
        for size in sizes {
            let (piece, later) = rest.split_at(size.min(rest.len()));
            carry.push(piece, &mut text);
            prop_assert!(carry.carried() <= 3);
            rest = later;
        }
        carry.push(rest, &mut text);
        carry.finish(&mut text);
        prop_assert_eq!(text, String::from_utf8_lossy(&bytes));
    }

    #[test]
    fn a_cut_text_never_splits_a_character(text in ".{0,20}", at in 0..80_usize) {
        let cut = complete_len(&text.as_bytes()[..at.min(text.len())]);
        prop_assert!(text.is_char_boundary(cut));
        prop_assert!(at.min(text.len()) - cut <= 3);
    }
}
