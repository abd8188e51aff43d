//! A mapping of a config with its path: reads each key and names its place in errors. Null equals
//! absent. Pure.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Map, Value};

use super::check::{
    CheckResult, list, mapping, mismatch, named, refuse, required_string, seconds, seconds_with_unit, string,
    texts, trimmed, without_nul,
};
use crate::error::FieldPath;

/// Maximum of [`Section::time`] in seconds: a hundred years.
const MAX_TIME_SECONDS: f64 = 36_600.0 * 86_400.0;

/// A mapping and its path from the root, which is empty for the root.
pub(crate) struct Section<'a> {
    pub(crate) given: &'a Map<String, Value>,
    pub(crate) path: String,
}

impl<'a> Section<'a> {
    pub(crate) fn new(given: &'a Map<String, Value>, path: impl Into<String>) -> Self {
        Self { given, path: path.into() }
    }

    pub(crate) fn root(given: &'a Map<String, Value>) -> Self {
        Self::new(given, "")
    }

    pub(crate) fn of(value: &'a Value, path: impl Into<String>) -> CheckResult<Self> {
        let path = path.into();
        Ok(Self { given: mapping(value, || path.clone())?, path })
    }

    pub(crate) fn only(&self, keys: &[&str]) -> CheckResult<()> {
        match self.given.keys().find(|key| !keys.contains(&key.as_str())) {
            None => Ok(()),
            Some(key) => refuse(self.entry(key), format!("is not known; write {}", keys.join(", "))),
        }
    }

    pub(crate) fn field(&self, key: &str) -> String {
        match self.path.as_str() {
            "" => key.to_owned(),
            path => format!("{path}.{key}"),
        }
    }

    /// Returns the place of a key that the program knows.
    pub(crate) fn place(&self, key: &str) -> FieldPath {
        FieldPath::Field(self.field(key))
    }

    /// Returns the place of a key that the user chose.
    pub(crate) fn entry(&self, key: &str) -> FieldPath {
        FieldPath::Entry { field: self.path.clone(), key: key.to_owned() }
    }

    /// Returns the place of the mapping itself.
    pub(crate) fn own_place(&self) -> FieldPath {
        FieldPath::Field(self.path.clone())
    }

