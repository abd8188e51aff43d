//! Whether the place of a live runtime answers. A place that does not is `unreachable`: an observed
//! state, which proves nothing about the runtime.

use std::time::Duration;

use subagent_protocol::data::workers::UnreachableState;
use subagent_protocol::time::Timestamp;
use subagent_protocol::{Code, Error};
use tokio::time::Instant;

use crate::supervisor::entropy;
use crate::supervisor::runtimes::stream::StreamState;

/// Time without an answer after which a place is reported as unreachable.
pub(crate) const REPORT_AFTER: Duration = Duration::from_secs(3);
/// The same for a place whose connection waits for those of other workers there.
pub(crate) const REPORT_WAITING_AFTER: Duration = Duration::from_secs(20);

/// What is known about the place of a runtime.
#[derive(Debug, Default)]
pub(crate) struct Reach {
    last_heard: Option<Timestamp>,
    /// `None` while the place answers.
    silence: Option<Silence>,
    /// Whether an answer of the place was seen since the daemon's start.
    answered: bool,
}

#[derive(Debug)]
struct Silence {
    since: Timestamp,
    begun: Instant,
    reason: Option<Error>,
    /// When it is reported; `None` after that.
    report_at: Option<Instant>,
}

impl Reach {
    /// A stream is being opened, or cannot be opened for this reason.
    pub(crate) fn is_awaited(&mut self, reason: Option<Error>) {
        let silence = self.silence.get_or_insert_with(|| Silence {
            since: entropy::now(),
            begun: Instant::now(),
            reason: None,
            report_at: Some(Instant::now() + REPORT_AFTER),
        });
        if reason.is_some() {
            silence.reason = reason;
        }
    }

    /// Takes what the present stream has brought, before another one takes its place or after it
    /// has ended.
    pub(crate) fn see(&mut self, state: &StreamState) {
        self.last_heard = self.last_heard.max(state.heard);
        if state.end.is_some() {
            self.is_awaited(state.end.clone());
        }
    }

    /// Returns the error if the place serves another daemon.
    pub(crate) fn fenced(&self) -> Option<Error> {
        let reason = self.silence.as_ref().and_then(|silence| silence.reason.clone());
        reason.filter(|reason| reason.code == Code::Fenced)
    }

    /// Returns whether the next answer of the place is news.
    pub(crate) fn is_silent(&self) -> bool {
        self.silence.is_some()
    }

    /// A connection waits for others: nothing was asked yet, so nothing is reported for a while. Returns
    /// whether that is so.
    pub(super) fn waits(&mut self) -> bool {
        let Some(silence) = self.silence.as_mut().filter(|silence| silence.reason.is_none()) else {
            return false;
        };
        let waits = silence.begun.elapsed() < REPORT_WAITING_AFTER;
        if waits {
            silence.report_at = Some(Instant::now() + REPORT_AFTER);
        }
        waits
    }

    /// The silence is reported. Returns the state.
    pub(super) fn report(&mut self) -> Option<UnreachableState> {
        self.silence.as_mut()?.report_at = None;
        self.unreachable()
    }

    /// The place has answered. Returns since when that was reported not to be so, and whether this
    /// is the first answer since the daemon's start.
    pub(super) fn answers(&mut self) -> (Option<Timestamp>, bool) {
        let before = self.unreachable().map(|state| state.since);
        self.silence = None;
        (before, !std::mem::replace(&mut self.answered, true))
    }

    /// Returns when the silence is reported.
    pub(crate) fn report_at(&self) -> Option<Instant> {
        self.silence.as_ref().and_then(|silence| silence.report_at)
    }

    /// Returns the state, once it is reported.
    pub(crate) fn unreachable(&self) -> Option<UnreachableState> {
        let silence = self.silence.as_ref().filter(|silence| silence.report_at.is_none())?;
        let (since, reason) = (silence.since, silence.reason.clone());
        Some(UnreachableState { since, last_heard: self.last_heard, reason })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_silence_keeps_its_begin_and_takes_the_newest_reason() {
        let mut reach = Reach::default();
        assert!(!reach.is_silent());
        let heard = Timestamp(1);
        reach.see(&StreamState { heard: Some(heard), ..StreamState::default() });
        assert!(!reach.is_silent());
        let broken = |text: &str| Some(Error::new(Code::PlacementUnreachable, text));
        reach.see(&StreamState { end: broken("one"), ..StreamState::default() });
        assert!(reach.is_silent() && reach.report_at().is_some());
        // Not before it is reported.
        assert_eq!(reach.unreachable(), None);
        let since = reach.silence.as_ref().unwrap().since;
        reach.is_awaited(None);
        reach.is_awaited(broken("two"));
        let now = reach.report().unwrap();
        assert_eq!((now.since, now.last_heard, now.reason), (since, Some(heard), broken("two")));
        assert_eq!(reach.answers(), (Some(since), true));
        reach.is_awaited(None);
        assert_eq!((reach.answers(), reach.is_silent()), ((None, false), false));
    }

    #[test]
    fn a_connection_that_waits_for_others_is_reported_later() {
        let mut reach = Reach::default();
        reach.is_awaited(None);
        assert!(reach.waits() && reach.report_at().is_some());
        reach.silence.as_mut().unwrap().begun -= REPORT_WAITING_AFTER;
        assert!(!reach.waits());
        // What has refused a connection is not waited for.
        let mut refused = Reach::default();
        refused.is_awaited(Some(Error::new(Code::PlacementUnreachable, "refused")));
        assert!(!refused.waits() && !Reach::default().waits());
    }
}
