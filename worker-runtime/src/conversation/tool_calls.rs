//! The tool calls that the agent told of last: some agents ask for a permission with nothing but the id of one, and nobody
//! can answer a question that does not say what it is about. Decides nothing; what is known is written down beside the
//! request, to the letter.

use std::borrow::Cow;
use std::collections::VecDeque;

use serde::Deserialize;
use serde_json::value::RawValue;

/// A question follows its call at once; so many may be under way at the same time.
const MOST: usize = 32;
/// A longer one is not remembered: what an agent sends must not fill the memory.
const LONGEST: usize = 64 * 1024;
/// The update that tells of a call.
const KIND: &str = "tool_call";

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Told<'a> {
    #[serde(borrow, default)]
    session_id: Option<&'a RawValue>,
    #[serde(borrow)]
    update: &'a RawValue,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Id<'a> {
    #[serde(borrow)]
    tool_call_id: Cow<'a, str>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Asked<'a> {
    #[serde(borrow, default)]
    session_id: Option<&'a RawValue>,
    #[serde(borrow)]
    tool_call: Call<'a>,
}

/// What a request has to say by itself: a title, and either what goes into the tool or what comes of it.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Call<'a> {
    #[serde(borrow)]
    tool_call_id: Cow<'a, str>,
    #[serde(borrow, default)]
    title: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    raw_input: Option<&'a RawValue>,
    #[serde(borrow, default)]
    content: Option<&'a RawValue>,
}

/// One that is remembered.
struct Known {
    /// As JSON text.
    session: Option<Box<RawValue>>,
    id: String,
    update: Box<RawValue>,
}

impl Known {
    fn is_of(&self, session: Option<&RawValue>) -> bool {
        self.session.as_deref().map(RawValue::get) == session.map(RawValue::get)
    }
}

/// Those that are remembered, the latest last.
#[derive(Default)]
pub(super) struct ToolCalls(VecDeque<Known>);

impl ToolCalls {
    /// The agent sent an update.
    pub(super) fn told(&mut self, kind: &str, params: &RawValue) {
        if kind != KIND || params.get().len() > LONGEST {
            return;
        }
        let Ok(Told { session_id, update }) = serde_json::from_str(params.get()) else { return };
        let Ok(Id { tool_call_id }) = serde_json::from_str(update.get()) else { return };
        self.0.retain(|known| known.id != tool_call_id || !known.is_of(session_id));
        if self.0.len() >= MOST {
            self.0.pop_front();
        }
        self.0.push_back(Known {
            session: session_id.map(ToOwned::to_owned),
            id: tool_call_id.into_owned(),
            update: update.to_owned(),
        });
    }

    /// What was told of the call that a permission is asked for, unless the request says enough. Sessions may have calls
    /// of the same id, and a request may name another session than its call did.
    pub(super) fn behind(&self, params: &RawValue) -> Option<Box<RawValue>> {
        let Asked { session_id, tool_call } = serde_json::from_str(params.get()).ok()?;
        let titled = tool_call.title.is_some_and(|title| !title.trim().is_empty());
        let said = |value: Option<&RawValue>| value.is_some_and(|value| !["{}", "[]"].contains(&value.get()));
        if titled && (said(tool_call.raw_input) || said(tool_call.content)) {
            return None;
        }
        let named = || self.0.iter().rev().filter(|known| known.id == tool_call.tool_call_id);
        let known = named().find(|known| known.is_of(session_id)).or_else(|| named().next())?;
        Some(known.update.clone())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn raw(value: &Value) -> Box<RawValue> {
        serde_json::value::to_raw_value(value).unwrap()
    }

    fn call(id: &str, title: &str) -> Value {
        json!({"sessionUpdate": KIND, "toolCallId": id, "title": title})
    }

    fn told(calls: &mut ToolCalls, update: &Value) {
        calls.told(KIND, &raw(&json!({"sessionId": "s", "update": update})));
    }

    fn behind(calls: &ToolCalls, tool_call: &Value) -> Option<Value> {
        let params = raw(&json!({"sessionId": "s", "toolCall": tool_call, "options": []}));
        calls.behind(&params).map(|update| serde_json::from_str(update.get()).unwrap())
    }

    #[test]
    fn a_request_that_only_names_a_call_gets_what_was_told_of_it_last() {
        let mut calls = ToolCalls::default();
        told(&mut calls, &call("a", "first"));
        told(&mut calls, &call("b", "other"));
        told(&mut calls, &call("a", "second"));
        assert_eq!(behind(&calls, &json!({"toolCallId": "a", "kind": "execute"})), Some(call("a", "second")));
        assert_eq!(behind(&calls, &json!({"toolCallId": "c"})), None);
        let titled = json!({"toolCallId": "b", "title": "Edit files", "rawInput": {}});
        assert_eq!(behind(&calls, &titled), Some(call("b", "other")));
    }

    #[test]
    fn a_call_of_the_same_session_goes_before_one_of_another_with_the_same_id() {
        let mut calls = ToolCalls::default();
        for (session, title) in [("s", "of the worker"), ("child", "of the child")] {
            calls.told(KIND, &raw(&json!({"sessionId": session, "update": call("a", title)})));
        }
        for (session, title) in [("s", "of the worker"), ("child", "of the child"), ("other", "of the child")]
        {
            let asked = calls.behind(&raw(&json!({"sessionId": session, "toolCall": {"toolCallId": "a"}})));
            let told: Value = serde_json::from_str(asked.unwrap().get()).unwrap();
            assert_eq!(told["title"], title, "{session}");
        }
    }

    #[test]
    fn a_request_that_says_what_it_is_about_stands_alone() {
        let mut calls = ToolCalls::default();
        told(&mut calls, &call("a", "told"));
        assert_eq!(
            behind(&calls, &json!({"toolCallId": "a", "title": "x", "rawInput": {"command": "x"}})),
            None
        );
        assert_eq!(behind(&calls, &json!({"toolCallId": "a", "title": "x", "content": [{}]})), None);
    }

    #[test]
    fn what_is_remembered_is_bounded_and_what_is_not_understood_left_out() {
        let mut calls = ToolCalls::default();
        for number in 0..=MOST {
            told(&mut calls, &call(&number.to_string(), "t"));
        }
        assert_eq!(calls.0.len(), MOST);
        assert_eq!(behind(&calls, &json!({"toolCallId": "0"})), None);
        told(&mut calls, &call("long", &"x".repeat(LONGEST)));
        assert_eq!(behind(&calls, &json!({"toolCallId": "long"})), None);
        for odd in [json!(null), json!({"toolCallId": 7}), json!([])] {
            told(&mut calls, &odd);
            assert_eq!(behind(&calls, &odd), None);
        }
    }
}
