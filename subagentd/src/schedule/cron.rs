//! A cron line in a time zone: each local time at most once.

// `croner` computes local times. What they are on the time line is decided here, as RFC 5545 does:
// a local time that occurs twice is its first occurrence, and one that does not exist is read with
// the offset before the gap. So 02:30 fires at 03:30 where the clocks go from 02:00 to 03:00.

use croner::Cron;
use croner::parser::{CronParser, Seconds, Year};
use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::{Offset, TimeZone};

/// Maximum length of a cron line, in bytes.
const MAX_BYTES: usize = 200;
/// More than any two offsets of one place have differed: some have skipped a whole day.
const REACH_SECONDS: i64 = 27 * 3600;

/// A cron line of five fields.
#[derive(Debug, Clone)]
pub(super) struct CronLine(Cron);

impl CronLine {
    /// # Errors
    /// A sentence about what is wrong.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        if text.len() > MAX_BYTES {
            return Err(format!("a cron line has at most {MAX_BYTES} bytes"));
        }
        let parser = CronParser::builder().seconds(Seconds::Disallowed).year(Year::Disallowed).build();
        let fields = text.split_whitespace().count();
        match parser.parse(text) {
            Ok(cron) => Ok(Self(cron)),
            Err(_) if fields != 5 && !text.trim_start().starts_with('@') => {
                Err(format!("a cron line has five fields (minute, hour, day, month, weekday), not {fields}"))
            }
            Err(error) => {
                let error = error.to_string();
                Err(format!("the cron line {text:?} cannot be read: {}", error.trim_end_matches('.')))
            }
        }
    }

    /// The first time after this one; `None` if the line never comes again.
    pub(super) fn next(&self, zone: &TimeZone, after: Timestamp) -> Option<Timestamp> {
        let mut civil = Spread::around(zone, after).min.to_datetime(after);
        let mut best: Option<(Timestamp, DateTime)> = None;
        while let Ok(found) = self.0.find_next_occurrence(&civil, false) {
            if best.is_some_and(|(_, limit)| found > limit) {
                break;
            }
            let at = instant(zone, found)?;
            if at > after {
                let limit = || shifted(found, Spread::of(zone, found).width());
                best = Some(match best {
                    None => (at, limit()),
                    Some((earlier, limit)) => (earlier.min(at), limit),
                });
            }
            civil = found;
        }
        best.map(|(at, _)| at)
    }

    /// The last time that is not after this one.
    pub(super) fn last(&self, zone: &TimeZone, until: Timestamp) -> Option<Timestamp> {
        let mut civil = Spread::around(zone, until).max.to_datetime(until);
        let mut inclusive = true;
        let mut best: Option<(Timestamp, DateTime)> = None;
        while let Ok(found) = self.0.find_previous_occurrence(&civil, inclusive) {
            if best.is_some_and(|(_, limit)| found < limit) {
                break;
            }
            let at = instant(zone, found)?;
            if at <= until {
                let limit = || shifted(found, -Spread::of(zone, found).width());
                best = Some(match best {
                    None => (at, limit()),
                    Some((later, limit)) => (later.max(at), limit),
                });
            }
            (civil, inclusive) = (found, false);
        }
        best.map(|(at, _)| at)
    }
}

/// What a local time is on the time line.
fn instant(zone: &TimeZone, civil: DateTime) -> Option<Timestamp> {
    zone.to_ambiguous_timestamp(civil).compatible().ok()
}

fn shifted(civil: DateTime, seconds: i64) -> DateTime {
    civil.saturating_add(jiff::SignedDuration::from_secs(seconds))
}

/// The offsets from UTC that a local time near some moment can have.
struct Spread {
    min: Offset,
    max: Offset,
}

impl Spread {
    fn of(zone: &TimeZone, civil: DateTime) -> Self {
        let near = TimeZone::UTC.to_timestamp(civil).unwrap_or(Timestamp::UNIX_EPOCH);
        Self::around(zone, near)
    }

    fn around(zone: &TimeZone, near: Timestamp) -> Self {
        let reach = jiff::SignedDuration::from_secs(REACH_SECONDS);
        let (from, until) = (near.saturating_sub(reach), near.saturating_add(reach));
        let (from, until) = (from.unwrap_or(near), until.unwrap_or(near));
        let first = zone.to_offset(from);
        let mut spread = Self { min: first, max: first };
        for transition in zone.following(from).take_while(|transition| transition.timestamp() <= until) {
            spread.min = spread.min.min(transition.offset());
            spread.max = spread.max.max(transition.offset());
        }
        spread
    }

    fn width(&self) -> i64 {
        i64::from(self.max.seconds()) - i64::from(self.min.seconds())
    }
}
