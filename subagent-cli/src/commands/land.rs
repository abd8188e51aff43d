//! `land`: the changes of worktrees come to a branch.

use std::fs;
use std::path::PathBuf;

use clap::{ArgGroup, Args};
use serde_json::{Value, json};
use subagent_config::Workspace;
use subagent_config::worktrees::Worktrees;
use subagent_protocol::Code;
use subagent_protocol::api::{LandWorktree, WorktreeView};
use subagent_protocol::worktree::LandingMode;
use subagent_runtime::worktree;

use super::worktree::{COMMANDS_LIMIT, environment, git_environment};
use crate::client::{ApiRequest, DaemonClient, RequestPath, block_on, read, segment};
use crate::command_line::flags::{ConfigFlag, CwdFlag, JsonFlag, path};
use crate::commands::send;
use crate::context::CliContext;
use crate::failure::{Failure, Result};
use crate::output::{CliOutcome, human, text};
use crate::sibling_executable::sibling_executable;

/// Bring the changes of a worktree to the branch that it came from
///
/// The worker's changes become one commit on that branch, and in the files of your work tree. What it has not committed is
/// committed first. The target is not changed if it has conflicts, or changes of yours in the same files. The worktree of
/// a stopped worker is removed afterwards; a worker that lives goes on from there. Several worktrees land in turn; the
/// first that cannot ends it.
#[derive(Debug, Args)]
#[command(
    group(ArgGroup::new("how").args(["squash", "merge", "rebase", "patch"])),
    after_help = "\
Examples:
  subagent land codex-1
  subagent land codex-1 --into main --message 'Fix the login'
  subagent land auth api docs --check 'cargo test'
  subagent land codex-1 --patch fix.patch"
)]
pub(crate) struct LandArgs {
    /// The worktrees: their names, or their workers
    #[arg(value_name = "WORKTREE", required = true)]
    pub(crate) worktrees: Vec<String>,
    /// The branch [default: the one that the worktree came from]
    #[arg(long, value_name = "BRANCH")]
    pub(crate) into: Option<String>,
    /// One commit with all changes (the default)
    #[arg(long)]
    pub(crate) squash: bool,
    /// A merge commit
    #[arg(long)]
    pub(crate) merge: bool,
    /// The worker's commits again, on top of the branch
    #[arg(long)]
    pub(crate) rebase: bool,
    /// Write the changes to a file, and change nothing else
    #[arg(long, value_name = "FILE", value_parser = path(), conflicts_with_all = ["into", "message", "check", "fix", "keep"])]
    pub(crate) patch: Option<PathBuf>,
    /// The message of the commit [default: made of the worker's commits]
    #[arg(long, value_name = "TEXT")]
    pub(crate) message: Option<String>,
    /// A shell command that must succeed with the merged files; can be repeated
    /// [default: the config's]
    #[arg(long, value_name = "COMMAND")]
    pub(crate) check: Vec<String>,
    /// On a conflict or a failed check, send it to the worker, wait, and try again
    #[arg(long)]
    pub(crate) fix: bool,
    /// Keep the worktree as it is
    #[arg(long)]
    pub(crate) keep: bool,
    #[command(flatten)]
    pub(crate) cwd: CwdFlag,
    #[command(flatten)]
    pub(crate) config: ConfigFlag,
    #[command(flatten)]
    pub(crate) json: JsonFlag,
}

const KEYS: [&str; 4] = ["name", "into", "commit", "worktreeRemoved"];

