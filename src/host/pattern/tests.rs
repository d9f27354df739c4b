use bytes::Bytes;
use proptest::prelude::*;
use tokio::time::{sleep, timeout};

use super::*;

const A_WHILE: Duration = Duration::from_secs(60);

fn log_of(pieces: &[(Stream, &'static str)]) -> Arc<OutputLog> {
    let log = Arc::new(OutputLog::new());
    for (stream, text) in pieces {
        log.append(*stream, Bytes::from_static(text.as_bytes()));
    }
    log
}

fn put(log: &OutputLog, text: &'static str) {
    log.append(Stream::Stdout, Bytes::from_static(text.as_bytes()));
}

fn literal(text: &str) -> Pattern {
    Pattern::literal(text.as_bytes()).unwrap()
}

fn regex(text: &str) -> Pattern {
    Pattern::regex(text).unwrap()
}

fn at(from: u64, to: u64) -> Search {
    Search { found: Found::At { from, to }, missed: 0 }
}

/// Searches a log to which each of `pieces` is appended only when the search has seen the one before.
async fn find_in_turn(pieces: &[&'static str], pattern: Pattern) -> Search {
    let log = log_of(&[]);
    let search = tokio::spawn({
        let log = Arc::clone(&log);
        async move { find(&log, 0, &pattern, None).await }
    });
    for piece in pieces {
        sleep(Duration::from_millis(1)).await;
        put(&log, piece);
    }
    sleep(Duration::from_millis(1)).await;
    log.close();
    search.await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn what_is_there_already_is_found_from_the_offset_on() {
    let log = log_of(&[(Stream::Stdout, "ready ready")]);
    assert_eq!(find(&log, 0, &literal("ready"), None).await, at(0, 5));
    assert_eq!(find(&log, 1, &literal("ready"), None).await, at(6, 11));
    assert!(timeout(A_WHILE, find(&log, 7, &literal("ready"), None)).await.is_err());
    log.close();
    assert_eq!(find(&log, 7, &literal("ready"), None).await, Search { found: Found::Ended(11), missed: 0 });
}

#[tokio::test(start_paused = true)]
async fn a_literal_is_found_however_it_is_split() {
    assert_eq!(find_in_turn(&["listening o", "n", " po", "rt"], literal("on port")).await, at(10, 17));
    assert_eq!(find_in_turn(&["aa", "aa", "ab"], literal("aaab")).await, at(2, 6));
}

#[tokio::test(start_paused = true)]
async fn bytes_that_are_no_text_are_found_as_they_are() {
    let log = Arc::new(OutputLog::new());
    log.append(Stream::Terminal, Bytes::from_static(b"a\xff\x00\n\xc3b"));
    let pattern = Pattern::literal(b"\xff\x00\n\xc3").unwrap();
    assert_eq!(find(&log, 0, &pattern, None).await, at(1, 5));
}

#[tokio::test(start_paused = true)]
async fn a_regular_expression_is_found_across_pieces() {
    let pattern = regex(r"port (\d+)\n");
    assert_eq!(find_in_turn(&["on po", "rt 80", "80", "\n"], pattern).await, at(3, 13));
}

#[tokio::test(start_paused = true)]
async fn a_prompt_is_the_end_of_what_has_been_printed() {
    assert_eq!(find_in_turn(&["a > b\n", ">>> "], regex(r"> $")).await, at(8, 10));
}

#[tokio::test(start_paused = true)]
async fn anchors_and_word_borders_know_what_came_before() {
    let long: &'static str = Box::leak("x".repeat(3 * REGEX_REACH).into_boxed_str());
    let ended = |end| Search { found: Found::Ended(end), missed: 0 };
    let pieces = [long, "ab"];
    let end = long.len() as u64 + 2;
    assert_eq!(
        find_in_turn(&pieces, regex(r"\Aab|^x*ab$")).await,
        ended(end),
        "`^` is where the search began"
    );
    assert_eq!(find_in_turn(&pieces, regex(r"\bab")).await, ended(end));
    assert_eq!(find_in_turn(&[long, "\n", "ab"], regex(r"(?m)^ab")).await, at(end - 1, end + 1));
}

#[tokio::test(start_paused = true)]
async fn a_split_match_longer_than_the_reach_is_not_promised() {
    let long: &'static str = Box::leak(format!("[{}", "x".repeat(REGEX_REACH)).into_boxed_str());
    let near: &'static str = Box::leak(format!("[{}", "x".repeat(REGEX_REACH - 1)).into_boxed_str());
    let pattern = regex(r"\[x*\]");
    assert!(matches!(find_in_turn(&[long, "]"], pattern.clone()).await.found, Found::Ended(_)));
    assert_eq!(find_in_turn(&[near, "]"], pattern).await, at(0, REGEX_REACH as u64 + 1));
}

#[tokio::test(start_paused = true)]
async fn a_chosen_stream_is_searched_as_if_it_were_alone() {
    let log = log_of(&[
        (Stream::Stdout, "do"),
        (Stream::Stderr, "warning: done"),
        (Stream::Stdout, "ne"),
        (Stream::Stderr, "!"),
    ]);
    assert_eq!(find(&log, 0, &literal("done"), None).await, at(11, 15));
    assert_eq!(find(&log, 0, &literal("done"), Some(Stream::Stdout)).await, at(0, 17));
    assert_eq!(find(&log, 0, &literal("ne"), Some(Stream::Stdout)).await, at(15, 17));
    assert_eq!(find(&log, 0, &regex("e!"), Some(Stream::Stderr)).await, at(14, 18));
}

#[tokio::test(start_paused = true)]
async fn a_gap_ends_what_had_begun_and_is_reported() {
    let log = Arc::new(OutputLog::with_budget(2, 2));
    put(&log, "ab____cd");
    log.close();
    let lost = Search { found: Found::Ended(8), missed: 4 };
    assert_eq!(find(&log, 0, &literal("abcd"), None).await, lost);
    let found = Search { found: Found::At { from: 6, to: 8 }, missed: 4 };
    assert_eq!(find(&log, 0, &regex("^cd"), None).await, found);
}

#[test]
fn bad_patterns_say_why() {
    assert_eq!(Pattern::literal(b"").unwrap_err(), PatternError::Empty);
    let long = vec![b'x'; PATTERN_BYTES_MAX + 1];
    assert_eq!(Pattern::literal(&long).unwrap_err(), PatternError::TooLong { bytes: long.len() });
    assert!(Pattern::literal(&long[1..]).is_ok(), "the longest literal compiles");
    assert_eq!(Pattern::regex(r"(?u)\w{100}").unwrap_err(), PatternError::TooLarge);
    assert_eq!(Pattern::regex(r"((a{1,99}){1,99}){1,99}").unwrap_err(), PatternError::TooLarge);
    let error = Pattern::regex("a(b").unwrap_err().to_string();
    assert!(error.contains("unclosed group"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_regular_expression_is_over_bytes_unless_it_asks_for_unicode() {
    let log = log_of(&[(Stream::Stdout, "\u{e9}t\u{e9} ok")]);
    log.close();
    assert_eq!(find(&log, 0, &regex(r"\w+"), None).await, at(2, 3));
    assert_eq!(find(&log, 0, &regex("(?u)\\w+"), None).await, at(0, 5));
    assert_eq!(find(&log, 0, &regex("\u{e9} .k"), None).await, at(3, 8), "characters may stand in it");
    let error = Pattern::regex("[\u{e8}-\u{e9}]").unwrap_err().to_string();
    assert!(error.contains("(?u)"), "{error}");
    assert_eq!(find(&log, 1, &regex("(?u)[\u{e8}-\u{e9}]"), None).await, at(3, 5));
}

#[tokio::test(start_paused = true)]
async fn quiet_is_counted_from_the_last_byte_and_needs_no_polling() {
    let log = log_of(&[]);
    let start = Instant::now();
    let writer = tokio::spawn({
        let log = Arc::clone(&log);
        async move {
            for _ in 0..3 {
                sleep(Duration::from_millis(300)).await;
                put(&log, "x");
            }
        }
    });
    let extent = quiet(&log, Duration::from_millis(500)).await;
    assert_eq!((extent, start.elapsed()), (Extent { end: 3, closed: false }, Duration::from_millis(1_400)));
    writer.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_closed_log_is_quiet_at_once() {
    let log = log_of(&[(Stream::Stdout, "x")]);
    let waiting = tokio::spawn({
        let log = Arc::clone(&log);
        async move { quiet(&log, A_WHILE).await }
    });
    tokio::task::yield_now().await;
    let start = Instant::now();
    log.close();
    assert_eq!(waiting.await.unwrap(), Extent { end: 1, closed: true });
    assert_eq!(start.elapsed(), Duration::ZERO);
}

proptest! {
    /// The window against a search of the whole text, at every way of splitting it.
    #[test]
    fn a_literal_is_found_where_the_whole_text_has_it(
        text in "[ab]{0,60}", pattern in "[ab]{1,6}", sizes in prop::collection::vec(1..5_usize, 60)
    ) {
        let compiled = literal(&pattern);
        let mut window = Window::default();
        let mut found = None;
        let mut at = 0;
        for size in sizes {
            let to = (at + size).min(text.len());
            let data = Bytes::copy_from_slice(&text.as_bytes()[at..to]);
            window.push(&Piece { offset: at as u64, stream: Stream::Stdout, data });
            found = found.or_else(|| window.search(&compiled.regex));
            window.keep(compiled.reach);
            prop_assert!(window.bytes.len() < pattern.len() + CONTEXT);
            at = to;
        }
        let expected = text.find(&pattern).map(|from| (from as u64, (from + pattern.len()) as u64));
        prop_assert_eq!(found, expected);
    }
}
