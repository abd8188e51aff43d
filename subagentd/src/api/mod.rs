//! HTTP/1.1 and JSON on the daemon's socket: the routes of `/v1`. A handler reads its request and
//! calls the supervisor.
//! It must not hold business rules. A disconnected client cancels its handler, never the work.

mod control;
#[cfg(test)]
mod event_schema;
mod handlers;
mod request;
mod response;
mod state;
mod transport;

use std::sync::Arc;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::routing::{get, post};
use subagent_protocol::MAX_LINE_BYTES;

pub(crate) use control::{ShutdownPhase, StopRequest, control};
use handlers::automation::{hooks, notifications, schedules, triggers};
use handlers::maintenance::{backups, removal};
use handlers::questions::{approvals, inbox};
use handlers::{
    budgets, controllers, daemon, events, handoffs, panel, queue, tasks, turns, usage, waits, workers,
    worktrees,
};
pub(crate) use request::address::LastWorker;
use request::layers;
pub(crate) use state::Api;
pub(crate) use transport::server::{Connections, Guards, Listening, serve};

/// Builds all routes with the layers around them.
pub(crate) fn router(api: Api) -> Router {
    let surroundings = layers::Surroundings { control: api.control.clone(), info: Arc::clone(&api.info) };
    let routes = Router::new()
        .route("/v1/daemon", get(daemon::show))
        .route("/v1/daemon/examination", get(daemon::examine))
        .route("/v1/daemon/health", post(daemon::health))
        .route("/v1/daemon/backup", post(backups::create))
        .route(layers::STOP_PATH, post(daemon::stop))
        .route("/v1/controllers", get(controllers::recover).post(controllers::init))
        .route("/v1/controllers/attach", post(controllers::attach))
        .route("/v1/controllers/release", post(controllers::release))
        .route("/v1/controllers/status", get(controllers::status))
        .route("/v1/controllers/resolve", get(controllers::resolve))
        .route("/v1/budgets", get(budgets::show).post(budgets::change))
        .route("/v1/workers/{worker}/budget", get(budgets::show_worker).post(budgets::change_worker))
        .route("/v1/usage", get(usage::show))
        .route("/v1/hooks/trust", get(hooks::list).post(hooks::trust))
        .route("/v1/hooks/trust/remove", post(hooks::distrust))
        .route("/v1/panel/sessions", post(panel::permit))
        .route("/v1/prune", post(removal::prune))
        .route("/v1/prune/tasks", post(removal::prune_tasks))
        .route("/v1/wait", post(waits::many))
        .route("/v1/events", get(events::follow_all))
        .route("/v1/events/latest", get(events::latest_of_all))
        .route("/v1/workers", get(workers::list).post(workers::start))
        .route("/v1/workers/{worker}", get(workers::show))
        .route("/v1/overview", get(workers::overview_of_all))
        .route("/v1/workers/{worker}/transcript", get(workers::transcript))
        .route("/v1/workers/{worker}/overview", get(workers::overview))
        .route("/v1/workers/{worker}/diff", get(workers::diff))
        .route("/v1/workers/{worker}/stop", post(workers::stop))
        .route("/v1/workers/{worker}/remove", post(removal::remove))
        .route("/v1/workers/{worker}/inspect", get(handoffs::inspect))
        .route("/v1/workers/{worker}/restart", post(handoffs::restart))
        .route("/v1/workers/{worker}/handoffs", post(handoffs::create))
        .route("/v1/workers/{worker}/options", post(workers::set))
        .route("/v1/workers/{worker}/name", post(workers::rename))
        .route("/v1/workers/{worker}/logs", get(workers::logs))
        .route("/v1/workers/{worker}/turns", get(queue::list).post(turns::send))
        .route("/v1/workers/{worker}/queue/resume", post(queue::resume))
        .route("/v1/turns/{turn}", get(queue::show))
        .route("/v1/turns/{turn}/drop", post(queue::drop_turn))
        .route("/v1/turns/{turn}/move", post(queue::move_turn))
        .route("/v1/turns/{turn}/retry", post(queue::retry))
        .route("/v1/workers/{worker}/cancel", post(turns::cancel))
        .route("/v1/workers/{worker}/child-sessions/cancel", post(turns::cancel_child))
        .route("/v1/workers/{worker}/wait", post(waits::wait))
        .route("/v1/workers/{worker}/events", get(events::follow))
        .route("/v1/workers/{worker}/events/latest", get(events::latest))
        .route("/v1/workers/{worker}/approvals", get(approvals::list).post(inbox::decide_all))
        .route("/v1/workers/{worker}/approvals/{request}", post(approvals::decide))
        .route("/v1/workers/{worker}/elicitations/{request}", post(approvals::answer))
        .route("/v1/tasks", get(tasks::list).post(tasks::run))
        .route("/v1/tasks/agents", get(tasks::agents))
        .route("/v1/tasks/{task}", get(tasks::show))
        .route("/v1/tasks/{task}/wait", post(tasks::wait))
        .route("/v1/tasks/{task}/messages", post(tasks::message))
        .route("/v1/tasks/{task}/cancel", post(tasks::cancel))
        .route("/v1/approvals", get(inbox::list))
        .route("/v1/approvals/{request}", get(inbox::show))
        .route("/v1/rules", get(inbox::rules))
        .route("/v1/rules/{rule}/remove", post(inbox::remove_rule))
        .route("/v1/worktrees", get(worktrees::list))
        .route("/v1/worktrees/prune", post(worktrees::prune))
        .route("/v1/worktrees/{worktree}", get(worktrees::show))
        .route("/v1/worktrees/{worktree}/setup", post(worktrees::set_up))
        .route("/v1/worktrees/{worktree}/land", post(worktrees::land))
        .route("/v1/worktrees/{worktree}/merge", post(worktrees::merge))
        .route("/v1/worktrees/{worktree}/remove", post(worktrees::remove))
        .route("/v1/worktrees/{worktree}/discard", post(worktrees::discard))
        .route("/v1/schedules", get(schedules::list).post(schedules::add))
        .route("/v1/schedules/{schedule}", get(schedules::show))
        .route("/v1/schedules/{schedule}/log", get(schedules::log))
        .route("/v1/schedules/{schedule}/pause", post(schedules::pause))
        .route("/v1/schedules/{schedule}/resume", post(schedules::resume))
        .route("/v1/schedules/{schedule}/run", post(schedules::run))
        .route("/v1/schedules/{schedule}/remove", post(schedules::remove))
        .route("/v1/triggers", get(triggers::list).post(triggers::add))
        .route("/v1/triggers/{trigger}", get(triggers::show))
        .route("/v1/triggers/{trigger}/log", get(triggers::log))
        .route("/v1/triggers/{trigger}/pause", post(triggers::pause))
        .route("/v1/triggers/{trigger}/resume", post(triggers::resume))
        .route("/v1/triggers/{trigger}/run", post(triggers::run))
        .route("/v1/triggers/{trigger}/fire", post(triggers::fire))
        .route("/v1/triggers/{trigger}/deliver", post(triggers::deliver))
        .route("/v1/triggers/{trigger}/remove", post(triggers::remove))
        .route("/v1/notifications", get(notifications::list))
        .route("/v1/notifications/log", get(notifications::log))
        .route("/v1/notifications/test", post(notifications::test))
        .with_state(api);
    layers::around(routes, surroundings).layer(DefaultBodyLimit::max(MAX_LINE_BYTES))
}

#[cfg(test)]
mod openapi;
#[cfg(test)]
mod tests;
