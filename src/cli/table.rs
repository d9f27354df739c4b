//! Columns for people.

use super::failure::Failure;
use super::words;

/// Rows with a heading; the last column is cut to the terminal's width, if there is one.
#[derive(Debug)]
pub(super) struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table with this heading.
    pub(super) fn new(heading: &[&str]) -> Self {
        Self { rows: vec![heading.iter().map(|&title| title.to_owned()).collect()] }
    }

    /// Adds a row.
    pub(super) fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().map(|cell| one_line(&cell)).collect());
    }

    /// Prints it.
    pub(super) fn print(&self) -> Result<(), Failure> {
        super::output::print(&self.render(terminal_width()))
    }

    fn render(&self, width: Option<usize>) -> String {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or_default();
        let widest = |column: usize| {
            self.rows
                .iter()
                .filter_map(|row| row.get(column))
                .map(|cell| cell.chars().count())
                .max()
                .unwrap_or(0)
        };
        let widths: Vec<usize> = (0..columns).map(widest).collect();
        let mut text = String::new();
        for row in &self.rows {
            let line: Vec<String> =
                row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
            let line = line.join("  ");
            text.push_str(cut(line.trim_end(), width).trim_end());
            text.push('\n');
        }
        text
    }
}

/// A cell that holds a line break, or an escape sequence, must not break the table or the terminal.
fn one_line(cell: &str) -> String {
    words::shown(&cell.replace(['\n', '\t', '\r'], " "))
}

fn cut(line: &str, width: Option<usize>) -> String {
    match width {
        Some(width) if line.chars().count() > width => {
            line.chars().take(width.saturating_sub(1)).chain(['…']).collect()
        }
        _ => line.to_owned(),
    }
}

fn terminal_width() -> Option<usize> {
    if !std::io::IsTerminal::is_terminal(&std::io::stdout()) {
        return None;
    }
    crossterm::terminal::size().ok().map(|(cols, _)| usize::from(cols)).filter(|cols| *cols > 20)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up_and_lines_fit() {
        let mut table = Table::new(&["ID", "COMMAND"]);
        table.row(["1234".into(), "sleep 1\nsleep 2\x1bc".into()]);
        assert_eq!(table.render(None), "ID    COMMAND\n1234  sleep 1 sleep 2\\u{1b}c\n");
        assert_eq!(table.render(Some(12)), "ID    COMMA…\n1234  sleep…\n");
    }
}
