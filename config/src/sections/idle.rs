//! The idle time after which an agent is stopped: `idleTimeout` of a launcher, and `--idle-timeout`. Pure.

use std::time::Duration;

use serde_json::Value;

use crate::check::{CheckResult, LONGEST_SECONDS, mismatch, refuse, seconds_with_unit};
use crate::section::Section;

/// The word that disables the timeout.
const NEVER: &str = "never";
/// Minimum in seconds. A shorter time would stop an agent while the user types.
const LEAST_SECONDS: f64 = 0.1;

/// Reads `never`, a number of seconds, or a number with a unit. `None` means never.
///
/// # Errors
/// The reason why the text is invalid.
pub fn timeout(text: &str) -> Result<Option<Duration>, String> {
    let text = text.trim();
    if text == NEVER {
        return Ok(None);
    }
    match seconds_with_unit(text) {
        Some(seconds) => bounded(seconds).map(Some),
        None => Err(format!("must be a time, as 30m, 12h, 90s or 0.5, or `{NEVER}`")),
    }
}

fn bounded(seconds: f64) -> Result<Duration, String> {
    if seconds < LEAST_SECONDS {
        return Err(format!("must be at least {LEAST_SECONDS} seconds, or `{NEVER}`"));
    }
    if seconds > LONGEST_SECONDS {
        return Err(format!("is longer than a year; write `{NEVER}`"));
    }
    Duration::try_from_secs_f64(seconds).map_err(|error| error.to_string())
}

/// Reads the key `idleTimeout` of a launcher.
pub(crate) fn of_launcher(launcher: &Section<'_>) -> CheckResult<Option<Duration>> {
    let place = || launcher.place("idleTimeout");
    let checked = match launcher.value("idleTimeout") {
        None => return Ok(None),
        Some(Value::String(text)) => timeout(text),
        Some(Value::Number(number)) => bounded(number.as_f64().unwrap_or(f64::INFINITY)).map(Some),
        Some(other) => return mismatch(place(), "a number of seconds, a text like 30m, or `never`", other),
    };
    checked.or_else(|problem| refuse(place(), problem))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::error::FieldPath;

    #[test]
    fn a_time_has_a_unit_or_is_seconds() {
        let seconds = |text| timeout(text).unwrap().map(|time| time.as_secs_f64());
        assert_eq!(seconds("never"), None);
        for (text, expected) in [
            ("30m", 1800.0),
            (" 12h ", 43_200.0),
            ("90s", 90.0),
            ("0.5", 0.5),
            ("1d", 86_400.0),
            ("60", 60.0),
        ] {
            assert_eq!(seconds(text), Some(expected), "{text}");
        }
        for wrong in
            ["", "0", "0s", "-1", "x", "m", "1w", "nan", "inf", "+5", "1e300", "367d", "Never", "5 é"]
        {
            assert!(timeout(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_config_takes_numbers_and_texts() {
        let read = |value: Value| {
            of_launcher(&Section::new(json!({"idleTimeout": value}).as_object().unwrap(), "launchers.a"))
        };
        assert_eq!(read(json!(90)).unwrap(), Some(Duration::from_secs(90)));
        assert_eq!(read(json!("15m")).unwrap(), Some(Duration::from_secs(900)));
        assert_eq!((read(json!("never")).unwrap(), read(json!(null)).unwrap()), (None, None));
        for wrong in [json!(true), json!(0), json!(-3), json!("soon"), json!([])] {
            let place = read(wrong.clone()).unwrap_err().place;
            assert_eq!(place, FieldPath::Field("launchers.a.idleTimeout".to_owned()), "{wrong}");
        }
    }
}
