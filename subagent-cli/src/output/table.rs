//! Rows in columns, as wide as the terminal allows.

use unicode_width::UnicodeWidthStr as _;

use super::page::{Page, shorten};
use super::style::Style;
use subagent_protocol::clean::one_line;

/// Spaces between two columns.
const GAP: usize = 2;
/// No column is made narrower than this.
const NARROWEST: usize = 8;

/// A table. The first column, which names the rows, is never cut.
#[derive(Debug)]
pub struct Table {
    head: Vec<&'static str>,
    rows: Vec<Vec<(Style, String)>>,
}

impl Table {
    /// A table with these titles.
    #[must_use]
    pub fn new(head: &[&'static str]) -> Self {
        Self { head: head.to_vec(), rows: Vec::new() }
    }

    /// Adds a row with a cell for each column.
    pub fn row<const N: usize>(&mut self, cells: [(Style, &str); N]) {
        self.rows.push(cells.into_iter().map(|(style, text)| (style, one_line(text))).collect());
    }

    /// Puts the table on a page of this width.
    pub fn put(&self, page: &mut Page, width: usize) {
        let widths = self.widths(width);
        let titles: Vec<_> = self.head.iter().map(|title| (Style::Dim, (*title).to_owned())).collect();
        for row in std::iter::once(&titles).chain(&self.rows) {
            for (column, (style, text)) in row.iter().enumerate() {
                let text = shorten(text, widths[column]);
                page.word(*style, &text);
                if column + 1 < row.len() {
                    page.fill(&text, widths[column] + GAP);
                }
            }
            page.end();
        }
    }

    /// As wide as the widest cell; if that is too much, the widest columns are made narrower first.
    fn widths(&self, available: usize) -> Vec<usize> {
        let mut widths: Vec<usize> = self.head.iter().map(|title| title.width()).collect();
        for row in &self.rows {
            for (width, (_, text)) in widths.iter_mut().zip(row) {
                *width = text.width().max(*width);
            }
        }
        let gaps = GAP * widths.len().saturating_sub(1);
        while widths.iter().sum::<usize>() + gaps > available {
            match widths.iter_mut().skip(1).max() {
                Some(widest) if *widest > NARROWEST => *widest -= 1,
                _ => break,
            }
        }
        widths
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        let mut table = Table::new(&["ID", "LABEL", "WHERE"]);
        table.row([(Style::Plain, "w_1"), (Style::Plain, "漢字"), (Style::Plain, "/a/very/long/path/to/it")]);
        table.row([(Style::Plain, "w_22"), (Style::Good, "x\ny"), (Style::Plain, "")]);
        table
    }

    fn shown(width: usize) -> Vec<String> {
        let mut page = Page::new(false);
        table().put(&mut page, width);
        page.take().lines().map(|line| line.trim_end().to_owned()).collect()
    }

    #[test]
    fn columns_stand_below_each_other() {
        assert_eq!(shown(80), ["ID    LABEL  WHERE", "w_1   漢字   /a/very/long/path/to/it", "w_22  x y"]);
    }

    #[test]
    fn a_narrow_terminal_cuts_the_widest_column() {
        assert_eq!(shown(24)[1], "w_1   漢字   /a/very/lo…");
        assert_eq!(shown(5)[2], "w_22  x y", "there is a limit");
    }
}
