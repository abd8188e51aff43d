//! Text for a terminal, put together piece by piece. All text is cleaned before it is put on a
//! page. So the text of an agent cannot bring control codes of its own to a terminal.

use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

use super::style::Style;
use subagent_protocol::clean::{clean, one_line};

/// The text so far.
#[derive(Debug)]
pub struct TextPage {
    text: String,
    colour: bool,
    line_is_open: bool,
    /// Of the terminal, where it is known.
    width: Option<usize>,
    /// How wide the open line is so far.
    column: usize,
    /// The unfinished last word of flowing text, and its style.
    held: (Style, String),
    /// Spaces of flowing text before its next word.
    gap: usize,
}

impl TextPage {
    /// An empty page, with colours or without.
    #[must_use]
    pub fn new(colour: bool) -> Self {
        Self {
            text: String::new(),
            colour,
            line_is_open: false,
            width: None,
            column: 0,
            held: (Style::Plain, String::new()),
            gap: 0,
        }
    }

    /// The same page for a terminal of this width.
    #[must_use]
    pub fn within(self, width: usize) -> Self {
        Self { width: Some(width), ..self }
    }

    /// Adds text, which may have several lines.
    pub fn text(&mut self, style: Style, text: &str) -> &mut Self {
        let text = clean(text);
        if text.is_empty() {
            return self;
        }
        self.line_is_open = !text.ends_with('\n');
        self.column = match text.rsplit_once('\n') {
            Some((_, last)) => last.width(),
            None => self.column + text.width(),
        };
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

    /// Ends the line with a newline.
    pub fn end(&mut self) -> &mut Self {
        self.plain("\n")
    }

    /// Whether nothing stands in the line.
    #[must_use]
    pub fn is_at_line_start(&self) -> bool {
        !self.line_is_open && !self.holds()
    }

    /// Adds a piece of text that goes on in later pieces, wrapped at the width of the terminal.
    ///
    /// The last word is held back, because the next piece may continue it. Text without spaces, and
    /// a word that fills a line, are not held back.
    pub fn flow(&mut self, style: Style, text: &str) -> &mut Self {
        let Some(width) = self.width else { return self.text(style, text) };
        let text = std::mem::take(&mut self.held.1) + &clean(text);
        let end = text.rfind([' ', '\n']).map_or(0, |at| at + 1);
        self.held = (style, text[end..].to_owned());
        self.words(style, &text[..end]);
        let held = &self.held.1;
        let is_long = held.width() > width || held.chars().any(|char| char.width() == Some(2));
        if is_long { self.release() } else { self }
    }

    /// Whether a word is held back.
    #[must_use]
    pub fn holds(&self) -> bool {
        !self.held.1.is_empty()
    }

    /// Adds the word that was held back.
    pub fn release(&mut self) -> &mut Self {
        let style = self.held.0;
        let held = std::mem::take(&mut self.held.1);
        self.words(style, &held)
    }

    fn words(&mut self, style: Style, text: &str) -> &mut Self {
        let width = self.width.unwrap_or(usize::MAX);
        let (mut out, mut column) = (String::new(), self.column);
        for part in text.split_inclusive([' ', '\n']) {
            let word = part.trim_end_matches([' ', '\n']);
            if !word.is_empty() {
                if column > 0 && self.gap > 0 && column + self.gap + word.width() > width {
                    out.push('\n');
                    column = 0;
                } else {
                    out.push_str(&" ".repeat(self.gap));
                    column += self.gap;
                }
                self.gap = 0;
                out.push_str(word);
                column += word.width();
            }
            match part.as_bytes().last() {
                Some(b' ') => self.gap += 1,
                Some(b'\n') => {
                    out.push('\n');
                    (self.gap, column) = (0, 0);
                }
                _ => {}
            }
        }
        self.text(style, &out)
    }

    /// Ends the line if something stands in it.
    pub fn fresh_line(&mut self) -> &mut Self {
        self.release();
        self.gap = 0;
        if self.line_is_open { self.end() } else { self }
    }

    /// Adds lines, each behind this indent; of too many only the first ones, and how many are left out.
    pub fn lines(&mut self, style: Style, indent: &str, text: &str, most: usize) -> &mut Self {
        self.hanging(style, indent, indent, text, most)
    }

    /// The same, with something else before the first line.
    pub fn hanging(&mut self, style: Style, first: &str, indent: &str, text: &str, most: usize) -> &mut Self {
        let text = clean(text);
        let lines: Vec<&str> = text.trim_end().lines().collect();
        for (number, line) in lines.iter().take(most).enumerate() {
            self.plain(if number == 0 { first } else { indent }).text(style, line).end();
        }
        if let Some(left) = lines.len().checked_sub(most).filter(|left| *left > 0) {
            self.plain(indent).text(Style::Dim, &format!("... {left} more lines")).end();
        }
        self
    }

    /// Adds lines of prose, which are wrapped at the width of the terminal.
    pub fn prose(&mut self, style: Style, first: &str, indent: &str, text: &str, most: usize) -> &mut Self {
        let room = self.width.map_or(usize::MAX, |width| width.saturating_sub(indent.width()));
        let lines: Vec<String> = clean(text).trim_end().lines().flat_map(|line| wrap(line, room)).collect();
        self.hanging(style, first, indent, &lines.join("\n"), most)
    }

    /// Adds a sentence from here on, wrapped at the width of the terminal; its last line stays open.
    pub fn sentence(&mut self, style: Style, first: &str, indent: &str, text: &str) -> &mut Self {
        let width = self.width.unwrap_or(usize::MAX);
        let mut line = String::from(first);
        let mut is_first = true;
        for word in one_line(text).split(' ') {
            if !is_first && self.column + line.width() + 1 + word.width() > width {
                self.text(style, &line).end().plain(indent);
                line.clear();
            } else if !is_first {
                line.push(' ');
            }
            is_first = false;
            line.push_str(word);
        }
        self.text(style, &line)
    }

    /// Adds the last part of the line, cut to what is left of the terminal's width.
    pub fn rest(&mut self, style: Style, text: &str) -> &mut Self {
        match self.width {
            Some(width) => self.word(style, &shorten(text, width.saturating_sub(self.column))),
            None => self.word(style, text),
        }
    }

    /// Adds the last part of the line behind a gap; on a line of its own, behind this indent, if it does not fit.
    pub fn tail(&mut self, style: Style, indent: &str, text: &str) -> &mut Self {
        let text = one_line(text);
        let fits = self.width.is_none_or(|width| self.column + 2 + text.width() <= width);
        match fits {
            true => self.plain("  "),
            false => self.end().plain(indent),
        };
        self.word(style, &text)
    }

    /// Takes what is on the page; the next text goes on where it ended.
    pub fn take(&mut self) -> String {
        std::mem::take(&mut self.text)
    }
}

/// The text in lines of at most this width, cut at spaces. A word that is wider stays whole: a path or a command that
/// the terminal itself breaks can still be copied.
///
/// A text that fits stays as it is, with all its spaces.
#[must_use]
pub fn wrap(text: &str, width: usize) -> Vec<String> {
    if text.width() <= width {
        return vec![text.to_owned()];
    }
    let indent = &text[..text.len() - text.trim_start().len()];
    let mut lines = Vec::new();
    let mut line = String::from(indent);
    let mut is_empty = true;
    for word in text[indent.len()..].split(' ') {
        if is_empty {
            line.push_str(word);
            is_empty = word.is_empty();
        } else if line.width() + 1 + word.width() <= width {
            line.push(' ');
            line.push_str(word);
        } else {
            lines.push(line.trim_end().to_owned());
            line = word.to_owned();
            is_empty = word.is_empty();
        }
    }
    if !is_empty {
        lines.push(line);
    }
    lines
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
        let mut page = TextPage::new(true);
        page.text(Style::Good, "a\u{1b}[31mb\n").word(Style::Plain, "\u{1b}]0;t\u{7}c\nd").end();
        assert_eq!(page.take(), "\u{1b}[32mab\u{1b}[0m\nc d\n");
        let mut page = TextPage::new(false);
        page.text(Style::Bad, "\u{9b}1mx").fresh_line().fresh_line();
        assert_eq!(page.take(), "x\n");
    }

