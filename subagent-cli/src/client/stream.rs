//! Reads events of workers, and continues after lost connections.

use std::collections::VecDeque;

use bytes::{Buf as _, BytesMut};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use serde::Deserialize;
use serde_json::Value;
use tokio::time::Instant;

use super::connect::MAX_FAR_BODY;
use super::exchange::{DaemonResponse, Lost, is_leaving, too_long};
use super::losses::RetryBudget;
use super::request::{LivenessProbe, with_liveness_probe};
use super::{ApiRequest, DaemonClient, REQUEST_LIMIT, RequestPath, segment};
use crate::failure::{Failure, Result};

/// A stream of events.
#[derive(Debug)]
pub struct EventSubscription<'a> {
    client: &'a mut DaemonClient,
    /// The path and query without this reader's parameters.
    place: RequestPath,
    follow: bool,
    raw: bool,
    /// Id of the last returned event.
    cursor: Option<String>,
    lines: Option<BodyLines>,
    /// The control line that ended the stream; it applies after the events before it.
    said: Option<StreamEndReason>,
    /// The reason for the lost connection, until the next one exists.
    lost: Option<Lost>,
    losses: RetryBudget,
}

/// A control line of a stream: the reason for its end.
#[derive(Debug)]
enum StreamEndReason {
    Leaving,
    Failed(Failure),
}

/// Events that arrived together.
#[derive(Debug)]
pub enum EventBatch {
    /// The events in order.
    Events(Vec<Value>),
    /// The stream has ended: with `follow`, the worker is stopped.
    End,
}

/// A batch of events, or a change of the connection.
#[derive(Debug)]
pub enum SubscriptionStep {
    /// The stream is open, for the first time or again.
    Opened,
    /// The connection was lost. The next step reconnects, and starts the daemon if necessary.
    Lost,
    /// A batch of events.
    Batch(EventBatch),
}

impl DaemonClient {
    /// Returns the events of a worker after `from`; with `follow` also future ones.
    pub fn events(
        &mut self,
        worker_id: &str,
        from: Option<String>,
        follow: bool,
        raw: bool,
    ) -> EventSubscription<'_> {
        let place = RequestPath::new(format!("/v1/workers/{}/events", segment(worker_id)));
        self.events_at(place, from, follow, raw)
    }

    /// Returns the events of a worker and of all tasks below it.
    pub fn tree_events(
        &mut self,
        worker_id: &str,
        from: Option<String>,
        follow: bool,
        raw: bool,
    ) -> EventSubscription<'_> {
        let place = RequestPath::new(format!("/v1/workers/{}/events", segment(worker_id)));
        self.events_at(place.with("tree", Some("true")), from, follow, raw)
    }

    /// Returns the events of all workers after `from` that are not progress of a turn, including future
    /// ones.
    pub fn milestones(&mut self, from: Option<String>) -> EventSubscription<'_> {
        self.events_at(RequestPath::new("/v1/events").with("milestones", Some("true")), from, true, false)
    }

    /// Returns the events of the selected workers in one order; with `follow` also those of workers that
    /// start later.
    pub fn all_events(
        &mut self,
        controller_id: Option<&str>,
        selector: Option<&str>,
        from: Option<String>,
        follow: bool,
        raw: bool,
    ) -> EventSubscription<'_> {
        let place =
            RequestPath::new("/v1/events").with("controllerId", controller_id).with("selector", selector);
        self.events_at(place, from, follow, raw)
    }

    fn events_at(
        &mut self,
        place: RequestPath,
        from: Option<String>,
        follow: bool,
        raw: bool,
    ) -> EventSubscription<'_> {
        let losses = match self.cut {
            Some(_) => RetryBudget::after_loss(follow),
            None if follow => RetryBudget::of_wait(),
            None => RetryBudget::default(),
        };
        EventSubscription {
            losses,
            client: self,
            place,
            follow,
            raw,
            cursor: from,
            lines: None,
            said: None,
            lost: None,
        }
    }
}

