//! Event streams, resumable from the cursor of the last received event: NDJSON, or server-sent
//! events if the client accepts them. A failure after the first byte is the last line: an error
//! envelope, recognizable by its `ok`.

use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::HeaderMap;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderValue};
use axum::response::Response;
use futures_util::stream;
use serde::Deserialize;
use subagent_protocol::Result;
use subagent_protocol::api::{LatestEvent, LatestOfAll};
use tokio::time::Instant;

#[cfg(test)]
use subagent_protocol::{api::Envelope, event::Event};

use crate::api::control::{Control, ShutdownPhase, ending};
use crate::api::request::address::WorkerInPath;
use crate::api::request::body::{QueryParams, flag};
use crate::api::request::caller::ReadOnlyCaller;
use crate::api::response::reply::{ApiError, HandlerResult, TypedReply, error_line};
use crate::api::response::sse;
use crate::api::state::Api;
use crate::or_never::sleep_until;
use crate::supervisor;
use crate::supervisor::{AllFollower, EventScope, EventStreamFilter, WorkerFollower};

/// Query parameters of a worker's event stream.
#[derive(Debug, Default, Deserialize)]
pub(in crate::api) struct EventStreamQuery {
    /// The cursor: only later events are returned.
    from: Option<String>,
    /// Whether to continue at the end of the stream.
    #[serde(default, deserialize_with = "flag")]
    follow: bool,
    /// Whether to include the source record of each event.
    #[serde(default, deserialize_with = "flag")]
    raw: bool,
    /// Whether to include all events of the tasks below the worker.
    #[serde(default, deserialize_with = "flag")]
    tree: bool,
    /// Maximum duration of following, in milliseconds.
    until_ms: Option<u64>,
}

/// Streams the events of a worker.
#[cfg_attr(test, utoipa::path(get, path = "/v1/workers/{worker}/events", params(("worker" = String, Path, description = "Its id, its name, the beginning of its id, or `@last`"), ("from" = Option<String>, Query, description = "The cursor: only later events"), ("follow" = Option<bool>, Query, description = "Go on when the end is reached"), ("raw" = Option<bool>, Query, description = "With what each event was derived from"), ("tree" = Option<bool>, Query, description = "With all events of the tasks below it, wrapped; their milestones are always included"), ("until_ms" = Option<u64>, Query, description = "Follow for this many milliseconds")), responses((status = 200, description = "One event per line; an error that comes later is the last line. With `Accept: text/event-stream` server-sent events, which go on at their end", content((Event = "application/x-ndjson"), (String = "text/event-stream"))))))]
pub(in crate::api) async fn follow(
    State(api): State<Api>,
    reader: ReadOnlyCaller,
    WorkerInPath(worker): WorkerInPath,
    QueryParams(choice): QueryParams<EventStreamQuery>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    reader.may_see(&api, &worker).await?;
    let (form, from) = form(&headers, choice.from)?;
    let follow = choice.follow || form == StreamFormat::ServerSent;
    let sight = match (reader.only(), choice.tree) {
        (None, false) => EventScope::TaskMilestones,
        (None, true) => EventScope::Tree,
        // A caller below a worker sees only that worker.
        (Some(_), false) => EventScope::Alone,
        (Some(only), true) => return Err(reader.refuse(&api, only).await),
    };
    let follower =
        supervisor::events::follow::follow(&api.supervisor, &worker, from, follow, choice.raw, sight).await?;
    // A time beyond the clock's range means unlimited.
    let until = choice
        .until_ms
        .filter(|_| follow)
        .and_then(|ms| Instant::now().checked_add(Duration::from_millis(ms)));
    Ok(streamed(StreamSource::One(Box::new(follower)), form, api.control, until))
}

/// The format of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum StreamFormat {
    /// NDJSON: one line per event.
    Lines,
    /// Server-sent events: one frame per event. Such a stream continues at its end.
    ServerSent,
}

impl StreamFormat {
    fn write(self, lines: Vec<u8>) -> Bytes {
        match self {
            Self::Lines => lines.into(),
            Self::ServerSent => sse::frames(&lines).into(),
        }
    }
}

/// Returns the format and cursor that the client requests.
fn form(headers: &HeaderMap, from: Option<String>) -> Result<(StreamFormat, Option<String>)> {
    let from = from.filter(|from| !from.is_empty());
    if !sse::is_wanted(headers) {
        return Ok((StreamFormat::Lines, from));
    }
    Ok((StreamFormat::ServerSent, sse::last_event_id(headers)?.or(from)))
}

fn streamed(source: StreamSource, form: StreamFormat, control: Control, until: Option<Instant>) -> Response {
    let pages = Pages { source, form, control, until };
    let pieces = stream::unfold(Some(pages), move |pages| async move {
        let mut pages = pages?;
        match pages.next().await {
            Ok(Some(bytes)) => Some((Ok::<_, std::convert::Infallible>(bytes), Some(pages))),
            Ok(None) => None,
            Err(error) => {
                let mut line = error_line(error);
                line.push(b'\n');
                Some((Ok(form.write(line)), None))
            }
        }
    });
    let mut response = Response::new(Body::from_stream(pieces));
    let headers = response.headers_mut();
    match form {
        StreamFormat::Lines => {
            headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/x-ndjson"));
        }
        StreamFormat::ServerSent => {
            headers.insert(CONTENT_TYPE, HeaderValue::from_static(sse::EVENT_STREAM));
            headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        }
    }
    response
}

