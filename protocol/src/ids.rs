//! Identifiers. Each kind has its own type, so that they cannot be confused. All but the event
//! id are random bytes from the caller (this crate has no source of randomness), or a name
//! chosen by a user.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// The text is not an id of the expected kind.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not a {kind} id ({rule})")]
pub struct InvalidId {
    text: String,
    kind: &'static str,
    rule: String,
}

/// Describes the format of a random id.
fn random_rule(prefix: &str, bytes: usize) -> String {
    format!("{prefix} and {} hex digits", bytes * 2)
}

/// Writes bytes as lowercase hexadecimal digits, two for each byte.
#[must_use]
pub fn hex(bytes: &[u8]) -> String {
    use fmt::Write as _;
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        // Writing to a String cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

fn is_lower_hex(text: &str) -> bool {
    text.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
}

fn is_random(text: &str, prefix: &str, bytes: usize) -> bool {
    text.strip_prefix(prefix).is_some_and(|rest| rest.len() == bytes * 2 && is_lower_hex(rest))
}

/// Whether a text can be a controller's id. It must be safe in a header, in a path of the API
/// and in a shell.
fn is_controller_id(text: &str) -> bool {
    (1..=128).contains(&text.len())
        && text.starts_with(|first: char| first.is_ascii_alphanumeric())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._:-".contains(&byte))
}

macro_rules! id {
    ($(#[$doc:meta])* $name:ident, $kind:literal, $prefix:literal, $bytes:literal) => {
        id!(
            $(#[$doc])* $name, $kind, $prefix, $bytes,
            fits: |text| is_random(text, $prefix, $bytes),
            rule: random_rule($prefix, $bytes),
            pattern: format!("^{}[0-9a-f]{{{}}}$", $prefix, $bytes * 2)
        );
    };
    (
        $(#[$doc:meta])* $name:ident, $kind:literal, $prefix:literal, $bytes:literal,
        fits: $fits:expr, rule: $rule:expr, pattern: $pattern:expr
    ) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(String);

        impl $name {
            /// Number of random bytes of an id.
            pub const BYTES: usize = $bytes;

            /// Creates an id from random bytes.
            #[must_use]
            pub fn from_random(bytes: [u8; $bytes]) -> Self {
                Self(format!(concat!($prefix, "{}"), hex(&bytes)))
            }

            /// Returns the id as text.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        #[cfg(feature = "openapi")]
        $crate::openapi::text!($name, $pattern);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl FromStr for $name {
            type Err = InvalidId;

            fn from_str(text: &str) -> Result<Self, InvalidId> {
                let fits: fn(&str) -> bool = $fits;
                if fits(text) {
                    Ok(Self(text.to_owned()))
                } else {
                    Err(InvalidId { text: text.to_owned(), kind: $kind, rule: $rule })
                }
            }
        }

        impl TryFrom<String> for $name {
            type Error = InvalidId;

            fn try_from(text: String) -> Result<Self, InvalidId> {
                text.parse()
            }
        }

        impl From<$name> for String {
            fn from(id: $name) -> String {
                id.0
            }
        }
    };
}

id!(
    /// A controller, the owner of a workspace's workers. Created ones are random like every other
    /// id; users may choose any name.
    ControllerId, "controller", "ctl_", 5,
    fits: is_controller_id,
    rule: "1 to 128 letters, digits and . _ : -, the first a letter or digit".to_owned(),
    pattern: "^[A-Za-z0-9][A-Za-z0-9._:-]{0,127}$"
);
id!(
    /// One ownership of a controller; a takeover creates a new one.
    InstanceId, "controller instance", "ci_", 6
);
id!(
    /// The id of a worker.
    WorkerId, "worker", "w_", 5
);
id!(
    /// A turn of a worker.
    TurnId, "turn", "turn_", 5
);
id!(
    /// A permission request of an agent.
    RequestId, "approval request", "ap_", 5
);
id!(
    /// A snapshot of a worker for its successor.
    SnapshotId, "handoff", "hs_", 5
);
id!(
    /// A rule created from a decision of the owner.
    RuleId, "rule", "rule_", 5
);
id!(
    /// The session id that is shown before the agent has sent one.
    PlaceholderSessionId, "placeholder session", "sess_", 6
);

/// The public cursor: a sequence number of the store, written as `ev_` and 12 hex digits.
///
/// Sequence numbers order all events of a state directory and are never reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct EventId(pub i64);

impl fmt::Display for EventId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ev_{:012x}", self.0)
    }
}

impl FromStr for EventId {
    type Err = InvalidId;

    fn from_str(text: &str) -> Result<Self, InvalidId> {
        text.strip_prefix("ev_")
            .filter(|rest| rest.len() == 12 && is_lower_hex(rest))
            .and_then(|rest| i64::from_str_radix(rest, 16).ok())
            .map(Self)
            .ok_or_else(|| InvalidId { text: text.to_owned(), kind: "event", rule: random_rule("ev_", 6) })
    }
}

impl TryFrom<String> for EventId {
    type Error = InvalidId;

    fn try_from(text: String) -> Result<Self, InvalidId> {
        text.parse()
    }
}

impl From<EventId> for String {
    fn from(id: EventId) -> String {
        id.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_print_and_parse() {
        let id = WorkerId::from_random([0, 1, 0xab, 0xcd, 0xff]);
        assert_eq!(id.as_str(), "w_0001abcdff");
        assert_eq!("w_0001abcdff".parse::<WorkerId>(), Ok(id));
        for wrong in
            ["w_0001abcdf", "w_0001ABCDFF", "ctl_0001abcdff", "", "w_", "w_0001abcdffff", "w_0001abcdfé"]
        {
            assert!(wrong.parse::<WorkerId>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn controller_names_accept_all_safe_characters() {
        assert_eq!(ControllerId::from_random([0xab; 5]).as_str(), "ctl_ababababab");
        let longest = "x".repeat(128);
        for id in ["my-mgr", "x", "7", "a.b_c:d-e", "ctl_0123456789", "ctl_", &longest] {
            assert_eq!(id.parse::<ControllerId>().unwrap().as_str(), id);
        }
        for wrong in ["", "-x", ".x", "_x", ":x", "a b", "a/b", "a\n", "ä", "a$b", "a'b", &"x".repeat(129)] {
            let error = wrong.parse::<ControllerId>().unwrap_err();
            assert!(error.to_string().contains("1 to 128"), "{error}");
        }
    }

    #[test]
    fn event_ids_order_as_their_numbers() {
        assert_eq!(EventId(255).to_string(), "ev_0000000000ff");
        assert_eq!("ev_0000000000ff".parse(), Ok(EventId(255)));
        assert!(EventId(15).to_string() < EventId(16).to_string());
        assert!("ev_00000000000g".parse::<EventId>().is_err());
        assert!("ev_+00000000001".parse::<EventId>().is_err());
    }
}
