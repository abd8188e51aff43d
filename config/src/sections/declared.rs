//! Schedules and triggers of the user's config file: the keys `schedules` and `triggers`. Pure.

// They start agents without a question. A project's file comes with a clone, and an agent can
// write it, so a project's file with one of these keys is refused. Cron lines and time zones are
// checked by the daemon and by `config check`.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::Path;

use serde::Serialize;
use serde_json::{Map, Value};
use subagent_protocol::api::WorktreeChoice;
use subagent_protocol::schedule::{MAX_FAILURES, MAX_NAME_BYTES, Missed, Overlap, When, is_name};
use subagent_protocol::trigger::{
    COMMAND_EVERY_SECONDS, COMMAND_TIMEOUT_SECONDS, DEBOUNCE_MS, EndStatus, is_sha256,
};

use crate::agents::keys::KeyPositions;
use crate::check::{CheckResult, mismatch, named, refuse, required_string};
use crate::environment::Environment;
use crate::error::{ConfigError, FieldPath};
use crate::hosts::HOSTS;
use crate::placements::{self, PLACEMENTS};
use crate::policy::Position;
use crate::section::Section;
use crate::workspace::Workspace;

pub(crate) const SCHEDULES: &str = "schedules";
pub(crate) const TRIGGERS: &str = "triggers";

/// A schedule of the user's config file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DeclaredSchedule {
    /// The times at which it fires.
    pub when: When,
    /// The time zone; `None` is the system's.
    pub timezone: Option<String>,
    /// The handling of times at which no daemon was running.
    pub missed: Missed,
    /// The work of each firing.
    pub start: DeclaredStart,
}

/// A trigger of the user's config file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DeclaredTrigger {
    /// The occurrences that fire it.
    pub source: DeclaredSource,
    /// The work of each firing.
    pub start: DeclaredStart,
}

/// The occurrences that fire a declared trigger. Folders are those of its `cwd`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub enum DeclaredSource {
    /// Only requests fire it.
    Request,
    /// The end of a task, or of each turn of a worker that is no task.
    After {
        /// The worker: its id, its name, or a prefix of its id.
        worker: String,
        /// Only ends with this status; any if absent.
        status: Option<EndStatus>,
    },
    /// A command line whose output is compared.
    Command {
        /// The line for `sh -c`.
        line: String,
        /// Seconds between two runs.
        every_seconds: u64,
        /// Deadline of one run in seconds.
        timeout_seconds: u64,
    },
    /// Changed files below the folder.
    Files {
        /// Patterns of relative paths.
        globs: Vec<String>,
        /// Milliseconds without further changes.
        debounce_ms: u64,
    },
    /// A POST with a token to `subagent panel`.
    Webhook {
        /// SHA-256 of the token, as lowercase hexadecimal digits.
        token_sha256: String,
    },
}

/// What a declared schedule or trigger starts, and where.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DeclaredStart {
    /// The folder, absolute or below `~`. The daemon of its workspace takes the entry.
    pub cwd: String,
    /// The state dir of that daemon, if it is not that of the workspace.
    pub state_dir: Option<String>,
    /// The handling of firings while an earlier one is running.
    pub overlap: Overlap,
    /// Number of consecutive failures after which it is paused; zero: never.
    pub max_failures: u32,
    /// The text of the task or the message.
    pub text: String,
    /// The receiver of the text.
    pub receiver: DeclaredReceiver,
    /// Position of its name in the file.
    #[serde(skip)]
    pub at: Option<Position>,
}

impl DeclaredStart {
    /// Finds the workspace and the state dir of the entry. `SUBAGENT_STATE_DIR` does not count, so
    /// that an entry belongs to one daemon, in every environment.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` if `cwd` is not an accessible folder.
    pub fn workspace(&self, env: &Environment) -> Result<Workspace, ConfigError> {
        let mut env = env.clone();
        let name = OsStr::new("SUBAGENT_STATE_DIR");
        match &self.state_dir {
            Some(state_dir) => env.vars.insert(name.to_owned(), state_dir.into()),
            None => env.vars.remove(name),
        };
        Workspace::find(Some(Path::new(&self.cwd)), &env)
    }
}

/// The receiver of the text of a firing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub enum DeclaredReceiver {
    /// A new task for an agent.
    Task {
        /// A launcher, or a definition of an agent.
        agent: String,
        /// The launcher of a definition that names none.
        launcher: Option<String>,
        /// The name of a sandbox.
        sandbox: Option<String>,
        /// The git worktree of each task.
        worktree: Option<WorktreeChoice>,
    },
    /// A worker, at the end of its queue.
    Worker(String),
}

