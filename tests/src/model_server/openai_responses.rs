//! OpenAI's Responses API as far as Codex uses it: `/v1/responses`, streamed. Only translates.

use std::sync::Arc;

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{StatusCode, Uri};
use axum::response::Response;
use axum::routing::post;
use serde_json::{Value, json};

use super::reply::{Wire, event, failure, streamed};
use super::sample::aside;
use super::script::Turn;
use super::seen::{Asked, RequestLog, id};
use super::tools::{Call, Input, OfferedTool};

pub(super) fn routes() -> Router<Arc<RequestLog>> {
    Router::new().route("/v1/responses", post(responses))
}

async fn responses(State(seen): State<Arc<RequestLog>>, uri: Uri, body: Bytes) -> Response {
    let body = match seen.read(&uri, &body, asked) {
        Ok(body) => body,
        Err(why) => return failure::<Responses>(StatusCode::BAD_REQUEST, &why),
    };
    let offered = offered(&body);
    let steps = if offered.is_empty() { aside(&body) } else { seen.answer(&turn(&body)) };
    let model = body["model"].as_str().unwrap_or_default().to_owned();
    streamed(Responses { id: id("resp"), model, ..Default::default() }, steps, offered)
}

fn asked(body: &Value) -> Asked {
    if offered(body).is_empty() { Asked::Aside } else { Asked::of(&turn(body)) }
}

/// A tool without a name is one of the vendor's, identified by its type.
fn offered(body: &Value) -> Vec<OfferedTool> {
    let tools = body["tools"].as_array().into_iter().flatten();
    let name = |tool: &Value| tool["name"].as_str().or(tool["type"].as_str()).map(str::to_owned);
    tools.filter_map(|tool| Some(OfferedTool::new(&name(tool)?, &tool["parameters"]))).collect()
}

fn turn(body: &Value) -> Turn {
    let items = body["input"].as_array().map(Vec::as_slice).unwrap_or_default();
    let said = |content: &Value| match content {
        Value::String(text) => text.clone(),
        // The last part: the agent's own context precedes it.
        Value::Array(parts) => {
            parts.iter().rev().find_map(|part| part["text"].as_str()).unwrap_or_default().to_owned()
        }
        other => other.to_string(),
    };
    for item in items.iter().rev() {
        match item["type"].as_str() {
            Some("function_call_output" | "custom_tool_call_output") => {
                return Turn::ToolReturned(said(&item["output"]));
            }
            Some("message") | None if item["role"] == "user" => return Turn::User(said(&item["content"])),
            _ => {}
        }
    }
    Turn::User(String::new())
}

/// Writes the events of a response: one message with all of its text, and an item for each call.
#[derive(Default)]
struct Responses {
    id: String,
    model: String,
    /// The open message and its text so far.
    message: Option<(String, String)>,
    items: u64,
}

impl Responses {
    fn response(&self, status: &str) -> Value {
        json!({
            "id": self.id, "object": "response", "created_at": 0, "model": self.model, "status": status,
            "output": [],
        })
    }

    /// Ends the open message.
    fn close(&mut self) -> String {
        let Some((message, text)) = self.message.take() else { return String::new() };
        let content = json!([{"type": "output_text", "text": text, "annotations": []}]);
        self.done(&json!({
            "type": "message", "id": message, "role": "assistant", "status": "completed", "content": content,
        }))
    }

    fn done(&mut self, item: &Value) -> String {
        let index = self.items;
        self.items += 1;
        named(&json!({"type": "response.output_item.done", "output_index": index, "item": item}))
    }
}

/// Returns an event named after the type in its data.
fn named(data: &Value) -> String {
    event(data["type"].as_str(), data)
}

impl Wire for Responses {
    fn begin(&mut self) -> String {
        named(&json!({"type": "response.created", "response": self.response("in_progress")}))
    }

    fn text(&mut self, text: &str) -> String {
        let mut events = String::new();
        let (message, so_far) = self.message.get_or_insert_with(|| {
            let message = id("msg");
            let item = json!({
                "type": "message", "id": message, "role": "assistant", "status": "in_progress", "content": [],
            });
            let index = self.items;
            events +=
                &named(&json!({"type": "response.output_item.added", "output_index": index, "item": item}));
            (message, String::new())
        });
        so_far.push_str(text);
        let delta = json!({
            "type": "response.output_text.delta", "item_id": message, "output_index": self.items,
            "content_index": 0, "delta": text,
        });
        events + &named(&delta)
    }

    fn call(&mut self, call: &Call) -> String {
        let closed = self.close();
        let mut item =
            json!({"id": id("item"), "call_id": id("call"), "name": call.name, "status": "completed"});
        match &call.input {
            Input::Args(args) => {
                item["type"] = json!("function_call");
                item["arguments"] = json!(args.to_string());
            }
            Input::Text(text) => {
                item["type"] = json!("custom_tool_call");
                item["input"] = json!(text);
            }
        }
        if let Some(namespace) = &call.namespace {
            item["namespace"] = json!(namespace);
        }
        closed + &self.done(&item)
    }

    fn end(&mut self) -> String {
        let closed = self.close();
        let mut response = self.response("completed");
        response["usage"] = json!({
            "input_tokens": 100, "input_tokens_details": {"cached_tokens": 0},
            "output_tokens": 20, "output_tokens_details": {"reasoning_tokens": 0}, "total_tokens": 120,
        });
        closed + &named(&json!({"type": "response.completed", "response": response}))
    }

    fn failure(status: StatusCode, message: &str) -> Value {
        json!({"error": {"message": message, "type": "invalid_request_error", "code": status.as_str()}})
    }
}
