//! The options of a measuring run. Pure: parses arguments.

/// The selected rows and their duration.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MeasureOptions {
    /// The selected rows; empty means all.
    pub only: Vec<String>,
    /// A short run, to check that everything works.
    pub quick: bool,
    /// Also measure the journal of 5 million events.
    pub five_million: bool,
    /// Watch the crowd in the panel for 10 minutes instead of 2.
    pub ten_minutes: bool,
}

impl MeasureOptions {
    /// Parses the arguments after the program's name; `rows` are the existing rows.
    ///
    /// # Errors
    ///
    /// What is wrong, and the valid names.
    pub fn parse(words: impl IntoIterator<Item = String>, rows: &[&str]) -> Result<Self, String> {
        let mut options = Self::default();
        for word in words {
            match word.as_str() {
                "--quick" => options.quick = true,
                "--five-million" => options.five_million = true,
                "--ten-minutes" => options.ten_minutes = true,
                // Cargo passes this to every benchmark.
                "--bench" => {}
                name if rows.contains(&name) => options.only.push(word),
                _ => {
                    let rows = rows.join(", ");
                    return Err(format!(
                        "{word} is neither --quick, --five-million, --ten-minutes nor one of the rows: {rows}"
                    ));
                }
            }
        }
        Ok(options)
    }

    /// Whether this row is selected.
    #[must_use]
    pub fn wants(&self, row: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|name| name == row)
    }

    /// Whether the run covers everything in the document.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.only.is_empty() && !self.quick
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(words: &[&str]) -> Result<MeasureOptions, String> {
        MeasureOptions::parse(words.iter().map(|word| (*word).to_owned()), &["list", "send"])
    }

    #[test]
    fn without_words_all_rows_are_run_for_the_document() {
        let options = parse(&["--bench"]).unwrap();
        assert!(options.is_whole() && options.wants("list") && options.wants("send"));
        assert!(parse(&["--five-million"]).unwrap().is_whole());
        let long = parse(&["--ten-minutes"]).unwrap();
        assert!(long.is_whole() && long.ten_minutes && !options.ten_minutes);
    }

    #[test]
    fn a_part_is_not_for_the_document() {
        let options = parse(&["send"]).unwrap();
        assert!(!options.is_whole() && !options.wants("list") && options.wants("send"));
        assert!(!parse(&["--quick"]).unwrap().is_whole());
    }

    #[test]
    fn what_is_unknown_is_reported_with_what_there_is() {
        let error = parse(&["lost"]).unwrap_err();
        assert!(error.contains("lost") && error.contains("list, send"), "{error}");
    }
}