/// The schedules by name.
pub type DeclaredSchedules = BTreeMap<String, DeclaredSchedule>;
/// The triggers by name.
pub type DeclaredTriggers = BTreeMap<String, DeclaredTrigger>;

pub(crate) fn schedules(root: &Map<String, Value>) -> CheckResult<DeclaredSchedules> {
    named(root, SCHEDULES, SCHEDULES, |name, value| {
        let entry = &entry(SCHEDULES, name, value)?;
        Ok(DeclaredSchedule {
            when: when(entry)?,
            timezone: entry.text("timezone")?,
            missed: entry.word("missed", Missed::parse, "skip, once or all")?.unwrap_or(Missed::Once),
            start: start(entry)?,
        })
    })
}

pub(crate) fn triggers(
    root: &Map<String, Value>,
    schedules: &DeclaredSchedules,
) -> CheckResult<DeclaredTriggers> {
    named(root, TRIGGERS, TRIGGERS, |name, value| {
        let entry = &entry(TRIGGERS, name, value)?;
        if schedules.contains_key(name) {
            return refuse(entry.own_place(), "is the name of a schedule too; give each its own");
        }
        Ok(DeclaredTrigger { source: source(entry)?, start: start(entry)? })
    })
}

/// Refuses the keys in a project's file. `user` is the file that may have them.
pub(crate) fn check_project(document: &Value, user: Option<&Path>) -> CheckResult<()> {
    let is_there = |key: &&str| document.get(*key).is_some_and(|value| !value.is_null());
    let Some(key) = [SCHEDULES, TRIGGERS, PLACEMENTS, HOSTS].into_iter().find(is_there) else {
        return Ok(());
    };
    let user =
        user.map_or_else(|| "~/.config/subagent/config.yaml".to_owned(), |path| path.display().to_string());
    let problem = format!(
        "counts only in your own file ({user}), since a clone or an agent can bring a project's; move it there"
    );
    refuse(FieldPath::Field(key.to_owned()), problem)
}

/// Returns the position of a place below these keys.
pub(crate) fn position(keys: &KeyPositions, place: &FieldPath) -> Option<Position> {
    [SCHEDULES, TRIGGERS].into_iter().find_map(|section| placements::position(keys, place, section))
}

/// Adds the positions of all names.
pub(crate) fn locate(
    schedules: &mut DeclaredSchedules,
    triggers: &mut DeclaredTriggers,
    keys: &KeyPositions,
) {
    for (name, schedule) in schedules {
        schedule.start.at = keys.of(&[SCHEDULES, name]);
    }
    for (name, trigger) in triggers {
        trigger.start.at = keys.of(&[TRIGGERS, name]);
    }
}

fn entry<'a>(section: &str, name: &str, value: &'a Value) -> CheckResult<Section<'a>> {
    if !is_name(name) {
        let problem = format!(
            "is not a name: write 1 to {MAX_NAME_BYTES} letters, digits, `-`, `_` and `.`, and begin with a letter or digit"
        );
        return refuse(FieldPath::Entry { field: section.to_owned(), key: name.to_owned() }, problem);
    }
    Section::of(value, format!("{section}.{name}"))
}

fn when(entry: &Section<'_>) -> CheckResult<When> {
    match entry.one_of(&["cron", "every", "at"])? {
        Some("cron") => Ok(When::Cron(entry.required("cron", "a line of five fields")?)),
        Some("every") => Ok(When::EverySeconds(entry.whole_seconds("every")?.unwrap_or(0))),
        Some(_) => Ok(When::At(entry.required("at", "a time, as 2026-12-01T09:00")?)),
        None => refuse(entry.own_place(), "has no time: write cron, every or at"),
    }
}

