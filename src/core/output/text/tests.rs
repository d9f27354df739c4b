use proptest::prelude::*;

use super::*;
use crate::core::output::strategies::{header, segments};

fn bytes(data: impl AsRef<[u8]>) -> Segment {
    Segment::Bytes(::bytes::Bytes::copy_from_slice(data.as_ref()))
}

fn gap(len: u64) -> Segment {
    Segment::Gap(Gap { from: 0, to: len })
}

fn output(segments: &[Segment], budget: u32) -> String {
    render(&Header::default(), segments, budget).output().to_owned()
}

#[test]
fn the_lines_stand_in_their_order_and_only_when_they_apply() {
    let mut header = Header {
        chunk_id: Some("00ff1a".to_owned()),
        wall_time: Some(Duration::from_micros(1_234_560)),
        state: Some(ProcessState::Exited(3)),
    };
    let text = render(&header, &[bytes("hello\n")], 100);
    assert_eq!(
        text.text,
        "Chunk ID: 00ff1a\nWall time: 1.2346 seconds\nProcess exited with code 3\nOriginal token count: 2\n\
         Output:\nhello\n"
    );
    assert_eq!((text.chunk_id.as_deref(), text.omitted_tokens), (Some("00ff1a"), 0));
    header.state = ProcessId::new(4711).map(ProcessState::Running);
    let text = render(&header, &[], 100).text;
    assert_eq!(
        text,
        "Chunk ID: 00ff1a\nWall time: 1.2346 seconds\nProcess running with session ID 4711\n\
         Original token count: 0\nOutput:\n"
    );
    assert_eq!(render(&Header::default(), &[], 100).text, "Original token count: 0\nOutput:\n");
}

#[test]
fn what_fits_is_shown_whole_and_one_byte_more_is_cut_in_the_middle() {
    let text = "x".repeat(100);
    assert_eq!(output(&[bytes(&text)], 25), text);
    let text = format!("{}{}", "a".repeat(51), "b".repeat(50));
    // The room for the statement is that of the largest number it might name.
    let cut = output(&[bytes(&text)], 25);
    assert_eq!(cut, format!("{}…7 tokens truncated…{}", "a".repeat(37), "b".repeat(38)));
    assert_eq!(cut.len(), 99);
}

#[test]
fn lost_bytes_are_stated_where_they_are_missing() {
    let text = render(&Header::default(), &[bytes("abc"), gap(1_000_000), bytes("xyz")], 10_000);
    assert_eq!(text.output(), "abc…250000 tokens truncated…xyz");
    assert_eq!((text.original_token_count, text.omitted_bytes), (250_002, 1_000_000));
}

#[test]
fn lost_and_cut_bytes_are_stated_as_one_number() {
    let text = render(&Header::default(), &[bytes("x".repeat(500)), gap(1_000), bytes("y".repeat(500))], 50);
    assert_eq!(text.omitted_bytes + text.output().matches(['x', 'y']).count() as u64, 2_000);
    assert!(text.output().contains(&format!("…{} tokens truncated…", text.omitted_tokens)));
}

#[test]
fn a_short_side_of_a_gap_leaves_its_room_to_the_other() {
    let cut = output(&[bytes("a".repeat(500)), gap(1), bytes("b")], 50);
    assert!((198..=200).contains(&cut.len()), "{}", cut.len());
    assert!(cut.ends_with("…b"));
    let cut = output(&[bytes("a"), gap(1), bytes("b".repeat(500))], 50);
    assert!((198..=200).contains(&cut.len()), "{}", cut.len());
    assert!(cut.starts_with("a…"));
}

#[test]
fn no_budget_leaves_the_statement_alone_and_nothing_is_nothing() {
    assert_eq!(output(&[bytes("abcde")], 0), "…2 tokens truncated…");
    assert_eq!(output(&[], 0), "");
    assert_eq!(output(&[bytes("")], 0), "");
}

#[test]
fn a_character_that_is_split_over_segments_is_whole_in_the_text() {
    let smile = "😀".as_bytes();
    assert_eq!(output(&[bytes(&smile[..1]), bytes(&smile[1..3]), bytes(&smile[3..])], 10), "😀");
}

#[test]
fn the_cut_spares_characters_at_every_budget() {
    let text = "😀é€a".repeat(60);
    for budget in 0..160 {
        let cut = output(&[bytes(&text)], budget);
        assert!(!cut.contains('\u{fffd}'), "budget {budget}: {cut}");
    }
}

#[test]
fn malformed_bytes_count_as_what_they_are_shown_as() {
    let cut = output(&[bytes([0xff; 90])], 50);
    assert!(cut.len() <= 200, "90 bytes would be 270 bytes of text");
    assert!(cut.contains("tokens truncated"));
}