    #[test]
    fn long_text_says_how_much_is_left_out() {
        let mut page = TextPage::new(false);
        page.lines(Style::Plain, "  ", "1\n2\n3\n", 2).lines(Style::Plain, "> ", "1\n2", 2);
        assert_eq!(page.take(), "  1\n  2\n  ... 1 more lines\n> 1\n> 2\n");
    }

    #[test]
    fn text_is_wrapped_at_spaces_and_keeps_its_indent() {
        assert_eq!(wrap("one two three", 7), ["one two", "three"]);
        assert_eq!(wrap("    deep in a list", 10), ["    deep", "in a list"]);
        assert_eq!(wrap("/a/long/path ij", 3), ["/a/long/path", "ij"]);
        assert_eq!(wrap("漢字 漢字", 5), ["漢字", "漢字"]);
        assert_eq!((wrap("a  b", 4), wrap("", 4)), (vec!["a  b".to_owned()], vec![String::new()]));
        let mut page = TextPage::new(false).within(8);
        page.prose(Style::Plain, "- ", "  ", "one two three", 9);
        assert_eq!(page.take(), "- one\n  two\n  three\n");
    }

    #[test]
    fn text_without_spaces_is_not_held_back() {
        let mut page = TextPage::new(false).within(8);
        page.flow(Style::Plain, "漢").flow(Style::Plain, "字");
        assert_eq!((page.take().as_str(), page.holds()), ("漢字", false));
        page.fresh_line().flow(Style::Plain, "a2V5cw").flow(Style::Plain, "IGFyZQ");
        assert_eq!((page.take().as_str(), page.holds()), ("\na2V5cwIGFyZQ", false));
        let mut page = TextPage::new(false);
        page.flow(Style::Plain, "one tw");
        assert_eq!(
            (page.take().as_str(), page.holds()),
            ("one tw", false),
            "without a width nothing is held"
        );
    }

