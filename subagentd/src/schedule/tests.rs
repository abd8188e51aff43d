//! Times held against tables and against a search minute by minute; histories of looks held against
//! the rules.

mod histories;
mod times;

use jiff::tz::TimeZone;
use subagent_protocol::schedule::When;
use subagent_protocol::time::Timestamp;

use super::Times;

fn zone(name: &str) -> TimeZone {
    TimeZone::get(name).unwrap()
}

fn cron(line: &str, zone_name: &str) -> Times {
    Times::of(&When::Cron(line.to_owned()), zone(zone_name), Timestamp(0)).unwrap()
}

fn time(text: &str) -> Timestamp {
    Timestamp::parse(text).unwrap()
}

/// A minute, in milliseconds.
const MINUTE: i64 = 60_000;

/// The times of a cron line of numbers and stars in `(from, until]`, found minute by minute: each
/// local time once, at its first occurrence, and one that does not exist with the offset before the
/// gap.
fn by_minutes(fields: [Option<i8>; 5], zone: &TimeZone, from: Timestamp, until: Timestamp) -> Vec<Timestamp> {
    let [minute, hour, day, month, weekday] = fields;
    let day_ms = 27 * 60 * MINUTE;
    let first = jiff::Timestamp::from_millisecond((from.0 - day_ms) / MINUTE * MINUTE).unwrap();
    let minutes = (until.0 - from.0 + 2 * day_ms) / MINUTE;
    let begin = TimeZone::UTC.to_datetime(first);
    let is = |wanted: Option<i8>, value: i8| wanted.is_none_or(|wanted| wanted == value);
    let mut found: Vec<Timestamp> = (0..minutes)
        .map(|minute| begin + jiff::SignedDuration::from_mins(minute))
        .filter(|at| {
            // Of a day and a weekday that are both given, one is enough.
            let days = match (day, weekday) {
                (Some(day), Some(weekday)) => {
                    at.day() == day || at.weekday().to_sunday_zero_offset() == weekday
                }
                _ => is(day, at.day()) && is(weekday, at.weekday().to_sunday_zero_offset()),
            };
            is(minute, at.minute()) && is(hour, at.hour()) && is(month, at.month()) && days
        })
        .map(|at| Timestamp(zone.to_ambiguous_timestamp(at).compatible().unwrap().as_millisecond()))
        .filter(|at| *at > from && *at <= until)
        .collect();
    found.sort_unstable();
    found.dedup();
    found
}

fn line(fields: [Option<i8>; 5]) -> String {
    let words = fields.map(|field| field.map_or_else(|| "*".to_owned(), |field| field.to_string()));
    words.join(" ")
}
