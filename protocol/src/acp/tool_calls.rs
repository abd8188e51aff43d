//! The tool calls that an agent leaves open at the end of its turn, and how they are closed.

// Some agents leave a canceled call `in_progress` forever, and may never mention a refused one again.
// Views must not show these as running, so the end of a turn closes them with an event of our own.
// Their outcome is not known, so their status is `unknown`, which is not a term of ACP: `failed`
// would be a guess. Later updates of the agent count as usual.

use std::collections::HashMap;

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use crate::clean::one_line;
use crate::data::progress::ToolCall;
use crate::record::RecordType;
use crate::{fields, surrogates};

/// Kinds of updates about a tool call.
pub const KINDS: [&str; 2] = ["tool_call", "tool_call_update"];

/// The kind of the event that closes a call.
pub const CLOSING: &str = "tool_call_update";

/// Maximum number of calls remembered per turn; later ones stay as the agent leaves them.
const MAX_CALLS: usize = 1000;
/// Maximum length of an id in bytes; a call with a longer id stays as the agent leaves it.
const MAX_ID_BYTES: usize = 1024;
/// Maximum number of characters of a title.
const MAX_TITLE_CHARS: usize = 256;

/// The known data of a call.
#[derive(Debug, Default)]
struct TrackedToolCall {
    /// Another session than the worker's.
    session: Option<String>,
    id: String,
    title: Option<String>,
    kind: Option<String>,
    over: bool,
}

/// The tool calls of one turn, merged from the agent's updates.
#[derive(Debug, Default)]
pub struct TurnToolCalls {
    calls: Vec<TrackedToolCall>,
    /// Index of the call with this session and id.
    places: HashMap<(Option<String>, String), usize>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ToolCallParams<'a> {
    #[serde(borrow, default)]
    session_id: Option<&'a RawValue>,
    #[serde(borrow, alias = "toolCall")]
    update: Parts<'a>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Parts<'a> {
    #[serde(borrow, default)]
    tool_call_id: Option<&'a RawValue>,
    #[serde(borrow, default)]
    title: Option<&'a RawValue>,
    #[serde(borrow, default)]
    kind: Option<&'a RawValue>,
    #[serde(borrow, default)]
    status: Option<&'a RawValue>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PermissionRecord<'a> {
    #[serde(borrow)]
    params: ToolCallParams<'a>,
    #[serde(default)]
    client_call: Option<u64>,
}

/// Returns the id of a record's call: an update of one of [`KINDS`], or the agent's permission
/// request for it. Its length is not limited.
#[must_use]
pub fn id_of(record: RecordType, body: &str) -> Option<String> {
    let body = surrogates::replaced(body);
    text(said(record, &body)?.update.tool_call_id)
}

/// Returns the title or kind of a record's call: one line, bounded and safe to show.
#[must_use]
pub fn name_of(record: RecordType, body: &str) -> Option<String> {
    let body = surrogates::replaced(body);
    let call = said(record, &body)?.update;
    let name = |raw| text(raw).map(|name| one_line(&short(&name))).filter(|name| !name.is_empty());
    name(call.title).or_else(|| name(call.kind))
}

/// Returns a record's data about a call; `None` for other records.
fn said(record: RecordType, body: &str) -> Option<ToolCallParams<'_>> {
    match record {
        RecordType::Update | RecordType::ChildUpdate => serde_json::from_str(body).ok(),
        RecordType::ApprovalRequested => match serde_json::from_str(body).ok()? {
            // It has its own answer, and no agent knows its id.
            PermissionRecord { client_call: Some(_), .. } => None,
            PermissionRecord { params, .. } => Some(params),
        },
        _ => None,
    }
}

impl TurnToolCalls {
    /// Takes a record about a tool call: an update of one of [`KINDS`], or a permission
    /// request. Ignores unreadable ones.
    pub fn see(&mut self, record: RecordType, body: &str) {
        let body = surrogates::replaced(body);
        let Some(ToolCallParams { session_id, update }) = said(record, &body) else { return };
        let Some(id) = text(update.tool_call_id).filter(|id| id.len() <= MAX_ID_BYTES) else { return };
        let session = text(session_id).filter(|_| record == RecordType::ChildUpdate);
        let Some(call) = self.call(session, id, record) else { return };
        call.title = text(update.title).map(|title| short(&title)).or(call.title.take());
        call.kind = text(update.kind).map(|kind| short(&kind)).or(call.kind.take());
        if let Some(status) = text(update.status)
            && record != RecordType::ApprovalRequested
        {
            call.over = is_over(&status);
        }
    }

