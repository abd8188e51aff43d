//! Where the text of `send` comes from: exactly one of four places.

use std::io;
use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};

use nix::sys::stat::{SFlag, fstat};

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

/// Reads the text of the positional form: TEXT, stdin if TEXT is `-` or absent, or both with a blank line between them if
/// stdin is a pipe or a file.
///
/// # Errors
/// `INVALID_INPUT` without a text.
pub(super) fn positional(typed: Option<String>) -> Result<Text> {
    let typed = typed.filter(|text| text != "-");
    let text = match (typed, stdin_has_text()) {
        (Some(text), false) => text,
        (Some(text), true) => match read_text(Path::new("-"))? {
            more if more.trim().is_empty() => text,
            more => format!("{}\n\n{more}", text.trim_end_matches('\n')),
        },
        (None, _) if !io::IsTerminal::is_terminal(&io::stdin()) => read_text(Path::new("-"))?,
        (None, _) => return Err(Failure::input("no text: give TEXT, or a pipe on stdin")),
    };
    match text.is_empty() {
        true => Err(Failure::input("no text: give TEXT, or a pipe on stdin that is not empty")),
        false => Ok(Text { text, from_command_line: false }),
    }
}

/// Returns whether stdin is a pipe or a file. A terminal and /dev/null hold no text.
fn stdin_has_text() -> bool {
    let kind =
        fstat(io::stdin().as_fd()).map(|stat| SFlag::from_bits_truncate(stat.st_mode & SFlag::S_IFMT.bits()));
    kind.is_ok_and(|kind| kind == SFlag::S_IFIFO || kind == SFlag::S_IFREG)
}

impl TextSources {
    /// Returns whether there is no source.
    pub(super) fn is_empty(&self) -> bool {
        self.input.is_none() && self.flag.is_none() && self.file.is_none() && !self.stdin
    }

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
