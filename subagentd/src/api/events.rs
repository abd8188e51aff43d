//! Streams of events, resumable by the cursor of the last event that arrived: NDJSON, one event per line, or server-sent
//! events where the client accepts these.
//!
//! The status is sent with the first byte. Whatever ends the stream later than that, other than its end, is its last
//! line: an error envelope, told from an event by its `ok`.

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

use super::address::Addressed;
use super::body::{Params, flag};
use super::caller::Reader;
use super::control::{Control, Phase, ending};
use super::reply::{Failure, Outcome, Reply, error_line};
use super::sse;
use super::state::Api;
use crate::supervisor::{AllFollower, Chosen, Follower, Sight};

/// The parameters of a stream of events.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Choice {
    /// The cursor: only later events.
    from: Option<String>,
    /// Go on when the end is reached.
    #[serde(default, deserialize_with = "flag")]
    follow: bool,
    /// With what each event was derived from.
    #[serde(default, deserialize_with = "flag")]
    raw: bool,
    /// With all events of the tasks below it.
    #[serde(default, deserialize_with = "flag")]
    tree: bool,
    /// Follow for this many milliseconds.
    until_ms: Option<u64>,
}

/// `GET /v1/workers/{worker}/events?from=&follow=&raw=&tree=&until_ms=`
#[cfg_attr(test, utoipa::path(get, path = "/v1/workers/{worker}/events", params(("worker" = String, Path, description = "Its id, its name, the beginning of its id, or `@last`"), ("from" = Option<String>, Query, description = "The cursor: only later events"), ("follow" = Option<bool>, Query, description = "Go on when the end is reached"), ("raw" = Option<bool>, Query, description = "With what each event was derived from"), ("tree" = Option<bool>, Query, description = "With all events of the tasks below it, wrapped; what is told of them is there anyway"), ("until_ms" = Option<u64>, Query, description = "Follow for this many milliseconds")), responses((status = 200, description = "One event per line; an error that comes later is the last line. With `Accept: text/event-stream` server-sent events, which go on at their end", content((Event = "application/x-ndjson"), (String = "text/event-stream"))))))]
pub(super) async fn follow(
    State(api): State<Api>,
    reader: Reader,
    Addressed(worker): Addressed,
    Params(choice): Params<Choice>,
    headers: HeaderMap,
) -> Result<Response, Failure> {
    reader.may_see(&api, &worker).await?;
    let (form, from) = form(&headers, choice.from)?;
    let follow = choice.follow || form == Form::ServerSent;
    let sight = match (reader.only(), choice.tree) {
        (None, false) => Sight::Told,
        (None, true) => Sight::Tree,
        // From below a worker nothing but that worker can be seen.
        (Some(_), false) => Sight::Alone,
        (Some(only), true) => return Err(reader.refuse(&api, only).await),
    };
    let follower = api.supervisor.follow(&worker, from, follow, choice.raw, sight).await?;
    // A time beyond what the clock can hold is no limit.
    let until = choice
        .until_ms
        .filter(|_| follow)
        .and_then(|ms| Instant::now().checked_add(Duration::from_millis(ms)));
    Ok(streamed(Source::One(Box::new(follower)), form, api.control, until))
}

/// How a stream is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    /// One line for each event.
    Lines,
    /// One frame for each event. Such a stream goes on at its end.
    ServerSent,
}

impl Form {
    fn write(self, lines: Vec<u8>) -> Bytes {
        match self {
            Self::Lines => lines.into(),
            Self::ServerSent => sse::frames(&lines).into(),
        }
    }
}

/// The form and the cursor that a client asks for.
fn form(headers: &HeaderMap, from: Option<String>) -> Result<(Form, Option<String>)> {
    let from = from.filter(|from| !from.is_empty());
    if !sse::is_wanted(headers) {
        return Ok((Form::Lines, from));
    }
    Ok((Form::ServerSent, sse::last_event_id(headers)?.or(from)))
}

fn streamed(source: Source, form: Form, control: Control, until: Option<Instant>) -> Response {
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
        Form::Lines => {
            headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/x-ndjson"));
        }
        Form::ServerSent => {
            headers.insert(CONTENT_TYPE, HeaderValue::from_static(sse::EVENT_STREAM));
            headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        }
    }
    response
}

