//! Output cut into lines that can be read: escapes gone, characters whole, each of bounded length.

/// What is read of a line. Messages are shorter; longer lines are data.
const LINE_BYTES_MAX: usize = 4 * 1024;
/// Longest excerpt.
pub(super) const EXCERPT_BYTES_MAX: usize = 512;

/// The lines of `output`, without terminal escapes and control characters, empty ones left out. A carriage return ends a
/// line too: what a progress bar overwrote was still said.
pub(super) fn lines(output: &[u8]) -> impl Iterator<Item = String> {
    output.split(|byte| matches!(byte, b'\n' | b'\r')).map(clean).filter(|line| !line.is_empty())
}

fn clean(line: &[u8]) -> String {
    let head = line.get(..LINE_BYTES_MAX);
    let text = String::from_utf8_lossy(head.unwrap_or(line));
    let mut cleaned = without_escapes(&text);
    if head.is_some() {
        // A path that was cut through would be another path.
        let whole = cleaned.rfind(' ').unwrap_or(0);
        cleaned.truncate(whole);
    }
    cleaned.trim().to_owned()
}

fn without_escapes(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut signs = text.chars().peekable();
    while let Some(sign) = signs.next() {
        match sign {
            '\u{1b}' => match signs.next() {
                Some('[') => drop(signs.by_ref().find(|c| ('\u{40}'..='\u{7e}').contains(c))),
                Some(']') => skip_title(&mut signs),
                _ => {}
            },
            '\t' => plain.push(' '),
            sign if sign.is_control() => {}
            sign => plain.push(sign),
        }
    }
    plain
}

/// An operating system command ends with BEL or ESC and a backslash.
fn skip_title(signs: &mut std::iter::Peekable<std::str::Chars<'_>>) {
    while let Some(sign) = signs.next() {
        if sign == '\u{7}' {
            return;
        }
        if sign == '\u{1b}' {
            signs.next_if_eq(&'\\');
            return;
        }
    }
}

/// At most [`EXCERPT_BYTES_MAX`] bytes of `line`, with what ends at `end` in them.
pub(super) fn excerpt(line: &str, end: usize) -> String {
    let mut from = end.min(line.len()).saturating_sub(EXCERPT_BYTES_MAX);
    while !line.is_char_boundary(from) {
        from += 1;
    }
    let mut to = (from + EXCERPT_BYTES_MAX).min(line.len());
    while !line.is_char_boundary(to) {
        to -= 1;
    }
    line.get(from..to).unwrap_or("").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_and_controls_are_gone_and_characters_whole() {
        let output = b"\x1b[31mred\x1b[0m\x00 x\n\n\x1b]0;title\x07after\rbar\xff\x1b]2;t\x1b\\end\n";
        assert_eq!(lines(output).collect::<Vec<_>>(), ["red x", "after", "bar\u{fffd}end"]);
    }

    #[test]
    fn a_long_line_is_cut_before_a_path_that_does_not_fit() {
        let mut line = vec![b'a'; LINE_BYTES_MAX - 10];
        line.extend_from_slice(b" /home/dev/project/x: Permission denied");
        let line = lines(&line).next().unwrap();
        assert!(!line.contains('/'));
    }

    #[test]
    fn an_excerpt_is_short_and_holds_the_words() {
        let line = format!("{} Permission denied {}", "ä".repeat(600), "ö".repeat(600));
        let end = line.find("denied").unwrap() + 6;
        let excerpt = excerpt(&line, end);
        assert!(excerpt.len() <= EXCERPT_BYTES_MAX && excerpt.ends_with("Permission denied"), "{excerpt}");
    }
}