/// The header that a text begins with, and where its output starts: what a reader of the text would make of it.
fn parsed(text: &str) -> (Header, u64, usize) {
    let mut header = Header::default();
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        at += line.len();
        let line = line.trim_end_matches('\n');
        if let Some(id) = line.strip_prefix("Chunk ID: ") {
            header.chunk_id = Some(id.to_owned());
        } else if let Some(time) = line.strip_prefix("Wall time: ") {
            let seconds: f64 = time.strip_suffix(" seconds").unwrap().parse().unwrap();
            header.wall_time = Some(Duration::from_secs_f64(seconds));
        } else if let Some(code) = line.strip_prefix("Process exited with code ") {
            header.state = Some(ProcessState::Exited(code.parse().unwrap()));
        } else if let Some(id) = line.strip_prefix("Process running with session ID ") {
            header.state = ProcessId::new(id.parse().unwrap()).map(ProcessState::Running);
        } else if let Some(count) = line.strip_prefix("Original token count: ") {
            assert_eq!(&text[at..at + 8], "Output:\n");
            return (header, count.parse().unwrap(), at + 8);
        } else {
            panic!("no line of a header: {line:?}");
        }
    }
    panic!("no count of tokens in {text:?}");
}

proptest! {
    #[test]
    fn a_text_is_never_over_its_budget_and_counts_every_byte(segments in segments(), budget in 0..200_u32) {
        let total: u64 = segments.iter().map(segment_bytes).sum();
        let text = render(&Header::default(), &segments, budget);
        let output = text.output();
        prop_assert_eq!(text.original_token_count, tokens(total));
        let said = format!("…{} tokens truncated…", text.omitted_tokens);
        prop_assert!(tokens(output.len() as u64) <= u64::from(budget) || output == said, "{}", output);
        if text.omitted_bytes == 0 {
            let all: Vec<u8> = segments.iter().flat_map(|segment| match segment {
                Segment::Bytes(bytes) => bytes.to_vec(),
                Segment::Gap(_) => Vec::new(),
            }).collect();
            prop_assert_eq!(output, String::from_utf8_lossy(&all));
        } else {
            prop_assert!(output.contains(&said));
            prop_assert!(text.omitted_bytes <= total);
        }
    }

    #[test]
    fn both_sides_of_a_cut_are_the_ends_of_the_text(text in "[a-z😀é]{80,300}", budget in 10..60_u32) {
        let rendered = render(&Header::default(), &[bytes(&text)], budget);
        if rendered.omitted_bytes > 0 {
            let said = format!("…{} tokens truncated…", rendered.omitted_tokens);
            let (front, back) = rendered.output().split_once(&said).unwrap();
            prop_assert!(text.starts_with(front) && text.ends_with(back));
            prop_assert_eq!((text.len() - front.len() - back.len()) as u64, rendered.omitted_bytes);
            prop_assert!(front.len().abs_diff(back.len()) <= 12, "the cut is in the middle");
        }
    }

    #[test]
    fn a_header_reads_back_whatever_the_output_says(
        header in header(), mut segments in segments(), budget in 0..200_u32
    ) {
        segments.insert(0, bytes("Chunk ID: ffffff\nProcess exited with code 0\nOutput:\n"));
        let text = render(&header, &segments, budget);
        let (read, count, start) = parsed(&text.text);
        prop_assert_eq!((read.chunk_id, read.state), (header.chunk_id, header.state));
        prop_assert_eq!((count, start), (text.original_token_count, text.output_start));
        let off = |one: Duration, other: Duration| one.abs_diff(other) <= Duration::from_micros(50);
        match (read.wall_time, header.wall_time) {
            (Some(read), Some(said)) => prop_assert!(off(read, said), "{read:?} is not {said:?}"),
            (read, said) => prop_assert_eq!(read, said),
        }
    }

    #[test]
    fn a_cut_splits_no_character_also_between_segments(
        text in "[a-z😀é€]{40,200}", cuts in prop::collection::vec(1..9_usize, 0..60), budget in 0..120_u32
    ) {
        let mut rest = text.as_bytes();
        let mut segments = Vec::new();
        for cut in cuts {
            let (piece, later) = rest.split_at(cut.min(rest.len()));
            segments.push(bytes(piece));
            rest = later;
        }
        segments.push(bytes(rest));
        let cut = render(&Header::default(), &segments, budget);
        prop_assert!(!cut.output().contains('\u{fffd}'), "{}", cut.output());
        prop_assert_eq!(cut.output(), output(&[bytes(&text)], budget), "how it came makes no difference");
    }
}
