//! Where the text of a message comes from: exactly one of five places, and a pipe on stdin.

use std::fs::File;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use crate::command_line::flags::TextFlags;
use crate::context::present_path;
use crate::failure::{Failure, Result};
use crate::input::read_text;
use crate::output::complain;

/// After this time a person learns that the command waits for the end of stdin.
const STDIN_PATIENCE: Duration = Duration::from_secs(2);

/// Everything that may hold the text.
#[derive(Debug, Default)]
pub(crate) struct TextSources {
    /// The field `text` of `--input`.
    pub(crate) input: Option<String>,
    /// `--text`, even an empty one.
    pub(crate) flag: Option<String>,
    /// The path of `--text-file`.
    pub(crate) file: Option<PathBuf>,
    /// Whether `--text-stdin` was given.
    pub(crate) stdin: bool,
    /// The argument without a flag; `-` is stdin.
    pub(crate) argument: Option<String>,
    /// Whether a pipe on stdin belongs to the text: alone, or after the argument.
    pub(crate) takes_pipe: bool,
}

/// The text, and whether a shell may have changed it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct SourcedText {
    pub(crate) text: String,
    pub(crate) from_command_line: bool,
}

impl From<TextFlags> for TextSources {
    fn from(flags: TextFlags) -> Self {
        let TextFlags { text, text_file, text_stdin } = flags;
        Self { flag: text, file: present_path(text_file), stdin: text_stdin, ..Self::default() }
    }
}

impl TextSources {
    /// Reads the one source.
    ///
    /// # Errors
    /// `INVALID_INPUT` for none, several, and one that cannot be read.
    pub(crate) fn read(self) -> Result<SourcedText> {
        let count = usize::from(self.input.is_some())
            + usize::from(self.flag.is_some())
            + usize::from(self.file.is_some())
            + usize::from(self.stdin)
            + usize::from(self.argument.is_some());
        if count > 1 {
            return Err(Failure::input(
                "give the text in exactly one of --text, --text-file, --text-stdin and text in --input",
            ));
        }
        if let Some(text) = self.flag {
            return Ok(SourcedText { text, from_command_line: true });
        }
        let of_file = |text| Ok(SourcedText { text, from_command_line: false });
        match (self.input, self.file, self.argument) {
            (Some(text), ..) => of_file(text),
            (None, Some(path), _) => of_file(read_text(&path)?),
            (None, None, Some(argument)) if argument != "-" => {
                let piped = if self.takes_pipe && is_piped() { read_pipe()? } else { String::new() };
                Ok(SourcedText { text: joined(argument, &piped), from_command_line: true })
            }
            (None, None, Some(_)) => of_file(read_text(Path::new("-"))?),
            (None, None, None) if self.stdin => of_file(read_text(Path::new("-"))?),
            (None, None, None) if self.takes_pipe && is_piped() => of_file(read_pipe()?),
            (None, None, None) => Err(Failure::input(match self.takes_pipe {
                true => "no text: give it as an argument, through a pipe, or by --text or --text-file",
                false => "no text: give --text, --text-file, --text-stdin, or text in --input",
            })),
        }
    }
}

/// The argument, and what a pipe holds after a blank line.
fn joined(argument: String, piped: &str) -> String {
    if piped.trim().is_empty() { argument } else { format!("{argument}\n\n{piped}") }
}

/// Whether stdin is a pipe or a file: a terminal, `/dev/null` and a socket hold no text for a message.
fn is_piped() -> bool {
    let stdin: Option<OwnedFd> = std::io::stdin().as_fd().try_clone_to_owned().ok();
    let file_type = stdin.and_then(|stdin| Some(File::from(stdin).metadata().ok()?.file_type()));
    file_type.is_some_and(|file_type| file_type.is_fifo() || file_type.is_file())
}

/// All of stdin. A pipe that stays open is waited for, with a line that says so.
fn read_pipe() -> Result<String> {
    let (send, read) = channel();
    std::thread::spawn(move || drop(send.send(read_text(Path::new("-")))));
    let lost = || Err(Failure::internal("stdin was not read to its end"));
    match read.recv_timeout(STDIN_PATIENCE) {
        Ok(text) => text,
        Err(RecvTimeoutError::Disconnected) => lost(),
        Err(RecvTimeoutError::Timeout) => {
            complain(
                "waiting for the end of stdin, which is part of the message; `</dev/null` leaves it out",
            );
            read.recv().unwrap_or_else(|_| lost())
        }
    }
}

#[cfg(test)]
mod tests {
    use subagent_protocol::Code;

    use super::*;

    #[test]
    fn an_empty_flag_is_a_source() {
        let text = TextSources { flag: Some(String::new()), ..TextSources::default() }.read().unwrap();
        assert_eq!(text, SourcedText { text: String::new(), from_command_line: true });
    }

    #[test]
    fn a_pipe_follows_the_argument_after_a_blank_line() {
        assert_eq!(joined("Review this".to_owned(), "diff\n"), "Review this\n\ndiff\n");
        assert_eq!(joined("Review this".to_owned(), " \n"), "Review this");
    }

    #[test]
    fn files_are_taken_as_they_are() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("t");
        std::fs::write(&path, " ä\n\n").unwrap();
        let text = TextSources { file: Some(path), ..TextSources::default() }.read().unwrap();
        assert_eq!(text, SourcedText { text: " ä\n\n".to_owned(), from_command_line: false });
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
            TextSources { argument: Some("a".into()), stdin: true, ..TextSources::default() },
        ];
        for sources in two {
            let failure = sources.read().unwrap_err();
            assert!(failure.is(Code::InvalidInput) && failure.message.contains("exactly one"), "{failure}");
        }
    }
}
