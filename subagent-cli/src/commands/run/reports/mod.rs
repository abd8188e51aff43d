//! The files of `--summary` and `--junit`. They are opened before anything is started and written at the end, however a
//! run ends.

mod junit;
mod summary;

use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{FileTypeExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::fcntl::OFlag;
use serde::Deserialize as _;
use serde_json::Value;

use super::figures::Figures;
use super::result::EndedRun;
use super::went::Went;
use crate::context::{path_value, present_path};
use crate::exit_code::TurnOutcome;
use crate::failure::{Failure, Result};
use crate::output::page::shorten;
use crate::output::{advice, errors};

/// The columns of a name that is made of a prompt.
const MAX_NAME: usize = 100;
/// The bytes of a final message in a report: GitHub takes 1 MiB of all summaries of a step.
const MAX_MESSAGE_BYTES: usize = 256 * 1024;

/// The reports that are wanted.
#[derive(Debug)]
pub(crate) struct Reports {
    about: RunDescription,
    summary: Option<ReportFile>,
    junit: Option<ReportFile>,
}

/// What is known of a run before it begins.
#[derive(Debug)]
pub(crate) struct RunDescription {
    /// The name that was chosen for the worker.
    pub(crate) name: Option<String>,
    pub(crate) prompt: String,
    /// The agent or launcher that was named.
    pub(crate) agent: Option<String>,
}

#[derive(Debug)]
struct ReportFile {
    flag: &'static str,
    path: PathBuf,
    file: File,
}

/// A run that has ended, as the reports tell of it.
#[derive(Debug)]
struct FinishedRun<'a> {
    /// What the run is called.
    case: String,
    agent: String,
    /// What its worker is called.
    worker: Option<&'a str>,
    /// The outcome for people.
    label: &'static str,
    took: Duration,
    figures: Option<&'a Figures>,
    usage: &'a Value,
    message: Option<&'a str>,
    problem: Option<RunProblem>,
}

/// Why a run is no success.
#[derive(Debug)]
struct RunProblem {
    /// Whether it was kept from doing its work, and did not just do it badly.
    is_error: bool,
    /// The stable code, or the word of the outcome.
    code: String,
    message: String,
    /// The same with what to do next.
    text: String,
}

impl Reports {
    /// Opens the files.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT{flag,path,error}` for one that cannot be written.
    pub(crate) fn open(
        summary: Option<PathBuf>,
        junit: Option<PathBuf>,
        about: RunDescription,
    ) -> Result<Self> {
        let mut append = OpenOptions::new();
        append.append(true);
        // The report of an earlier run must not pass for that of a run that is killed.
        let mut replace = OpenOptions::new();
        replace.write(true).truncate(true);
        Ok(Self {
            about,
            summary: present_path(summary)
                .map(|path| ReportFile::open("--summary", path, append))
                .transpose()?,
            junit: present_path(junit).map(|path| ReportFile::open("--junit", path, replace)).transpose()?,
        })
    }

    /// Whether a report has the files that were changed.
    pub(crate) const fn want_changes(&self) -> bool {
        self.summary.is_some()
    }

    /// Writes the files. Returns what went wrong, one line each.
    pub(crate) fn write(self, judged: &Result<EndedRun>, took: Duration) -> Vec<String> {
        let Self { about, summary, junit } = self;
        if summary.is_none() && junit.is_none() {
            return Vec::new();
        }
        let ended = FinishedRun::of(&about, judged, took);
        let written = [
            summary.map(|report| report.write(|file| append(file, &summary::markdown(&ended)))),
            junit.map(|report| report.write(|file| file.write_all(junit::document(&ended)?.as_bytes()))),
        ];
        written
            .into_iter()
            .flatten()
            .filter_map(|written| written.err())
            .map(|failure| failure.message)
            .collect()
    }
}

