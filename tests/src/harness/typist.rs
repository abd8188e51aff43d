//! A person who types commands at a prompt, with a count of characters.

use super::{Output, Sandbox};

/// Maximum number of characters for a first result after the installation.
pub const MAX_TYPED: usize = 200;

/// A person in the workspace of a sandbox.
#[derive(Debug)]
pub struct Typist<'a> {
    sandbox: &'a Sandbox,
    /// Number of characters typed so far.
    pub typed: usize,
}

impl<'a> Typist<'a> {
    /// A person who has typed nothing.
    #[must_use]
    pub fn new(sandbox: &'a Sandbox) -> Self {
        Self { sandbox, typed: 0 }
    }

    /// Types a line, which has to exit with this code.
    ///
    /// # Panics
    ///
    /// If the exit code differs.
    #[track_caller]
    pub fn types(&mut self, line: &str, code: i32) -> Output {
        self.typed += line.chars().count();
        let output = self.sandbox.command("/bin/sh").args(["-c", line]).run();
        assert_eq!(output.status.code(), Some(code), "{line}: {output}");
        output
    }
}
