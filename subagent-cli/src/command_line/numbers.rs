//! Numbers on the command line; what is out of range is wrong usage (exit code 2).

/// Seconds, 0 or more.
pub(crate) fn seconds(text: &str) -> Result<f64, String> {
    at_least(text, 0.0)
}

/// A time in seconds, written as 90s, 10m or 2h, or as a number of seconds.
pub(crate) fn time_or_seconds(text: &str) -> Result<f64, String> {
    match text.trim().parse::<f64>() {
        Ok(_) => seconds(text),
        Err(_) => age(text).map(|seconds| std::time::Duration::from_secs(seconds).as_secs_f64()),
    }
}

/// A time in seconds, written as 90s, 10m or 2h; `0` means unlimited.
pub(crate) fn time(text: &str) -> Result<f64, String> {
    let seconds = age(text)?;
    Ok(std::time::Duration::from_secs(seconds).as_secs_f64())
}

/// The window of `watch --follow`: 0 (no limit), or a tenth of a second and more.
pub(crate) fn window(text: &str) -> Result<f64, String> {
    match at_least(text, 0.0)? {
        0.0 => Ok(0.0),
        _ => at_least(text, 0.1),
    }
}

/// A number of things, 1 or more.
pub(crate) fn count(text: &str) -> Result<u64, String> {
    match text.trim().parse() {
        Ok(0) => Err("must be 1 or more".to_owned()),
        Ok(number) => Ok(number),
        Err(_) if text.trim().starts_with('-') => Err("must be 1 or more".to_owned()),
        Err(_) => Err("not a whole number".to_owned()),
    }
}

/// How often something is done, in whole seconds.
pub(crate) fn interval(text: &str) -> Result<u64, String> {
    match count(text)? {
        seconds if seconds > subagentd::lifecycle::MAX_SECONDS => {
            Err(format!("must be {} or less", subagentd::lifecycle::MAX_SECONDS))
        }
        seconds => Ok(seconds),
    }
}

/// An age in seconds, written as days, hours, minutes or seconds.
pub(crate) fn age(text: &str) -> Result<u64, String> {
    const MOST: u64 = 36_600 * 24 * 3600;
    let text = text.trim();
    let Some((at, unit)) = text.char_indices().last() else { return Err("must not be empty".to_owned()) };
    let seconds = match unit {
        'd' => 24 * 3600,
        'h' => 3600,
        'm' => 60,
        's' => 1,
        _ if text == "0" => return Ok(0),
        _ => return Err("must be a whole number with a unit, as 30d, 12h, 90m or 45s".to_owned()),
    };
    match text[..at].parse::<u64>().ok().and_then(|number| number.checked_mul(seconds)) {
        Some(age) if age <= MOST => Ok(age),
        Some(_) => Err("must be 36600d or less".to_owned()),
        None => Err("must be a whole number with a unit, as 30d, 12h, 90m or 45s".to_owned()),
    }
}

/// How long an agent may be idle, in milliseconds; 0 for ever.
pub(crate) fn idle_timeout(text: &str) -> Result<u64, String> {
    let time = subagent_config::idle::timeout(text)?;
    Ok(time.map_or(0, |time| u64::try_from(time.as_millis()).unwrap_or(u64::MAX)))
}

fn at_least(text: &str, least: f64) -> Result<f64, String> {
    let number: f64 = text.trim().parse().map_err(|_| "not a number".to_owned())?;
    if !number.is_finite() {
        return Err("not a finite number".to_owned());
    }
    // Also takes the sign off "-0".
    if number < least { Err(format!("must be {least} or more")) } else { Ok(number.abs()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_are_finite_and_not_negative() {
        assert_eq!(seconds("60"), Ok(60.0));
        assert_eq!(seconds("0.25"), Ok(0.25));
        assert_eq!(seconds("-0"), Ok(0.0));
        for wrong in ["-1", "nan", "inf", "x", "", "1,5"] {
            assert!(seconds(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_time_has_a_unit_or_is_in_seconds() {
        for (text, seconds) in [("90s", 90.0), ("1m", 60.0), ("2h", 7200.0), ("0", 0.0), ("1.5", 1.5)] {
            assert_eq!(time_or_seconds(text), Ok(seconds), "{text}");
        }
        for wrong in ["-1", "nan", "1 m", "m", ""] {
            assert!(time_or_seconds(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_count_is_one_or_more() {
        assert_eq!(count("7"), Ok(7));
        for wrong in ["0", "-1"] {
            assert_eq!(count(wrong).unwrap_err(), "must be 1 or more");
        }
        assert_eq!(count("1.5").unwrap_err(), "not a whole number");
    }

    #[test]
    fn an_age_has_a_unit() {
        for (text, seconds) in
            [("30d", 2_592_000), ("12h", 43_200), ("90m", 5_400), ("45s", 45), ("0", 0), ("0d", 0)]
        {
            assert_eq!(age(text), Ok(seconds), "{text}");
        }
        for wrong in ["", "30", "d", "-1d", "1.5d", "1w", "d1", "36601d", "99999999999999999999s", "1é"] {
            assert!(age(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_window_is_none_or_long_enough() {
        assert_eq!(window("0"), Ok(0.0));
        assert_eq!(window("0.1"), Ok(0.1));
        assert_eq!(window("0.05").unwrap_err(), "must be 0.1 or more");
    }
}
