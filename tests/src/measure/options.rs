//! What a run of the measuring was asked for. Pure: it reads words.

/// Which rows, and how long.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Options {
    /// The rows that are wanted; all of them if there is none.
    pub only: Vec<String>,
    /// A short run, to see that everything works.
    pub quick: bool,
    /// The journal of 5 million events as well.
    pub five_million: bool,
}

impl Options {
    /// Reads the words of a command line, without the program; `rows` are those that there are.
    ///
    /// # Errors
    /// What is wrong, and what there is.
    pub fn parse(words: impl IntoIterator<Item = String>, rows: &[&str]) -> Result<Self, String> {
        let mut options = Self::default();
        for word in words {
            match word.as_str() {
                "--quick" => options.quick = true,
                "--five-million" => options.five_million = true,
                // Cargo says it to everything that it measures.
                "--bench" => {}
                name if rows.contains(&name) => options.only.push(word),
                _ => {
                    let rows = rows.join(", ");
                    return Err(format!(
                        "{word} is neither --quick, --five-million nor one of the rows: {rows}"
                    ));
                }
            }
        }
        Ok(options)
    }

    /// Whether this row is wanted.
    #[must_use]
    pub fn wants(&self, row: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|name| name == row)
    }

    /// Whether the run is all that the document is about.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.only.is_empty() && !self.quick
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(words: &[&str]) -> Result<Options, String> {
        Options::parse(words.iter().map(|word| (*word).to_owned()), &["list", "send"])
    }

    #[test]
    fn without_words_all_rows_are_run_for_the_document() {
        let options = parse(&["--bench"]).unwrap();
        assert!(options.is_whole() && options.wants("list") && options.wants("send"));
        assert!(parse(&["--five-million"]).unwrap().is_whole());
    }

    #[test]
    fn a_part_is_not_for_the_document() {
        let options = parse(&["send"]).unwrap();
        assert!(!options.is_whole() && !options.wants("list") && options.wants("send"));
        assert!(!parse(&["--quick"]).unwrap().is_whole());
    }

    #[test]
    fn what_is_unknown_is_told_with_what_there_is() {
        let error = parse(&["lost"]).unwrap_err();
        assert!(error.contains("lost") && error.contains("list, send"), "{error}");
    }
}