    #[test]
    fn flowing_text_is_wrapped_across_its_pieces() {
        let mut page = TextPage::new(false).within(10);
        page.flow(Style::Plain, "one two th").flow(Style::Plain, "ree\n    x  y").fresh_line();
        assert_eq!(page.take(), "one two\nthree\n    x  y\n");
        page.flow(Style::Plain, "one tw");
        assert_eq!((page.take(), page.holds()), ("one".to_owned(), true));
        page.release().flow(Style::Plain, "o ").flow(Style::Plain, "three").fresh_line();
        assert_eq!(page.take(), " two\nthree\n");
        let mut page = TextPage::new(false);
        page.flow(Style::Plain, "one two th");
        assert_eq!(page.take(), "one two th");
    }

    #[test]
    fn what_stands_last_on_a_line_is_cut_or_goes_to_the_next_one() {
        let mut page = TextPage::new(true).within(12);
        page.word(Style::Good, "idle").plain("  ").rest(Style::Plain, "a long label").end();
        page.word(Style::Good, "idle").tail(Style::Plain, "    ", "w_1").end();
        page.word(Style::Good, "idle").tail(Style::Plain, "    ", "w_0123456789").end();
        let good = "\u{1b}[32midle\u{1b}[0m";
        assert_eq!(page.take(), format!("{good}  a lon…\n{good}  w_1\n{good}\n    w_0123456789\n"));
    }

    #[test]
    fn text_is_cut_at_its_width_on_the_screen() {
        assert_eq!(shorten("abcdef", 6), "abcdef");
        assert_eq!(shorten("abcdefg", 6), "abcde…");
        assert_eq!(shorten("漢字漢字", 6), "漢字…");
        assert_eq!((shorten("ab", 1), shorten("ab", 0)), ("…".to_owned(), String::new()));
    }
}