impl EventSubscription<'_> {
    /// Returns the next events. With `follow` it waits as long as the daemon answers probes.
    ///
    /// # Errors
    /// Those of [`DaemonClient::ask`].
    pub async fn next(&mut self) -> Result<EventBatch> {
        loop {
            if let SubscriptionStep::Batch(batch) = self.step().await? {
                return Ok(batch);
            }
        }
    }

    /// Returns the next events or the next change of the connection.
    ///
    /// # Errors
    /// Those of [`DaemonClient::ask`].
    pub async fn step(&mut self) -> Result<SubscriptionStep> {
        if let Some(lost) = self.lost.take() {
            self.client.lost(lost, &mut self.losses).await?;
        }
        loop {
            let Some(lines) = self.lines.as_mut() else {
                self.open().await?;
                return Ok(SubscriptionStep::Opened);
            };
            let Some(info) = self.client.daemon() else {
                self.lines = None;
                continue;
            };
            let probe = LivenessProbe::of(&self.client.place, info);
            let deadline = (!self.follow).then(|| Instant::now() + REQUEST_LIMIT);
            let lost = match self.said.take() {
                Some(StreamEndReason::Failed(failure)) => return Err(failure),
                Some(StreamEndReason::Leaving) => Lost::Leaving,
                None => match with_liveness_probe(&probe, deadline, lines.next()).await {
                    Err(failure) => return Err(failure),
                    Ok(Ok(Some(found))) => match self.take(&found)? {
                        events if events.is_empty() => continue,
                        events => return Ok(SubscriptionStep::Batch(EventBatch::Events(events))),
                    },
                    Ok(Ok(None)) => return Ok(SubscriptionStep::Batch(EventBatch::End)),
                    Ok(Err(error)) => Lost::Broken(error),
                },
            };
            self.lines = None;
            self.lost = Some(lost);
            return Ok(SubscriptionStep::Lost);
        }
    }

    async fn open(&mut self) -> Result<()> {
        let word = |flag: bool| flag.then_some("true");
        let path = self
            .place
            .clone()
            .with("from", self.cursor.as_deref())
            .with("follow", word(self.follow))
            .with("raw", word(self.raw));
        let response = self.client.open(&ApiRequest::get(path), &mut self.losses).await?;
        let is_far = self.client.place.far.is_some();
        let max_line = if is_far { MAX_FAR_BODY } else { usize::MAX };
        self.lines = Some(BodyLines { body: response.into_body(), buffer: BytesMut::new(), max_line });
        Ok(())
    }

    /// Parses complete lines, advances the cursor, and stores a control line.
    fn take(&mut self, lines: &VecDeque<Vec<u8>>) -> Result<Vec<Value>> {
        let mut events = Vec::with_capacity(lines.len());
        for line in lines {
            let value: Value = serde_json::from_slice(line).map_err(|error| {
                Failure::internal(format!("an event of the daemon's stream is not JSON: {error}"))
            })?;
            if let Some(event_id) = value.get("eventId").and_then(Value::as_str) {
                self.cursor = Some(event_id.to_owned());
                events.push(value);
                continue;
            }
            self.said = Some(match DaemonResponse::<Value>::deserialize(value) {
                Ok(DaemonResponse { ok: false, error: Some(failure), .. }) if is_leaving(&failure) => {
                    StreamEndReason::Leaving
                }
                Ok(DaemonResponse { ok: false, error: Some(failure), .. }) => {
                    StreamEndReason::Failed(failure)
                }
                _ => StreamEndReason::Failed(Failure::internal("the daemon's stream holds an invalid event")),
            });
            break;
        }
        Ok(events)
    }
}

/// Splits the body of a response into lines.
#[derive(Debug)]
struct BodyLines {
    body: Incoming,
    buffer: BytesMut,
    /// Maximum length of a line in bytes.
    max_line: usize,
}

impl BodyLines {
    /// Returns at least one complete line; `None` at the end. An incomplete last line means a broken
    /// connection.
    async fn next(&mut self) -> std::result::Result<Option<VecDeque<Vec<u8>>>, String> {
        loop {
            match self.body.frame().await {
                Some(Ok(frame)) => {
                    let Ok(data) = frame.into_data() else { continue };
                    if data.len() > self.max_line.saturating_sub(self.buffer.len()) {
                        return Err(too_long("event", self.max_line).message);
                    }
                    self.buffer.extend_from_slice(&data);
                    // A long line arrives in many pieces; only the new piece is searched.
                    if !data.contains(&b'\n') {
                        continue;
                    }
                }
                Some(Err(error)) => return Err(error.to_string()),
                None if self.buffer.is_empty() => return Ok(None),
                None => return Err("the stream ended within a line".to_owned()),
            }
            let lines = complete_lines(&mut self.buffer);
            if !lines.is_empty() {
                return Ok(Some(lines));
            }
        }
    }
}

/// Removes the complete lines from the front, without line ends. Empty lines (keep-alives) are dropped.
fn complete_lines(buffer: &mut BytesMut) -> VecDeque<Vec<u8>> {
    let Some(last) = buffer.iter().rposition(|byte| *byte == b'\n') else { return VecDeque::new() };
    let lines = buffer[..last].split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    let lines = lines.map(<[u8]>::to_vec).collect();
    buffer.advance(last + 1);
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_cut_wherever_the_pieces_end() {
        let text = b"{\"a\":1}\n\n{\"b\":2}\n{\"c\"";
        for cut in 0..text.len() {
            let mut buffer = BytesMut::from(&text[..cut]);
            let mut lines = complete_lines(&mut buffer);
            buffer.extend_from_slice(&text[cut..]);
            lines.extend(complete_lines(&mut buffer));
            assert_eq!(lines, [b"{\"a\":1}".to_vec(), b"{\"b\":2}".to_vec()]);
            assert_eq!(&buffer[..], b"{\"c\"");
        }
    }
}
