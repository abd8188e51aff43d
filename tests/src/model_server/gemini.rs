//! The Gemini API as far as Gemini CLI uses it: `generateContent`, `streamGenerateContent?alt=sse`
//! and `countTokens` under `/v1beta/models/MODEL:METHOD`. Only translates.

use std::sync::Arc;

use axum::Router;
use axum::body::Bytes;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Json, Response};
use axum::routing::post;
use futures_util::StreamExt;
use serde_json::{Value, json};

use super::reply::{ReplyPiece, Wire, event, failure, pieces, streamed};
use super::sample::sample;
use super::script::{ModelResponseStep, Turn, answer};
use super::seen::{Asked, ModelRequest, RequestLog};
use super::tools::{Call, Input, OfferedTool};

pub(super) fn routes() -> Router<Arc<RequestLog>> {
    Router::new().route("/v1beta/models/{call}", post(call))
}

/// `MODEL:METHOD` is one segment of the path.
async fn call(State(seen): State<Arc<RequestLog>>, Path(call): Path<String>, body: Bytes) -> Response {
    let path = format!("/v1beta/models/{call}");
    let body: Value = match serde_json::from_slice(&body) {
        Ok(body) => body,
        Err(error) => {
            seen.add(ModelRequest { path, body: Value::Null, asked: Asked::Unknown });
            return failure::<Gemini>(StatusCode::BAD_REQUEST, &format!("the body is not JSON: {error}"));
        }
    };
    let (model, method) = call.rsplit_once(':').unwrap_or((&call, ""));
    let turn = turn(&body);
    let asked = match (method, &turn) {
        ("streamGenerateContent", turn) => Asked::of(turn),
        ("generateContent" | "countTokens", _) => Asked::Aside,
        _ => Asked::Unknown,
    };
    let (schema, offered) = (structured(&body), offered(&body));
    seen.add(ModelRequest { path, body, asked });
    match (method, schema) {
        ("streamGenerateContent", schema) => {
            let steps = schema
                .map_or_else(|| seen.answer(&turn), |value| vec![ModelResponseStep::Text(value.to_string())]);
            streamed(Gemini { model: model.to_owned() }, steps, offered)
        }
        ("generateContent", Some(value)) => {
            Json(response(model, json!([{"text": value.to_string()}]), true)).into_response()
        }
        ("generateContent", None) => whole(model, &turn, offered).await,
        ("countTokens", _) => Json(json!({"totalTokens": 100})).into_response(),
        _ => failure::<Gemini>(
            StatusCode::NOT_FOUND,
            &format!("the model server has no method {method:?} for models"),
        ),
    }
}

/// Returns the state of the conversation. A tool's result counts if it is in the last message. The
/// user's text is the last one in a message, because the agent's own context precedes it.
fn turn(body: &Value) -> Turn {
    let contents = body.get("contents").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let parts = |content: &Value| content.get("parts").and_then(Value::as_array).cloned().unwrap_or_default();
    let last = contents.last().map(parts).unwrap_or_default();
    if let Some(result) = last.iter().rev().find_map(|part| part.pointer("/functionResponse/response")) {
        let output =
            result.get("output").and_then(Value::as_str).map_or_else(|| result.to_string(), str::to_owned);
        return Turn::ToolReturned(output);
    }
    let user = contents.iter().rev().filter(|content| content.get("role").is_none_or(|role| role == "user"));
    let text = user
        .flat_map(|content| parts(content).into_iter().rev())
        .find_map(|part| part.get("text").and_then(Value::as_str).map(str::to_owned));
    Turn::User(text.unwrap_or_default())
}

/// Returns the tools that the model may call.
fn offered(body: &Value) -> Vec<OfferedTool> {
    let groups = body.get("tools").and_then(Value::as_array).into_iter().flatten();
    let tools = groups.filter_map(|group| group.get("functionDeclarations")?.as_array()).flatten();
    let schema = |tool: &Value| tool.get("parametersJsonSchema").or(tool.get("parameters")).cloned();
    tools
        .filter_map(|tool| {
            Some(OfferedTool::new(tool.get("name")?.as_str()?, &schema(tool).unwrap_or_default()))
        })
        .collect()
}

/// Returns the value for a request for structured JSON, regardless of the user's text.
fn structured(body: &Value) -> Option<Value> {
    let config = body.get("generationConfig")?;
    let schema = config.get("responseJsonSchema").or_else(|| config.get("responseSchema"));
    let wants_json = config.get("responseMimeType").is_some_and(|kind| kind == "application/json");
    (wants_json || schema.is_some()).then(|| sample(schema.unwrap_or(&Value::Null)))
}

/// Writes a `GenerateContentResponse` for each piece.
struct Gemini {
    model: String,
}

impl Wire for Gemini {
    fn text(&mut self, text: &str) -> String {
        event(None, &response(&self.model, json!([{"text": text}]), false))
    }

    fn call(&mut self, call: &Call) -> String {
        event(None, &response(&self.model, json!([function_call(call)]), false))
    }

    fn end(&mut self) -> String {
        event(None, &response(&self.model, json!([{"text": ""}]), true))
    }

    fn failure(status: StatusCode, message: &str) -> Value {
        let name = match status.as_u16() {
            404 => "NOT_FOUND",
            429 => "RESOURCE_EXHAUSTED",
            500.. => "INTERNAL",
            _ => "INVALID_ARGUMENT",
        };
        json!({"error": {"code": status.as_u16(), "message": message, "status": name}})
    }
}

/// Returns the response in one piece.
async fn whole(model: &str, turn: &Turn, offered: Vec<OfferedTool>) -> Response {
    let parts = pieces(answer(turn), offered).filter_map(|piece| {
        std::future::ready(match piece {
            ReplyPiece::Text(text) => Some(json!({"text": text})),
            ReplyPiece::Call(call) => Some(function_call(&call)),
            ReplyPiece::Cut | ReplyPiece::End => None,
        })
    });
    Json(response(model, Value::Array(parts.collect().await), true)).into_response()
}

fn function_call(call: &Call) -> Value {
    let args = match &call.input {
        Input::Args(args) => args.clone(),
        Input::Text(text) => json!({"input": text}),
    };
    json!({"functionCall": {"name": call.name, "args": args}})
}

/// Returns a `GenerateContentResponse`. The counts are invented, but always present
/// in the last one.
fn response(model: &str, parts: Value, last: bool) -> Value {
    let mut candidate = json!({"content": {"role": "model", "parts": parts}, "index": 0});
    let mut response = json!({"modelVersion": model});
    if last {
        candidate["finishReason"] = json!("STOP");
        response["usageMetadata"] =
            json!({"promptTokenCount": 100, "candidatesTokenCount": 20, "totalTokenCount": 120});
    }
    response["candidates"] = json!([candidate]);
    response
}
