//! Text for a terminal, put together piece by piece.
//!
//! Whatever is put on a page is made harmless first, and nothing else can get on it: agents' text cannot bring codes of
//! its own to a terminal.

use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

use super::style::Style;
use subagent_protocol::clean::{clean, one_line};

/// The text so far.
#[derive(Debug)]
pub struct Page {
    text: String,
    colour: bool,
    line_is_open: bool,
}

impl Page {
    /// An empty page, with colours or without.
    #[must_use]
    pub fn new(colour: bool) -> Self {
        Self { text: String::new(), colour, line_is_open: false }
    }

    /// Adds text, which may have several lines.
    pub fn text(&mut self, style: Style, text: &str) -> &mut Self {
        let text = clean(text);
        if text.is_empty() {
            return self;
        }
        self.line_is_open = !text.ends_with('\n');
        if self.colour {
            let (before, after) = style.codes();
            // The codes end before the line does: some terminals fill the rest of a line with them.
            let line_end = if self.line_is_open { "" } else { "\n" };
            let body = text.strip_suffix('\n').unwrap_or(&text);
            self.text.push_str(&format!("{before}{body}{after}{line_end}"));
        } else {
            self.text.push_str(&text);
        }
        self
    }

    /// Adds text as a part of the line.
    pub fn word(&mut self, style: Style, text: &str) -> &mut Self {
        self.text(style, &one_line(text))
    }

    /// Adds plain text of our own.
    pub fn plain(&mut self, text: &str) -> &mut Self {
        self.text(Style::Plain, text)
    }

    /// Adds spaces up to this width behind a word that was just added.
    pub fn fill(&mut self, word: &str, width: usize) -> &mut Self {
        let own = one_line(word).width();
        self.plain(&" ".repeat(width.saturating_sub(own)))
    }

    /// Ends the line.
    pub fn end(&mut self) -> &mut Self {
        self.plain("\n")
    }

    /// Ends the line if something stands in it.
    pub fn fresh_line(&mut self) -> &mut Self {
        if self.line_is_open { self.end() } else { self }
    }

    /// Adds lines, each behind this indent; of too many only the first ones, and how many are left out.
    pub fn lines(&mut self, style: Style, indent: &str, text: &str, most: usize) -> &mut Self {
        let text = clean(text);
        let lines: Vec<&str> = text.trim_end().lines().collect();
        for line in lines.iter().take(most) {
            self.plain(indent).text(style, line).end();
        }
        if let Some(left) = lines.len().checked_sub(most).filter(|left| *left > 0) {
            self.plain(indent).text(Style::Dim, &format!("... {left} more lines")).end();
        }
        self
    }

    /// Takes what is on the page; the next text goes on where it ended.
    pub fn take(&mut self) -> String {
        std::mem::take(&mut self.text)
    }
}

/// The text as one line of at most this width, with `…` for what was cut.
#[must_use]
pub fn shorten(text: &str, width: usize) -> String {
    let text = one_line(text);
    if text.width() <= width {
        return text;
    }
    let mut short = String::new();
    let mut used = 0;
    for c in text.chars() {
        used += c.width().unwrap_or(0);
        if used + 1 > width {
            break;
        }
        short.push(c);
    }
    if width > 0 {
        short.push('…');
    }
    short
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_our_own_codes_get_on_a_page() {
        let mut page = Page::new(true);
        page.text(Style::Good, "a\u{1b}[31mb\n").word(Style::Plain, "\u{1b}]0;t\u{7}c\nd").end();
        assert_eq!(page.take(), "\u{1b}[32mab\u{1b}[0m\nc d\n");
        let mut page = Page::new(false);
        page.text(Style::Bad, "\u{9b}1mx").fresh_line().fresh_line();
        assert_eq!(page.take(), "x\n");
    }

    #[test]
    fn long_text_says_how_much_is_left_out() {
        let mut page = Page::new(false);
        page.lines(Style::Plain, "  ", "1\n2\n3\n", 2).lines(Style::Plain, "> ", "1\n2", 2);
        assert_eq!(page.take(), "  1\n  2\n  ... 1 more lines\n> 1\n> 2\n");
    }

    #[test]
    fn text_is_cut_at_its_width_on_the_screen() {
        assert_eq!(shorten("abcdef", 6), "abcdef");
        assert_eq!(shorten("abcdefg", 6), "abcde…");
        assert_eq!(shorten("漢字漢字", 6), "漢字…");
        assert_eq!((shorten("ab", 1), shorten("ab", 0)), ("…".to_owned(), String::new()));
    }
}
