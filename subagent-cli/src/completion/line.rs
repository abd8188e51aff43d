//! Parses an unfinished command line: its command, and what is expected at the cursor. Pure.

use std::collections::HashMap;

use clap::{Arg, Command};

use crate::command_line::global;

/// The expected input at the cursor.
#[derive(Debug)]
pub(super) enum ExpectedInput {
    /// A flag of the command.
    Flag,
    /// The value of an argument, after this prefix of the current word (`--flag=`).
    Value { arg: Box<Arg>, prefix: String },
    /// A subcommand, or this argument.
    Command { or: Option<Box<Arg>> },
    /// Unknown: no candidates exist.
    Nothing,
}

/// A command line up to the cursor.
#[derive(Debug)]
pub(super) struct CompletionLine {
    names: Vec<String>,
    /// The innermost command of the line.
    pub(super) command: Command,
    values: HashMap<String, String>,
    pub(super) wanted: ExpectedInput,
}

/// Joins the words as typed: bash splits words at `=` and `:`.
pub(super) fn joined(words: &[String]) -> Vec<String> {
    let is_cut = |word: &str| word == "=" || word == ":";
    let mut joined: Vec<String> = Vec::new();
    let mut goes_on = false;
    for word in words {
        match joined.last_mut().filter(|_| goes_on || is_cut(word)) {
            Some(last) => last.push_str(word),
            None => joined.push(word.clone()),
        }
        goes_on = is_cut(word);
    }
    joined
}

impl CompletionLine {
    /// Parses the words before the cursor, without the program's name, and the part of the word at the
    /// cursor.
    pub(super) fn read(before: &[String], current: &str, program: Command) -> Self {
        let mut line = Self {
            names: Vec::new(),
            command: program,
            values: HashMap::new(),
            wanted: ExpectedInput::Nothing,
        };
        let mut positionals = 0;
        let mut escaped = false;
        let mut open: Option<Arg> = None;
        for word in before {
            let is_flag = word.starts_with('-') && word.len() > 1;
            if let Some(arg) = open.take().filter(|arg| !(is_flag && is_optional(arg))) {
                line.values.insert(arg.get_id().to_string(), word.clone());
            } else if escaped || !is_flag {
                let below =
                    (positionals == 0 && !escaped).then(|| line.command.find_subcommand(word).cloned());
                if let Some(below) = below.flatten() {
                    line.enter(word, below);
                } else {
                    if let Some(arg) = line.positional(positionals) {
                        line.values.insert(arg.get_id().to_string(), word.clone());
                    }
                    positionals += 1;
                }
            } else if word == "--" {
                escaped = true;
            } else {
                open = line.flag(word);
            }
        }
        line.wanted = line.wanted_at(current, open, positionals, escaped);
        // Names of commands are known before a build; the flags of a command are not.
        if matches!(line.wanted, ExpectedInput::Command { .. }) {
            line.command.build();
        }
        line
    }

    /// Returns the words of the command, joined by spaces.
    pub(super) fn path(&self) -> String {
        self.names.join(" ")
    }

    /// Returns the value of an argument before the cursor.
    pub(super) fn value(&self, id: &str) -> Option<&str> {
        self.values.get(id).map(String::as_str).filter(|value| !value.is_empty())
    }

    fn enter(&mut self, name: &str, below: Command) {
        self.names.push(name.to_owned());
        // A flag of all commands is not copied into those of a command that is not built.
        self.command = global::with_host(below);
        self.command.build();
    }

    /// Parses a word with flags. Returns the flag that takes the next word as its value.
    fn flag(&mut self, word: &str) -> Option<Arg> {
        if let Some(long) = word.strip_prefix("--") {
            let (name, value) = match long.split_once('=') {
                Some((name, value)) => (name, Some(value)),
                None => (long, None),
            };
            let arg = self.long(name)?.clone();
            return match value {
                Some(value) => {
                    self.values.insert(arg.get_id().to_string(), value.to_owned());
                    None
                }
                None => Some(arg),
            };
        }
        for (at, short) in word.char_indices().skip(1) {
            let arg = self.command.get_arguments().find(|arg| arg.get_short() == Some(short)).cloned()?;
            if takes_value(&arg) {
                let rest = word[at + short.len_utf8()..].trim_start_matches('=');
                if rest.is_empty() {
                    return Some(arg);
                }
                self.values.insert(arg.get_id().to_string(), rest.to_owned());
                return None;
            }
        }
        None
    }

    /// Returns the flag of this name, if it takes a value.
    fn long(&self, name: &str) -> Option<&Arg> {
        let named = |arg: &&Arg| arg.get_long() == Some(name) || aliases(arg).any(|alias| alias == name);
        self.command.get_arguments().find(named).filter(|arg| takes_value(arg))
    }

    /// Returns the positional argument at this index; a variadic last one takes the rest.
    fn positional(&self, at: usize) -> Option<&Arg> {
        let several = |arg: &&Arg| arg.get_num_args().is_some_and(|values| values.max_values() > 1);
        let all = || self.command.get_positionals();
        all().nth(at).or_else(|| all().last().filter(several))
    }

    fn wanted_at(
        &self,
        current: &str,
        open: Option<Arg>,
        positionals: usize,
        escaped: bool,
    ) -> ExpectedInput {
        let is_flag = current.starts_with('-') && !escaped;
        if let Some(arg) = open.filter(|arg| !(is_flag && is_optional(arg))) {
            return ExpectedInput::Value { arg: Box::new(arg), prefix: String::new() };
        }
        if is_flag {
            let valued = current.strip_prefix("--").and_then(|long| long.split_once('='));
            return match valued {
                None => ExpectedInput::Flag,
                Some((name, _)) => match self.long(name) {
                    Some(arg) => {
                        ExpectedInput::Value { arg: Box::new(arg.clone()), prefix: format!("--{name}=") }
                    }
                    None => ExpectedInput::Nothing,
                },
            };
        }
        let arg = self.positional(positionals).cloned().map(Box::new);
        match (self.command.has_subcommands() && positionals == 0 && !escaped, arg) {
            (true, or) => ExpectedInput::Command { or },
            (false, Some(arg)) => ExpectedInput::Value { arg, prefix: String::new() },
            (false, None) => ExpectedInput::Nothing,
        }
    }
}

fn aliases(arg: &Arg) -> impl Iterator<Item = &str> {
    arg.get_all_aliases().into_iter().flatten()
}

fn takes_value(arg: &Arg) -> bool {
    arg.get_action().takes_values()
}

/// Whether the value of the flag is optional.
fn is_optional(arg: &Arg) -> bool {
    arg.get_num_args().is_some_and(|values| values.min_values() == 0)
}