fn source(entry: &Section<'_>) -> CheckResult<DeclaredSource> {
    let source = entry.one_of(&["after", "onCommand", "watch", "webhook"])?;
    if source != Some("after") {
        entry.only_with(&["status"], "without `after`")?;
    }
    if source != Some("onCommand") {
        entry.only_with(&["every", "timeout"], "without `onCommand`")?;
    }
    if source != Some("watch") {
        entry.only_with(&["debounce"], "without `watch`")?;
    }
    Ok(match source {
        Some("after") => DeclaredSource::After {
            worker: entry.required("after", "a worker or a task")?,
            status: entry.word("status", EndStatus::parse, "completed, failed or canceled")?,
        },
        Some("onCommand") => DeclaredSource::Command {
            line: entry.required("onCommand", "a line for the shell")?,
            every_seconds: entry.whole_seconds("every")?.unwrap_or(COMMAND_EVERY_SECONDS),
            timeout_seconds: entry.whole_seconds("timeout")?.unwrap_or(COMMAND_TIMEOUT_SECONDS),
        },
        Some("watch") => DeclaredSource::Files {
            globs: globs(entry)?,
            debounce_ms: entry
                .time("debounce")?
                .map_or(DEBOUNCE_MS, |time| u64::try_from(time.as_millis()).unwrap_or(u64::MAX)),
        },
        Some(_) => DeclaredSource::Webhook { token_sha256: token(entry)? },
        None => DeclaredSource::Request,
    })
}

fn globs(entry: &Section<'_>) -> CheckResult<Vec<String>> {
    let field = entry.field("watch");
    match entry.value("watch") {
        Some(Value::Array(items)) => {
            let read = |(index, item)| {
                let place = || FieldPath::Element { field: field.clone(), index };
                Ok(required_string(item, place)?.to_owned())
            };
            items.iter().enumerate().map(read).collect()
        }
        Some(value) => Ok(vec![required_string(value, || entry.place("watch"))?.to_owned()]),
        None => Ok(Vec::new()),
    }
}

fn token(entry: &Section<'_>) -> CheckResult<String> {
    let advice = "`printf %s \"$TOKEN\" | sha256sum` prints it";
    let given = entry.section("webhook")?;
    match given.and_then(|given| given.value("tokenSha256")) {
        Some(Value::String(text)) if is_sha256(text) => Ok(text.clone()),
        _ => refuse(
            entry.place("webhook"),
            format!("needs tokenSha256, the SHA-256 of its token as 64 lowercase digits; {advice}"),
        ),
    }
}

fn start(entry: &Section<'_>) -> CheckResult<DeclaredStart> {
    let Some(cwd) = entry.absolute_path("cwd")? else {
        return refuse(entry.place("cwd"), "is missing: write the folder of the workspace");
    };
    Ok(DeclaredStart {
        cwd,
        state_dir: entry.absolute_path("stateDir")?,
        overlap: entry
            .word("overlap", Overlap::parse, "skip, queue, parallel or cancel-previous")?
            .unwrap_or(Overlap::Queue),
        max_failures: max_failures(entry)?,
        receiver: receiver(entry)?,
        text: entry.required("text", "what the agent is to do")?,
        at: None,
    })
}

fn receiver(entry: &Section<'_>) -> CheckResult<DeclaredReceiver> {
    match entry.one_of(&["agent", "send"])? {
        Some("send") => {
            entry.only_with(&["launcher", "sandbox", "worktree"], "with `send`")?;
            Ok(DeclaredReceiver::Worker(entry.required("send", "a worker")?))
        }
        Some(_) => Ok(DeclaredReceiver::Task {
            agent: entry.required("agent", "a launcher or a definition")?,
            launcher: entry.text("launcher")?,
            sandbox: entry.text("sandbox")?,
            worktree: worktree(entry)?,
        }),
        None => refuse(entry.own_place(), "starts nothing: write agent, or send for a message to a worker"),
    }
}

/// Reads `worktree`: a boolean, or the name of a branch.
fn worktree(entry: &Section<'_>) -> CheckResult<Option<WorktreeChoice>> {
    match entry.value("worktree") {
        None | Some(Value::Bool(false)) => Ok(None),
        Some(Value::Bool(true)) => Ok(Some(WorktreeChoice::default())),
        Some(Value::String(branch)) if !branch.trim().is_empty() => {
            Ok(Some(WorktreeChoice { branch: Some(branch.trim().to_owned()), ..WorktreeChoice::default() }))
        }
        Some(other) => mismatch(entry.place("worktree"), "true, false or the name of a branch", other),
    }
}

fn max_failures(entry: &Section<'_>) -> CheckResult<u32> {
    match entry.value("maxFailures") {
        None => Ok(MAX_FAILURES),
        Some(value) => match value.as_u64().and_then(|number| u32::try_from(number).ok()) {
            Some(number) => Ok(number),
            None => mismatch(entry.place("maxFailures"), "a whole number, or 0 for no limit", value),
        },
    }
}

#[cfg(test)]
mod tests;
