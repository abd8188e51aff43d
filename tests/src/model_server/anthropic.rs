//! Anthropic's Messages API as far as Claude Code uses it: `/v1/messages`, streamed or not,
//! and `count_tokens`. Only translates.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{StatusCode, Uri};
use axum::response::{IntoResponse, Json, Response};
use axum::routing::post;
use serde_json::{Value, json};

use super::reply::{Wire, event, failure, streamed};
use super::sample::aside;
use super::script::{ModelResponseStep, Turn};
use super::seen::{Asked, RequestLog, id};
use super::tools::{Call, Input, OfferedTool};

pub(super) fn routes() -> Router<Arc<RequestLog>> {
    Router::new().route("/v1/messages", post(messages)).route("/v1/messages/count_tokens", post(count_tokens))
}

async fn count_tokens(State(seen): State<Arc<RequestLog>>, uri: Uri, body: Bytes) -> Response {
    match seen.read(&uri, &body, |_| Asked::Aside) {
        Ok(_) => Json(json!({"input_tokens": 100})).into_response(),
        Err(why) => failure::<Anthropic>(StatusCode::BAD_REQUEST, &why),
    }
}

async fn messages(State(seen): State<Arc<RequestLog>>, uri: Uri, body: Bytes) -> Response {
    let body = match seen.read(&uri, &body, asked) {
        Ok(body) => body,
        Err(why) => return failure::<Anthropic>(StatusCode::BAD_REQUEST, &why),
    };
    let offered = offered(&body);
    let steps = if offered.is_empty() { aside(&body) } else { seen.answer(&turn(&body)) };
    let wire =
        Anthropic { model: body["model"].as_str().unwrap_or_default().to_owned(), ..Default::default() };
    if body["stream"] == true {
        return streamed(wire, steps, offered);
    }
    let text: String = steps.iter().filter_map(ModelResponseStep::text).collect();
    let mut message = wire.message(id("msg"));
    message["content"] = json!([{"type": "text", "text": text}]);
    message["stop_reason"] = json!("end_turn");
    Json(message).into_response()
}

fn asked(body: &Value) -> Asked {
    if offered(body).is_empty() { Asked::Aside } else { Asked::of(&turn(body)) }
}

fn offered(body: &Value) -> Vec<OfferedTool> {
    let tools = body["tools"].as_array().into_iter().flatten();
    tools.filter_map(|tool| Some(OfferedTool::new(tool["name"].as_str()?, &tool["input_schema"]))).collect()
}

/// Returns the state of the conversation. The agent adds its own reminders to messages of the
/// user or of tools.
fn turn(body: &Value) -> Turn {
    let messages = body["messages"].as_array().map(Vec::as_slice).unwrap_or_default();
    let last = messages.iter().rev().find(|message| message["role"] == "user").unwrap_or(&Value::Null);
    let blocks = match &last["content"] {
        Value::String(text) => vec![json!({"type": "text", "text": text})],
        Value::Array(blocks) => blocks.clone(),
        _ => Vec::new(),
    };
    // The last relevant block: the user's text after a canceled call arrives together
    // with the call's end.
    for block in blocks.iter().rev() {
        match block["text"].as_str() {
            _ if block["type"] == "tool_result" => return Turn::ToolReturned(flat(&block["content"])),
            Some(text) if !text.trim_start().starts_with("<system-reminder>") => {
                return Turn::User(text.to_owned());
            }
            _ => {}
        }
    }
    Turn::User(String::new())
}

/// Returns the text of a content that is a text or a list of blocks.
fn flat(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(blocks) => blocks.iter().filter_map(|block| block["text"].as_str()).collect(),
        other => other.to_string(),
    }
}

/// Writes the events of a message: each text chunk and each call is a separate content block.
#[derive(Default)]
struct Anthropic {
    model: String,
    blocks: u64,
    called: bool,
}

impl Anthropic {
    fn message(&self, id: String) -> Value {
        json!({
            "id": id, "type": "message", "role": "assistant", "model": self.model, "content": [],
            "stop_reason": null, "stop_sequence": null, "usage": {"input_tokens": 100, "output_tokens": 20},
        })
    }

    fn block(&mut self, start: Value, delta: Value) -> String {
        let index = self.blocks;
        self.blocks += 1;
        let started = json!({"type": "content_block_start", "index": index, "content_block": start});
        let delta = json!({"type": "content_block_delta", "index": index, "delta": delta});
        [started, delta, json!({"type": "content_block_stop", "index": index})].iter().map(named).collect()
    }
}

/// Returns an event named after the type in its data.
fn named(data: &Value) -> String {
    event(data["type"].as_str(), data)
}

impl Wire for Anthropic {
    fn begin(&mut self) -> String {
        named(&json!({"type": "message_start", "message": self.message(id("msg"))}))
    }

    fn text(&mut self, text: &str) -> String {
        self.block(json!({"type": "text", "text": ""}), json!({"type": "text_delta", "text": text}))
    }

    fn call(&mut self, call: &Call) -> String {
        self.called = true;
        let input = match &call.input {
            Input::Args(args) => args.to_string(),
            Input::Text(text) => json!({"input": text}).to_string(),
        };
        self.block(
            json!({"type": "tool_use", "id": id("toolu"), "name": call.name, "input": {}}),
            json!({"type": "input_json_delta", "partial_json": input}),
        )
    }

    fn end(&mut self) -> String {
        let reason = if self.called { "tool_use" } else { "end_turn" };
        let delta = json!({
            "type": "message_delta", "delta": {"stop_reason": reason, "stop_sequence": null},
            "usage": {"output_tokens": 20},
        });
        [delta, json!({"type": "message_stop"})].iter().map(named).collect()
    }

    fn reset(seconds: u64) -> Vec<(&'static str, String)> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        vec![
            ("retry-after", seconds.to_string()),
            ("anthropic-ratelimit-unified-status", "rejected".to_owned()),
            ("anthropic-ratelimit-unified-representative-claim", "five_hour".to_owned()),
            ("anthropic-ratelimit-unified-reset", (now + seconds).to_string()),
        ]
    }

    fn failure(status: StatusCode, message: &str) -> Value {
        let kind = match status.as_u16() {
            404 => "not_found_error",
            429 => "rate_limit_error",
            500.. => "api_error",
            _ => "invalid_request_error",
        };
        json!({"type": "error", "error": {"type": kind, "message": message}})
    }
}
