//! The action when the model's provider limits the rate: `onRateLimit` of a launcher. Pure.

use subagent_protocol::state::OnRateLimit;

use crate::check::{CheckResult, refuse};
use crate::section::Section;

/// The values of `onRateLimit` and `--on-rate-limit`.
pub const ON_RATE_LIMIT: [&str; 2] = [OnRateLimit::Park.as_str(), OnRateLimit::Fail.as_str()];

pub(crate) fn of_launcher(launcher: &Section<'_>) -> CheckResult<Option<OnRateLimit>> {
    let Some(word) = launcher.text("onRateLimit")? else { return Ok(None) };
    match OnRateLimit::parse(&word) {
        Some(chosen) => Ok(Some(chosen)),
        None => {
            let problem = format!("must be {}, not {word:?}", ON_RATE_LIMIT.join(" or "));
            refuse(launcher.place("onRateLimit"), problem)
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::error::FieldPath;

    #[test]
    fn a_launcher_parks_or_fails() {
        let read = |value: Value| {
            of_launcher(&Section::new(json!({"onRateLimit": value}).as_object().unwrap(), "launchers.a"))
        };
        assert_eq!(read(json!("park")).unwrap(), Some(OnRateLimit::Park));
        assert_eq!(read(json!("fail")).unwrap(), Some(OnRateLimit::Fail));
        assert_eq!(read(json!(null)).unwrap(), None);
        for wrong in [json!("wait"), json!(1), json!(true)] {
            let place = read(wrong.clone()).unwrap_err().place;
            assert_eq!(place, FieldPath::Field("launchers.a.onRateLimit".to_owned()), "{wrong}");
        }
    }
}
