//! Rows in columns, as wide as the terminal allows.

use unicode_width::UnicodeWidthStr as _;

use super::page::{TextPage, shorten};
use super::style::Style;
use subagent_protocol::clean::one_line;

/// Spaces between two columns.
const GAP: usize = 2;
/// No column is made narrower than this.
const NARROWEST: usize = 12;

/// A table. The columns stand in the order of their importance: the last one gives way first. The first one, which names
/// the rows, and that of states are never cut.
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

    /// Adds a row with a cell for each column, where the columns are not known when this is compiled.
    pub fn row_of(&mut self, cells: impl Iterator<Item = (Style, String)>) {
        self.rows.push(cells.map(|(style, text)| (style, one_line(&text))).collect());
    }

    /// Puts the table on a page of this width.
    pub fn put(&self, page: &mut TextPage, width: usize) {
        let widths = self.widths(width);
        let titles: Vec<_> = self.head.iter().map(|title| (Style::Dim, (*title).to_owned())).collect();
        for row in std::iter::once(&titles).chain(&self.rows) {
            let mut cells =
                row.iter().zip(&widths).filter_map(|(cell, width)| Some((cell, (*width)?))).peekable();
            while let Some(((style, text), width)) = cells.next() {
                let text = shorten(text, width);
                page.word(*style, &text);
                if cells.peek().is_some() {
                    page.fill(&text, width + GAP);
                }
            }
            page.end();
        }
    }

    /// As wide as the widest cell. Columns without a cell are left out. If the rest is too wide, columns give way from the
    /// right: each is cut to a readable part, and then left out. The first column and that of states stay whole.
    fn widths(&self, available: usize) -> Vec<Option<usize>> {
        let mut widths: Vec<Option<usize>> = (0..self.head.len())
            .map(|column| {
                let cells = self.rows.iter().filter_map(|row| Some(row.get(column)?.1.width()));
                let widest = cells.max().unwrap_or(0);
                (widest > 0 || column == 0).then(|| widest.max(self.head[column].width()))
            })
            .collect();
        let too_wide = |widths: &[Option<usize>]| {
            let shown: Vec<usize> = widths.iter().flatten().copied().collect();
            (shown.iter().sum::<usize>() + GAP * shown.len().saturating_sub(1)).saturating_sub(available)
        };
        for column in (1..widths.len()).rev().filter(|column| self.head[*column] != "STATE") {
            let over = too_wide(&widths);
            match widths[column] {
                Some(_) if over == 0 => break,
                Some(width) if width >= over + NARROWEST => widths[column] = Some(width - over),
                // As narrow as it may be, it would still be cut for nothing while columns before it are too wide.
                Some(_) => widths[column] = None,
                None => {}
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
        let mut page = TextPage::new(false);
        table().put(&mut page, width);
        page.take().lines().map(|line| line.trim_end().to_owned()).collect()
    }

    #[test]
    fn columns_stand_below_each_other() {
        assert_eq!(shown(80), ["ID    LABEL  WHERE", "w_1   漢字   /a/very/long/path/to/it", "w_22  x y"]);
    }

    #[test]
    fn a_narrow_terminal_cuts_the_widest_column() {
        assert_eq!(shown(26)[1], "w_1   漢字   /a/very/long…");
        assert_eq!(shown(24)[1], "w_1   漢字", "a column that would be unreadable is left out");
        assert_eq!(shown(3)[2], "w_22", "the first column stays");
    }

    #[test]
    fn a_column_without_a_cell_is_left_out_before_another_one_is_cut() {
        let mut table = Table::new(&["NAME", "STATE", "ASKS", "NOTE", "SINCE"]);
        table.row([
            (Style::Plain, "codex-1"),
            (Style::Plain, "waiting approval"),
            (Style::Plain, "rm -rf build"),
            (Style::Plain, ""),
            (Style::Plain, "3m ago"),
        ]);
        let shown = |width| {
            let mut page = TextPage::new(false);
            table.put(&mut page, width);
            page.take()
        };
        assert!(shown(80).starts_with("NAME     STATE             ASKS          SINCE"), "{}", shown(80));
        assert!(shown(45).ends_with("codex-1  waiting approval  rm -rf build\n"), "{}", shown(45));
    }
}