/// The parameters of a stream of events of all workers, besides those of one.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ChoiceOfAll {
    /// Only those of this controller's workers.
    controller_id: Option<String>,
    /// Only those of workers with these tags.
    selector: Option<String>,
    /// The cursor: only later events.
    from: Option<String>,
    /// Go on when the end is reached.
    #[serde(default, deserialize_with = "flag")]
    follow: bool,
    /// With what each event was derived from.
    #[serde(default, deserialize_with = "flag")]
    raw: bool,
    /// Without the progress of turns, but for what is told of sessions below theirs.
    #[serde(default, deserialize_with = "flag")]
    milestones: bool,
}

/// `GET /v1/events?controllerId=&selector=&from=&follow=&raw=&milestones=`
#[cfg_attr(test, utoipa::path(get, path = "/v1/events", params(("controllerId" = Option<String>, Query, description = "Only those of its workers"), ("selector" = Option<String>, Query, description = "Only those of workers with these tags, `NAME=VALUE` or `NAME`, separated by commas"), ("from" = Option<String>, Query, description = "The cursor: only later events"), ("follow" = Option<bool>, Query, description = "Go on when the end is reached, also with workers that are started then"), ("raw" = Option<bool>, Query, description = "With what each event was derived from"), ("milestones" = Option<bool>, Query, description = "Without `progress.message` and `progress.update`, but for what agents tell of sessions below theirs")), responses((status = 200, description = "The events of all workers in one order, one per line; an error that comes later is the last line. With `Accept: text/event-stream` server-sent events, which go on at their end", content((Event = "application/x-ndjson"), (String = "text/event-stream"))))))]
pub(super) async fn follow_all(
    State(api): State<Api>,
    reader: Reader,
    Params(choice): Params<ChoiceOfAll>,
    headers: HeaderMap,
) -> Result<Response, Failure> {
    let (form, from) = form(&headers, choice.from)?;
    let follow = choice.follow || form == Form::ServerSent;
    let chosen = Chosen {
        controller_id: choice.controller_id,
        selector: choice.selector,
        only: reader.only().cloned(),
        milestones: choice.milestones,
    };
    let follower = api.supervisor.follow_all(chosen, from, follow, choice.raw).await?;
    Ok(streamed(Source::All(Box::new(follower)), form, api.control, None))
}

/// `GET /v1/workers/{worker}/events/latest`
#[cfg_attr(test, utoipa::path(get, path = "/v1/workers/{worker}/events/latest", params(("worker" = String, Path, description = "Its id, its name, the beginning of its id, or `@last`")), responses((status = 200, description = "`event.latest`", body = Envelope<LatestEvent>))))]
pub(super) async fn latest(
    State(api): State<Api>,
    reader: Reader,
    Addressed(worker): Addressed,
) -> Outcome<LatestEvent> {
    reader.may_see(&api, &worker).await?;
    Ok(Reply("event.latest", api.supervisor.latest_event(&worker).await?))
}

/// `GET /v1/events/latest`
#[cfg_attr(test, utoipa::path(get, path = "/v1/events/latest", responses((status = 200, description = "`event.latest`", body = Envelope<LatestOfAll>))))]
pub(super) async fn latest_of_all(State(api): State<Api>, reader: Reader) -> Outcome<LatestOfAll> {
    Ok(Reply("event.latest", api.supervisor.latest_of_all(reader.only().cloned()).await?))
}

/// Whose events.
enum Source {
    One(Box<Follower>),
    All(Box<AllFollower>),
}

impl Source {
    async fn next(&mut self) -> Result<Vec<u8>> {
        match self {
            Self::One(follower) => follower.next().await,
            Self::All(follower) => follower.next().await,
        }
    }
}

/// The pages of a follower, cut at the deadline and at the daemon's end.
struct Pages {
    source: Source,
    form: Form,
    control: Control,
    until: Option<Instant>,
}

impl Pages {
    /// The next page in its form, or a comment in a silent stream of server-sent events; `None` at the end.
    async fn next(&mut self) -> Result<Option<Bytes>> {
        let deadline = async {
            match self.until {
                Some(until) => tokio::time::sleep_until(until).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            // The ends first: an agent that never pauses must not outrun them.
            biased;
            () = self.control.reached(Phase::EndWaits) => Err(ending()),
            () = deadline => Ok(None),
            page = self.source.next() => {
                page.map(|lines| (!lines.is_empty()).then(|| self.form.write(lines)))
            }
            () = tokio::time::sleep(sse::KEEP_ALIVE), if self.form == Form::ServerSent => {
                Ok(Some(Bytes::from_static(sse::COMMENT)))
            }
        }
    }
}