pub(crate) fn run(args: LandArgs, context: &CliContext) -> Result<CliOutcome> {
    let workspace = context.workspace(args.cwd.cwd.as_deref())?;
    let config = context.config(args.config.config.as_deref(), args.cwd.cwd.as_deref())?;
    let mut client = DaemonClient::new(context, &workspace);
    if let Some(file) = &args.patch {
        let [name] = args.worktrees.as_slice() else {
            return Err(Failure::argument("--patch takes the changes of one worktree").wrong_usage());
        };
        let path = RequestPath::new(format!("/v1/worktrees/{}", segment(name)));
        let data = block_on(async move { client.ask(&ApiRequest::get(path)).await })?;
        return patch(&read(data)?, &context.env.cwd.join(file), context);
    }
    let options = LandOptions {
        into: args.into.clone(),
        message: args.message.clone(),
        how: match (args.merge, args.rebase) {
            (true, _) => LandingMode::Merge,
            (_, true) => LandingMode::Rebase,
            _ => LandingMode::Squash,
        },
        checks: args.check.clone(),
        keep: args.keep,
    };
    let request = options.request(&config.config.worktrees, context);
    let mut landed: Vec<Value> = Vec::new();
    for name in &args.worktrees {
        let one = match block_on(land(&mut client, name, &request)) {
            Err(failure) if args.fix => fix(name, failure, &workspace, context)
                .and_then(|()| block_on(land(&mut client, name, &request))),
            other => other,
        };
        match one {
            Ok(data) => landed.push(data),
            Err(failure) if landed.is_empty() => return Err(failure),
            Err(failure) => {
                let names: Vec<&str> = landed.iter().map(human::named).collect();
                return Err(failure.with("landed", names));
            }
        }
    }
    if let [_] = args.worktrees.as_slice() {
        let data = landed.pop().unwrap_or_default();
        let shown = text::fields(&data, &KEYS);
        return Ok(CliOutcome::report("worktree.landed", data, shown));
    }
    let data = json!({"count": landed.len(), "items": landed});
    let shown = text::rows(&data, &KEYS, "");
    Ok(CliOutcome::report("worktrees.landed", data, shown))
}

/// What a caller says of a landing; the rest is in the config.
#[derive(Debug, Default)]
pub(crate) struct LandOptions {
    pub(crate) into: Option<String>,
    pub(crate) message: Option<String>,
    pub(crate) how: LandingMode,
    pub(crate) checks: Vec<String>,
    pub(crate) keep: bool,
}

impl LandOptions {
    pub(crate) fn request(self, config: &Worktrees, context: &CliContext) -> LandWorktree {
        LandWorktree {
            env: git_environment(context),
            into: self.into,
            how: self.how,
            message: self.message,
            checks: if self.checks.is_empty() { config.check.clone() } else { self.checks },
            protected: config.protected.clone(),
            keep: self.keep,
        }
    }
}

/// Lands one worktree.
///
/// # Errors
/// Those of the daemon, with the conflict or the output of a check.
pub(crate) async fn land(client: &mut DaemonClient, name: &str, request: &LandWorktree) -> Result<Value> {
    let path = format!("/v1/worktrees/{}/land", segment(name));
    client.ask(&ApiRequest::change(path, request)?.within(Some(COMMANDS_LIMIT))).await
}

/// Sends a conflict or the output of a check to the worker, and waits until it has answered.
fn fix(name: &str, failure: Failure, workspace: &Workspace, context: &CliContext) -> Result<()> {
    let facts = failure.facts();
    let prompt = if failure.is(Code::LandConflict) {
        let files = facts.files.0.unwrap_or_default();
        let mut files: Vec<String> = files.iter().map(|file| format!("- {file}")).collect();
        files.extend(facts.more_files.0.map(|more| format!("- and {more} more")));
        format!(
            "Your changes conflict with the branch `{0}`, which has moved on. Merge it into your branch with \
             `git merge {0}`, resolve the conflicts, and commit the merge. Keep the intent of both sides. \
             These files have conflicts:\n\n{1}",
            facts.into.0.unwrap_or_default(),
            files.join("\n")
        )
    } else if failure.is(Code::LandCheckFailed) {
        format!(
            "Your changes were merged with their target branch, and this check failed:\n\n    {}\n\n\
             Its output ends like this:\n\n{}\n\nMend the cause.",
            facts.command.0.unwrap_or_default(),
            facts.output.0.unwrap_or_default()
        )
    } else {
        return Err(failure);
    };
    let unfixed = send::and_wait(name, prompt, workspace, context)?;
    unfixed.map_or(Ok(()), |reason| Err(failure.with("fix", reason)))
}

/// Writes the changes of a worktree to a file.
fn patch(view: &WorktreeView, file: &std::path::Path, context: &CliContext) -> Result<CliOutcome> {
    let bytes =
        worktree::patch(&view.worktree(), &environment(context), &sibling_executable("subagent-runtime")?)?;
    fs::write(file, &bytes).map_err(|error| {
        Failure::new(Code::InvalidArgument, format!("{} cannot be written: {error}", file.display()))
            .with("path", file.to_string_lossy())
    })?;
    let data = json!({"name": view.name, "path": file.to_string_lossy(), "bytes": bytes.len()});
    let shown = text::fields(&data, &["name", "path", "bytes"]);
    Ok(CliOutcome::report("worktree.patch", data, shown))
}
