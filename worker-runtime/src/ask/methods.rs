//! Selects the login method, and lists the alternatives in errors.
//!
//! Reads only what the agent offers.

use serde_json::{Value, json};
use subagent_protocol::ask::{LoginKind, LoginMethod};
use subagent_protocol::lenient;
use subagent_protocol::{Code, Error};

use super::machine::AgentQueryMachine;
use crate::shorten;

/// Maximum number of login methods listed in an error.
const MAX_METHODS: usize = 50;

impl AgentQueryMachine {
    /// Returns the named login method, or the only one.
    pub(super) fn choose(&self, named: Option<&str>) -> Result<Value, Error> {
        let methods = self.methods();
        let method = match named {
            Some(named) => methods.iter().find(|method| id(method) == Some(named)),
            None => {
                // A method of an unknown type is used only if there is no other.
                let mut usable = methods.iter().filter(|method| LoginKind::of(method).is_some());
                match (usable.next(), usable.next(), methods.as_slice()) {
                    (Some(only), None, _) => Some(only),
                    (None, _, [only]) => Some(only),
                    _ => None,
                }
            }
        };
        let wrong = |message: String, action: &str| {
            Error::new(Code::InvalidArgument, message)
                .with("authMethods", self.described_methods())
                .recommend(action)
        };
        match (method, named) {
            (Some(method), _) if LoginKind::of(method).is_some() => Ok((*method).clone()),
            (Some(method), _) => {
                let LoginMethod { id, kind, .. } = lenient::read(method);
                Err(wrong(
                    format!("the login method {} has an unknown type: {kind}", json!(id.0)),
                    "Choose another one with --method, or log in with the agent's own command.",
                ))
            }
            (None, _) if methods.is_empty() => Err(unsupported("authenticate").recommend(
                "Log in with the agent's own command, or put its API key into the launcher's env.",
            )),
            (None, Some(named)) => Err(wrong(
                format!("the agent offers no login method with the id {:?}", shorten::text(named, 200)),
                "Choose one of those in authMethods with --method.",
            )),
            (None, None) => Err(wrong(
                format!("the agent offers {} login methods", methods.len()),
                "Choose one of those in authMethods with --method.",
            )),
        }
    }

    fn methods(&self) -> Vec<&Value> {
        let list = self.answer.initialize.as_ref().and_then(|result| result["authMethods"].as_array());
        list.into_iter().flatten().filter(|method| id(method).is_some()).collect()
    }

    /// Lists the login methods, short enough for an error.
    pub(super) fn described_methods(&self) -> Value {
        let reported = |method: &&Value| {
            let text = |text: Option<&str>| text.map(|text| shorten::text(text, 500));
            let LoginMethod { id, name, description, kind } = lenient::read(method);
            let kind = match LoginKind::of(method) {
                Some(LoginKind::Terminal) => Some("terminal".to_owned()),
                _ if kind.is_null() => Some("agent".to_owned()),
                _ => text(kind.as_str()),
            };
            json!({"id": text(id.0), "name": text(name.0), "description": text(description.0), "type": kind})
        };
        self.methods().iter().take(MAX_METHODS).map(reported).collect()
    }
}

/// The error for a method that the agent does not offer.
pub(super) fn unsupported(method: &str) -> Error {
    Error::new(Code::AgentMethodUnsupported, format!("the agent does not offer {method}"))
        .with("method", method)
        .recommend("Use the agent's own command for it, or a version of the agent that offers it.")
}

fn id(method: &Value) -> Option<&str> {
    let LoginMethod { id, .. } = lenient::read(method);
    id.0
}
