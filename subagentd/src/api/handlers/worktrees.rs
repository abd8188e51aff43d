//! Handlers for git worktrees of workers. All are refused from below a worker.

use axum::extract::State;
use serde::Deserialize;
use subagent_protocol::api::{
    ChangeWorktree, DiscardWorktree, LandWorktree, PruneWorktrees, WorktreeLanded, WorktreeMerged,
    WorktreeRemoved, WorktreeView, WorktreesListed, WorktreesPruned,
};

#[cfg(test)]
use subagent_protocol::api::Envelope;

use crate::api::request::address::AddressedWorktree;
use crate::api::request::body::{Body, QueryParams};
use crate::api::request::caller::Owner;
use crate::api::response::reply::{HandlerResult, TypedReply};
use crate::api::state::Api;
use crate::supervisor;

#[derive(Deserialize)]
pub(in crate::api) struct WorktreeListQuery {
    /// Whether to include the contents of each worktree.
    #[serde(default)]
    contents: bool,
}

/// Lists all worktrees, newest first.
#[cfg_attr(test, utoipa::path(get, path = "/v1/worktrees", params(("contents" = Option<bool>, Query, description = "whether to look what is in each")), responses((status = 200, description = "`worktree.listed`: all worktrees, the newest first", body = Envelope<WorktreesListed>))))]
pub(in crate::api) async fn list(
    State(api): State<Api>,
    _: Owner,
    QueryParams(listing): QueryParams<WorktreeListQuery>,
) -> HandlerResult<WorktreesListed> {
    Ok(TypedReply(
        "worktree.listed",
        supervisor::worktrees::lookup::list_worktrees(&api.supervisor, listing.contents).await?,
    ))
}

/// Returns one worktree and its contents.
#[cfg_attr(test, utoipa::path(get, path = "/v1/worktrees/{worktree}", params(("worktree" = String, Path, description = "its name, or an address of its worker")), responses((status = 200, description = "`worktree.shown`: the worktree and what is in it", body = Envelope<WorktreeView>))))]
pub(in crate::api) async fn show(
    State(api): State<Api>,
    _: Owner,
    AddressedWorktree(worktree): AddressedWorktree,
) -> HandlerResult<WorktreeView> {
    Ok(TypedReply(
        "worktree.shown",
        supervisor::worktrees::lookup::show_worktree(&api.supervisor, &worktree).await?,
    ))
}

/// Repeats the setup of a worktree: copies files and runs the setup command.
#[cfg_attr(test, utoipa::path(post, path = "/v1/worktrees/{worktree}/setup", params(("worktree" = String, Path, description = "its name, or an address of its worker")), request_body = ChangeWorktree, responses((status = 200, description = "`worktree.ready`: what makes it usable was copied and run again", body = Envelope<WorktreeView>))))]
pub(in crate::api) async fn set_up(
    State(api): State<Api>,
    Owner(caller): Owner,
    AddressedWorktree(worktree): AddressedWorktree,
    Body(request): Body<ChangeWorktree>,
) -> HandlerResult<WorktreeView> {
    Ok(TypedReply(
        "worktree.ready",
        supervisor::worktrees::removing::set_up_worktree(&api.supervisor, caller, &worktree, request).await?,
    ))
}

/// Lands the changes of a worktree as commits on its target branch.
#[cfg_attr(test, utoipa::path(post, path = "/v1/worktrees/{worktree}/land", params(("worktree" = String, Path, description = "its name, or an address of its worker")), request_body = LandWorktree, responses((status = 200, description = "`worktree.landed`: the branch has its changes", body = Envelope<WorktreeLanded>))))]
pub(in crate::api) async fn land(
    State(api): State<Api>,
    Owner(caller): Owner,
    AddressedWorktree(worktree): AddressedWorktree,
    Body(request): Body<LandWorktree>,
) -> HandlerResult<WorktreeLanded> {
    Ok(TypedReply(
        "worktree.landed",
        supervisor::worktrees::land::land_worktree(&api.supervisor, caller, &worktree, request).await?,
    ))
}

/// Merges the changed files of a worktree into the main work tree, without commits.
#[cfg_attr(test, utoipa::path(post, path = "/v1/worktrees/{worktree}/merge", params(("worktree" = String, Path, description = "its name, or an address of its worker")), request_body = ChangeWorktree, responses((status = 200, description = "`worktree.merged`: the main work tree has its files", body = Envelope<WorktreeMerged>))))]
pub(in crate::api) async fn merge(
    State(api): State<Api>,
    Owner(caller): Owner,
    AddressedWorktree(worktree): AddressedWorktree,
    Body(request): Body<ChangeWorktree>,
) -> HandlerResult<WorktreeMerged> {
    Ok(TypedReply(
        "worktree.merged",
        supervisor::worktrees::merge::merge_worktree(&api.supervisor, caller, &worktree, request).await?,
    ))
}

/// Removes a worktree without changes.
#[cfg_attr(test, utoipa::path(post, path = "/v1/worktrees/{worktree}/remove", params(("worktree" = String, Path, description = "its name, or an address of its worker")), request_body = ChangeWorktree, responses((status = 200, description = "`worktree.removed`: nothing was in it", body = Envelope<WorktreeRemoved>))))]
pub(in crate::api) async fn remove(
    State(api): State<Api>,
    Owner(caller): Owner,
    AddressedWorktree(worktree): AddressedWorktree,
    Body(request): Body<ChangeWorktree>,
) -> HandlerResult<WorktreeRemoved> {
    Ok(TypedReply(
        "worktree.removed",
        supervisor::worktrees::removing::remove_worktree(&api.supervisor, caller, &worktree, request).await?,
    ))
}

/// Removes a worktree, and keeps its contents under a git ref.
#[cfg_attr(test, utoipa::path(post, path = "/v1/worktrees/{worktree}/discard", params(("worktree" = String, Path, description = "its name, or an address of its worker")), request_body = DiscardWorktree, responses((status = 200, description = "`worktree.discarded`: a ref keeps what was in it", body = Envelope<WorktreeRemoved>))))]
pub(in crate::api) async fn discard(
    State(api): State<Api>,
    Owner(caller): Owner,
    AddressedWorktree(worktree): AddressedWorktree,
    Body(request): Body<DiscardWorktree>,
) -> HandlerResult<WorktreeRemoved> {
    Ok(TypedReply(
        "worktree.discarded",
        supervisor::worktrees::removing::discard_worktree(&api.supervisor, caller, &worktree, request)
            .await?,
    ))
}

/// Removes the clean worktrees of stopped workers, and old refs of retired ones.
#[cfg_attr(test, utoipa::path(post, path = "/v1/worktrees/prune", request_body = PruneWorktrees, responses((status = 200, description = "`worktree.pruned`", body = Envelope<WorktreesPruned>))))]
pub(in crate::api) async fn prune(
    State(api): State<Api>,
    Owner(caller): Owner,
    Body(request): Body<PruneWorktrees>,
) -> HandlerResult<WorktreesPruned> {
    Ok(TypedReply(
        "worktree.pruned",
        supervisor::worktrees::removing::prune_worktrees(&api.supervisor, caller, request).await?,
    ))
}
