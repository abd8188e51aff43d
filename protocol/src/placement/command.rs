//! A place of an engine that we do not know: five commands of the user start, reach, show and end it.
//! What they print is hostile. Must not run them.

use serde::{Deserialize, Serialize};

use super::kubernetes::status::shortened;
use super::places::{ClientCommand, NamedPlace, PlaceStart, PlaceStatus};

/// The parts of a word that are replaced by the handle and by the name of a place.
const HANDLE: &str = "{handle}";
const NAME: &str = "{name}";
/// The variables of each command with the same.
const HANDLE_VARIABLE: &str = "SUBAGENT_PLACE_HANDLE";
const NAME_VARIABLE: &str = "SUBAGENT_PLACE_NAME";
/// Maximum length of a handle in bytes.
const MAX_HANDLE_BYTES: usize = 256;

/// The keys of the commands that each placement of this kind has, and of the one that it may have.
pub const REQUIRED: [&str; 4] = ["submit", "dial", "status", "cancel"];
/// The key of the command that it may have.
pub const LOGS: &str = "logs";

/// The commands of an engine, each as a program with its arguments. No shell reads them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct UserCommands {
    /// Starts the place of a name, or finds it, and prints its handle as the last line.
    pub submit: Vec<String>,
    /// Runs the command that is appended to it in the place, with its own standard input and output.
    pub dial: Vec<String>,
    /// Prints `waiting REASON`, `alive` or `gone` as the last line.
    pub status: Vec<String>,
    /// Ends the place, or begins that.
    pub cancel: Vec<String>,
    /// Prints what the engine has of a place that has ended; empty: nothing.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub logs: Vec<String>,
}

impl UserCommands {
    /// Returns the command that starts the place of a runtime.
    #[must_use]
    pub fn start(&self, start: &PlaceStart<'_>) -> ClientCommand {
        filled("submit", &self.submit, NamedPlace { name: start.name, handle: "" }, &[])
    }

    /// Returns the command that shows a place.
    #[must_use]
    pub fn look(&self, place: NamedPlace<'_>) -> ClientCommand {
        filled("status", &self.status, place, &[])
    }

    /// Returns the command that runs a program in a place, with standard input and output as they are.
    #[must_use]
    pub fn exec(&self, place: NamedPlace<'_>, program: &str, words: &[&str]) -> ClientCommand {
        filled("dial", &self.dial, place, &[&[program], words].concat())
    }

    /// Returns the command that ends a place.
    #[must_use]
    pub fn end(&self, place: NamedPlace<'_>) -> ClientCommand {
        filled("cancel", &self.cancel, place, &[])
    }

    /// Returns the command that shows what is left of a place, if there is one.
    #[must_use]
    pub fn log(&self, place: NamedPlace<'_>) -> Option<ClientCommand> {
        (!self.logs.is_empty()).then(|| filled(LOGS, &self.logs, place, &[]))
    }

    /// Returns the programs of the commands.
    pub(super) fn programs_mut(&mut self) -> impl Iterator<Item = &mut String> {
        let all = [&mut self.submit, &mut self.dial, &mut self.status, &mut self.cancel, &mut self.logs];
        all.into_iter().filter_map(|words| words.first_mut())
    }

    /// Returns the key that is wrong, and why.
    pub(super) fn problem(&self) -> Option<(&'static str, &'static str)> {
        let all = [
            ("submit", &self.submit),
            ("dial", &self.dial),
            ("status", &self.status),
            ("cancel", &self.cancel),
            (LOGS, &self.logs),
        ];
        let of = |(key, words): (&'static str, &Vec<String>)| {
            let problem = match words.first() {
                None if key == LOGS => None,
                None => Some("must have a program as its first word"),
                Some(program) => program_problem(program),
            };
            let has_nul = words.iter().any(|word| word.contains('\0'));
            let problem = problem.or(has_nul.then_some("must not contain a NUL"));
            Some((key, problem?))
        };
        let has_handle = self.submit.iter().any(|word| word.contains(HANDLE));
        let early = "must not have `{handle}`: it prints the handle; write `{name}`";
        all.into_iter().find_map(of).or(has_handle.then_some(("submit", early)))
    }
}

/// Returns why this is no program of a command. The daemon works in no folder of the user.
fn program_problem(program: &str) -> Option<&'static str> {
    let is_found = !program.contains('/') || program.starts_with('/') || program.starts_with("~/");
    match (program.trim().is_empty(), is_found) {
        (true, _) => Some("must have a program as its first word"),
        (false, false) => Some("must begin with a program of the PATH, or a path with `/` or `~/`"),
        (false, true) => None,
    }
}

/// Returns why the runtime of a place cannot have this path: `ssh` as `dial` gives it to a shell there.
pub(super) fn runtime_problem(program: &str) -> Option<&'static str> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-+~".contains(c);
    (!program.chars().all(is_plain)).then_some("must have only letters, digits and `/._-+~`")
}

fn filled(key: &'static str, words: &[String], place: NamedPlace<'_>, rest: &[&str]) -> ClientCommand {
    let mut words = words.iter().map(|word| replaced(word, place));
    // One without a program is refused before.
    let program = words.next().unwrap_or_default();
    let mut command = ClientCommand::new(&program, words.chain(rest.iter().map(|word| (*word).to_owned())));
    command.key = Some(key);
    command.variables = vec![(NAME_VARIABLE, place.name.to_owned())];
    if !place.handle.is_empty() {
        command.variables.push((HANDLE_VARIABLE, place.handle.to_owned()));
    }
    command
}

/// Replaces once: what is filled in is not read again.
fn replaced(word: &str, place: NamedPlace<'_>) -> String {
    let (mut filled, mut rest) = (String::new(), word);
    while let Some((before, _)) = rest.split_once('{') {
        let at = &rest[before.len()..];
        let (text, length) = match at {
            _ if at.starts_with(HANDLE) => (place.handle, HANDLE.len()),
            _ if at.starts_with(NAME) => (place.name, NAME.len()),
            _ => ("{", 1),
        };
        filled.push_str(before);
        filled.push_str(text);
        rest = &at[length..];
    }
    filled.push_str(rest);
    filled
}

/// Returns the handle in what `submit` has printed. It becomes a word of other commands.
#[must_use]
pub fn handle(printed: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(printed).ok()?;
    let handle = last_line(text)?;
    let is_word = !handle.contains(|c: char| c.is_control() || c.is_whitespace());
    (is_word && handle.len() <= MAX_HANDLE_BYTES && !handle.starts_with('-')).then(|| handle.to_owned())
}

/// Returns what `status` has printed about the place of a handle; `None` if it is not known.
#[must_use]
pub fn status(handle: &str, printed: &[u8]) -> Option<PlaceStatus> {
    let text = String::from_utf8_lossy(printed);
    let line = last_line(&text)?;
    let (word, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    let rest = Some(shortened(rest)).filter(|rest| !rest.is_empty()).unwrap_or_else(|| word.to_owned());
    let handle = handle.to_owned();
    match word {
        "alive" => Some(PlaceStatus::Ready { handle }),
        "waiting" => Some(PlaceStatus::Waiting { handle, reason: rest }),
        "gone" => Some(PlaceStatus::Gone { handle, state: rest }),
        _ => None,
    }
}

fn last_line(text: &str) -> Option<&str> {
    text.lines().map(str::trim).rfind(|line| !line.is_empty())
}

#[cfg(test)]
mod tests;
