//! The times of a schedule, of any kind.

use jiff::Timestamp as Instant;
use jiff::civil::DateTime;
use jiff::tz::{AmbiguousOffset, TimeZone};
use subagent_protocol::schedule::When;
use subagent_protocol::time::Timestamp;

use super::cron::CronLine;

/// The shortest interval, in seconds.
const MIN_SECONDS: u64 = 1;
/// The longest: a hundred years.
const MAX_SECONDS: u64 = 100 * 366 * 24 * 3600;

/// When a schedule fires, in its time zone.
#[derive(Debug, Clone)]
pub(crate) struct Times {
    kind: Recurrence,
    zone: TimeZone,
}

#[derive(Debug, Clone)]
enum Recurrence {
    Cron(Box<CronLine>),
    /// Milliseconds between two times, counted from the first value.
    Every(i64, i64),
    At(i64),
}

impl Times {
    /// Reads what the user wrote. Intervals are counted from `anchor`.
    ///
    /// # Errors
    /// A sentence about what is wrong.
    pub(crate) fn of(when: &When, zone: TimeZone, anchor: Timestamp) -> Result<Self, String> {
        let kind = match when {
            When::Cron(line) => Recurrence::Cron(Box::new(CronLine::parse(line)?)),
            When::EverySeconds(seconds) if (MIN_SECONDS..=MAX_SECONDS).contains(seconds) => {
                Recurrence::Every(anchor.0, i64::try_from(*seconds).unwrap_or(i64::MAX).saturating_mul(1000))
            }
            When::EverySeconds(seconds) => {
                return Err(format!("an interval has {MIN_SECONDS} to {MAX_SECONDS} seconds, not {seconds}"));
            }
            When::At(text) => Recurrence::At(at(text.trim(), &zone)?),
        };
        Ok(Self { kind, zone })
    }

    /// The first time after this one; `None` if none comes any more.
    pub(crate) fn next(&self, after: Timestamp) -> Option<Timestamp> {
        match &self.kind {
            Recurrence::Cron(line) => from_instant(line.next(&self.zone, to_instant(after)?)?),
            Recurrence::Every(anchor, every) => {
                let passed = after.0.checked_sub(*anchor)?.div_euclid(*every).max(0);
                let next = passed.checked_add(1)?.checked_mul(*every)?.checked_add(*anchor)?;
                Some(Timestamp(next))
            }
            Recurrence::At(at) => Some(Timestamp(*at)).filter(|at| *at > after),
        }
    }

    /// The last time that is not after this one.
    pub(crate) fn last(&self, until: Timestamp) -> Option<Timestamp> {
        match &self.kind {
            Recurrence::Cron(line) => from_instant(line.last(&self.zone, to_instant(until)?)?),
            Recurrence::Every(anchor, every) => {
                let passed = until.0.checked_sub(*anchor)?.div_euclid(*every);
                (passed > 0).then(|| Timestamp(anchor.saturating_add(passed.saturating_mul(*every))))
            }
            Recurrence::At(at) => Some(Timestamp(*at)).filter(|at| *at <= until),
        }
    }
}

/// Reads a time: with an offset, or a local time of the zone that exists exactly once.
fn at(text: &str, zone: &TimeZone) -> Result<i64, String> {
    if let Ok(instant) = text.parse::<Instant>() {
        return Ok(instant.as_millisecond());
    }
    let civil: DateTime = text
        .parse()
        .map_err(|_| format!("{text:?} is not a time such as 2026-12-01T09:00 or 2026-12-01T09:00+01:00"))?;
    let ambiguous = zone.to_ambiguous_timestamp(civil);
    let advice = match ambiguous.offset() {
        AmbiguousOffset::Unambiguous { .. } => {
            let instant = ambiguous.unambiguous().map_err(|error| error.to_string())?;
            return Ok(instant.as_millisecond());
        }
        AmbiguousOffset::Gap { before, after } => {
            format!("does not exist: the clocks go from UTC{before} to UTC{after}")
        }
        AmbiguousOffset::Fold { before, after } => {
            format!("exists twice, with UTC{before} and with UTC{after}")
        }
    };
    let name = zone.iana_name().unwrap_or("this time zone");
    Err(format!("{civil} in {name} {advice}; write the time with its offset"))
}

fn to_instant(time: Timestamp) -> Option<Instant> {
    Instant::from_millisecond(time.0).ok()
}

#[expect(clippy::unnecessary_wraps, reason = "the end of a chain of options")]
fn from_instant(time: Instant) -> Option<Timestamp> {
    Some(Timestamp(time.as_millisecond()))
}
