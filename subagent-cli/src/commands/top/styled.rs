//! Text that was put together for a terminal, as lines of a screen. Pure.
//!
//! The text holds the codes of our own styles and no others: a page of `output` lets no others pass.

use ratatui::style::{Color, Modifier, Style as Look};
use ratatui::text::{Line, Span};
use unicode_width::UnicodeWidthChar as _;

use crate::output::style::Style;

/// Behind the escape character: the end of a style.
const RESET: &str = "[0m";

/// How a style looks.
pub(super) fn look(style: Style) -> Look {
    match style {
        Style::Plain => Look::new(),
        Style::Strong => Look::new().add_modifier(Modifier::BOLD),
        Style::Dim => Look::new().add_modifier(Modifier::DIM),
        Style::Good => Look::new().fg(Color::Green),
        Style::Bad => Look::new().fg(Color::Red).add_modifier(Modifier::BOLD),
        Style::Attention => Look::new().fg(Color::Yellow).add_modifier(Modifier::BOLD),
        Style::Active => Look::new().fg(Color::Cyan),
    }
}

/// The lines of a text, each at most this wide. What is wider goes on in the next line.
pub(super) fn lines(text: &str, width: usize) -> Vec<Line<'static>> {
    let codes = Style::ALL.map(|style| (style.codes().0, style));
    let mut style = Style::Plain;
    // A style may have several codes in a row, and ends with one that resets all.
    let mut code = String::new();
    let mut lines = Vec::new();
    for line in text.strip_suffix('\n').unwrap_or(text).split('\n') {
        let mut open = OpenLine { spans: Vec::new(), column: 0, width: width.max(1) };
        let mut parts = line.split('\u{1b}');
        open.add(style, parts.next().unwrap_or_default(), &mut lines);
        for part in parts {
            let end = part.find('m').map_or(part.len(), |end| end + 1);
            match &part[..end] {
                RESET => code.clear(),
                more => code.push_str(&format!("\u{1b}{more}")),
            }
            style = codes.iter().find(|(known, _)| *known == code).map_or(Style::Plain, |(_, style)| *style);
            open.add(style, &part[end..], &mut lines);
        }
        lines.push(Line::from(open.spans));
    }
    lines
}

/// A line that is not complete.
struct OpenLine {
    spans: Vec<Span<'static>>,
    column: usize,
    width: usize,
}

impl OpenLine {
    fn add(&mut self, style: Style, text: &str, lines: &mut Vec<Line<'static>>) {
        let mut piece = String::new();
        for char in text.chars() {
            // A tab would have no width on the screen.
            let (char, columns) = match char {
                '\t' => (' ', 1),
                char => (char, char.width().unwrap_or(0)),
            };
            if self.column + columns > self.width && self.column > 0 {
                self.push(style, std::mem::take(&mut piece));
                lines.push(Line::from(std::mem::take(&mut self.spans)));
                self.column = 0;
            }
            piece.push(char);
            self.column += columns;
        }
        self.push(style, piece);
    }

    fn push(&mut self, style: Style, piece: String) {
        if !piece.is_empty() {
            self.spans.push(Span::styled(piece, look(style)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::page::TextPage;

    fn shown(lines: &[Line<'_>]) -> Vec<String> {
        lines.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn the_codes_of_a_page_become_styles() {
        let mut page = TextPage::new(true);
        for style in Style::ALL {
            page.word(style, "x");
        }
        page.end().text(Style::Bad, "two\nlines\u{1b}[2J").end();
        let lines = lines(&page.take(), 80);
        assert_eq!(shown(&lines), ["xxxxxxx", "two", "lines"]);
        let looks: Vec<Look> = lines[0].spans.iter().map(|span| span.style).collect();
        assert_eq!(looks, Style::ALL.map(look));
        assert_eq!((lines[1].spans[0].style, lines[2].spans[0].style), (look(Style::Bad), look(Style::Bad)));
    }

    #[test]
    fn what_is_too_wide_goes_on_in_the_next_line() {
        assert_eq!(shown(&lines("abcdefg\n\nx", 3)), ["abc", "def", "g", "", "x"]);
        assert_eq!(shown(&lines("漢字漢", 4)), ["漢字", "漢"]);
        assert_eq!(shown(&lines("漢字", 1)), ["漢", "字"]);
        assert_eq!(shown(&lines("a\tb", 0)), ["a", " ", "b"]);
        assert_eq!(shown(&lines("", 9)), [""]);
    }
}
