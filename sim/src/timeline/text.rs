//! How wide text is, and where labels go so that none covers another.

/// Sizes of letters, in pixels.
pub(crate) const NORMAL: f64 = 12.0;
pub(crate) const SMALL: f64 = 11.0;
/// Bold letters of 12 and of 16 pixels are about as wide as these.
pub(crate) const BOLD: f64 = 13.4;
pub(crate) const TITLE: f64 = 18.0;

/// The width of `text` in letters of `size` pixels, in the widest of the usual fonts (DejaVu Sans, which is Verdana's
/// width): in others it is narrower, so that what does not overlap here does not overlap there.
pub(crate) fn width(text: &str, size: f64) -> f64 {
    text.chars().map(em).sum::<f64>() * size
}

const fn em(letter: char) -> f64 {
    match letter {
        'i' | 'j' | 'l' | '\'' | '|' | ' ' => 0.34,
        'f' | 't' | 'r' | '.' | ',' | ':' | ';' | '!' | '(' | ')' | '[' | ']' | '/' | '\\' | '-' | 'I'
        | 'J' => 0.42,
        '"' => 0.48,
        '?' | '_' | '*' => 0.54,
        's' | 'c' | 'k' | 'v' | 'x' | 'y' | 'z' => 0.60,
        'm' | 'M' | 'W' | '%' | '@' | '…' => 1.0,
        'w' | '=' | '+' | '<' | '>' | '~' | '&' | '#' => 0.85,
        'A'..='Z' => 0.77,
        _ if letter.is_ascii() => 0.65,
        _ => 1.0,
    }
}

/// `text` with what is too much for `room` pixels cut off.
pub(crate) fn cut(text: &str, size: f64, room: f64) -> String {
    if width(text, size) <= room {
        return text.to_owned();
    }
    let mut kept = String::new();
    for letter in text.chars() {
        if width(&kept, size) + em(letter) * size + em('…') * size > room {
            break;
        }
        kept.push(letter);
    }
    kept.truncate(kept.trim_end().len());
    kept.push('…');
    kept
}

/// `text` in lines of at most `room` pixels, broken between words.
pub(crate) fn wrap(text: &str, size: f64, room: f64) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut().filter(|line| width(&format!("{line} {word}"), size) <= room) {
            Some(line) => {
                line.push(' ');
                line.push_str(word);
            }
            None => lines.push(word.to_owned()),
        }
    }
    lines
}

/// A label in its row; rows count from the bar downwards.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Placed {
    pub(crate) x: f64,
    pub(crate) row: usize,
    pub(crate) text: String,
}

/// Between the end of one label and the beginning of the next.
const SPACE: f64 = 14.0;

/// Gives every label, which begins at its place and goes to the right, the first row in which nothing is in its way.
/// The rightmost goes first: then the line from a bar down to a label meets no label on its way.
pub(crate) fn place(labels: &[(f64, String)]) -> Vec<Placed> {
    let mut order: Vec<usize> = (0..labels.len()).collect();
    order.sort_by(|a, b| labels[*b].0.total_cmp(&labels[*a].0).then(a.cmp(b)));
    let mut rows: Vec<f64> = Vec::new();
    let mut placed = Vec::new();
    for (x, text) in order.into_iter().map(|at| &labels[at]) {
        let end = x + width(text, NORMAL) + SPACE;
        let row = rows.iter().position(|begins| end <= *begins).unwrap_or_else(|| {
            rows.push(0.0);
            rows.len() - 1
        });
        rows[row] = *x;
        placed.push(Placed { x: *x, row, text: text.clone() });
    }
    placed
}
