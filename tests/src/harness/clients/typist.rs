//! A person who types commands at a prompt, with a count of characters.

use crate::harness::{Output, TestSandbox};

/// Maximum number of characters for a first result after the installation.
const MAX_TYPED: usize = 200;
/// Maximum number of commands for it, the installation included.
const MAX_COMMANDS: usize = 12;
/// The beginnings of the ids that commands show.
const IDS: [&str; 8] = ["w_", "ap_", "el_", "turn_", "ev_", "ctl_", "rule_", "sess_"];

/// A person in the workspace of a sandbox.
#[derive(Debug)]
pub struct Typist<'a> {
    sandbox: &'a TestSandbox,
    /// The lines typed so far.
    typed: Vec<String>,
}

impl<'a> Typist<'a> {
    /// A person who has typed nothing.
    #[must_use]
    pub fn new(sandbox: &'a TestSandbox) -> Self {
        Self { sandbox, typed: Vec::new() }
    }

    /// Types a line, which has to exit with this code.
    ///
    /// # Panics
    ///
    /// If the exit code differs.
    #[track_caller]
    pub fn types(&mut self, line: &str, code: i32) -> Output {
        self.typed.push(line.to_owned());
        let output = self.sandbox.command("/bin/sh").args(["-c", line]).run();
        assert_eq!(output.status.code(), Some(code), "{line}: {output}");
        output
    }

    /// Checks that it took few characters and commands, and no id.
    ///
    /// # Panics
    ///
    /// If it took more.
    #[track_caller]
    pub fn assert_little_typed(&self) {
        let characters: usize = self.typed.iter().map(|line| line.chars().count()).sum();
        assert!(characters <= MAX_TYPED, "{characters} characters: {:#?}", self.typed);
        assert!(self.typed.len() < MAX_COMMANDS, "{} commands: {:#?}", self.typed.len(), self.typed);
        let words = self.typed.iter().flat_map(|line| line.split_whitespace());
        let ids: Vec<&str> =
            words.filter(|word| IDS.iter().any(|id| word.trim_start_matches('\'').starts_with(id))).collect();
        assert!(ids.is_empty(), "ids were typed: {ids:?}");
    }
}
