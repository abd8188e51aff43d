//! A person who types commands at a prompt, and how much that is.

use super::{Output, Sandbox};

/// The most characters that a first result may take after the installation.
pub const MAX_TYPED: usize = 200;

/// A person in the workspace of a sandbox.
#[derive(Debug)]
pub struct Typist<'a> {
    sandbox: &'a Sandbox,
    /// The characters that were typed.
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
    /// When it does not.
    #[track_caller]
    pub fn types(&mut self, line: &str, code: i32) -> Output {
        self.typed += line.chars().count();
        let output = self.sandbox.command("/bin/sh").args(["-c", line]).run();
        assert_eq!(output.status.code(), Some(code), "{line}: {output}");
        output
    }
}
