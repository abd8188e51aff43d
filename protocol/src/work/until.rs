//! The events that a `wait` waits for: the comma list of `--until` (contract section 10).

use serde_json::Value;

use crate::error::{Code, Error, Result};
use crate::event::EventType;

/// The default of `--until`, which the alias `turn_end` also stands for.
pub const TURN_END: &[EventType] = &[
    EventType::TurnCompleted,
    EventType::TurnFailed,
    EventType::TurnCanceled,
    EventType::ApprovalRequested,
    EventType::ElicitationRequested,
];

/// The text of the default as the contract shows it; the wait uses [`TURN_END`].
pub const DEFAULT: &str = "turn.completed,turn.failed,turn.canceled,approval.requested";

/// A parsed `--until` list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Until {
    /// Any event of the worker.
    Any,
    /// One of these; a kind narrows `progress.update:KIND`.
    OneOf(Vec<(EventType, Option<String>)>),
}

impl Until {
    /// Parses the list; `None` is the default.
    ///
    /// # Errors
    ///
    /// `INVALID_ARGUMENT{unknown,aliases,knownEventTypes}` for unknown event types.
    pub fn parse(text: Option<&str>) -> Result<Self> {
        // A caller that writes the default explicitly means the default, even after it has grown.
        let Some(text) = text.filter(|text| *text != DEFAULT) else {
            return Ok(Self::OneOf(TURN_END.iter().map(|t| (*t, None)).collect()));
        };
        let mut wanted = Vec::new();
        let mut unknown = Vec::new();
        for word in text.split(',').map(str::trim).filter(|word| !word.is_empty()) {
            let (name, kind) = word.split_once(':').map_or((word, None), |(name, kind)| (name, Some(kind)));
            match (name, kind) {
                ("any" | "*", None) => return Ok(Self::Any),
                ("waiting_approval", None) => {
                    let asks = [EventType::ApprovalRequested, EventType::ElicitationRequested];
                    wanted.extend(asks.map(|t| (t, None)));
                }
                ("turn_end", None) => wanted.extend(TURN_END.iter().map(|t| (*t, None))),
                _ => match EventType::parse(name).filter(|t| t.is_of_workers()) {
                    Some(EventType::ProgressUpdate) if kind != Some("") => {
                        wanted.push((EventType::ProgressUpdate, kind.map(str::to_owned)));
                    }
                    Some(event_type) if kind.is_none() => wanted.push((event_type, None)),
                    _ => unknown.push(word.to_owned()),
                },
            }
        }
        unknown.sort_unstable();
        if !unknown.is_empty() {
            let mut known: Vec<&str> =
                EventType::ALL.iter().filter(|t| t.is_of_workers()).map(|t| t.as_str()).collect();
            known.sort_unstable();
            return Err(Error::new(
                Code::InvalidArgument,
                format!(
                    "unknown event type in --until: {}; known are {}",
                    unknown.join(", "),
                    known.join(", ")
                ),
            )
            .with("unknown", unknown)
            .with("aliases", Value::from(vec!["turn_end"]))
            .with("knownEventTypes", known));
        }
        Ok(if wanted.is_empty() { Self::Any } else { Self::OneOf(wanted) })
    }

    /// Whether an event of this type and kind matches.
    #[must_use]
    pub fn matches(&self, event_type: EventType, kind: Option<&str>) -> bool {
        match self {
            Self::Any => true,
            Self::OneOf(wanted) => {
                wanted.iter().any(|(t, k)| *t == event_type && k.as_deref().is_none_or(|k| Some(k) == kind))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_is_the_end_of_the_turn_or_a_question() {
        let until = Until::parse(None).unwrap();
        assert!(until.matches(EventType::TurnFailed, None));
        assert!(until.matches(EventType::ApprovalRequested, None));
        assert!(until.matches(EventType::ElicitationRequested, None));
        assert!(!until.matches(EventType::ProgressMessage, None));
        assert_eq!(until, Until::parse(Some("turn_end")).unwrap());
    }

    #[test]
    fn empty_and_star_are_any() {
        for text in ["", " , ", "any", "turn.started,*"] {
            assert_eq!(Until::parse(Some(text)).unwrap(), Until::Any, "{text}");
        }
    }

    #[test]
    fn kinds_narrow_updates() {
        let until = Until::parse(Some("progress.update:plan")).unwrap();
        assert!(until.matches(EventType::ProgressUpdate, Some("plan")));
        assert!(!until.matches(EventType::ProgressUpdate, Some("thought")));
        assert_eq!(Until::parse(Some("progress.update:")).unwrap_err().code, Code::InvalidArgument);
    }

    #[test]
    fn unknown_words_are_named() {
        let error = Until::parse(Some("turn.completed, turn.over,runtime.turn_dispatching")).unwrap_err();
        assert_eq!(error.code, Code::InvalidArgument);
        assert_eq!(error.details["unknown"], serde_json::json!(["runtime.turn_dispatching", "turn.over"]));
    }

    #[test]
    fn the_default_is_written_as_it_is_meant() {
        assert_eq!(Until::parse(None), Until::parse(Some(DEFAULT)));
    }
}
