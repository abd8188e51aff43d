//! The Chat Completions API of OpenAI and many others: `/v1/chat/completions`, streamed
//! or not. Only translates.

use std::pin::pin;
use std::sync::Arc;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{StatusCode, Uri};
use axum::response::{IntoResponse, Json, Response};
use axum::routing::post;
use futures_util::StreamExt as _;
use futures_util::stream;
use serde_json::{Value, json};

use super::reply::{ReplyPiece, Wire, cut, event, failed, failure, pieces, streamed};
use super::sample::aside;
use super::script::{ModelResponseStep, Turn};
use super::seen::{Asked, RequestLog, id};
use super::tools::{Call, Input, OfferedTool};

pub(super) fn routes() -> Router<Arc<RequestLog>> {
    Router::new().route("/v1/chat/completions", post(completions))
}

async fn completions(State(seen): State<Arc<RequestLog>>, uri: Uri, body: Bytes) -> Response {
    let body = match seen.read(&uri, &body, asked) {
        Ok(body) => body,
        Err(why) => return failure::<Chat>(StatusCode::BAD_REQUEST, &why),
    };
    let offered = offered(&body);
    let steps = if offered.is_empty() { aside(&body) } else { seen.answer(&turn(&body)) };
    let model = body["model"].as_str().unwrap_or_default().to_owned();
    if body["stream"] == true {
        return streamed(Chat { id: id("chatcmpl"), model, calls: 0 }, steps, offered);
    }
    whole(Chat { id: id("chatcmpl"), model, calls: 0 }, steps, offered).await
}

/// Returns the response in one piece, after its last step.
async fn whole(mut chat: Chat, steps: Vec<ModelResponseStep>, offered: Vec<OfferedTool>) -> Response {
    if let Some(failed) = failed::<Chat>(&steps) {
        return failed;
    }
    let (mut text, mut calls) = (String::new(), Vec::new());
    let mut pieces = pin!(pieces(steps, offered));
    while let Some(piece) = pieces.next().await {
        match piece {
            ReplyPiece::Text(more) => text += &more,
            ReplyPiece::Call(call) => calls.push(chat.function(&call)),
            ReplyPiece::End => {}
            // The connection breaks before the first byte of the response.
            ReplyPiece::Cut => {
                return Body::from_stream(stream::iter([Err::<Bytes, _>(cut())])).into_response();
            }
        }
    }
    let reason = chat.finish_reason();
    let mut message = json!({"role": "assistant", "content": text});
    if !calls.is_empty() {
        message["tool_calls"] = calls.into();
    }
    let completion = json!({
        "id": chat.id, "object": "chat.completion", "created": 0, "model": chat.model,
        "choices": [{"index": 0, "finish_reason": reason, "message": message}], "usage": usage(),
    });
    Json(completion).into_response()
}

fn asked(body: &Value) -> Asked {
    if offered(body).is_empty() { Asked::Aside } else { Asked::of(&turn(body)) }
}

fn offered(body: &Value) -> Vec<OfferedTool> {
    let functions = body["tools"].as_array().into_iter().flatten().map(|tool| &tool["function"]);
    functions.filter_map(|tool| Some(OfferedTool::new(tool["name"].as_str()?, &tool["parameters"]))).collect()
}

/// Returns the state of the conversation. Agents add reminders, as messages or as parts of one.
fn turn(body: &Value) -> Turn {
    let messages = body["messages"].as_array().map(Vec::as_slice).unwrap_or_default();
    let said = |message: &Value| match &message["content"] {
        Value::String(text) => Some(text.clone()).filter(|text| !is_reminder(text)),
        // The last part: the agent's own context precedes it.
        Value::Array(parts) => {
            let texts = parts.iter().rev().filter_map(|part| part["text"].as_str());
            texts.filter(|text| !is_reminder(text)).map(str::to_owned).next()
        }
        _ => None,
    };
    let turn = messages.iter().rev().find_map(|message| match message["role"].as_str()? {
        "tool" => Some(Turn::ToolReturned(said(message).unwrap_or_default())),
        "user" => said(message).map(Turn::User),
        _ => None,
    });
    turn.unwrap_or_else(|| Turn::User(String::new()))
}

fn is_reminder(text: &str) -> bool {
    text.trim_start().starts_with("<system-reminder>")
}

fn usage() -> Value {
    json!({"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120})
}

/// Writes the chunks of a completion.
struct Chat {
    id: String,
    model: String,
    calls: u64,
}

impl Chat {
    fn chunk(&self, delta: &Value, finish_reason: &Value) -> Value {
        let choice = json!({"index": 0, "delta": delta, "finish_reason": finish_reason});
        json!({
            "id": self.id, "object": "chat.completion.chunk", "created": 0, "model": self.model,
            "choices": [choice],
        })
    }

    /// Returns a tool call as an entry of `tool_calls`.
    fn function(&mut self, call: &Call) -> Value {
        let arguments = match &call.input {
            Input::Args(args) => args.to_string(),
            Input::Text(text) => json!({"input": text}).to_string(),
        };
        let function = json!({"name": call.name, "arguments": arguments});
        let call = json!({"index": self.calls, "id": id("call"), "type": "function", "function": function});
        self.calls += 1;
        call
    }

    fn finish_reason(&self) -> &'static str {
        if self.calls > 0 { "tool_calls" } else { "stop" }
    }
}

impl Wire for Chat {
    fn text(&mut self, text: &str) -> String {
        event(None, &self.chunk(&json!({"role": "assistant", "content": text}), &Value::Null))
    }

    fn call(&mut self, call: &Call) -> String {
        let call = self.function(call);
        event(None, &self.chunk(&json!({"role": "assistant", "tool_calls": [call]}), &Value::Null))
    }

    fn end(&mut self) -> String {
        let mut last = self.chunk(&json!({}), &json!(self.finish_reason()));
        last["usage"] = usage();
        event(None, &last) + "data: [DONE]\r\n\r\n"
    }

    fn failure(status: StatusCode, message: &str) -> Value {
        json!({"error": {"message": message, "type": "invalid_request_error", "code": status.as_str()}})
    }
}