impl ReportFile {
    fn open(flag: &'static str, path: PathBuf, mut options: OpenOptions) -> Result<Self> {
        // A pipe without a reader must not hold this up.
        options.create(true).custom_flags((OFlag::O_NONBLOCK | OFlag::O_NOCTTY).bits());
        let opened = options.open(&path).and_then(|file| {
            let kind = file.metadata()?.file_type();
            match kind.is_file() || kind.is_char_device() {
                true => Ok(file),
                false => Err(io::Error::other("it is not a regular file")),
            }
        });
        match opened {
            Ok(file) => Ok(Self { flag, path, file }),
            Err(error) => Err(unwritable(flag, &path, &error)),
        }
    }

    fn write(mut self, write: impl FnOnce(&mut File) -> io::Result<()>) -> Result<()> {
        write(&mut self.file).map_err(|error| unwritable(self.flag, &self.path, &error))
    }
}

fn unwritable(flag: &str, path: &Path, error: &io::Error) -> Failure {
    Failure::argument(format!("cannot write the file of {flag}, {}: {error}", path.display()))
        .with("flag", flag)
        .with("path", path_value(path))
        .with("error", error.to_string())
}

fn append(file: &mut File, text: &str) -> io::Result<()> {
    // The last line of what was there may be open.
    let gap = if file.metadata()?.len() > 0 { "\n" } else { "" };
    file.write_all(format!("{gap}{text}").as_bytes())
}

impl<'a> FinishedRun<'a> {
    fn of(about: &RunDescription, judged: &'a Result<EndedRun>, took: Duration) -> Self {
        let first = about.prompt.lines().find(|line| !line.trim().is_empty()).unwrap_or("run");
        let case = about.name.clone().unwrap_or_else(|| shorten(first, MAX_NAME));
        let agent = about.agent.clone().unwrap_or_else(|| "subagent".to_owned());
        match judged {
            Ok(judged) => Self {
                case,
                agent: judged.data.launcher.clone().unwrap_or(agent),
                worker: judged.name.as_deref(),
                label: judged.went.label(),
                took: judged.figures.took,
                figures: Some(&judged.figures),
                usage: &judged.data.usage,
                message: judged.data.message.as_deref(),
                problem: RunProblem::of(judged),
            },
            Err(failure) => Self {
                case,
                agent,
                worker: None,
                label: "error",
                took,
                figures: None,
                usage: &Value::Null,
                message: None,
                problem: Some(RunProblem::of_failure(failure)),
            },
        }
    }
}

impl RunProblem {
    fn of(judged: &EndedRun) -> Option<Self> {
        let is_error = match judged.went {
            Went::Turn(TurnOutcome::Completed) => return None,
            Went::Turn(TurnOutcome::Failed) => {
                if let Some(failure) = failure_of(judged) {
                    return Some(Self::of_failure(&failure));
                }
                true
            }
            Went::Turn(TurnOutcome::Canceled) | Went::Timeout | Went::Interrupted => true,
            _ => false,
        };
        let hint = judged.went.advice().map(|advice| format!("\nHint: {advice}")).unwrap_or_default();
        Some(Self {
            is_error,
            code: judged.went.word().to_owned(),
            message: judged.reasons.first().cloned().unwrap_or_default(),
            text: format!("{}{hint}", judged.reasons.join("\n")),
        })
    }

    fn of_failure(failure: &Failure) -> Self {
        Self {
            is_error: true,
            code: failure.code.to_string(),
            message: failure.message.clone(),
            text: errors::text(failure),
        }
    }
}

/// The error of a turn, with what to do next.
fn failure_of(judged: &EndedRun) -> Option<Failure> {
    let failure = Failure::deserialize(&judged.data.error).ok()?;
    let address = judged.name.as_deref().or(judged.data.worker_id.as_ref().map(|id| id.as_str()));
    Some(match address.filter(|_| advice::command(&failure).is_none()) {
        Some(address) => failure.with("recommendedCommand", format!("subagent logs {address}")),
        None => failure,
    })
}
