//! Flags of `answer`.

use std::path::PathBuf;

use clap::Args;

use super::{ConfigFlag, CwdFlag, JsonFlag, path};

/// Answer a form or a link that an agent asks you for
///
/// With --accept the fields of a form are filled in by --set or --content; the form says which there are, and of which
/// type (see `worker inspect`, or the event elicitation.requested). --decline refuses, and --cancel turns away. A link is
/// never opened by this program.
///
/// Other programs of the same user can see what you type, and the shell keeps it in its history.
/// Give a secret with --input - from a pipe. The daemon forgets the values as soon as the agent has
/// them.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  subagent answer --accept --set name=demo --set size=3
  subagent answer codex-1 --decline
  pass show token | jq -R '{action: \"accept\", content: {token: .}}' |
      subagent answer codex-1 --input - --json")]
pub struct AnswerArgs {
    /// A worker or a question [default: the one question that is open]
    #[arg(value_name = "WORKER|REQUEST", conflicts_with_all = ["worker_id", "request_id"])]
    pub target: Option<String>,
    /// The worker
    #[arg(long, alias = "worker", value_name = "WORKER")]
    pub worker_id: Option<String>,
    /// The id of the question [default: the one that is open]
    #[arg(id = "request_id", long = "request", alias = "request-id", value_name = "ID")]
    pub request: Option<String>,
    /// Give what is asked for
    #[arg(long, conflicts_with_all = ["decline", "cancel"])]
    pub accept: bool,
    /// Refuse to give it
    #[arg(long, conflicts_with = "cancel")]
    pub decline: bool,
    /// Neither give nor refuse it
    #[arg(long)]
    pub cancel: bool,
    /// Fill in a field; repeat it for a list
    #[arg(long, value_name = "FIELD=VALUE")]
    pub set: Vec<String>,
    /// All fields as a JSON object
    #[arg(id = "content_json", long = "content", value_name = "JSON", conflicts_with = "set")]
    pub content: Option<String>,
    /// Read workerId, requestId, action, content from structured JSON, - for stdin
    #[arg(long, value_name = "PATH", value_parser = path())]
    pub input: Option<PathBuf>,
    /// `--cwd`, a folder of the workspace.
    #[command(flatten)]
    pub cwd: CwdFlag,
    /// `--config`, the path of the config file.
    #[command(flatten)]
    pub config: ConfigFlag,
    /// Which form of output.
    #[command(flatten)]
    pub json: JsonFlag,
}
