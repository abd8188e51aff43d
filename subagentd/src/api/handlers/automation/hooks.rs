//! Handlers for trusted hook files. All are refused from below a worker.

use axum::extract::State;
use subagent_protocol::api::{AllTrustedHooks, DistrustHooks, DistrustedHooks, TrustHooks, TrustedHooks};

#[cfg(test)]
use subagent_protocol::api::Envelope;

use crate::api::request::body::Body;
use crate::api::request::caller::Owner;
use crate::api::response::reply::{HandlerResult, TypedReply};
use crate::api::state::Api;
use crate::supervisor;

/// Lists the file contents whose hooks are trusted.
#[cfg_attr(test, utoipa::path(get, path = "/v1/hooks/trust", responses((status = 200, description = "`hook.trust`: the contents of files whose hooks run", body = Envelope<AllTrustedHooks>))))]
pub(in crate::api) async fn list(State(api): State<Api>, _: Owner) -> HandlerResult<AllTrustedHooks> {
    Ok(TypedReply("hook.trust", supervisor::hooks::hook_files::trusted_hooks(&api.supervisor).await?))
}

/// Trusts the hooks of a file with its current content.
#[cfg_attr(test, utoipa::path(post, path = "/v1/hooks/trust", request_body = TrustHooks, responses((status = 200, description = "`hook.trusted`", body = Envelope<TrustedHooks>))))]
pub(in crate::api) async fn trust(
    State(api): State<Api>,
    Owner(caller): Owner,
    Body(request): Body<TrustHooks>,
) -> HandlerResult<TrustedHooks> {
    Ok(TypedReply(
        "hook.trusted",
        supervisor::hooks::hook_files::trust_hooks(&api.supervisor, caller, request).await?,
    ))
}

/// Revokes the trust in a file's hooks.
#[cfg_attr(test, utoipa::path(post, path = "/v1/hooks/trust/remove", request_body = DistrustHooks, responses((status = 200, description = "`hook.distrusted`", body = Envelope<DistrustedHooks>))))]
pub(in crate::api) async fn distrust(
    State(api): State<Api>,
    Owner(caller): Owner,
    Body(request): Body<DistrustHooks>,
) -> HandlerResult<DistrustedHooks> {
    Ok(TypedReply(
        "hook.distrusted",
        supervisor::hooks::hook_files::distrust_hooks(&api.supervisor, caller, request).await?,
    ))
}
