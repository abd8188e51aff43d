//! Where the text of `send` comes from: exactly one of four places.

use std::path::{Path, PathBuf};

use crate::failure::{Failure, Result};
use crate::input::read_text;

/// Everything that may hold the text.
#[derive(Debug, Default)]
pub(super) struct TextSources {
    /// `text` of `--input`.
    pub(super) input: Option<String>,
    /// `--text`, even an empty one.
    pub(super) flag: Option<String>,
    /// `--text-file`.
    pub(super) file: Option<PathBuf>,
    /// `--text-stdin`.
    pub(super) stdin: bool,
}

/// The text, and whether a shell may have changed it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Text {
    pub(super) text: String,
    pub(super) from_command_line: bool,
}

impl TextSources {
    /// Reads the one source.
    pub(super) fn read(self) -> Result<Text> {
        let count = usize::from(self.input.is_some())
            + usize::from(self.flag.is_some())
            + usize::from(self.file.is_some())
            + usize::from(self.stdin);
        if count > 1 {
            return Err(Failure::input(
                "give the text in exactly one of --text, --text-file, --text-stdin and text in --input",
            ));
        }
        if let Some(text) = self.flag {
            return Ok(Text { text, from_command_line: true });
        }
        let text = match (self.input, self.file, self.stdin) {
            (Some(text), _, _) => text,
            (None, Some(path), _) => read_text(&path)?,
            (None, None, true) => read_text(Path::new("-"))?,
            (None, None, false) => {
                return Err(Failure::input(
                    "no text: give --text, --text-file, --text-stdin, or text in --input",
                ));
            }
        };
        Ok(Text { text, from_command_line: false })
    }
}

#[cfg(test)]
mod tests {
    use subagent_protocol::Code;

    use super::*;

    #[test]
    fn an_empty_flag_is_a_source() {
        let text = TextSources { flag: Some(String::new()), ..TextSources::default() }.read().unwrap();
        assert_eq!(text, Text { text: String::new(), from_command_line: true });
    }

    #[test]
    fn files_are_taken_as_they_are() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("t");
        std::fs::write(&path, " ä\n\n").unwrap();
        let text = TextSources { file: Some(path), ..TextSources::default() }.read().unwrap();
        assert_eq!(text, Text { text: " ä\n\n".to_owned(), from_command_line: false });
        let missing = TextSources { file: Some(dir.path().join("none")), ..TextSources::default() };
        let failure = missing.read().unwrap_err();
        assert!(failure.is(Code::InvalidInput));
        assert!(failure.details.contains_key("path") && failure.details.contains_key("error"));
    }

    #[test]
    fn none_and_more_than_one_are_errors() {
        let failure = TextSources::default().read().unwrap_err();
        assert!(failure.is(Code::InvalidInput), "{failure}");
        let two = [
            TextSources { input: Some("a".into()), flag: Some("b".into()), ..TextSources::default() },
            TextSources { flag: Some(String::new()), file: Some("f".into()), ..TextSources::default() },
            TextSources { flag: Some("b".into()), stdin: true, ..TextSources::default() },
            TextSources { file: Some("f".into()), stdin: true, ..TextSources::default() },
        ];
        for sources in two {
            let failure = sources.read().unwrap_err();
            assert!(failure.is(Code::InvalidInput) && failure.message.contains("exactly one"), "{failure}");
        }
    }
}
