//! Text of a word after quote removal. Parts that are known only at run time are marked. Pure.

use super::super::glob::GlobUnit;

/// The text of one or more words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in super::super) struct ShellText {
    /// The text without quotes; expansions as written.
    pub(in super::super) shown: String,
    /// The text with an open unit per expansion; `None` if all of it is known.
    pub(in super::super) units: Option<Vec<GlobUnit>>,
    /// Whether it may become several words or none, because of an unquoted expansion.
    pub(in super::super) splits: bool,
}

/// The value of `~` before a slash.
const HOME: &[GlobUnit] = &[GlobUnit::Char('/'), GlobUnit::Open];

impl ShellText {
    pub(in super::super) fn literal(text: &str) -> Self {
        Self { shown: text.to_owned(), units: None, splits: false }
    }

    /// Creates a text that may become anything.
    pub(in super::super) fn open(shown: &str) -> Self {
        Self { shown: shown.to_owned(), units: Some(vec![GlobUnit::Open]), splits: true }
    }

    pub(super) fn is_open(&self) -> bool {
        self.units.is_some()
    }

    /// Returns the text if all of it is known.
    pub(super) fn known(&self) -> Option<&str> {
        if self.is_open() { None } else { Some(&self.shown) }
    }

    /// Returns only the known part.
    pub(super) fn known_part(&self) -> String {
        match &self.units {
            None => self.shown.clone(),
            Some(units) => units
                .iter()
                .filter_map(|unit| match unit {
                    GlobUnit::Char(char) => Some(*char),
                    GlobUnit::Open => None,
                })
                .collect(),
        }
    }

    /// Whether it begins with the home and the rest is known.
    fn is_at_home(&self) -> bool {
        let rest = self.units.as_deref().and_then(|units| units.strip_prefix(HOME));
        self.shown.starts_with("~/") && rest.is_some_and(|rest| !rest.contains(&GlobUnit::Open))
    }

    /// Whether the program with this name is known only at run time.
    pub(super) fn is_unknown(&self) -> bool {
        self.is_open() && !self.is_at_home()
    }

    /// Returns the path that the shell opens; `None` if it is known only at run time.
    pub(super) fn as_path(&self) -> Option<String> {
        if self.is_at_home() {
            return Some(self.shown.clone());
        }
        // A quoted `~/` or `file:` is a relative path.
        let is_address = |path: &str| path.get(..5).is_some_and(|start| start.eq_ignore_ascii_case("file:"));
        let looks = |path: &str| path.starts_with("~/") || path.starts_with("$HOME/") || is_address(path);
        self.known().map(|path| if looks(path) { format!("./{path}") } else { path.to_owned() })
    }

    /// Joins words with spaces.
    pub(super) fn joined(words: &[Self]) -> Self {
        let shown = words.iter().map(|word| word.shown.as_str()).collect::<Vec<_>>().join(" ");
        if words.iter().all(|word| word.units.is_none()) {
            return Self { shown, units: None, splits: false };
        }
        let splits = words.iter().any(|word| word.splits);
        let mut units = Vec::with_capacity(shown.len());
        for (at, word) in words.iter().enumerate() {
            // An unquoted expansion may become no word, without a space.
            if at > 0 && !(word.splits && word.units.as_deref() == Some(&[GlobUnit::Open])) {
                units.push(GlobUnit::Char(' '));
            }
            match &word.units {
                Some(open) => units.extend(open),
                None => units.extend(word.shown.chars().map(GlobUnit::Char)),
            }
        }
        Self { shown, units: Some(units), splits }
    }
}

/// Builds a text from start to end.
#[derive(Debug, Default)]
pub(super) struct TextBuilder {
    shown: String,
    units: Vec<GlobUnit>,
    open: bool,
    splits: bool,
    /// Whether the rest of the word is part of an open unit.
    rest: bool,
}

impl TextBuilder {
    pub(super) fn char(&mut self, char: char) {
        self.shown.push(char);
        if !self.rest {
            self.units.push(GlobUnit::Char(char));
        }
    }

    /// Appends an unquoted expansion.
    pub(super) fn open(&mut self, written: &str) {
        self.open_in_quotes(written);
        self.splits = true;
    }

    /// Appends a quoted expansion, which does not split its word.
    pub(super) fn open_in_quotes(&mut self, written: &str) {
        self.shown.push_str(written);
        if !self.rest {
            self.units.push(GlobUnit::Open);
        }
        self.open = true;
    }

    /// Appends the start of a pattern. The rest of the word is open, too.
    pub(super) fn open_rest(&mut self, written: &str) {
        self.open(written);
        self.rest = true;
    }

    /// Appends a `~` before a slash.
    pub(super) fn home(&mut self) {
        self.shown.push('~');
        self.units.extend(HOME);
        self.open = true;
    }

    pub(super) fn finish(self) -> ShellText {
        ShellText { shown: self.shown, units: self.open.then_some(self.units), splits: self.splits }
    }
}
