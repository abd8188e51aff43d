//! The options of an agent's session that a caller chooses, by flags or by `--input`.

use serde_json::Value;
use subagent_config::start::options::value_of;
use subagent_protocol::api::SetOptions;
use subagent_protocol::options::Options;
use subagent_protocol::state::OnRateLimit;

use crate::command_line::flags::start::OptionFlags;
use crate::command_line::numbers::idle_timeout;
use crate::context::present;
use crate::failure::{Failure, Result};
use crate::input::InputObject;

/// What flags and `--input` say. An empty value, or null, takes a choice back.
///
/// # Errors
/// `INVALID_ARGUMENT` for a `--set` that is no `ID=VALUE`, or names an option twice.
pub(crate) fn typed(flags: OptionFlags, input: &InputObject) -> Result<SetOptions> {
    let mut chosen = SetOptions {
        options: Options {
            mode: present(flags.mode).or_else(|| input.text("mode")),
            model: present(flags.model).or_else(|| input.text("model")),
            ..Options::default()
        },
        forget: Vec::new(),
        idle_timeout_ms: match (flags.idle_timeout, input.text("idleTimeout")) {
            (None, Some(text)) => Some(idle_timeout(&text).map_err(|problem| {
                Failure::input(format!("idleTimeout {problem}")).with("field", "idleTimeout")
            })?),
            (flag, _) => flag,
        },
        on_rate_limit: match flags.on_rate_limit.or_else(|| input.text("onRateLimit")) {
            Some(word) => Some(OnRateLimit::parse(&word).ok_or_else(|| {
                Failure::input("onRateLimit must be park or fail").with("field", "onRateLimit")
            })?),
            None => None,
        },
    };
    for pair in flags.set {
        let (id, value) = pair.split_once('=').filter(|(id, _)| !id.is_empty()).ok_or_else(|| {
            Failure::argument(format!("--set takes ID=VALUE, not `{pair}`")).with("set", pair.as_str())
        })?;
        add(&mut chosen, id, Value::from(value))?;
    }
    for (id, value) in input.object("configOptions").into_iter().flatten() {
        add(&mut chosen, &id, value)?;
    }
    Ok(chosen)
}

fn add(chosen: &mut SetOptions, id: &str, value: Value) -> Result<()> {
    let known = &mut chosen.options.config_options;
    if known.contains_key(id) || chosen.forget.iter().any(|other| other == id) {
        return Err(
            Failure::argument(format!("the config option {id} is set twice; set it once")).with("option", id)
        );
    }
    match value_of(value) {
        Some(value) => drop(known.insert(id.to_owned(), value)),
        None => chosen.forget.push(id.to_owned()),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::json;
    use subagent_config::session::SessionOptions;
    use subagent_config::start::options::of_start;
    use subagent_protocol::options::OptionValue;

    use super::*;

    fn flags(mode: &str, set: &[&str]) -> OptionFlags {
        let set = set.iter().map(|&pair| pair.to_owned()).collect();
        OptionFlags { mode: Some(mode.to_owned()), set, ..OptionFlags::default() }
    }

    #[test]
    fn flags_win_over_the_config_and_an_empty_value_takes_it_back() {
        let typed = typed(flags("", &["a=1=2", "b="]), &InputObject::default()).unwrap();
        assert_eq!((typed.options.mode.clone(), &typed.forget[..]), (None, &["b".to_owned()][..]));
        let config_options = [("a", json!("x")), ("b", json!("y")), ("c", json!(true))];
        let configured = SessionOptions {
            mode: Some("plan".to_owned()),
            model: None,
            config_options: config_options.into_iter().map(|(id, value)| (id.to_owned(), value)).collect(),
        };
        let text = |text: &str| OptionValue::Text(text.to_owned());
        let expected = [("a".to_owned(), text("1=2")), ("c".to_owned(), OptionValue::Flag(true))];
        let options = of_start(typed, &configured);
        assert_eq!(options.mode.as_deref(), Some("plan"));
        assert_eq!(options.config_options, BTreeMap::from(expected));
    }

    #[test]
    fn what_is_no_pair_and_what_is_there_twice_is_refused() {
        for set in [&["a"][..], &["=1"], &["a=1", "a=2"], &["a=", "a=2"]] {
            assert!(typed(flags("", set), &InputObject::default()).is_err(), "{set:?}");
        }
    }
}
