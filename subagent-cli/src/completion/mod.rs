//! `subagent __complete SHELL WORD... CURRENT`: the completion that shell scripts call at each Tab.
//! It must not start programs or write to files or stderr.

// Without a timely answer there are fewer candidates. `clap_complete` passes only the current
// word, but names depend on `--cwd` and `--config`.

mod candidate;
mod facts;
mod kinds;
mod line;
mod scripts;
mod shell;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::{Arg, Command};

use crate::output::print;
use candidate::CompletionCandidate;
use facts::CompletionContext;
use kinds::{CompletionKind, TurnChoice};
use line::{CompletionLine, ExpectedInput, joined};
use subagent_protocol::api::TaskStatus;
use subagent_protocol::hook::HookEvent;

pub(crate) use scripts::script;
pub(crate) use shell::Shell;

/// The hidden command that the scripts call.
pub(crate) const COMMAND: &str = "__complete";

/// Answers that make a script complete files or folders.
const FILES: &str = ":files";
const FOLDERS: &str = ":folders";

/// Prints the candidates for a line of `program`. The exit code is always 0, because shells ignore
/// it.
pub(crate) fn run(args: &[OsString], program: Command) -> ExitCode {
    // A word that is not UTF-8 matches no candidate.
    let words: Vec<String> = args.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    if let Some((shell, words)) = words.split_first()
        && let Ok(shell) = <Shell as clap::ValueEnum>::from_str(shell, false)
    {
        // The reader may be gone.
        let _ = print(&answer(shell, words, program).join("\n"));
    }
    ExitCode::SUCCESS
}

fn answer(shell: Shell, words: &[String], program: Command) -> Vec<String> {
    let whole = if shell == Shell::Bash { joined(words) } else { words.to_vec() };
    let (Some((current, before)), Some(last)) = (whole.split_last(), words.last()) else {
        return Vec::new();
    };
    // Bash replaces only its last word.
    let kept = current.len() - last.len();
    let line = CompletionLine::read(before, current, program);
    let mut found = Vec::new();
    let prefix = match &line.wanted {
        ExpectedInput::Flag => {
            found.extend(flags(&line));
            ""
        }
        ExpectedInput::Value { arg, prefix } => {
            match values(&line, arg, &current[prefix.len()..]) {
                CompletionResult::Values(values) => found.extend(values),
                CompletionResult::Marker(marker) => return vec![marker.to_owned()],
            }
            prefix
        }
        ExpectedInput::Command { or } => {
            found.extend(commands(&line));
            if let Some(arg) = or
                && let CompletionResult::Values(values) = values(&line, arg, current)
            {
                found.extend(values);
            }
            ""
        }
        ExpectedInput::Nothing => "",
    };
    let typed = match &line.wanted {
        ExpectedInput::Value { prefix, .. } => &current[prefix.len()..],
        _ => current,
    };
    found.retain(|candidate| candidate.fits(typed));
    let line = |candidate: &CompletionCandidate| candidate.line(shell, prefix).split_off(kept);
    found.iter().map(line).collect()
}

enum CompletionResult {
    Values(Vec<CompletionCandidate>),
    Marker(&'static str),
}

/// Returns the candidates for an argument's value.
fn values(line: &CompletionLine, arg: &Arg, typed: &str) -> CompletionResult {
    let possible: Vec<CompletionCandidate> = arg
        .get_possible_values()
        .iter()
        .filter(|value| !value.is_hide_set())
        .map(|value| {
            let about = value.get_help().map(ToString::to_string).unwrap_or_default();
            CompletionCandidate::new(value.get_name(), &about)
        })
        .collect();
    if !possible.is_empty() {
        return CompletionResult::Values(possible);
    }
    let Some(kind) = kinds::kind(&line.path(), arg.get_id().as_str()) else {
        return CompletionResult::Values(Vec::new());
    };
    let facts = || CompletionContext::new(line);
    CompletionResult::Values(match kind {
        CompletionKind::Files => return CompletionResult::Marker(FILES),
        CompletionKind::Folders => return CompletionResult::Marker(FOLDERS),
        CompletionKind::Words(words) => words.iter().map(|word| CompletionCandidate::new(word, "")).collect(),
        CompletionKind::TaskState => {
            TaskStatus::ALL.iter().map(|state| CompletionCandidate::new(state.as_str(), "")).collect()
        }
        CompletionKind::Launcher => facts().launchers(),
        CompletionKind::Agent => facts().agents(),
        CompletionKind::LauncherOrAgent => {
            let facts = facts();
            let mut both = facts.launchers();
            both.extend(facts.agents());
            both
        }
        CompletionKind::Role => facts().roles(),
        CompletionKind::Host => facts().hosts(),
        CompletionKind::Placement => facts().placements(),
        CompletionKind::Worker { all } => facts().workers(typed, all),
        CompletionKind::Session => facts().sessions(),
        CompletionKind::Task => facts().tasks(),
        CompletionKind::Request(of) => facts().requests(of, line.value("worker_id")),
        CompletionKind::WorkerOrRequest(of) => facts().asking(of),
        CompletionKind::Turn(of) => facts().turns(of),
        CompletionKind::WorkerOrTurn if typed.starts_with("turn_") => facts().turns(TurnChoice::All),
        CompletionKind::WorkerOrTurn => facts().workers(typed, true),
        CompletionKind::Tag => facts().tags(""),
        // Keeps the text up to the last comma.
        CompletionKind::Tags => facts().tags(typed.rfind(',').map_or("", |comma| &typed[..=comma])),
        CompletionKind::HookEvent => {
            HookEvent::ALL.iter().map(|event| CompletionCandidate::new(event.as_str(), "")).collect()
        }
        CompletionKind::Sink => facts().sinks(),
        CompletionKind::OwnerRule => facts().owner_rules(),
        CompletionKind::Schedule => facts().starters("/v1/schedules"),
        CompletionKind::Trigger => facts().starters("/v1/triggers"),
    })
}

fn flags(line: &CompletionLine) -> Vec<CompletionCandidate> {
    let shown = line.command.get_arguments().filter(|arg| !arg.is_hide_set());
    let flag = |arg: &Arg| {
        let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
        Some(CompletionCandidate::new(&format!("--{}", arg.get_long()?), &help))
    };
    shown.filter_map(flag).collect()
}

fn commands(line: &CompletionLine) -> Vec<CompletionCandidate> {
    let shown = line.command.get_subcommands().filter(|below| !below.is_hide_set());
    let command = |below: &clap::Command| {
        let about = below.get_about().map(ToString::to_string).unwrap_or_default();
        CompletionCandidate::new(below.get_name(), &about)
    };
    shown.map(command).collect()
}

#[cfg(test)]
mod tests;
