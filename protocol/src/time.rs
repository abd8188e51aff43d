//! Points in time as they are stored (milliseconds since 1970, UTC) and as they are printed.

use std::fmt;

use serde::{Deserialize, Serialize, Serializer};

/// Milliseconds since 1970-01-01T00:00:00Z. Stored as a number, printed as ISO
/// 8601 with whole seconds.
///
/// It never defines an order (clocks jump, seconds repeat); sequence numbers do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(pub i64);

impl Timestamp {
    /// Parses ISO 8601 with an offset, or without one as UTC. Seconds may have a fraction; a day
    /// alone means its beginning.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        let absolute = text.parse::<jiff::Timestamp>().ok();
        let time = absolute.or_else(|| {
            let civil = text.parse::<jiff::civil::DateTime>().ok()?;
            Some(civil.to_zoned(jiff::tz::TimeZone::UTC).ok()?.timestamp())
        })?;
        Some(Self(time.as_millisecond()))
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match jiff::Timestamp::from_millisecond(self.0) {
            Ok(time) => write!(f, "{}", time.strftime("%Y-%m-%dT%H:%M:%S+00:00")),
            // Only a damaged row can contain a time outside of jiff's years -9999 to 9999.
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
    fn reads_every_way_to_write_a_moment() {
        for same in [
            "2026-11-21T20:29:42Z",
            "2026-11-21T20:29:42+00:00",
            "2026-11-21T21:29:42+01:00",
            "2026-11-21T21:29:42.000+0100",
            "2026-11-21 20:29:42",
            " 2026-11-21t20:29:42z ",
        ] {
            assert_eq!(Timestamp::parse(same), Some(Timestamp(1_795_292_982_000)), "{same}");
        }
        assert_eq!(Timestamp::parse("2026-11-21T20:29:42.25Z"), Some(Timestamp(1_795_292_982_250)));
        assert_eq!(Timestamp::parse("1970-01-02"), Some(Timestamp(86_400_000)));
        for wrong in ["", "now", "20:29", "2026-13-01", "2026-11-21T25:00:00Z", "1795292982"] {
            assert_eq!(Timestamp::parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn prints_whole_seconds_in_utc() {
        assert_eq!(Timestamp(1_795_292_982_999).to_string(), "2026-11-21T20:29:42+00:00");
        assert_eq!(Timestamp(i64::MAX).to_string(), "1970-01-01T00:00:00+00:00");
    }
}
