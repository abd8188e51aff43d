//! Deserializes the response of a wait. The last text chunk may repeat the whole text of tens of megabytes,
//! so it is stored as a length.

use std::fmt;

use serde::de::{DeserializeSeed, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};

const TEXT: &str = "assistantText";
const LAST: &str = "lastAssistantChunk";

#[derive(Debug, Default)]
pub(in crate::client) struct WaitResponse {
    text: Option<String>,
    last: LastChunk,
    /// All fields except these two.
    others: Map<String, Value>,
}

#[derive(Debug, Default)]
enum LastChunk {
    #[default]
    None,
    /// Number of bytes at the end of the text.
    End(usize),
    /// Another text, stored as it is.
    Other(String),
}

impl From<WaitResponse> for Value {
    fn from(WaitResponse { text, last, others: mut data }: WaitResponse) -> Self {
        let last = match (last, &text) {
            (LastChunk::End(length), Some(text)) => Some(text[text.len() - length..].to_owned()),
            (LastChunk::Other(last), _) => Some(last),
            (LastChunk::End(_) | LastChunk::None, _) => None,
        };
        data.insert(TEXT.to_owned(), text.map_or(Self::Null, Self::String));
        data.insert(LAST.to_owned(), last.map_or(Self::Null, Self::String));
        Self::Object(data)
    }
}

impl<'de> Deserialize<'de> for WaitResponse {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Fields)
    }
}

struct Fields;

impl<'de> Visitor<'de> for Fields {
    type Value = WaitResponse;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("the data of a wait")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<WaitResponse, A::Error> {
        let mut waited = WaitResponse::default();
        while let Some(key) = map.next_key::<String>()? {
            match key.as_str() {
                TEXT => waited.text = map.next_value()?,
                LAST => waited.last = map.next_value_seed(EndOf(waited.text.as_deref()))?,
                _ => drop(waited.others.insert(key, map.next_value()?)),
            }
        }
        Ok(waited)
    }
}

/// Deserializes the last chunk of this text.
struct EndOf<'a>(Option<&'a str>);

impl<'de> DeserializeSeed<'de> for EndOf<'_> {
    type Value = LastChunk;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<LastChunk, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl Visitor<'_> for EndOf<'_> {
    type Value = LastChunk;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("a text or null")
    }

    fn visit_unit<E>(self) -> Result<LastChunk, E> {
        Ok(LastChunk::None)
    }

    fn visit_str<E>(self, last: &str) -> Result<LastChunk, E> {
        Ok(match self.0.is_some_and(|text| text.ends_with(last)) {
            true => LastChunk::End(last.len()),
            false => LastChunk::Other(last.to_owned()),
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_read_is_what_was_said() {
        for (text, last) in [
            (json!("one two"), json!("two")),
            (json!("one\n"), json!("one\n")),
            (json!("on"), json!("one")),
            (json!("one"), json!("")),
            (Value::Null, json!("one")),
            (Value::Null, Value::Null),
        ] {
            let data = json!({"state": "idle", TEXT: text, LAST: last, "assistantTextTruncated": true});
            let waited: WaitResponse = serde_json::from_str(&data.to_string()).unwrap();
            assert_eq!(Value::from(waited), data);
            let turned = json!({LAST: last, TEXT: text, "state": "idle", "assistantTextTruncated": true});
            let waited: WaitResponse = serde_json::from_str(&turned.to_string()).unwrap();
            assert_eq!(Value::from(waited), data);
        }
        assert!(serde_json::from_str::<WaitResponse>(r#"{"lastAssistantChunk": 7}"#).is_err());
    }
}
