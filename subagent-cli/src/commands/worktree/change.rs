//! Requests about worktrees: limits, environment, and the changes themselves.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt as _;
use std::time::Duration;

use clap::Args;
use serde::Serialize;
use serde_json::Value;
use subagent_config::Workspace;
use subagent_protocol::api::{ChangeWorktree, GitEnvironment, WorktreeChoice, is_git_variable};
use subagent_protocol::bytes64::Bytes64;

use crate::client::{ApiRequest, DaemonClient, block_on, segment};
use crate::command_line::flags::start::WorktreeFlags;
use crate::command_line::flags::{CwdFlag, JsonFlag};
use crate::context::CliContext;
use crate::failure::{Failure, Result};
use crate::input::InputObject;
use crate::output::{CliOutcome, text};

/// The worktree that a command is about, and what all such commands take.
#[derive(Debug, Args)]
pub(crate) struct OneWorktree {
    /// The worktree: its name, or its worker
    #[arg(value_name = "WORKTREE")]
    pub(crate) worktree: String,
    #[command(flatten)]
    pub(crate) cwd: CwdFlag,
    #[command(flatten)]
    pub(crate) json: JsonFlag,
}

/// The longest that the daemon lets git work without commands of the user.
pub(super) const GIT_LIMIT: Duration = Duration::from_secs(6 * 60);

/// The longest that setup commands and checks take.
pub(crate) const COMMANDS_LIMIT: Duration = Duration::from_secs(31 * 60);

pub(super) fn changed(
    one: &OneWorktree,
    (what, limit): (&str, Duration),
    (answer, keys): (&'static str, &[&str]),
    request: &impl Serialize,
    context: &CliContext,
) -> Result<CliOutcome> {
    let workspace = context.workspace(one.cwd.cwd.as_deref())?;
    let data = change(&one.worktree, (what, limit), request, &workspace, context)?;
    let shown = text::fields(&data, keys);
    Ok(CliOutcome::report(answer, data, shown))
}

fn change(
    worktree: &str,
    (what, limit): (&str, Duration),
    request: &impl Serialize,
    workspace: &Workspace,
    context: &CliContext,
) -> Result<Value> {
    let path = format!("/v1/worktrees/{}/{what}", segment(worktree));
    let ask = ApiRequest::change(path, request)?.within(Some(limit));
    let mut client = DaemonClient::new(context, workspace);
    block_on(async move { client.ask(&ask).await })
}

/// The request without choices of its own.
pub(super) fn plain(context: &CliContext) -> ChangeWorktree {
    ChangeWorktree { env: git_environment(context) }
}

/// Brings the files of a worktree to the main work tree.
pub(crate) fn merged(worktree: &str, workspace: &Workspace, context: &CliContext) -> Result<Value> {
    change(worktree, ("merge", GIT_LIMIT), &plain(context), workspace, context)
}

/// What flags and the key `worktree` of `--input` say.
///
/// # Errors
/// `INVALID_INPUT{field}` for a key that is no worktree.
pub(crate) fn typed(flags: WorktreeFlags, input: &InputObject) -> Result<Option<WorktreeChoice>> {
    let Some(given) = input.object("worktree") else { return Ok(flags.choice()) };
    serde_json::from_value(given.into()).map(Some).map_err(|error| {
        Failure::input(format!("\"worktree\" in --input: {error}")).with("field", "worktree")
    })
}

/// All variables of this command, for git that it runs itself.
pub(crate) fn environment(context: &CliContext) -> Vec<(OsString, OsString)> {
    context.env.vars.iter().map(|(name, value)| (name.clone(), value.clone())).collect()
}

/// The variables that git needs of this command's.
pub(crate) fn git_environment(context: &CliContext) -> GitEnvironment {
    let vars = context.env.vars.iter().filter(|(name, _)| is_git_variable(name.as_bytes()));
    let bytes = |text: &std::ffi::OsString| Bytes64(text.as_bytes().to_vec());
    vars.map(|(name, value)| (bytes(name), bytes(value))).collect()
}
