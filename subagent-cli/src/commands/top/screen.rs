//! The terminal of a board: its own screen without echo, and the shell's again however the board ends.

use std::io::{self, BufWriter, Stdout, Write as _};
use std::os::fd::AsFd as _;
use std::panic;

use ratatui::backend::CrosstermBackend;
use ratatui::{Frame, Terminal};

use crate::dialog::keyboard::{Keyboard, RawMode, stop_for_shell};

/// Another screen, pastes marked, no cursor, nothing on it.
const ENTER: &str = "\u{1b}[?1049h\u{1b}[?2004h\u{1b}[?25l\u{1b}[2J";
/// All of that back.
const LEAVE: &str = "\u{1b}[0m\u{1b}[?25h\u{1b}[?2004l\u{1b}[?1049l";
/// What is gathered before it is written.
const BUFFER_BYTES: usize = 64 * 1024;

type ScreenBackend = CrosstermBackend<BufWriter<Stdout>>;

/// The screen, while the board has it.
#[derive(Debug)]
pub(super) struct BoardScreen {
    terminal: Option<Terminal<ScreenBackend>>,
    raw: Option<RawMode>,
}

impl BoardScreen {
    /// Takes the screen. A panic gives it back before it says what it was.
    ///
    /// # Errors
    /// When the terminal does not take it.
    pub(super) fn open(keyboard: &Keyboard) -> io::Result<Self> {
        let mut screen = Self { terminal: None, raw: None };
        screen.enter(keyboard)?;
        if let Some(raw) = &screen.raw {
            let raw = raw.try_clone()?;
            let before = panic::take_hook();
            panic::set_hook(Box::new(move |info| {
                leave(&raw);
                before(info);
            }));
        }
        Ok(screen)
    }

    /// Takes the screen again, and draws all of it with the next picture.
    ///
    /// # Errors
    /// When the terminal does not take it.
    pub(super) fn enter(&mut self, keyboard: &Keyboard) -> io::Result<()> {
        if self.raw.is_none() {
            self.raw = Some(keyboard.raw()?);
        }
        let mut stdout = io::stdout();
        stdout.write_all(ENTER.as_bytes())?;
        stdout.flush()?;
        let out = BufWriter::with_capacity(BUFFER_BYTES, io::stdout());
        self.terminal = Some(Terminal::new(CrosstermBackend::new(out))?);
        Ok(())
    }

    /// Gives the screen back.
    pub(super) fn leave(&mut self) {
        self.terminal = None;
        if let Some(raw) = self.raw.take() {
            leave(&raw);
        }
    }

    /// Draws a picture.
    ///
    /// # Errors
    /// When it cannot be written.
    pub(super) fn draw(&mut self, picture: impl FnOnce(&mut Frame<'_>)) -> io::Result<()> {
        match &mut self.terminal {
            Some(terminal) => terminal.draw(picture).map(drop),
            None => Ok(()),
        }
    }

    /// Leaves the screen and stops for the shell. Returns when the process continues.
    pub(super) fn suspend(&mut self) {
        self.leave();
        stop_for_shell();
    }
}

impl Drop for BoardScreen {
    fn drop(&mut self) {
        self.leave();
    }
}

/// Gives the shell its screen and its modes.
fn leave(raw: &RawMode) {
    // Written past the locks of the standard library: a panic may have come while they were held.
    let _ = nix::unistd::write(io::stdout().as_fd(), LEAVE.as_bytes());
    raw.restore();
}
