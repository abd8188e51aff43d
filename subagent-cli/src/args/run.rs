//! Flags of `run`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::numbers::age;
use super::workers::StartFlags;
use super::{JsonFlag, path};

/// The forms of output of `run`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum RunOutputFormat {
    /// The agent's final message on stdout, and what it does meanwhile on stderr
    Text,
    /// One JSON document with the result
    Json,
    /// The events, one line each, then the result as the last line
    Ndjson,
}

/// Have an agent do one thing: start a worker, send, wait, stop it
///
/// AGENT is a launcher or a definition of an agent; with one argument it is the prompt. With -d the command prints the
/// worker's name and leaves the worker to its task: `subagent wait NAME` waits for it, and its questions wait for
/// `subagent approve`.
///
/// For scripts and CI. It needs no `controller init`. The worker is tagged, and it is stopped
/// however the run ends. Ctrl-C (and SIGTERM, SIGHUP) cancels the turn first; a second one does not
/// wait for that. If this command is killed by SIGKILL the worker goes on: `worker list -l
/// subagent/run` shows it, `worker stop -l subagent/run` ends it.
///
/// What the agent may do is in the rules: `permissions` of the config, then --allow, --ask and --deny. At a terminal you
/// are asked for the rest. Elsewhere, and with --no-ask, a permission request that no rule allows is rejected, a form or
/// a link is turned away, and the turn goes on. The exit code says that something was denied, also if the agent found
/// another way. A turn in which the agent does without
/// asking what a rule denies is canceled.
///
/// The final message is what the agent says after its last tool call. With --result-schema it has to hold JSON: as a
/// whole, or in its only fenced code block, or in the only one that is marked `json`.
#[derive(Debug, Args)]
#[command(after_help = "\
Exit codes:
  0    the turn was completed, and the schema was met
  1    an error: nothing was run, the worker not stopped, or a report not written
  2    wrong usage
  10   the turn failed
  11   the turn was canceled by another command
  12   a permission was denied, or the agent did what a rule denies
  13   the time of --timeout is over
  14   the final message does not meet --result-schema
  15   needs an answer (`send`, `wait`; a run answers with no)
  16   the agent refused
  17   the model's limit of tokens ended the turn
  18   the limit of model requests ended the turn
  19   a form or a link was turned away
  A run that is interrupted ends by the signal (130 or 143 in a shell).

Examples:
  subagent run codex 'Fix the failing test.'
  subagent run -d codex --name login 'Fix the login bug.'
  subagent run --launcher codex --text-file task.md --timeout 10m
  subagent run --text 'List the open questions.' --output json
  subagent run --text 'Fix the tests.' --allow edit --allow 'execute(make *)'
  git diff | subagent run --text-stdin --result-schema review.schema.json
  subagent run --text-file task.md --timeout 10m --junit run.xml")]
pub struct RunArgs {
    /// A launcher or a definition of an agent; alone it is the prompt
    #[arg(value_name = "AGENT")]
    first: Option<String>,
    /// What it is to do; - reads stdin
    #[arg(value_name = "PROMPT")]
    second: Option<String>,
    /// Print the worker's name and return; the worker goes on
    #[arg(short = 'd', long, conflicts_with_all = ["timeout", "result_schema", "output", "summary", "junit"])]
    pub detach: bool,
    /// Reject what no rule allows instead of asking
    #[arg(long)]
    pub no_ask: bool,
    /// The text (for complex text use --text-file or --text-stdin)
    #[arg(long)]
    pub text: Option<String>,
    /// Read the text from a file
    #[arg(long, value_name = "PATH", value_parser = path())]
    pub text_file: Option<PathBuf>,
    /// Read the text from stdin
    #[arg(long)]
    pub text_stdin: bool,
    /// Attach a file; can be repeated
    ///
    /// Text, a picture or sound is sent as content, any other file as a link.
    #[arg(long, value_name = "FILE")]
    pub attach: Vec<PathBuf>,
    /// Maximum time of the run, as 90s, 10m, 2h [default: no limit]
    #[arg(long, value_name = "TIME", value_parser = limit)]
    pub timeout: Option<u64>,
    /// What to print: text, json (the result) or ndjson (all events)
    #[arg(long, value_name = "FORM", value_enum, default_value = "text")]
    pub output: RunOutputFormat,
    /// A JSON Schema that the final message has to meet
    #[arg(long, value_name = "PATH", value_parser = path())]
    pub result_schema: Option<PathBuf>,
    /// Append a summary in Markdown to this file, as $GITHUB_STEP_SUMMARY
    #[arg(long, value_name = "PATH", value_parser = path())]
    pub summary: Option<PathBuf>,
    /// Write a JUnit report with one test case to this file
    #[arg(long, value_name = "PATH", value_parser = path())]
    pub junit: Option<PathBuf>,
    /// What the worker is started with.
    #[command(flatten)]
    pub start: StartFlags,
    /// Which form of output: the same as --output json.
    #[command(flatten)]
    pub json: JsonFlag,
}

impl RunArgs {
    /// The agent and the prompt that were typed without flags.
    #[must_use]
    pub fn agent_and_prompt(&self) -> (Option<&str>, Option<&str>) {
        match (self.first.as_deref(), self.second.as_deref()) {
            (prompt, None) => (None, prompt),
            both => both,
        }
    }

    /// What is to be printed.
    #[must_use]
    pub fn format(&self) -> RunOutputFormat {
        match (self.json.json, self.output) {
            (true, RunOutputFormat::Text) => RunOutputFormat::Json,
            (_, form) => form,
        }
    }
}

/// A time in seconds, at least one.
fn limit(text: &str) -> Result<u64, String> {
    match age(text)? {
        0 => Err("must be 1s or more".to_owned()),
        seconds => Ok(seconds),
    }
}
