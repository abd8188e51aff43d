//! Webhooks: a POST with the token of a trigger fires that trigger in the panel's own workspace.
//!
//! It opens nothing else. The daemon compares the token.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use hyper::Method;
use hyper::body::Incoming;
use hyper::header::HeaderMap;
use serde_json::{Value, json};
use subagent_protocol::api::{DeliverTrigger, FireTrigger};
use subagent_protocol::trigger::MAX_PAYLOAD_BYTES;
use subagent_protocol::{Code, Error};

use crate::access::window::Window;
use crate::body;
use crate::daemons::bridge::BridgeResult;
use crate::daemons::daemon::{DaemonRequest, error};
use crate::daemons::errors::code_of;
use crate::server::{BrowserConnection, bearer, busy, read_only};

/// Headers that identify a delivery: those of Standard Webhooks and of GitHub.
const DELIVERY: [&str; 2] = ["webhook-id", "x-github-delivery"];
/// Names whose wrong requests are counted: more than there are requests within a minute.
const MAX_NAMES: usize = 64;

/// Requests within a minute: of all triggers together, and those with a wrong token of each name.
#[derive(Debug, Default)]
pub(crate) struct HookRequests {
    all: Mutex<Window<60>>,
    /// The name whose last wrong request is the oldest is in front.
    wrong: Mutex<VecDeque<(String, Window<10>)>>,
}

impl HookRequests {
    /// Counts a request, if there is room for one.
    fn admit(&self, trigger: &str, now: Instant) -> bool {
        let mut all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        let mut wrong = self.wrong.lock().unwrap_or_else(PoisonError::into_inner);
        let of_name = wrong.iter_mut().find(|(name, _)| name == trigger);
        let is_admitted = of_name.is_none_or(|(_, window)| window.has_room(now)) && all.has_room(now);
        if is_admitted {
            all.add(now);
        }
        is_admitted
    }

    fn add_wrong(&self, trigger: &str, now: Instant) {
        let mut wrong = self.wrong.lock().unwrap_or_else(PoisonError::into_inner);
        let found = wrong.iter().position(|(name, _)| name == trigger);
        let before = found.and_then(|index| wrong.remove(index));
        let mut window = before.map(|(_, window)| window).unwrap_or_default();
        window.add(now);
        if wrong.len() >= MAX_NAMES {
            wrong.pop_front();
        }
        wrong.push_back((trigger.to_owned(), window));
    }
}

/// The identifier of a delivery, if it has one.
fn delivery(headers: &HeaderMap) -> Result<Option<String>, Error> {
    for name in DELIVERY {
        let mut values = headers.get_all(name).iter();
        let Some(value) = values.next() else { continue };
        let Some(id) = value.to_str().ok().filter(|_| values.next().is_none()) else {
            let message = format!("the header {name} is there more than once, or is not plain text");
            return Err(Error::new(Code::InvalidArgument, message).with("field", "occurrence"));
        };
        return Ok(Some(id.to_owned()));
    }
    Ok(None)
}

impl BrowserConnection {
    /// Fires a trigger for a request with its token.
    pub(crate) async fn hook(&self, headers: &HeaderMap, incoming: Incoming, trigger: &str) -> BridgeResult {
        let now = Instant::now();
        let deliveries = &self.shared.deliveries;
        if self.shared.read_only {
            return Err(error(&read_only()));
        }
        // Who may not ask at all uses up no room.
        self.permission().await?;
        if !deliveries.admit(trigger, now) {
            return Err(error(&busy("too many webhook requests, or too many with a wrong token")));
        }
        let token = bearer(headers);
        if token.is_empty() {
            deliveries.add_wrong(trigger, now);
            let problem =
                Error::new(Code::Unauthorized, "a webhook needs the header Authorization: Bearer TOKEN");
            return Err(error(&problem.recommend("the token was shown by `subagent trigger add --webhook`")));
        }
        let bytes =
            body::read_at_most(incoming, MAX_PAYLOAD_BYTES).await.map_err(|problem| error(&problem))?;
        let payload = String::from_utf8(bytes.to_vec()).map_err(|_| {
            error(&Error::new(Code::InvalidInput, "the body is not UTF-8 text").with("field", "payload"))
        })?;
        let occurrence = delivery(headers).map_err(|problem| error(&problem))?;
        let fire = FireTrigger { payload: Some(payload), occurrence };
        let request = DeliverTrigger { token: token.to_owned(), fire };
        let behalf = self.holders().await?.header;
        let places = self.shared.bridge.places().await;
        let own = places.into_iter().find(|place| place.is_own).ok_or_else(|| {
            error(&Error::new(Code::DaemonNotRunning, "the panel has no workspace of its own"))
        })?;
        let address = self.address(&own, true).await?;
        let ask = DaemonRequest {
            method: Method::POST,
            body: serde_json::to_vec(&request).unwrap_or_default().into(),
            handle: self.shared.bridge.handle(),
            ..DaemonRequest::get(format!("/v1/triggers/{trigger}/deliver"), &behalf)
        };
        let fired = ask.send(&address).await.inspect_err(|problem| {
            if code_of(problem) == "UNAUTHORIZED" {
                deliveries.add_wrong(trigger, now);
            }
        })?;
        // A sender learns when it fired, and nothing about the worker.
        let part = |key: &str| fired.get(key).cloned().unwrap_or(Value::Null);
        Ok(json!({"at": part("at"), "occurrence": part("occurrence"), "status": part("status")}))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use hyper::header::HeaderValue;

    use super::*;

    #[test]
    fn requests_are_limited_and_wrong_tokens_more_so() {
        let (deliveries, now) = (HookRequests::default(), Instant::now());
        assert_eq!((0..100).filter(|_| deliveries.admit("ci", now)).count(), 60);
        let later = now + Duration::from_secs(60);
        for _ in 0..10 {
            assert!(deliveries.admit("ci", later));
            deliveries.add_wrong("ci", later);
        }
        assert!(!deliveries.admit("ci", later) && deliveries.admit("other", later));
        assert!(deliveries.admit("ci", later + Duration::from_secs(60)));
    }

    #[test]
    fn the_names_of_wrong_requests_are_bounded() {
        let (deliveries, now) = (HookRequests::default(), Instant::now());
        for number in 0..MAX_NAMES {
            deliveries.add_wrong(&number.to_string(), now);
        }
        for name in ["0", "other"] {
            deliveries.add_wrong(name, now);
        }
        let wrong = deliveries.wrong.lock().unwrap();
        assert_eq!((wrong.len(), wrong[0].0.as_str()), (MAX_NAMES, "2"));
    }

    #[test]
    fn an_identifier_that_cannot_be_read_is_refused() {
        let mut headers = HeaderMap::new();
        assert_eq!(delivery(&headers).unwrap(), None);
        headers.append("x-github-delivery", HeaderValue::from_static("d-1"));
        assert_eq!(delivery(&headers).unwrap().as_deref(), Some("d-1"));
        headers.append("x-github-delivery", HeaderValue::from_static("d-2"));
        assert_eq!(delivery(&headers).unwrap_err().code, Code::InvalidArgument);
        headers.insert("x-github-delivery", HeaderValue::from_bytes(b"d\xff").unwrap());
        assert_eq!(delivery(&headers).unwrap_err().code, Code::InvalidArgument);
    }
}
