//! Reads keys and lines from the terminal of stdin.
//!
//! Must not print. The terminal is in its normal mode whenever no input is awaited.

use std::fs::{File, OpenOptions};
use std::io::{self, IsTerminal as _, Read as _};
use std::os::unix::fs::OpenOptionsExt as _;

use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, kill, sigaction};
use nix::unistd::Pid;
use rustix::fs::OFlags;
use rustix::termios::{
    LocalModes, OptionalActions, QueueSelector, SpecialCodeIndex, Termios, tcflush, tcgetattr, tcsetattr,
};
use tokio::io::unix::AsyncFd;

use crate::output::terminal::is_in_front;

/// Maximum length of a line in bytes.
const MAX_LINE_BYTES: usize = 4096;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DialogKey {
    Char(char),
    Enter,
    Interrupt,
    /// The user pressed Ctrl-Z.
    Suspend,
    /// The user pressed Ctrl-D, or the terminal is gone.
    End,
    Other,
}

impl DialogKey {
    const fn of(char: char) -> Self {
        match char {
            '\u{3}' => Self::Interrupt,
            '\u{4}' => Self::End,
            '\u{1a}' => Self::Suspend,
            '\r' | '\n' => Self::Enter,
            '\0'..='\u{1f}' | '\u{7f}'..='\u{9f}' => Self::Other,
            char => Self::Char(char),
        }
    }
}

/// The terminal of stdin.
#[derive(Debug)]
pub(crate) struct Keyboard {
    terminal: AsyncFd<File>,
    /// Input after the last returned key.
    typed: String,
}

/// Key-by-key mode without echo; dropping it restores the normal mode.
struct KeyByKey<'a> {
    terminal: &'a File,
    usual: Termios,
}

impl<'a> KeyByKey<'a> {
    fn begin(terminal: &'a File) -> io::Result<Self> {
        let usual = tcgetattr(terminal)?;
        let mut modes = usual.clone();
        // Ctrl-C and Ctrl-Z arrive as keys, because the normal mode must be restored before the signal.
        modes.local_modes -= LocalModes::ICANON | LocalModes::ECHO | LocalModes::ISIG;
        modes.special_codes[SpecialCodeIndex::VMIN] = 1;
        modes.special_codes[SpecialCodeIndex::VTIME] = 0;
        tcsetattr(terminal, OptionalActions::Now, &modes)?;
        Ok(Self { terminal, usual })
    }
}

impl Drop for KeyByKey<'_> {
    fn drop(&mut self) {
        let _ = tcsetattr(self.terminal, OptionalActions::Now, &self.usual);
    }
}

/// Raw mode: no echo, lines or signals. Dropping it restores the normal mode.
#[derive(Debug)]
pub(crate) struct RawMode {
    terminal: File,
    usual: Termios,
}

impl RawMode {
    /// Restores the normal mode.
    pub(crate) fn restore(&self) {
        let _ = tcsetattr(&self.terminal, OptionalActions::Now, &self.usual);
    }

    /// Clones it for a hook that outlives this value.
    ///
    /// # Errors
    /// The system has no free descriptor.
    pub(crate) fn try_clone(&self) -> io::Result<Self> {
        Ok(Self { terminal: self.terminal.try_clone()?, usual: self.usual.clone() })
    }
}

impl Drop for RawMode {
    fn drop(&mut self) {
        self.restore();
    }
}

impl Keyboard {
    /// Opens the keyboard, if stdin is a terminal and this process is in its foreground group.
    ///
    /// Must be called inside of a runtime.
    pub(crate) fn open() -> Option<Self> {
        if !io::stdin().is_terminal() || !is_in_front(&io::stdin()) {
            return None;
        }
        // A separate description, because flags of the shell's one must not change.
        let flags = (OFlags::NONBLOCK | OFlags::NOCTTY).bits();
        let flags = i32::try_from(flags).ok()?;
        let file =
            OpenOptions::new().read(true).write(true).custom_flags(flags).open("/proc/self/fd/0").ok()?;
        // SAFETY: the file is open; the AsyncFd owns and closes it.
        #[allow(unsafe_code)]
        let terminal = unsafe { AsyncFd::register(file) };
        Some(Self { terminal: terminal.ok()?, typed: String::new() })
    }

    /// Discards input from before a question was shown.
    pub(crate) fn forget(&mut self) {
        self.typed.clear();
        let _ = tcflush(self.terminal.get_ref(), QueueSelector::IFlush);
    }

