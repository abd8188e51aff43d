//! Plays the steps of a response in time, and passes each piece to a vendor's wire
//! format. Knows no vendor.

use std::collections::VecDeque;
use std::io;
use std::path::Path;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::{StatusCode, header};
use axum::response::{AppendHeaders, IntoResponse, Json, Response};
use futures_util::Stream;
use futures_util::{StreamExt, stream};
use serde_json::Value;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep};

use super::script::{GATE_LIMIT, ModelResponseStep};
use super::tools::{Call, OfferedTool, choose};

/// Time between two checks for a gate's file.
const LOOK: Duration = Duration::from_millis(10);

/// A piece of a response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ReplyPiece {
    /// A chunk of text.
    Text(String),
    /// A call of one of the agent's tools.
    Call(Call),
    /// The connection breaks; nothing follows.
    Cut,
    /// The end, always the last piece unless the response was cut.
    End,
}

/// How a vendor writes the events of a stream. Implementations may keep state between events.
pub(super) trait Wire: Send + 'static {
    /// Written before everything else.
    fn begin(&mut self) -> String {
        String::new()
    }
    /// Writes a chunk of text.
    fn text(&mut self, text: &str) -> String;
    /// Writes a call of a tool.
    fn call(&mut self, call: &Call) -> String;
    /// Writes the regular end.
    fn end(&mut self) -> String;
    /// Returns the body of an error.
    fn failure(status: StatusCode, message: &str) -> Value;
    /// Returns the headers of an error that say when a limit ends, in this many seconds.
    fn reset(seconds: u64) -> Vec<(&'static str, String)> {
        vec![("retry-after", seconds.to_string())]
    }
}

/// Returns an error in the format of a vendor's API.
pub(super) fn failure<W: Wire>(status: StatusCode, message: &str) -> Response {
    (status, Json(W::failure(status, message))).into_response()
}

/// Returns the scripted error that replaces a response.
pub(super) fn failed<W: Wire>(steps: &[ModelResponseStep]) -> Option<Response> {
    let Some(ModelResponseStep::Fail { status, reset }) = steps.first() else { return None };
    let status = StatusCode::from_u16(*status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let headers = AppendHeaders(reset.map(W::reset).unwrap_or_default());
    Some((headers, failure::<W>(status, &format!("the script wants {status}"))).into_response())
}

/// Returns the error that ends the body of a response.
pub(super) fn cut() -> io::Error {
    io::Error::other("the script wants the stream cut")
}

/// Streams the response piece by piece, as server-sent events.
pub(super) fn streamed<W: Wire>(
    mut wire: W,
    steps: Vec<ModelResponseStep>,
    offered: Vec<OfferedTool>,
) -> Response {
    if let Some(failed) = failed::<W>(&steps) {
        return failed;
    }
    let begin = wire.begin();
    let events = pieces(steps, offered).map(move |piece| match piece {
        ReplyPiece::Text(text) => Ok(wire.text(&text)),
        ReplyPiece::Call(call) => Ok(wire.call(&call)),
        ReplyPiece::End => Ok(wire.end()),
        ReplyPiece::Cut => Err(cut()),
    });
    let events = stream::iter([Ok(begin)]).chain(events).map(|event| event.map(Bytes::from));
    ([(header::CONTENT_TYPE, "text/event-stream")], Body::from_stream(events)).into_response()
}

/// Formats one server-sent event.
pub(super) fn event(name: Option<&str>, data: &Value) -> String {
    name.map(|name| format!("event: {name}\r\n")).unwrap_or_default() + &format!("data: {data}\r\n\r\n")
}

/// Returns the pieces of a response, each at its time. Dropping the stream (the agent hung
/// up) ends every wait.
pub(super) fn pieces(
    steps: Vec<ModelResponseStep>,
    offered: Vec<OfferedTool>,
) -> impl Stream<Item = ReplyPiece> + Send + 'static {
    stream::unfold((Some(VecDeque::from(steps)), offered), |(left, offered)| async {
        let mut left = left?;
        loop {
            let piece = match left.pop_front() {
                None => return Some((ReplyPiece::End, (None, offered))),
                Some(ModelResponseStep::Cut) => return Some((ReplyPiece::Cut, (None, offered))),
                // Only occurs as the first step, and then there is no stream.
                Some(ModelResponseStep::Fail { .. }) => continue,
                Some(ModelResponseStep::Text(text)) => ReplyPiece::Text(text),
                Some(ModelResponseStep::Call(tool)) => {
                    choose(&tool, &offered).map_or_else(ReplyPiece::Text, ReplyPiece::Call)
                }
                Some(ModelResponseStep::Pause(time)) => {
                    sleep(time).await;
                    continue;
                }
                Some(ModelResponseStep::WaitFor(path)) => {
                    if appears(&path).await {
                        continue;
                    }
                    left.clear();
                    ReplyPiece::Text(format!(
                        "GATE: {} did not appear in {} s",
                        path.display(),
                        GATE_LIMIT.as_secs()
                    ))
                }
            };
            return Some((piece, (Some(left), offered)));
        }
    })
}

/// Whether the file appears within the time limit. Polls instead of watching its folder, which
/// may not exist yet.
async fn appears(path: &Path) -> bool {
    let deadline = Instant::now() + GATE_LIMIT;
    let mut look = interval(LOOK);
    look.set_missed_tick_behavior(MissedTickBehavior::Delay);
    while Instant::now() < deadline {
        look.tick().await;
        if path.exists() {
            return true;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::super::tools::ScriptedTool;
    use super::*;

    fn played(steps: Vec<ModelResponseStep>) -> Vec<ReplyPiece> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(pieces(steps, vec![OfferedTool::new("bash", &Value::Null)]).collect())
    }

    #[test]
    fn an_answer_ends_once_also_when_it_is_empty() {
        assert_eq!(played(vec![]), [ReplyPiece::End]);
        let shell = ModelResponseStep::Call(ScriptedTool::Shell("b".into()));
        let played = played(vec![
            ModelResponseStep::Text("a".into()),
            ModelResponseStep::Pause(Duration::ZERO),
            shell,
        ]);
        assert!(
            matches!(&played[..], [ReplyPiece::Text(_), ReplyPiece::Call(call), ReplyPiece::End] if call.name == "bash"),
            "{played:?}"
        );
    }

    #[test]
    fn nothing_follows_a_cut() {
        assert_eq!(
            played(vec![ModelResponseStep::Cut, ModelResponseStep::Text("a".into())]),
            [ReplyPiece::Cut]
        );
    }

    #[test]
    fn a_tool_that_is_not_offered_is_said_and_not_called() {
        let played = played(vec![ModelResponseStep::Call(ScriptedTool::Write("a".into(), "b".into()))]);
        assert!(matches!(&played[..], [ReplyPiece::Text(said), ReplyPiece::End] if said.contains("no tool")));
    }

    #[test]
    fn a_gate_holds_back_what_follows_until_its_file_exists() {
        let folder = tempfile::tempdir().unwrap();
        let gate = folder.path().join("gate");
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(async {
            let steps =
                vec![ModelResponseStep::WaitFor(gate.clone()), ModelResponseStep::Text("opened".into())];
            let mut answer = std::pin::pin!(pieces(steps, vec![]));
            let early = tokio::time::timeout(Duration::from_millis(30), answer.next()).await;
            assert!(early.is_err(), "passed a closed gate: {early:?}");
            std::fs::write(&gate, "").unwrap();
            assert_eq!(answer.next().await, Some(ReplyPiece::Text("opened".into())));
        });
    }
}
