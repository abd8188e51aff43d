//! The OpenAPI document, generated from handlers and types and checked against `docs/openapi.json`.
//! Update it with `UPDATE_OPENAPI=1 cargo test -p subagentd openapi`.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use subagent_protocol::Error;
use utoipa::openapi::{ContentBuilder, Ref, RefOr, ResponseBuilder};
use utoipa::{Modify, OpenApi, ToSchema};

use super::handlers::automation::{hooks, notifications, schedules, triggers};
use super::handlers::maintenance::{backups, removal};
use super::handlers::questions::{approvals, inbox};
use super::handlers::{
    budgets, controllers, daemon, events, handoffs, panel, queue, tasks, turns, usage, waits, workers,
    worktrees,
};

#[derive(OpenApi)]
#[openapi(
    info(
        title = "subagentd",
        description = "The control plane of coding agents, as HTTP/1.1 and JSON on the daemon's unix socket. Every \
                       response is an envelope; see docs/api.md.",
        license(name = "MIT OR Apache-2.0"),
    ),
    servers((url = "http://localhost", description = "the socket that `daemon.json` in the state dir names")),
    components(schemas(ErrorEnvelope)),
    modifiers(&Errors),
    paths(
        daemon::show,
        daemon::examine,
        daemon::health,
        daemon::stop,
        backups::create,
        budgets::show,
        budgets::change,
        budgets::show_worker,
        budgets::change_worker,
        usage::show,
        controllers::init,
        controllers::attach,
        controllers::release,
        controllers::recover,
        controllers::status,
        controllers::resolve,
        workers::list,
        workers::start,
        workers::show,
        workers::overview,
        workers::overview_of_all,
        workers::transcript,
        workers::diff,
        workers::rename,
        workers::stop,
        workers::set,
        workers::logs,
        removal::remove,
        removal::prune,
        removal::prune_tasks,
        worktrees::list,
        worktrees::show,
        worktrees::set_up,
        worktrees::land,
        worktrees::merge,
        worktrees::remove,
        worktrees::discard,
        worktrees::prune,
        hooks::list,
        hooks::trust,
        hooks::distrust,
        handoffs::inspect,
        handoffs::create,
        handoffs::restart,
        turns::send,
        turns::cancel,
        turns::cancel_child,
        queue::list,
        queue::show,
        queue::drop_turn,
        queue::move_turn,
        queue::retry,
        queue::resume,
        waits::wait,
        waits::many,
        events::follow,
        events::follow_all,
        events::latest,
        events::latest_of_all,
        approvals::list,
        approvals::decide,
        approvals::answer,
        inbox::list,
        inbox::show,
        inbox::decide_all,
        inbox::rules,
        schedules::list,
        schedules::add,
        schedules::show,
        schedules::log,
        schedules::pause,
        schedules::resume,
        schedules::run,
        schedules::remove,
        triggers::list,
        triggers::add,
        triggers::show,
        triggers::log,
        triggers::pause,
        triggers::resume,
        triggers::run,
        triggers::fire,
        triggers::deliver,
        triggers::remove,
        notifications::list,
        notifications::log,
        notifications::test,
        panel::permit,
        inbox::remove_rule,
        tasks::run,
        tasks::list,
        tasks::agents,
        tasks::show,
        tasks::wait,
        tasks::message,
        tasks::cancel,
    )
)]
struct OpenApiDocument;

/// The envelope of an error response.
#[derive(ToSchema)]
#[serde(rename_all = "camelCase")]
#[allow(dead_code, reason = "only its schema is used")]
struct ErrorEnvelope {
    /// Version of the envelope: always `v1`.
    schema_version: String,
    /// Success flag: always false for an error.
    ok: bool,
    /// Type of the response: always `error`.
    r#type: String,
    /// The error with its code and details.
    error: Error,
}

/// Adds the error response to each operation.
struct Errors;

impl Modify for Errors {
    fn modify(&self, document: &mut utoipa::openapi::OpenApi) {
        let schema = RefOr::Ref(Ref::from_schema_name("ErrorEnvelope"));
        let content = ContentBuilder::new().schema(Some(schema)).build();
        let response = ResponseBuilder::new()
            .description("An error, identified by its code")
            .content("application/json", content)
            .build();
        for item in document.paths.paths.values_mut() {
            for operation in [&mut item.get, &mut item.post].into_iter().flatten() {
                operation.responses.responses.insert("default".to_owned(), RefOr::T(response.clone()));
            }
        }
    }
}

fn file() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/openapi.json")
}

#[test]
fn the_document_is_what_the_code_says() {
    let mut text = OpenApiDocument::openapi().to_pretty_json().unwrap();
    text.push('\n');
    if std::env::var_os("UPDATE_OPENAPI").is_some() {
        std::fs::write(file(), &text).unwrap();
    }
    let kept = std::fs::read_to_string(file()).unwrap_or_default();
    assert!(
        kept == text,
        "docs/openapi.json is out of date: run `UPDATE_OPENAPI=1 cargo test -p subagentd openapi`"
    );
}

#[test]
fn every_route_is_in_the_document() {
    let document = serde_json::to_value(OpenApiDocument::openapi()).unwrap();
    let described: BTreeSet<String> = document["paths"]
        .as_object()
        .unwrap()
        .iter()
        .flat_map(|(path, methods)| {
            methods.as_object().unwrap().keys().map(move |method| format!("{method} {path}"))
        })
        .collect();
    // The router cannot list its routes, so its source text is read.
    let mut routed = BTreeSet::new();
    for line in include_str!("mod.rs").lines().filter_map(|line| line.trim().strip_prefix(".route(")) {
        let (path, methods) = line.split_once(", ").unwrap();
        let path =
            if path == "layers::STOP_PATH" { super::layers::STOP_PATH } else { path.trim_matches('"') };
        for method in ["get", "post"] {
            if methods.contains(&format!("{method}(")) {
                routed.insert(format!("{method} {path}"));
            }
        }
    }
    assert_eq!(described, routed);
}
