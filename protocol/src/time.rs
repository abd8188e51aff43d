//! Points in time as they are stored (milliseconds since 1970, UTC) and as they are printed.

use std::fmt;

use serde::{Deserialize, Serialize, Serializer};

/// Milliseconds since 1970-01-01T00:00:00Z. Stored as a number, printed as ISO 8601 with whole seconds.
///
/// Order never comes from it (clocks jump, seconds repeat) but from sequence numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(pub i64);

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match jiff::Timestamp::from_millisecond(self.0) {
            Ok(time) => write!(f, "{}", time.strftime("%Y-%m-%dT%H:%M:%S+00:00")),
            // Only a damaged row can hold a time outside of jiff's years -9999 to 9999.
            Err(_) => write!(f, "1970-01-01T00:00:00+00:00"),
        }
    }
}

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let time: jiff::Timestamp = text.parse().map_err(serde::de::Error::custom)?;
        Ok(Self(time.as_millisecond()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prints_whole_seconds_in_utc() {
        assert_eq!(Timestamp(1_795_292_982_999).to_string(), "2026-11-21T20:29:42+00:00");
        assert_eq!(Timestamp(i64::MAX).to_string(), "1970-01-01T00:00:00+00:00");
    }
}
