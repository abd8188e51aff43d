//! Reads JSON that an agent or another version wrote: a field that is missing or has another type is
//! unknown, and nothing fails. Reads values only: the rest of a wrong field in a text is not skipped.

use std::fmt;
use std::marker::PhantomData;

use serde::de::value::MapAccessDeserializer;
use serde::de::{DeserializeOwned, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::Value;

/// A field that counts as missing if it has another type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lenient<T>(pub Option<T>);

impl<T> Default for Lenient<T> {
    fn default() -> Self {
        Self(None)
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Lenient<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Self(T::deserialize(deserializer).ok()))
    }
}

/// Whether an agent offers a feature: a member that is there, unless it is false.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Offered(pub bool);

impl<'de> Deserialize<'de> for Offered {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let declared = Value::deserialize(deserializer)?;
        Ok(Self(!matches!(declared, Value::Null | Value::Bool(false))))
    }
}

/// Reads an object; a value of another type is the default.
#[must_use]
pub fn read<'a, T: Deserialize<'a> + Default>(object: &'a Value) -> T {
    // A list would be read as the fields in their order.
    if object.is_object() { T::deserialize(object).unwrap_or_default() } else { T::default() }
}

/// Does the same with an object that is not needed any more, and moves its values.
#[must_use]
pub fn take<T: DeserializeOwned + Default>(object: Value) -> T {
    if object.is_object() { T::deserialize(object).unwrap_or_default() } else { T::default() }
}

/// Reads a field whose null differs from its absence, for `deserialize_with`.
///
/// # Errors
/// Those of the field's type.
pub fn present<'de, D, T>(deserializer: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    T::deserialize(deserializer).map(Some)
}

/// Reads a field of any type, for `deserialize_with`.
///
/// # Errors
/// None: a field of another type is the default.
pub fn or_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de> + Default,
{
    Ok(T::deserialize(deserializer).unwrap_or_default())
}

/// Reads a field that is an object, for `deserialize_with`; see [`read`].
///
/// # Errors
/// None: a field of another type is the default.
pub fn object<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de> + Default,
{
    Ok(deserializer.deserialize_map(ObjectOnly(PhantomData)).unwrap_or_default())
}

/// Reads a list of objects, for `deserialize_with`; an entry of another type is the default.
///
/// # Errors
/// None: a field of another type is empty.
pub fn objects<'de, D, T>(deserializer: D) -> Result<Vec<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de> + Default,
{
    let list: Vec<ObjectField<T>> = or_default(deserializer)?;
    Ok(list.into_iter().map(|entry| entry.0).collect())
}

/// A field that is an object; one of another type is the default.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ObjectField<T>(pub T);

impl<'de, T: Deserialize<'de> + Default> Deserialize<'de> for ObjectField<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        object(deserializer).map(Self)
    }
}

struct ObjectOnly<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for ObjectOnly<T> {
    type Value = T;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<T, A::Error> {
        T::deserialize(MapAccessDeserializer::new(map))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[derive(Debug, Default, PartialEq, Deserialize)]
    #[serde(default)]
    struct LenientCall<'a> {
        title: Option<&'a str>,
        line: Lenient<u64>,
        #[serde(deserialize_with = "or_default")]
        parts: Vec<Lenient<String>>,
        #[serde(deserialize_with = "object")]
        offers: LenientOffers,
        #[serde(deserialize_with = "objects")]
        earlier: Vec<LenientOffers>,
    }

    #[derive(Debug, Default, PartialEq, Deserialize)]
    #[serde(default)]
    struct LenientOffers {
        load: Offered,
    }

    #[test]
    fn a_list_is_not_read_as_an_object() {
        let of = |offers: Value| read::<LenientCall<'_>>(&json!({"offers": offers})).offers.load.0;
        assert!(of(json!({"load": {}})) && of(json!({"load": true})));
        assert!(!of(json!({"load": false})) && !of(json!({"load": null})) && !of(json!([true])));
        assert_eq!(read::<LenientCall<'_>>(&json!(["a"])).title, None);
        let given = json!({"earlier": [{"load": {}}, 7, [true]]});
        let loads =
            read::<LenientCall<'_>>(&given).earlier.iter().map(|offers| offers.load.0).collect::<Vec<_>>();
        assert_eq!(loads, [true, false, false]);
    }

    #[test]
    fn a_field_of_another_type_hides_no_other_field() {
        let given = json!({"title": "a", "line": "x", "parts": ["b", 7], "other": {}});
        let call: LenientCall<'_> = read(&given);
        assert_eq!((call.title, call.line.0), (Some("a"), None));
        assert_eq!(call.parts, [Lenient(Some("b".to_owned())), Lenient(None)]);
        assert_eq!(read::<LenientCall<'_>>(&json!({"title": "a", "parts": 7})).parts, []);
        assert_eq!(read::<LenientCall<'_>>(&json!(7)), LenientCall::default());
    }
}