    fn call(
        &mut self,
        session: Option<String>,
        id: String,
        record: RecordType,
    ) -> Option<&mut TrackedToolCall> {
        let key = (session, id);
        let place = match self.places.get(&key) {
            Some(place) => *place,
            // A permission request for a child's call does not name the child's session.
            None if record == RecordType::ApprovalRequested
                && let Some(place) = self.calls.iter().position(|call| call.id == key.1) =>
            {
                place
            }
            None if self.calls.len() < MAX_CALLS => {
                self.calls.push(TrackedToolCall {
                    session: key.0.clone(),
                    id: key.1.clone(),
                    ..TrackedToolCall::default()
                });
                self.places.insert(key, self.calls.len() - 1);
                self.calls.len() - 1
            }
            None => return None,
        };
        self.calls.get_mut(place)
    }

    /// Returns the `data` of the events that close open calls, in the order of the calls.
    #[must_use]
    pub fn closings(self) -> Vec<Value> {
        self.calls.into_iter().filter(|call| !call.over).map(closing).collect()
    }
}

fn closing(call: TrackedToolCall) -> Value {
    let mut data = Map::new();
    data.insert("method".to_owned(), "turn.end".into());
    data.insert("kind".to_owned(), CLOSING.into());
    if let Some(session) = call.session {
        data.insert("sessionId".to_owned(), session.into());
    }
    data.extend(fields::shown(&ToolCall {
        tool_call_id: Some(call.id),
        title: call.title,
        tool_kind: call.kind,
        status: Some("unknown".to_owned()),
        closed_by: Some("turn_end"),
        ..ToolCall::default()
    }));
    Value::Object(data)
}

/// Whether this status is final: ACP's values, and one that some agents use in addition.
#[must_use]
pub fn is_over(status: &str) -> bool {
    matches!(status, "completed" | "failed" | "cancelled" | "canceled")
}

fn text(raw: Option<&RawValue>) -> Option<String> {
    serde_json::from_str(raw?.get()).ok()
}

fn short(text: &str) -> String {
    text.chars().take(MAX_TITLE_CHARS).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn update(id: &str, more: Value) -> (RecordType, Value) {
        let mut update = json!({"sessionUpdate": "tool_call_update", "toolCallId": id});
        update.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        (RecordType::Update, json!({"sessionId": "s", "update": update}))
    }

    fn asked(id: &str) -> (RecordType, Value) {
        let call = json!({"toolCallId": id, "title": "rm x", "kind": "execute", "status": "completed"});
        let params = json!({"sessionId": "s", "toolCall": call, "options": []});
        (RecordType::ApprovalRequested, json!({"requestId": "ap_0123456789", "params": params}))
    }

    fn closings(records: &[(RecordType, Value)]) -> Vec<Value> {
        let mut calls = TurnToolCalls::default();
        records.iter().for_each(|(record, body)| calls.see(*record, &body.to_string()));
        calls.closings()
    }

    fn closed(id: &str, more: Value) -> Value {
        let mut data = json!({"method": "turn.end", "kind": "tool_call_update", "toolCallId": id,
                              "status": "unknown", "closedBy": "turn_end"});
        data.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        data
    }

    #[test]
    fn open_calls_are_closed_with_their_known_data() {
        let records = [
            update("1", json!({"title": "ls", "kind": "execute", "status": "pending"})),
            update("2", json!({"status": "in_progress"})),
            update("1", json!({"status": "in_progress", "title": "ls -l"})),
            update("2", json!({"status": "completed"})),
            update("3", json!({})),
        ];
        let title = json!({"title": "ls -l", "toolKind": "execute"});
        assert_eq!(closings(&records), [closed("1", title), closed("3", json!({}))]);
    }

    #[test]
    fn a_call_that_only_a_permission_request_speaks_of_is_one() {
        let open = closed("1", json!({"title": "rm x", "toolKind": "execute"}));
        assert_eq!(closings(&[asked("1")]), [open]);
        let ended = update("1", json!({"status": "failed"}));
        assert_eq!(closings(&[asked("1"), ended.clone()]), Vec::<Value>::new());
        assert_eq!(closings(&[ended, asked("1")]), Vec::<Value>::new());
    }

    #[test]
    fn a_call_of_another_session_is_another_call() {
        let (_, body) = update("1", json!({"status": "pending"}));
        let child = (RecordType::ChildUpdate, body);
        let own = update("1", json!({"status": "completed"}));
        assert_eq!(closings(&[child.clone(), own]), [closed("1", json!({"sessionId": "s"}))]);
        let named = json!({"sessionId": "s", "title": "rm x", "toolKind": "execute"});
        assert_eq!(closings(&[child, asked("1")]), [closed("1", named)]);
    }

    #[test]
    fn hostile_input_is_bounded() {
        let many: Vec<_> = (0..2000).map(|id| update(&id.to_string(), json!({}))).collect();
        assert_eq!(closings(&many).len(), MAX_CALLS);
        assert_eq!(closings(&[update(&"x".repeat(2000), json!({}))]), Vec::<Value>::new());
        let long = closings(&[update("1", json!({"title": "ä".repeat(9999), "kind": 7, "status": []}))]);
        assert_eq!(long, [closed("1", json!({"title": "ä".repeat(MAX_TITLE_CHARS)}))]);
        let mut calls = TurnToolCalls::default();
        calls.see(RecordType::Update, r#"{"update":{"toolCallId":"\ud83d","title":"x"}}"#);
        assert_eq!(calls.closings(), [closed("\u{fffd}", json!({"title": "x"}))]);
    }

    #[test]
    fn the_id_of_a_call_comes_from_updates_and_requests() {
        let id = |(record, body): (RecordType, Value)| id_of(record, &body.to_string());
        assert_eq!(id(update("1", json!({}))).as_deref(), Some("1"));
        assert_eq!(id(asked("2")).as_deref(), Some("2"));
        let (record, mut body) = asked("3");
        body["clientCall"] = 7.into();
        assert_eq!(id((record, body)), None, "a request of ours is no call of the agent");
        assert_eq!(id((RecordType::Update, json!({"update": {"toolCallId": 7}}))), None);
        let long = "x".repeat(2 * MAX_ID_BYTES);
        assert_eq!(id(update(&long, json!({}))), Some(long));
    }

    #[test]
    fn a_call_is_named_by_its_title_or_its_kind() {
        let name = |more: Value| {
            let (record, body) = update("1", more);
            name_of(record, &body.to_string())
        };
        assert_eq!(name(json!({"title": "Read a.rs", "kind": "read"})).as_deref(), Some("Read a.rs"));
        assert_eq!(name(json!({"title": " \n", "kind": "read"})).as_deref(), Some("read"));
        assert_eq!(name(json!({"title": 7, "kind": []})), None);
        assert_eq!(name(json!({"title": "a\u{1b}[2J\nb\u{202e}"})).as_deref(), Some("a b"));
        let long = name(json!({"title": "ä".repeat(9999)})).unwrap();
        assert_eq!(long.chars().count(), MAX_TITLE_CHARS);
        let (record, body) = asked("2");
        assert_eq!(name_of(record, &body.to_string()).as_deref(), Some("rm x"));
    }

    proptest! {
        #[test]
        fn arbitrary_text_never_panics(body in r#"[\[\]{}:,"a-zA-Z]{0,80}"#) {
            let mut calls = TurnToolCalls::default();
            for record in [RecordType::Update, RecordType::ApprovalRequested, RecordType::Noise] {
                calls.see(record, &body);
                let _ = (id_of(record, &body), name_of(record, &body));
            }
            let _ = calls.closings();
        }
    }
}
