//! Runs a command whose stdout and stderr are a terminal, and keeps the screen's content.

use std::fs::File;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::process::{Child, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use nix::pty::{Winsize, openpty};
use nix::sys::signal::{Signal, kill};
use nix::sys::termios::{Termios, tcgetattr};
use nix::unistd::Pid;

use crate::harness::command::{Command, Said};
use crate::harness::wait::poll;

/// Time limit for text on a screen.
const DEADLINE: Duration = Duration::from_secs(60);
/// Time limit for the last output after a command's end.
const SCREEN_DEADLINE: Duration = Duration::from_secs(5);

/// The height of the terminal.
const ROWS: u16 = 24;

/// The streams of a command that are connected to the terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum On {
    /// Stdin, stdout and stderr together.
    All,
    /// Only stdout and stderr.
    Both,
    /// Only stderr; stdout is a pipe that is not read.
    Stderr,
}

/// A command at a terminal, which is killed on drop.
#[derive(Debug)]
pub struct AtTerminal {
    child: Option<Child>,
    screen: Said,
    keyboard: OwnedFd,
    columns: u16,
    /// Our copy of the command's side: without it the screen would end between two writers.
    _side: OwnedFd,
}

/// The screen after a command's end, including control codes.
#[derive(Debug)]
#[must_use]
pub struct Screen {
    /// How the command ended.
    pub status: ExitStatus,
    /// All bytes that were written.
    pub bytes: String,
}

impl Command {
    /// Starts the command at a terminal with this number of columns, as a person would. `TERM`
    /// declares colors unless the test says otherwise.
    ///
    /// # Panics
    ///
    /// If it cannot be started.
    #[track_caller]
    pub fn at_terminal(self, columns: u16, on: On) -> AtTerminal {
        let size = Winsize { ws_row: ROWS, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
        let pty = openpty(&size, None).unwrap();
        let side = || Stdio::from(pty.slave.try_clone().unwrap());
        let mut command = self.env_default("TERM", "xterm-256color").process();
        command.stdin(if on == On::All { side() } else { Stdio::null() }).stderr(side());
        command.stdout(if on == On::Stderr { Stdio::null() } else { side() });
        let child = command.spawn().unwrap();
        drop(command);
        let keyboard = pty.master.try_clone().unwrap();
        AtTerminal {
            child: Some(child),
            keyboard,
            columns,
            screen: Said::collect(File::from(pty.master)),
            _side: pty.slave,
        }
    }

    /// Runs it to its end at a terminal of 80 columns.
    #[track_caller]
    pub fn on_screen(self) -> Screen {
        self.at_terminal(80, On::Both).screen()
    }
}

impl AtTerminal {
    /// Waits until this text is on the screen.
    ///
    /// # Panics
    ///
    /// If it does not appear.
    #[track_caller]
    pub fn wait_for(&self, text: &str) {
        assert!(self.screen.wait_text(DEADLINE, text), "{text:?} is not in\n{:?}", self.screen.text());
    }

    /// Types this text at the terminal.
    ///
    /// # Panics
    ///
    /// If the terminal does not accept it.
    pub fn types(&self, text: &str) {
        assert_eq!(nix::unistd::write(&self.keyboard, text.as_bytes()), Ok(text.len()));
    }

    /// Returns the output so far.
    #[must_use]
    pub fn bytes(&self) -> String {
        self.screen.text()
    }

    /// What a person sees now of a program that draws all of the screen: its lines, and whether it has a screen of its own.
    #[must_use]
    pub fn picture(&self) -> (String, bool) {
        let mut terminal = vt100::Parser::new(ROWS, self.columns, 0);
        terminal.process(self.bytes().as_bytes());
        let screen = terminal.screen();
        let lines = screen.rows(0, self.columns).map(|line| line.trim_end().to_owned());
        (lines.collect::<Vec<_>>().join("\n"), screen.alternate_screen())
    }

    /// Waits until a person sees this.
    ///
    /// # Panics
    /// When it does not come.
    #[track_caller]
    pub fn sees(&self, text: &str) {
        let seen = poll(DEADLINE, || self.picture().0.contains(text).then_some(()));
        assert!(seen.is_some(), "{text:?} is not in\n{}", self.picture().0);
    }

    /// Gives the terminal another width, and notifies the command.
    ///
    /// # Panics
    /// When the system does not take it.
    pub fn resize(&mut self, columns: u16) {
        let size = Winsize { ws_row: ROWS, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
        // SAFETY: the call reads the size alone.
        #[allow(unsafe_code)]
        let set = unsafe { nix::libc::ioctl(self._side.as_raw_fd(), nix::libc::TIOCSWINSZ, &raw const size) };
        assert_eq!(set, 0);
        self.columns = columns;
        self.signal(Signal::SIGWINCH);
    }

    /// The modes of the terminal.
    ///
    /// # Panics
    /// When the system does not tell.
    #[must_use]
    pub fn modes(&self) -> Termios {
        tcgetattr(&self._side).unwrap()
    }

    /// The process.
    ///
    /// # Panics
    /// When it has ended.
    #[must_use]
    pub fn pid(&self) -> i32 {
        self.child.as_ref().unwrap().id().try_into().unwrap()
    }

    /// Sends it a signal.
    ///
    /// # Panics
    ///
    /// If the signal cannot be sent.
    pub fn signal(&self, signal: Signal) {
        let pid = self.child.as_ref().unwrap().id().try_into().unwrap();
        kill(Pid::from_raw(pid), signal).unwrap();
    }

    /// Waits for its end.
    ///
    /// # Panics
    ///
    /// If it does not end in time.
    #[track_caller]
    pub fn screen(mut self) -> Screen {
        let mut child = self.child.take().unwrap();
        let begun = Instant::now();
        let status = poll(DEADLINE, || child.try_wait().unwrap());
        if status.is_none() {
            let _ = child.kill();
            let _ = child.wait();
            panic!("it did not end within {:?}: {:?}", begun.elapsed(), self.screen.text());
        }
        // The terminal has no end while we hold its other side. This mark shows that everything
        // before it has arrived.
        let mark = "\u{1}the end\u{1}";
        nix::unistd::write(&self._side, mark.as_bytes()).unwrap();
        assert!(self.screen.wait_text(SCREEN_DEADLINE, mark), "{:?}", self.screen.text());
        let bytes = self.screen.text().replace(mark, "").replace("\r\n", "\n");
        Screen { status: status.unwrap(), bytes }
    }
}

impl Drop for AtTerminal {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

impl Screen {
    /// Returns the visible text, without color codes.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = String::new();
        let mut parts = self.bytes.split("\u{1b}[");
        text.push_str(parts.next().unwrap_or_default());
        for part in parts {
            if part.starts_with("2K") {
                // The line was erased.
                text.truncate(text.rfind('\n').map_or(0, |end| end + 1));
            }
            text.push_str(
                part.trim_start_matches(|c: char| c.is_ascii_digit() || c == ';')
                    .get(1..)
                    .unwrap_or_default(),
            );
        }
        text
    }

    /// Returns the visible lines.
    #[must_use]
    pub fn lines(&self) -> Vec<String> {
        self.text().lines().map(|line| line.trim_end().to_owned()).collect()
    }
}