/// Query parameters of the event stream of all workers.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(in crate::api) struct AllEventsParams {
    /// Only events of this controller's workers.
    controller_id: Option<String>,
    /// Only events of workers with these tags.
    selector: Option<String>,
    /// The cursor: only later events are returned.
    from: Option<String>,
    /// Whether to continue at the end of the stream.
    #[serde(default, deserialize_with = "flag")]
    follow: bool,
    /// Whether to include the source record of each event.
    #[serde(default, deserialize_with = "flag")]
    raw: bool,
    /// Whether to omit the progress of turns, except reports about child sessions.
    #[serde(default, deserialize_with = "flag")]
    milestones: bool,
}

/// Streams the events of all workers in one order.
#[cfg_attr(test, utoipa::path(get, path = "/v1/events", params(("controllerId" = Option<String>, Query, description = "Only those of its workers"), ("selector" = Option<String>, Query, description = "Only those of workers with these tags, `NAME=VALUE` or `NAME`, separated by commas"), ("from" = Option<String>, Query, description = "The cursor: only later events"), ("follow" = Option<bool>, Query, description = "Go on when the end is reached, also with workers that are started then"), ("raw" = Option<bool>, Query, description = "With what each event was derived from"), ("milestones" = Option<bool>, Query, description = "Without `progress.message` and `progress.update`, except those of child sessions")), responses((status = 200, description = "The events of all workers in one order, one per line; an error that comes later is the last line. With `Accept: text/event-stream` server-sent events, which go on at their end", content((Event = "application/x-ndjson"), (String = "text/event-stream"))))))]
pub(in crate::api) async fn follow_all(
    State(api): State<Api>,
    reader: ReadOnlyCaller,
    QueryParams(choice): QueryParams<AllEventsParams>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let (form, from) = form(&headers, choice.from)?;
    let follow = choice.follow || form == StreamFormat::ServerSent;
    let chosen = EventStreamFilter {
        controller_id: choice.controller_id,
        selector: choice.selector,
        only: reader.only().cloned(),
        milestones: choice.milestones,
    };
    let follower =
        supervisor::events::follow_all::follow_all(&api.supervisor, chosen, from, follow, choice.raw).await?;
    Ok(streamed(StreamSource::All(Box::new(follower)), form, api.control, None))
}

/// Returns the newest event of a worker, the cursor for later events.
#[cfg_attr(test, utoipa::path(get, path = "/v1/workers/{worker}/events/latest", params(("worker" = String, Path, description = "Its id, its name, the beginning of its id, or `@last`")), responses((status = 200, description = "`event.latest`", body = Envelope<LatestEvent>))))]
pub(in crate::api) async fn latest(
    State(api): State<Api>,
    reader: ReadOnlyCaller,
    WorkerInPath(worker): WorkerInPath,
) -> HandlerResult<LatestEvent> {
    reader.may_see(&api, &worker).await?;
    Ok(TypedReply("event.latest", supervisor::events::wait::latest_event(&api.supervisor, &worker).await?))
}

/// Returns the newest event of all workers, the cursor for later events.
#[cfg_attr(test, utoipa::path(get, path = "/v1/events/latest", responses((status = 200, description = "`event.latest`", body = Envelope<LatestOfAll>))))]
pub(in crate::api) async fn latest_of_all(
    State(api): State<Api>,
    reader: ReadOnlyCaller,
) -> HandlerResult<LatestOfAll> {
    Ok(TypedReply(
        "event.latest",
        supervisor::events::follow_all::latest_of_all(&api.supervisor, reader.only().cloned()).await?,
    ))
}

/// The followed events: of one worker, or of all.
enum StreamSource {
    One(Box<WorkerFollower>),
    All(Box<AllFollower>),
}

impl StreamSource {
    async fn next(&mut self) -> Result<Vec<u8>> {
        match self {
            Self::One(follower) => follower.next().await,
            Self::All(follower) => follower.next().await,
        }
    }
}

/// The pages of a follower, ended by the deadline or the shutdown.
struct Pages {
    source: StreamSource,
    form: StreamFormat,
    control: Control,
    until: Option<Instant>,
}

impl Pages {
    /// Returns the next page in its format, or a keep-alive comment of server-sent events; `None`
    /// at the end.
    async fn next(&mut self) -> Result<Option<Bytes>> {
        tokio::select! {
            // The end conditions come first: an agent that never pauses must not delay them.
            biased;
            () = self.control.reached(ShutdownPhase::EndWaits) => Err(ending()),
            () = sleep_until(self.until) => Ok(None),
            page = self.source.next() => {
                page.map(|lines| (!lines.is_empty()).then(|| self.form.write(lines)))
            }
            () = tokio::time::sleep(sse::KEEP_ALIVE), if self.form == StreamFormat::ServerSent => {
                Ok(Some(Bytes::from_static(sse::COMMENT)))
            }
        }
    }
}