    /// Returns a value that is not null.
    pub(crate) fn value(&self, key: &str) -> Option<&'a Value> {
        self.given.get(key).filter(|value| !value.is_null())
    }

    pub(crate) fn section(&self, key: &str) -> CheckResult<Option<Section<'a>>> {
        self.value(key).map(|value| Section::of(value, self.field(key))).transpose()
    }

    /// Returns each entry of a mapping whose keys the user chose, with its place.
    pub(crate) fn entries(
        &self,
        key: &str,
    ) -> CheckResult<impl Iterator<Item = (&'a str, &'a Value, FieldPath)> + use<'a>> {
        let entries = self.section(key)?.map(|section| {
            let entries = section.given.iter();
            entries.map(move |(key, value)| (key.as_str(), value, section.entry(key)))
        });
        Ok(entries.into_iter().flatten())
    }

    /// Checks each entry of a mapping with user-defined names as keys.
    pub(crate) fn named<T>(
        &self,
        key: &str,
        check: impl Fn(&str, &Value) -> CheckResult<T>,
    ) -> CheckResult<BTreeMap<String, T>> {
        named(self.given, key, &self.field(key), check)
    }

    pub(crate) fn string(&self, key: &str) -> CheckResult<Option<&'a str>> {
        string(self.value(key), || self.place(key))
    }

    /// Reads a string without the white space around it; a blank one is `None`.
    pub(crate) fn text(&self, key: &str) -> CheckResult<Option<String>> {
        trimmed(self.value(key), || self.place(key))
    }

    pub(crate) fn list(&self, key: &str) -> CheckResult<Option<&'a Vec<Value>>> {
        list(self.value(key), || self.place(key))
    }

    /// Reads a list of strings without NUL characters; an absent one is empty.
    pub(crate) fn texts(&self, key: &str) -> CheckResult<Vec<String>> {
        texts(self.value(key), &self.field(key))
    }

    pub(crate) fn flag(&self, key: &str) -> CheckResult<Option<bool>> {
        match self.value(key) {
            None => Ok(None),
            Some(Value::Bool(flag)) => Ok(Some(*flag)),
            Some(other) => mismatch(self.place(key), "true or false", other),
        }
    }

    /// Reads a whole number from 1 to `max`.
    pub(crate) fn count(&self, key: &str, max: u64) -> CheckResult<Option<u64>> {
        let Some(value) = self.value(key) else { return Ok(None) };
        match value.as_u64() {
            Some(count) if (1..=max).contains(&count) => Ok(Some(count)),
            _ if value.is_number() => {
                refuse(self.place(key), format!("must be a whole number from 1 to {max}"))
            }
            _ => mismatch(self.place(key), "a whole number", value),
        }
    }

    /// Reads a number of seconds between `least` and a year. Zero is rejected.
    pub(crate) fn seconds(&self, key: &str, least: f64) -> CheckResult<Option<Duration>> {
        seconds(self.value(key), &self.field(key), least)
    }

    /// Reads `env`: the environment variables of a program.
    pub(crate) fn env(&self) -> CheckResult<BTreeMap<String, String>> {
        let checked = self.entries("env")?.map(|(key, value, place)| {
            if key.is_empty() || key.contains(['=', '\0']) {
                return refuse(place, "is not a name that a variable can have");
            }
            let place = || place.clone();
            Ok((key.to_owned(), without_nul(required_string(value, place)?, place)?))
        });
        checked.collect()
    }

    pub(crate) fn has(&self, key: &str) -> bool {
        self.value(key).is_some()
    }

    pub(crate) fn required(&self, key: &str, what: &str) -> CheckResult<String> {
        match self.text(key)? {
            Some(text) => Ok(text),
            None => refuse(self.place(key), format!("is missing: write {what}")),
        }
    }

    pub(crate) fn word<T>(
        &self,
        key: &str,
        parse: impl Fn(&str) -> Option<T>,
        all: &str,
    ) -> CheckResult<Option<T>> {
        let Some(word) = self.text(key)? else { return Ok(None) };
        match parse(&word) {
            Some(found) => Ok(Some(found)),
            None => refuse(self.place(key), format!("says `{word}`; write {all}")),
        }
    }

    /// Reads a time: a number of seconds, or a number with a unit.
    pub(crate) fn time(&self, key: &str) -> CheckResult<Option<Duration>> {
        let wrong =
            || -> CheckResult<f64> { refuse(self.place(key), "must be a time, as 30m, 12h, 7d or 90") };
        let seconds = match self.value(key) {
            None => return Ok(None),
            Some(Value::Number(number)) => number.as_f64().map_or_else(wrong, Ok)?,
            Some(Value::String(text)) => seconds_with_unit(text).map_or_else(wrong, Ok)?,
            Some(other) => return mismatch(self.place(key), "a time, as 30m or a number of seconds", other),
        };
        match Duration::try_from_secs_f64(seconds) {
            Ok(time) if !time.is_zero() && seconds <= MAX_TIME_SECONDS => Ok(Some(time)),
            _ => refuse(self.place(key), "must be more than 0 seconds and at most 36600d"),
        }
    }

    /// Reads a time of whole seconds.
    pub(crate) fn whole_seconds(&self, key: &str) -> CheckResult<Option<u64>> {
        match self.time(key)? {
            Some(time) if time.subsec_nanos() > 0 => refuse(self.place(key), "must be whole seconds"),
            time => Ok(time.map(|time| time.as_secs())),
        }
    }

    /// Reads a path that does not depend on a working folder.
    pub(crate) fn absolute_path(&self, key: &str) -> CheckResult<Option<String>> {
        match self.text(key)? {
            Some(path) if !path.starts_with('/') && path != "~" && !path.starts_with("~/") => refuse(
                self.place(key),
                format!("is `{path}`; write an absolute path or one that begins with ~/"),
            ),
            path => Ok(path),
        }
    }

    /// Refuses keys that mean nothing together with `with`.
    pub(crate) fn only_with(&self, keys: &[&str], with: &str) -> CheckResult<()> {
        match keys.iter().find(|key| self.has(key)) {
            Some(key) => refuse(self.place(key), format!("has no meaning {with}")),
            None => Ok(()),
        }
    }

    /// The one of these keys that is there.
    pub(crate) fn one_of(&self, keys: &[&'static str]) -> CheckResult<Option<&'static str>> {
        let mut found = keys.iter().copied().filter(|key| self.has(key));
        match (found.next(), found.next()) {
            (Some(one), Some(other)) => refuse(
                self.place(other),
                format!("cannot stand beside `{one}`; write one of {}", keys.join(", ")),
            ),
            (one, _) => Ok(one),
        }
    }
}
