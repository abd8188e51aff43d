//! The text of a word after quote removal, with marks where only the running shell knows it. Pure.

use super::super::glob::Unit;

/// The text of one word or of several.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in super::super) struct Text {
    /// Without quotes. Expansions stand as they are written.
    pub(in super::super) shown: String,
    /// The same with an open unit for each expansion; `None` if all of it is known.
    pub(in super::super) units: Option<Vec<Unit>>,
    /// Whether it may become several words or none: an expansion in it is not quoted.
    pub(in super::super) splits: bool,
}

/// What `~` in front of a slash becomes.
const HOME: &[Unit] = &[Unit::Char('/'), Unit::Open];

impl Text {
    pub(in super::super) fn literal(text: &str) -> Self {
        Self { shown: text.to_owned(), units: None, splits: false }
    }

    /// A text that may become anything.
    pub(in super::super) fn open(shown: &str) -> Self {
        Self { shown: shown.to_owned(), units: Some(vec![Unit::Open]), splits: true }
    }

    pub(super) fn is_open(&self) -> bool {
        self.units.is_some()
    }

    /// The text, if all of it is known.
    pub(super) fn known(&self) -> Option<&str> {
        if self.is_open() { None } else { Some(&self.shown) }
    }

    /// Only what is known of it.
    pub(super) fn known_part(&self) -> String {
        match &self.units {
            None => self.shown.clone(),
            Some(units) => units
                .iter()
                .filter_map(|unit| match unit {
                    Unit::Char(char) => Some(*char),
                    Unit::Open => None,
                })
                .collect(),
        }
    }

    /// Whether it begins with the home and the rest is known.
    fn is_at_home(&self) -> bool {
        let rest = self.units.as_deref().and_then(|units| units.strip_prefix(HOME));
        self.shown.starts_with("~/") && rest.is_some_and(|rest| !rest.contains(&Unit::Open))
    }

    /// Whether a program of this name is known only when the line runs.
    pub(super) fn is_unknown(&self) -> bool {
        self.is_open() && !self.is_at_home()
    }

    /// The path that the shell opens, unless only the running shell knows it.
    pub(super) fn as_path(&self) -> Option<String> {
        if self.is_at_home() {
            return Some(self.shown.clone());
        }
        // A quoted `~/` or `file:` is a plain relative path.
        let is_address = |path: &str| path.get(..5).is_some_and(|start| start.eq_ignore_ascii_case("file:"));
        let looks = |path: &str| path.starts_with("~/") || path.starts_with("$HOME/") || is_address(path);
        self.known().map(|path| if looks(path) { format!("./{path}") } else { path.to_owned() })
    }

    /// Words with one space between them.
    pub(super) fn joined(words: &[Self]) -> Self {
        let shown = words.iter().map(|word| word.shown.as_str()).collect::<Vec<_>>().join(" ");
        if words.iter().all(|word| word.units.is_none()) {
            return Self { shown, units: None, splits: false };
        }
        let splits = words.iter().any(|word| word.splits);
        let mut units = Vec::with_capacity(shown.len());
        for (at, word) in words.iter().enumerate() {
            // An expansion alone may become no word at all: then its space goes as well.
            if at > 0 && !(word.splits && word.units.as_deref() == Some(&[Unit::Open])) {
                units.push(Unit::Char(' '));
            }
            match &word.units {
                Some(open) => units.extend(open),
                None => units.extend(word.shown.chars().map(Unit::Char)),
            }
        }
        Self { shown, units: Some(units), splits }
    }
}

/// Collects a text from its start to its end.
#[derive(Debug, Default)]
pub(super) struct TextBuilder {
    shown: String,
    units: Vec<Unit>,
    open: bool,
    splits: bool,
    /// Whether the rest of the word belongs to an open unit.
    rest: bool,
}

impl TextBuilder {
    pub(super) fn char(&mut self, char: char) {
        self.shown.push(char);
        if !self.rest {
            self.units.push(Unit::Char(char));
        }
    }

    /// Adds an expansion as it is written.
    pub(super) fn open(&mut self, written: &str) {
        self.open_in_quotes(written);
        self.splits = true;
    }

    /// Adds an expansion that stays part of its word.
    pub(super) fn open_in_quotes(&mut self, written: &str) {
        self.shown.push_str(written);
        if !self.rest {
            self.units.push(Unit::Open);
        }
        self.open = true;
    }

    /// Adds the start of a pattern: it and the rest of the word are open.
    pub(super) fn open_rest(&mut self, written: &str) {
        self.open(written);
        self.rest = true;
    }

    /// Adds the `~` in front of a slash.
    pub(super) fn home(&mut self) {
        self.shown.push('~');
        self.units.extend(HOME);
        self.open = true;
    }

    pub(super) fn finish(self) -> Text {
        Text { shown: self.shown, units: self.open.then_some(self.units), splits: self.splits }
    }
}
