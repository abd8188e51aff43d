//! Tags: names with values that a caller assigns to a worker, and selectors of workers by tags.
//!
//! Tags are for programs, labels are for people. Tags are set at the start and never change.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::error::{Code, Error, Result};

/// Maximum number of tags of a worker.
pub const MAX_TAGS: usize = 32;
/// Maximum length of a tag's name, in bytes.
const MAX_NAME_BYTES: usize = 63;
/// Maximum length of a tag's value, in bytes.
const MAX_VALUE_BYTES: usize = 128;

/// The tags of a worker.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(transparent)]
pub struct Tags(pub BTreeMap<String, String>);

impl Tags {
    /// Whether there are no tags.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Parses texts of the form `NAME=VALUE`; the last value of a repeated name counts.
    ///
    /// # Errors
    ///
    /// `INVALID_ARGUMENT{tag,position}` for a text that is not a tag.
    pub fn parse<'a>(texts: impl IntoIterator<Item = &'a str>) -> Result<Self> {
        let mut tags = Self::default();
        for text in texts {
            let (name, value) = text.split_once('=').ok_or_else(|| {
                wrong("tag", text, text.len(), "a tag is NAME=VALUE; the = is missing".to_owned())
            })?;
            check_name("tag", text, 0, name)?;
            check_value("tag", text, name.len() + 1, value)?;
            tags.0.insert(name.to_owned(), value.to_owned());
        }
        tags.check()?;
        Ok(tags)
    }

    /// Checks tags that were sent as a map.
    ///
    /// # Errors
    ///
    /// `INVALID_ARGUMENT{tag,position}` as in [`Tags::parse`];
    /// `INVALID_ARGUMENT{field}` for too many.
    pub fn check(&self) -> Result<()> {
        for (name, value) in &self.0 {
            let text = format!("{name}={value}");
            check_name("tag", &text, 0, name)?;
            check_value("tag", &text, name.len() + 1, value)?;
        }
        if self.0.len() > MAX_TAGS {
            let message = format!("a worker has at most {MAX_TAGS} tags, not {}", self.0.len());
            return Err(Error::new(Code::InvalidArgument, message).with("field", "tags"));
        }
        Ok(())
    }
}

/// Selects workers by their tags: all of its parts must match.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Selector(Vec<(String, Option<String>)>);

impl Selector {
    /// Parses parts that are separated by commas: `NAME=VALUE`, or `NAME` for any value.
    ///
    /// # Errors
    ///
    /// `INVALID_ARGUMENT{selector,position}`; the position counts bytes from 0.
    pub fn parse(text: &str) -> Result<Self> {
        let (mut parts, mut at) = (Vec::new(), 0);
        for part in text.split(',') {
            match part.split_once('=') {
                Some((name, value)) => {
                    check_name("selector", text, at, name)?;
                    check_value("selector", text, at + name.len() + 1, value)?;
                    parts.push((name.to_owned(), Some(value.to_owned())));
                }
                None => {
                    check_name("selector", text, at, part)?;
                    parts.push((part.to_owned(), None));
                }
            }
            at += part.len() + 1;
        }
        Ok(Self(parts))
    }

    /// Whether a worker with these tags is selected.
    #[must_use]
    pub fn matches(&self, tags: &Tags) -> bool {
        self.0.iter().all(|(name, value)| match (tags.0.get(name), value) {
            (Some(found), Some(value)) => found == value,
            (found, None) => found.is_some(),
            (None, Some(_)) => false,
        })
    }
}

fn check_name(what: &'static str, text: &str, at: usize, name: &str) -> Result<()> {
    let fits = |(index, c): &(usize, char)| {
        c.is_ascii_alphanumeric() || (*index > 0 && matches!(c, '.' | '_' | '-' | '/'))
    };
    if name.is_empty() {
        return Err(wrong(what, text, at, "the name of a tag is missing".to_owned()));
    }
    if let Some((index, c)) = name.char_indices().find(|found| !fits(found)) {
        let message = format!("the name of a tag has letters, digits, and inside . _ - / too, but not {c:?}");
        return Err(wrong(what, text, at + index, message));
    }
    if name.len() > MAX_NAME_BYTES {
        return Err(wrong(
            what,
            text,
            at,
            format!("the name of a tag has at most {MAX_NAME_BYTES} characters"),
        ));
    }
    Ok(())
}

fn check_value(what: &'static str, text: &str, at: usize, value: &str) -> Result<()> {
    let fits = |c: char| c.is_ascii_alphanumeric() || "._-/:@+".contains(c);
    if let Some((index, c)) = value.char_indices().find(|(_, c)| !fits(*c)) {
        let message =
            format!("the value of a tag has letters, digits and . _ - / : @ + alone, but not {c:?}");
        return Err(wrong(what, text, at + index, message));
    }
    if value.len() > MAX_VALUE_BYTES {
        return Err(wrong(
            what,
            text,
            at,
            format!("the value of a tag has at most {MAX_VALUE_BYTES} characters"),
        ));
    }
    Ok(())
}

fn wrong(what: &'static str, text: &str, position: usize, message: String) -> Error {
    let short: String = text.chars().take(200).collect();
    let message = format!("the {what} `{short}` is wrong at position {position}: {message}");
    Error::new(Code::InvalidArgument, message).with(what, short).with("position", position)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn tags(texts: &[&str]) -> Tags {
        Tags::parse(texts.iter().copied()).unwrap()
    }

    #[test]
    fn a_selector_chooses_by_all_of_its_parts() {
        let worker = tags(&["job=review", "pr=17", "empty="]);
        for (text, chosen) in [
            ("job=review", true),
            ("job", true),
            ("job=review,pr=17", true),
            ("empty=", true),
            ("job=fix", false),
            ("job=review,pr=18", false),
            ("job=review,other", false),
            ("empty=x", false),
        ] {
            assert_eq!(Selector::parse(text).unwrap().matches(&worker), chosen, "{text}");
        }
        assert!(!Selector::parse("job").unwrap().matches(&Tags::default()));
    }

    #[test]
    fn errors_name_the_position() {
        for (text, position) in
            [("", 0), ("a=b,", 4), ("=b", 0), ("a=b c", 3), ("a b=c", 1), ("a=b,c=d=e", 7), (".a=b", 0)]
        {
            let error = Selector::parse(text).unwrap_err();
            assert_eq!((error.code, &error.details["position"]), (Code::InvalidArgument, &position.into()));
        }
        for (text, position) in [("a", 1), ("=b", 0), ("a=ä", 2), ("a=b,c=d", 3)] {
            let error = Tags::parse([text]).unwrap_err();
            assert_eq!(error.details["position"], position, "{text}: {error}");
        }
        let many: Vec<String> = (0..=MAX_TAGS).map(|number| format!("n{number}=")).collect();
        assert_eq!(Tags::parse(many.iter().map(String::as_str)).unwrap_err().details["field"], "tags");
    }

    proptest! {
        #[test]
        fn every_valid_tag_selects_its_worker(text in "\\PC{0,40}") {
            let parsed = Tags::parse([text.as_str()]);
            if let Ok(tags) = &parsed {
                prop_assert!(Selector::parse(&text).unwrap().matches(tags));
                prop_assert!(tags.check().is_ok());
            }
        }
    }
}
