//! `worktree`: the git worktrees of workers. The daemon knows them, and has git look at them.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt as _;
use std::time::Duration;

use serde_json::{Value, json};
use subagent_config::Workspace;
use subagent_protocol::Code;
use subagent_protocol::api::{
    ChangeWorktree, GitEnvironment, PruneWorktrees, WorktreeChoice, WorktreeView, is_git_variable,
};
use subagent_protocol::bytes64::Bytes64;
use subagent_runtime::worktree;

use crate::args::look::Diff;
use crate::args::worktrees::{OneWorktree, WorktreeCommand, WorktreeFlags, WorktreeList, WorktreePrune};
use crate::client::{ApiRequest, DaemonClient, RequestPath, block_on, read, segment};
use crate::commands::diff;
use crate::commands::targets::has_state;
use crate::context::CliContext;
use crate::failure::{Failure, Result};
use crate::input::InputObject;
use crate::output::{CliOutcome, text};

/// The longest that the daemon lets git work without commands of the user.
const GIT_LIMIT: Duration = Duration::from_secs(6 * 60);
/// The longest that setup commands and checks take.
pub(crate) const COMMANDS_LIMIT: Duration = Duration::from_secs(31 * 60);

pub(crate) fn run(command: WorktreeCommand, context: &CliContext) -> Result<CliOutcome> {
    match command {
        WorktreeCommand::List(args) => list(&args, context),
        WorktreeCommand::Show(args) => show(&args.one, context),
        WorktreeCommand::Diff(args) => diff_of(args, context),
        WorktreeCommand::Setup(args) => {
            let keys = ["name", "path"];
            changed(&args.one, ("setup", COMMANDS_LIMIT), "worktree.ready", &keys, context)
        }
        WorktreeCommand::Remove(args) => {
            changed(&args.one, ("remove", GIT_LIMIT), "worktree.removed", &["name", "branch"], context)
        }
        WorktreeCommand::Discard(args) => {
            let keys = ["name", "branch", "retired"];
            changed(&args.one, ("discard", GIT_LIMIT), "worktree.discarded", &keys, context)
        }
        WorktreeCommand::Land(args) => crate::commands::land::run(*args, context),
        WorktreeCommand::Prune(args) => prune(&args, context),
    }
}

fn list(args: &WorktreeList, context: &CliContext) -> Result<CliOutcome> {
    let workspace = context.workspace(args.cwd.cwd.as_deref())?;
    let data = match has_state(&workspace) {
        true => {
            let mut client = DaemonClient::new(context, &workspace);
            let ask = ApiRequest::get(RequestPath::new("/v1/worktrees").with("contents", Some("true")));
            block_on(async move { client.ask(&ask.within(Some(GIT_LIMIT))).await })?
        }
        false => json!({"items": [], "count": 0}),
    };
    let shown = text::rows(&data, &["name", "state", "branch", "path"], "");
    Ok(CliOutcome::list("worktree.listed", data, shown, "(no worktrees)"))
}

fn show(one: &OneWorktree, context: &CliContext) -> Result<CliOutcome> {
    let workspace = context.workspace(one.cwd.cwd.as_deref())?;
    let path = format!("/v1/worktrees/{}", segment(&one.worktree));
    let mut client = DaemonClient::new(context, &workspace);
    let ask = ApiRequest::get(RequestPath::new(path)).within(Some(GIT_LIMIT));
    let data = block_on(async move { client.ask(&ask).await })?;
    let shown = text::fields(&data, &["name", "state", "path", "branch", "sourceBranch", "base", "workerId"]);
    Ok(CliOutcome::report("worktree.shown", data, shown))
}

/// Shows the diff of the workers of worktrees.
fn diff_of(mut args: Diff, context: &CliContext) -> Result<CliOutcome> {
    let workspace = context.workspace(args.cwd.cwd.as_deref())?;
    let mut client = DaemonClient::new(context, &workspace);
    for name in &mut args.workers {
        let ask = ApiRequest::get(RequestPath::new(format!("/v1/worktrees/{}", segment(name))))
            .within(Some(GIT_LIMIT));
        let view: WorktreeView = read(block_on(client.ask(&ask))?)?;
        *name = view.worker_id.to_string();
    }
    diff::run(args, context)
}

fn changed(
    one: &OneWorktree,
    (what, limit): (&str, Duration),
    answer: &'static str,
    keys: &[&str],
    context: &CliContext,
) -> Result<CliOutcome> {
    let workspace = context.workspace(one.cwd.cwd.as_deref())?;
    let data = change(&one.worktree, (what, limit), &workspace, context)?;
    let shown = text::fields(&data, keys);
    Ok(CliOutcome::report(answer, data, shown))
}

fn change(
    worktree: &str,
    (what, limit): (&str, Duration),
    workspace: &Workspace,
    context: &CliContext,
) -> Result<Value> {
    let path = format!("/v1/worktrees/{}/{what}", segment(worktree));
    let ask =
        ApiRequest::change(path, &ChangeWorktree { env: git_environment(context) })?.within(Some(limit));
    let mut client = DaemonClient::new(context, workspace);
    block_on(async move { client.ask(&ask).await })
}

/// Brings the files of a worktree to the main work tree.
pub(crate) fn merged(worktree: &str, workspace: &Workspace, context: &CliContext) -> Result<Value> {
    change(worktree, ("merge", GIT_LIMIT), workspace, context)
}

fn prune(args: &WorktreePrune, context: &CliContext) -> Result<CliOutcome> {
    let workspace = context.workspace(args.cwd.cwd.as_deref())?;
    let env = git_environment(context);
    let request = match args.retired {
        None => PruneWorktrees { env, ..PruneWorktrees::default() },
        Some(seconds) => {
            let config = context.config(None, args.cwd.cwd.as_deref())?;
            let root = subagent_config::start::worktree::root(&config.config.worktrees, &context.env)?;
            let copies = Some(worktree::copies(&workspace.root, &root)).filter(|folder| folder.is_dir());
            let repository = match worktree::repository(&workspace.root, &environment(context)) {
                Ok(repository) => Some(repository),
                // A folder without git has copies only.
                Err(error) if error.code == Code::WorktreeNeedsGit && copies.is_some() => None,
                Err(error) => return Err(error.into()),
            };
            let retired_older_than_ms = Some(seconds.saturating_mul(1000));
            PruneWorktrees { env, repository, copies, retired_older_than_ms }
        }
    };
    let ask = ApiRequest::change("/v1/worktrees/prune", &request)?.within(Some(GIT_LIMIT));
    let mut client = DaemonClient::new(context, &workspace);
    let data = block_on(async move { client.ask(&ask).await })?;
    let shown = [("removed", "removed"), ("kept", "kept")].map(|(key, word)| {
        let names = data[key].as_array().into_iter().flatten();
        names.map(|one| format!("{word}: {}", text::value(&one["name"]))).collect::<Vec<_>>()
    });
    let deleted =
        ["deletedRefs", "deletedCopies"].into_iter().filter_map(|key| data[key].as_array()).flatten();
    let deleted = deleted.map(|name| format!("deleted: {}", text::value(name)));
    let shown = shown.into_iter().flatten().chain(deleted).collect::<Vec<_>>().join("\n");
    Ok(CliOutcome::list("worktree.pruned", data, shown, "(nothing to remove)"))
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
