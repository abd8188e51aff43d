//! The Gemini API as far as Gemini CLI uses it: `generateContent`, `streamGenerateContent?alt=sse` and
//! `countTokens` under `/v1beta/models/MODEL:METHOD`. Translates, decides nothing.

use std::convert::Infallible;
use std::sync::Arc;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Path, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Json, Response};
use axum::routing::post;
use futures_util::StreamExt;
use serde_json::{Value, json};

use super::reply::{Piece, pieces};
use super::sample::sample;
use super::script::{Turn, answer};
use super::seen::{Asked, ModelRequest, Seen};

/// The name of the agent's shell tool.
const SHELL_TOOL: &str = "run_shell_command";

pub(super) fn routes() -> Router<Arc<Seen>> {
    Router::new().route("/v1beta/models/{call}", post(call))
}

/// `MODEL:METHOD` is one segment of the path.
async fn call(State(seen): State<Arc<Seen>>, Path(call): Path<String>, body: Bytes) -> Response {
    let path = format!("/v1beta/models/{call}");
    let body: Value = match serde_json::from_slice(&body) {
        Ok(body) => body,
        Err(error) => {
            seen.add(ModelRequest { path, body: Value::Null, asked: Asked::Unknown });
            return failure(StatusCode::BAD_REQUEST, &format!("the body is not JSON: {error}"));
        }
    };
    let (model, method) = call.rsplit_once(':').unwrap_or((&call, ""));
    let turn = turn(&body);
    let asked = match (method, &turn) {
        ("streamGenerateContent", Turn::User(text)) => Asked::Prompt { text: text.clone() },
        ("streamGenerateContent", Turn::ToolReturned(output)) => Asked::ToolResult { output: output.clone() },
        ("generateContent" | "countTokens", _) => Asked::Aside,
        _ => Asked::Unknown,
    };
    let schema = structured(&body);
    seen.add(ModelRequest { path, body, asked });
    match (method, schema) {
        ("streamGenerateContent", None) => stream(model.to_owned(), &turn),
        ("streamGenerateContent", Some(value)) => {
            sse(Body::from(event(model, json!([{"text": value.to_string()}]), true)))
        }
        ("generateContent", Some(value)) => {
            Json(response(model, json!([{"text": value.to_string()}]), true)).into_response()
        }
        ("generateContent", None) => whole(model, &turn).await,
        ("countTokens", _) => Json(json!({"totalTokens": 100})).into_response(),
        _ => failure(StatusCode::NOT_FOUND, &format!("the model server has no method {method:?} for models")),
    }
}

/// Where the conversation stands. A tool's result counts when it is in the last message; the user's text is
/// the last one of any message, because the agent puts its own context before it.
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

/// The value for a request that wants JSON of a given shape, whatever the user's text is.
fn structured(body: &Value) -> Option<Value> {
    let config = body.get("generationConfig")?;
    let schema = config.get("responseJsonSchema").or_else(|| config.get("responseSchema"));
    let wants_json = config.get("responseMimeType").is_some_and(|kind| kind == "application/json");
    (wants_json || schema.is_some()).then(|| sample(schema.unwrap_or(&Value::Null)))
}

/// The answer piece by piece, as server-sent events.
fn stream(model: String, turn: &Turn) -> Response {
    let events = pieces(answer(turn)).map(move |piece| {
        Ok::<_, Infallible>(match piece {
            Piece::End => event(&model, json!([{"text": ""}]), true),
            piece => event(&model, json!([part(piece)]), false),
        })
    });
    sse(Body::from_stream(events))
}

fn sse(body: Body) -> Response {
    ([(header::CONTENT_TYPE, "text/event-stream")], body).into_response()
}

/// The answer in one piece.
async fn whole(model: &str, turn: &Turn) -> Response {
    let parts: Vec<Value> = pieces(answer(turn))
        .filter(|piece| std::future::ready(*piece != Piece::End))
        .map(part)
        .collect()
        .await;
    Json(response(model, Value::Array(parts), true)).into_response()
}

fn part(piece: Piece) -> Value {
    match piece {
        Piece::Text(text) => json!({"text": text}),
        Piece::Run(command) => json!({"functionCall": {"name": SHELL_TOOL, "args": {"command": command}}}),
        Piece::End => json!({"text": ""}),
    }
}

fn event(model: &str, parts: Value, last: bool) -> Bytes {
    Bytes::from(format!("data: {}\r\n\r\n", response(model, parts, last)))
}

/// A `GenerateContentResponse`; the counts are made up, but always there with the last one.
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

/// An error in the shape of the vendor's API.
fn failure(status: StatusCode, message: &str) -> Response {
    let name = if status == StatusCode::NOT_FOUND { "NOT_FOUND" } else { "INVALID_ARGUMENT" };
    let body = json!({"error": {"code": status.as_u16(), "message": message, "status": name}});
    (status, Json(body)).into_response()
}