    /// Returns the next key. `prompt` shows the keys; from then on each key counts. Ctrl-Z stops the process;
    /// when it continues, the prompt is shown again.
    pub(super) async fn key(&mut self, prompt: impl Fn()) -> io::Result<DialogKey> {
        loop {
            match self.typed_key(&prompt).await? {
                DialogKey::Suspend => {
                    // As the terminal does at the signal.
                    self.typed.clear();
                    stop_for_shell();
                }
                key => return Ok(key),
            }
        }
    }

    async fn typed_key(&mut self, prompt: impl Fn()) -> io::Result<DialogKey> {
        if !self.typed.is_empty() {
            prompt();
        } else {
            let _modes = KeyByKey::begin(self.terminal.get_ref())?;
            prompt();
            let mut bytes = [0; 256];
            let length = self.read(&mut bytes).await?;
            self.typed = String::from_utf8_lossy(&bytes[..length]).into_owned();
        }
        Ok(self.next_key())
    }

    /// Takes the next key of the input. An arrow key is an escape sequence of several characters.
    fn next_key(&mut self) -> DialogKey {
        let Some(first) = self.typed.chars().next() else { return DialogKey::End };
        if first == '\u{1b}' {
            self.typed.clear();
        } else {
            self.typed.remove(0);
        }
        DialogKey::of(first)
    }

    /// Returns the next line without its end; `None` at the end of input.
    pub(super) async fn line(&mut self) -> io::Result<Option<String>> {
        let ends = |typed: &str| typed.find(['\n', '\r']).map(|end| end + 1);
        let length = ends(&self.typed).unwrap_or(self.typed.len());
        let mut line: Vec<u8> = self.typed.drain(..length).collect::<String>().into_bytes();
        let mut bytes = [0; 512];
        loop {
            if line.ends_with(b"\n") || line.ends_with(b"\r") || line.len() >= MAX_LINE_BYTES {
                let text = String::from_utf8_lossy(&line);
                return Ok(Some(text.trim_end_matches(['\n', '\r']).to_owned()));
            }
            let length = self.read(&mut bytes).await?;
            if length == 0 {
                return Ok((!line.is_empty()).then(|| String::from_utf8_lossy(&line).into_owned()));
            }
            line.extend_from_slice(&bytes[..length]);
        }
    }

    /// Enters raw mode until the result is dropped.
    ///
    /// # Errors
    /// The terminal refuses the mode.
    pub(crate) fn raw(&self) -> io::Result<RawMode> {
        let terminal = self.terminal.get_ref().try_clone()?;
        let usual = tcgetattr(&terminal)?;
        let mut modes = usual.clone();
        modes.make_raw();
        tcsetattr(&terminal, OptionalActions::Now, &modes)?;
        Ok(RawMode { terminal, usual })
    }

    /// Reads typed bytes; 0 if the terminal is gone.
    ///
    /// # Errors
    /// The error of the system.
    pub(crate) async fn read(&self, bytes: &mut [u8]) -> io::Result<usize> {
        loop {
            let mut ready = self.terminal.readable().await?;
            if let Ok(read) = ready.try_io(|terminal| terminal.get_ref().read(bytes)) {
                return read;
            }
        }
    }
}

/// Stops this process and its pipeline as Ctrl-Z does, also where the process handles the signal itself.
/// Returns when the process continues.
pub(crate) fn stop_for_shell() {
    let action = SigAction::new(SigHandler::SigDfl, SaFlags::empty(), SigSet::empty());
    // SAFETY: the default disposition runs no code of this process.
    #[allow(unsafe_code)]
    let before = unsafe { sigaction(Signal::SIGTSTP, &action) };
    // Without a shell that could continue it, the kernel does not stop it.
    let _ = kill(Pid::from_raw(0), Signal::SIGTSTP);
    if let Ok(before) = before {
        // SAFETY: this restores the earlier disposition.
        #[allow(unsafe_code)]
        let _ = unsafe { sigaction(Signal::SIGTSTP, &before) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_what_a_terminal_sends() {
        for (char, key) in [
            ('y', DialogKey::Char('y')),
            ('\u{e4}', DialogKey::Char('\u{e4}')),
            ('\r', DialogKey::Enter),
            ('\u{3}', DialogKey::Interrupt),
            ('\u{4}', DialogKey::End),
            ('\u{1a}', DialogKey::Suspend),
            ('\u{1b}', DialogKey::Other),
            ('\u{9b}', DialogKey::Other),
        ] {
            assert_eq!(DialogKey::of(char), key, "{char:?}");
        }
    }
}
