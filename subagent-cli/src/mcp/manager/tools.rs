//! The definitions of a manager's tools. Pure.

use rmcp::model::{JsonObject, Tool, ToolAnnotations};
use serde_json::{Value, json};

/// Names of the tools, in list order.
pub(in crate::mcp) const NAMES: [&str; 10] = [
    "list_workers",
    "start_worker",
    "send_message",
    "wait_for",
    "list_questions",
    "answer_question",
    "stop_worker",
    "get_events",
    "get_diff",
    "land",
];
/// Maximum wait of one call in seconds. Clients cancel much longer calls.
pub(super) const MAX_WAIT: u64 = 60;
/// Default wait of one call in seconds.
pub(super) const DEFAULT_WAIT: u64 = 45;
pub(super) const MAX_EVENTS: u64 = 200;
pub(super) const DEFAULT_EVENTS: u64 = 50;
pub(super) const MAX_WORKERS: usize = 100;

/// Returns the definitions in list order.
pub(in crate::mcp) fn tools() -> Vec<Tool> {
    let worker = json!({"type": "string", "description": "The worker's id"});
    vec![
        tool(
            "list_workers",
            "List the workers of this workspace: agents that run under subagent, each with a session of its own.",
            json!({"all": {"type": "boolean", "default": false, "description": "Also stopped ones"}}),
            &[],
        )
        .annotate(looks("List workers")),
        tool(
            "start_worker",
            "Start a worker: a coding agent with a session of its own, which works until stop_worker. Returns its id. \
             For one piece of work with one result use task.",
            json!({
                "launcher": {"type": "string", "description": "Which launcher of the config; without it the default one"},
                "label": {"type": "string", "description": "A name for people"},
                "agent": {"type": "string", "description": "The definition that holds for it"},
                "model": {"type": "string", "description": "A model that the agent offers"},
                "mode": {"type": "string", "description": "A mode that the agent offers"},
                "worktree": {
                    "type": "boolean", "default": false,
                    "description": "In a git worktree of its own, so that several workers can edit; land takes the changes",
                },
            }),
            &[],
        )
        .annotate(changes("Start a worker")),
        tool(
            "send_message",
            "Send a message to a worker and return at once. wait_for returns how the turn ended.",
            json!({
                "worker_id": worker.clone(),
                "message": {"type": "string", "description": "The text"},
                "queue": {
                    "type": "boolean", "default": false,
                    "description": "If a turn is open: wait for its end instead of an error",
                },
            }),
            &["worker_id", "message"],
        )
        .annotate(changes("Send a message")),
        tool(
            "wait_for",
            "Wait until one of these workers has no open turn, or it or a task below it asks something. Returns for each of \
             them its last message or the question. If nothing happens in time, `timed_out` is true: call it again.",
            json!({
                "worker_ids": {
                    "type": "array", "items": {"type": "string"}, "minItems": 1, "maxItems": MAX_WORKERS,
                    "description": "The workers",
                },
                "timeout_seconds": {
                    "type": "number", "minimum": 0, "maximum": MAX_WAIT, "default": DEFAULT_WAIT,
                    "description": "How long at most",
                },
            }),
            &["worker_ids"],
        )
        .annotate(looks("Wait for workers")),
        tool(
            "list_questions",
            "List the open questions of all workers and tasks. An agent that asks does not go on before it has an answer.",
            json!({"worker_id": {"type": "string", "description": "Only those of this worker and of the tasks below it"}}),
            &[],
        )
        .annotate(looks("List questions")),
        tool(
            "answer_question",
            "Answer a question of list_questions or wait_for. Ask your user before you allow what they may not want.",
            json!({
                "request_id": {"type": "string", "description": "The question"},
                "decision": {
                    "type": "string",
                    "description": "Of a permission request allow, deny, or an option's id; of a form accept, decline or cancel",
                },
                "content": {"type": "object", "description": "The values of a form that is accepted"},
                "note": {"type": "string", "description": "Why, for the journal"},
            }),
            &["request_id", "decision"],
        )
        .annotate(changes("Answer a question")),
        tool(
            "stop_worker",
            "Stop a worker and the tasks below it. Its history stays.",
            json!({"worker_id": worker.clone()}),
            &["worker_id"],
        )
        .annotate(changes("Stop a worker").destructive(true)),
        tool(
            "get_events",
            "Read what a worker did, event by event. Returns `next_cursor`: give it as cursor to go on. A page has at most 64 \
             KiB; what is longer is cut and says `truncated`.",
            json!({
                "worker_id": worker.clone(),
                "cursor": {"type": "string", "description": "Only later events than this one; without it from the first"},
                "limit": {
                    "type": "integer", "minimum": 1, "maximum": MAX_EVENTS, "default": DEFAULT_EVENTS,
                    "description": "Maximum number of events",
                },
            }),
            &["worker_id"],
        )
        .annotate(looks("Read events")),
        tool(
            "get_diff",
            "Read what has changed in a worker's folder since its first message, as `git diff` prints it. At most 64 KiB: patches \
             that do not fit are left out and say `truncated`; `file_count` counts all files.",
            json!({"worker_id": worker.clone()}),
            &["worker_id"],
        )
        .annotate(looks("Read changes")),
        tool(
            "land",
            "Bring the changes of a worker's git worktree to the branch that it came from, as one commit. A conflict or a check \
             that fails changes nothing: send the error to the worker, then call this again. Checks may take minutes: if the call \
             times out, get_events has `worktree.landed` when it is done. Ask your user before.",
            json!({
                "worker_id": worker,
                "into": {"type": "string", "description": "Another branch"},
                "message": {"type": "string", "description": "The message of the commit"},
            }),
            &["worker_id"],
        )
        .annotate(changes("Land changes").destructive(true)),
    ]
}

fn looks(title: &str) -> ToolAnnotations {
    ToolAnnotations::with_title(title).read_only(true)
}

fn changes(title: &str) -> ToolAnnotations {
    ToolAnnotations::with_title(title).read_only(false)
}

fn tool(name: &'static str, text: &str, properties: Value, required: &[&str]) -> Tool {
    let mut schema = JsonObject::new();
    schema.insert("type".to_owned(), "object".into());
    schema.insert("properties".to_owned(), properties);
    schema.insert("required".to_owned(), required.into());
    schema.insert("additionalProperties".to_owned(), false.into());
    Tool::new(name, text.to_owned(), schema)
}
