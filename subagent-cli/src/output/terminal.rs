//! What is at the other end of stdout and stderr: a terminal or not, how wide, with colours or not.
//! Only this module decides it. An output that is not a terminal gets the lines and documents of
//! the contract; the variables cannot change that.

use std::ffi::OsStr;
use std::io::{self, IsTerminal as _};
use std::os::fd::{AsFd, BorrowedFd};

use nix::unistd::{getpgrp, tcgetpgrp};

/// The width that is assumed of a terminal that does not tell.
const USUAL_WIDTH: usize = 80;
/// The same of the height.
const USUAL_HEIGHT: usize = 24;

/// A terminal that output goes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OutputTerminal {
    /// The width of the terminal, in columns.
    pub width: usize,
    /// Whether colours are wanted.
    pub colour: bool,
}

impl OutputTerminal {
    /// The terminal of stdout, if it is one.
    #[must_use]
    pub fn of_stdout() -> Option<Self> {
        io::stdout().is_terminal().then(|| Self::at(io::stdout().as_fd()))
    }

    /// The terminal of stderr, if it is one.
    #[must_use]
    pub fn of_stderr() -> Option<Self> {
        io::stderr().is_terminal().then(|| Self::at(io::stderr().as_fd()))
    }

    fn at(terminal: BorrowedFd<'_>) -> Self {
        let var = |name| std::env::var_os(name);
        Self {
            width: width_of(terminal),
            colour: wants_colour(
                var("NO_COLOR").as_deref(),
                var("CLICOLOR_FORCE").as_deref(),
                var("TERM").as_deref(),
            ),
        }
    }
}

/// Whether stdout and stderr are a terminal: a person sees both.
#[must_use]
pub fn all_at_terminal() -> bool {
    io::stdout().is_terminal() && io::stderr().is_terminal()
}

/// Whether a line on stderr may be drawn and erased: a terminal that can do so, which this process is in front of.
#[must_use]
pub fn can_redraw_stderr() -> bool {
    can_redraw(io::stderr().as_fd())
}

/// The same of stdout.
#[must_use]
pub fn can_redraw_stdout() -> bool {
    can_redraw(io::stdout().as_fd())
}

fn can_redraw(output: BorrowedFd<'_>) -> bool {
    output.is_terminal() && is_in_front(&output) && !is_dumb(std::env::var_os("TERM").as_deref())
}

/// Whether this process is in the foreground of a terminal. A terminal that is not the one of its session has no
/// foreground for it.
#[must_use]
pub fn is_in_front(terminal: &impl AsFd) -> bool {
    tcgetpgrp(terminal).map_or(true, |group| group == getpgrp())
}

/// How many columns and lines stdout's terminal has now.
#[must_use]
pub fn stdout_size() -> (usize, usize) {
    match terminal_size::terminal_size_of(io::stdout().as_fd()) {
        Some((terminal_size::Width(columns), terminal_size::Height(lines))) if columns > 0 && lines > 0 => {
            (columns.into(), lines.into())
        }
        _ => (USUAL_WIDTH, USUAL_HEIGHT),
    }
}

/// The width of stderr's terminal now: a window may be resized at any time.
#[must_use]
pub fn stderr_width() -> usize {
    width_of(io::stderr().as_fd())
}

fn width_of(terminal: BorrowedFd<'_>) -> usize {
    match terminal_size::terminal_size_of(terminal) {
        Some((terminal_size::Width(columns), _)) if columns > 0 => columns.into(),
        _ => USUAL_WIDTH,
    }
}

/// <https://no-color.org> and <https://bixense.com/clicolors>; the refusal wins.
fn wants_colour(no_color: Option<&OsStr>, force: Option<&OsStr>, term: Option<&OsStr>) -> bool {
    let refused = no_color.is_some_and(|value| !value.is_empty());
    let forced = force.is_some_and(|value| !value.is_empty() && value != "0");
    !refused && (forced || !is_dumb(term))
}

fn is_dumb(term: Option<&OsStr>) -> bool {
    term.is_none_or(|term| term.is_empty() || term == "dumb")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_are_for_terminals_that_have_them_and_people_who_want_them() {
        let colour = |no: Option<&str>, force: Option<&str>, term: Option<&str>| {
            wants_colour(no.map(OsStr::new), force.map(OsStr::new), term.map(OsStr::new))
        };
        assert!(colour(None, None, Some("xterm-256color")));
        assert!(colour(Some(""), None, Some("xterm")));
        assert!(!colour(Some("1"), Some("1"), Some("xterm")));
        assert!(!colour(None, None, Some("dumb")));
        assert!(!colour(None, None, None));
        assert!(!colour(None, Some("0"), Some("dumb")));
        assert!(colour(None, Some("1"), Some("dumb")));
    }
}
