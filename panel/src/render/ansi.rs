//! What a command printed, as spans with colours. Escape sequences that do anything but colour are dropped.

use std::fmt::Write as _;

use anstyle_parse::{DefaultCharAccumulator, Params, Parser, Perform};

use super::{Element, MarkupNode, tail};

/// The last bytes of an output that are shown.
const MAX_BYTES: usize = 128 * 1024;
/// The maximum number of spans; what follows has no colours.
const MAX_SPANS: usize = 4000;

/// The output, and how many bytes at its beginning are left out.
pub(crate) fn spans(text: &str) -> (Vec<MarkupNode>, usize) {
    let (shown, left_out) = tail(text, MAX_BYTES);
    let mut screen = AnsiScreen::default();
    let mut parser = Parser::<DefaultCharAccumulator>::new();
    shown.bytes().for_each(|byte| parser.advance(&mut screen, byte));
    screen.end_line("");
    let nodes = screen.done.into_iter().map(|(look, text)| match look.is_empty() {
        true => MarkupNode::text(&text),
        false => MarkupNode::Element(Element {
            look,
            children: vec![MarkupNode::text(&text)],
            ..Element::new("span")
        }),
    });
    (nodes.collect(), left_out)
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct TextStyle {
    fore: Option<u8>,
    back: Option<u8>,
    bold: bool,
    dim: bool,
    italic: bool,
    underlined: bool,
    inverse: bool,
}

impl TextStyle {
    /// The words for it, which the page knows.
    fn words(self) -> String {
        let mut words = String::new();
        let (fore, back) = if self.inverse { (self.back, self.fore) } else { (self.fore, self.back) };
        for (kind, colour) in [("f", fore), ("b", back)] {
            if let Some(colour) = colour {
                let _ = write!(words, "{kind}{colour} ");
            }
        }
        let rest = [
            (self.bold, "bold "),
            (self.dim, "dim "),
            (self.italic, "italic "),
            (self.underlined, "underlined "),
            (self.inverse && fore.is_none() && back.is_none(), "inverse "),
        ];
        rest.iter().filter(|(is, _)| *is).for_each(|(_, word)| words.push_str(word));
        words.truncate(words.trim_end().len());
        words
    }

    fn apply(&mut self, params: &Params) {
        let mut codes = params.iter().flatten().copied();
        let mut any = false;
        while let Some(code) = codes.next() {
            any = true;
            let small = |base: u16| u8::try_from(code - base).ok();
            match code {
                0 => *self = Self::default(),
                1 => self.bold = true,
                2 => self.dim = true,
                3 => self.italic = true,
                4 => self.underlined = true,
                7 => self.inverse = true,
                22 => (self.bold, self.dim) = (false, false),
                23 => self.italic = false,
                24 => self.underlined = false,
                27 => self.inverse = false,
                30..=37 => self.fore = small(30),
                39 => self.fore = None,
                40..=47 => self.back = small(40),
                49 => self.back = None,
                90..=97 => self.fore = small(82),
                100..=107 => self.back = small(92),
                38 | 48 => {
                    // One of 256 colours (the first 16 have names), or three numbers.
                    let colour = match codes.next() {
                        Some(5) => codes.next().and_then(|n| u8::try_from(n).ok()).filter(|n| *n < 16),
                        Some(2) => codes.by_ref().take(3).last().and(None),
                        _ => None,
                    };
                    if code == 38 { self.fore = colour } else { self.back = colour }
                }
                _ => {}
            }
        }
        if !any {
            *self = Self::default();
        }
    }
}

#[derive(Default)]
struct AnsiScreen {
    done: Vec<(String, String)>,
    line: Vec<(TextStyle, String)>,
    look: TextStyle,
    /// The cursor is at the beginning of the line: what comes next replaces it.
    returned: bool,
}

impl AnsiScreen {
    fn end_line(&mut self, end: &str) {
        for (look, text) in std::mem::take(&mut self.line) {
            self.finish(&look.words(), &text);
        }
        self.returned = false;
        self.finish("", end);
    }

    fn finish(&mut self, look: &str, text: &str) {
        let plain = self.done.len() >= MAX_SPANS;
        let look = if plain { "" } else { look };
        match self.done.last_mut() {
            _ if text.is_empty() => {}
            Some((last, before)) if last == look || plain => before.push_str(text),
            _ => self.done.push((look.to_owned(), text.to_owned())),
        }
    }
}

impl Perform for AnsiScreen {
    fn print(&mut self, c: char) {
        if std::mem::take(&mut self.returned) {
            self.line.clear();
        }
        match self.line.last_mut() {
            Some((look, text)) if *look == self.look => text.push(c),
            _ => self.line.push((self.look, c.to_string())),
        }
    }

    fn execute(&mut self, byte: u8) {
        match byte {
            b'\n' => self.end_line("\n"),
            b'\r' => self.returned = true,
            b'\t' => self.print('\t'),
            8 => {
                if let Some((_, text)) = self.line.last_mut() {
                    text.pop();
                }
            }
            _ => {}
        }
    }

    fn csi_dispatch(&mut self, params: &Params, intermediates: &[u8], _ignore: bool, action: u8) {
        match action {
            b'm' if intermediates.is_empty() => self.look.apply(params),
            // Erases the line, as a progress bar does before it is written again.
            b'K' => self.returned = self.returned || params.iter().flatten().any(|code| *code == 2),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    fn shown(text: &str) -> Value {
        serde_json::to_value(spans(text).0).unwrap()
    }

    #[test]
    fn colours_become_words_and_all_else_is_dropped() {
        assert_eq!(
            shown("ok \u{1b}[1;32mgreen\u{1b}[0m\nx\u{1b}[38;5;9my\u{1b}[38;2;1;2;3mz\u{1b}]0;title\u{7}!"),
            json!(["ok ", {"t": "span", "k": "f2 bold", "c": ["green"]}, "\nx", {"t": "span", "k": "f9", "c": ["y"]}, "z!"])
        );
        assert_eq!(shown("\u{1b}[2J\u{1b}[H\u{1b}[31"), json!([]));
        assert_eq!(shown("\u{1b}[7mx"), json!([{"t": "span", "k": "inverse", "c": ["x"]}]));
    }

    #[test]
    fn a_line_that_is_written_again_is_shown_once() {
        assert_eq!(shown("10%\r20%\r\ndone\r\n"), json!(["20%\ndone\n"]));
        assert_eq!(shown("abc\u{8}d"), json!(["abd"]));
    }

    #[test]
    fn the_end_of_a_long_output_counts() {
        let text = "line\n".repeat(MAX_BYTES / 4);
        let (nodes, left_out) = spans(&text);
        let Some(MarkupNode::Text(shown)) = nodes.first() else { panic!("{nodes:?}") };
        assert!(shown.starts_with("line\n") && shown.len() + left_out == text.len());
        let colours = "\u{1b}[31ma\u{1b}[32mb".repeat(MAX_SPANS);
        assert!(spans(&colours).0.len() <= MAX_SPANS + 1);
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let text = String::from_utf8_lossy(&bytes).replace('a', "\u{1b}[");
            let (nodes, _) = spans(&text);
            let page = serde_json::to_string(&nodes).unwrap();
            prop_assert!(!page.contains("\\u001b"));
        }
    }
}
