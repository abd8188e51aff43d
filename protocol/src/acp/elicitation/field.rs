//! One field of a form: its allowed values, and the check of a value.

use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::pattern::Pattern;
use crate::lenient::{self, Lenient};
use crate::time::Timestamp;

/// Maximum number of allowed values named in an error.
const MAX_NAMED: usize = 100;
/// Maximum number of characters per value.
const MAX_CHARS: usize = 200;

/// The allowed values of a field. Further rules of its schema are not checked here.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum FormField {
    Text {
        choices: Option<Vec<String>>,
        letters: Range<u64>,
        format: Option<StringFormat>,
        pattern: Option<Pattern>,
    },
    Number(Range<f64>),
    Integer(Range<i64>),
    Boolean,
    /// Several of these options; any text if the list is empty.
    Several {
        choices: Option<Vec<String>>,
        items: Range<u64>,
    },
    /// An unknown type: any value permitted in an answer.
    Unknown,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StringFormat {
    Email,
    Uri,
    Date,
    DateTime,
}

/// Minimum and maximum, if given.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Range<T>(Option<T>, Option<T>);

impl<T: PartialOrd + Copy + Into<Value>> Range<T> {
    fn holds(&self, value: T) -> bool {
        self.0.is_none_or(|least| value >= least) && self.1.is_none_or(|most| value <= most)
    }

    fn show(&self, into: &mut Map<String, Value>, least: &str, most: &str) {
        for (name, bound) in [(least, self.0), (most, self.1)] {
            if let Some(bound) = bound {
                into.insert(name.to_owned(), bound.into());
            }
        }
    }
}

impl FormField {
    pub(super) fn of(schema: &Value) -> Self {
        let range = |least: &str, most: &str| Range(schema[least].as_u64(), schema[most].as_u64());
        let asked: AskedSchema = lenient::read(schema);
        let (least, most) = (asked.minimum, asked.maximum);
        match asked.kind.as_str() {
            Some("string") => Self::Text {
                choices: words(&asked.words).or_else(|| constants(&asked.one_of)),
                letters: range("minLength", "maxLength"),
                format: match asked.format.as_str() {
                    Some("email") => Some(StringFormat::Email),
                    Some("uri") => Some(StringFormat::Uri),
                    Some("date") => Some(StringFormat::Date),
                    Some("date-time") => Some(StringFormat::DateTime),
                    _ => None,
                },
                pattern: asked.pattern.as_str().and_then(Pattern::of),
            },
            Some("number") => Self::Number(Range(least.as_f64(), most.as_f64())),
            Some("integer") => Self::Integer(Range(least.as_i64(), most.as_i64())),
            Some("boolean") => Self::Boolean,
            Some("array") => {
                let items: ItemsSchema = lenient::read(&asked.items);
                let choices = words(&items.words).or_else(|| constants(&items.any_of));
                Self::Several { choices, items: range("minItems", "maxItems") }
            }
            _ => Self::Unknown,
        }
    }

    /// Checks a value against this field.
    ///
    /// # Errors
    ///
    /// What is wrong with it, without repeating the value, which may be secret.
    pub(super) fn check(&self, value: &Value) -> Result<(), &'static str> {
        match (self, value) {
            (Self::Text { choices, letters, format, pattern }, Value::String(text)) => {
                if !choices.as_ref().is_none_or(|choices| choices.contains(text)) {
                    return Err("is not one of the offered values");
                }
                if !letters.holds(text.chars().count() as u64) {
                    return Err("is too short or too long");
                }
                if pattern.as_ref().is_some_and(|pattern| !pattern.fits(text)) {
                    return Err("does not have the form that the pattern asks for");
                }
                match format {
                    Some(format) if !format.fits(text) => Err(format.wrong()),
                    _ => Ok(()),
                }
            }
            (Self::Number(range), Value::Number(number)) => match number.as_f64() {
                Some(number) if range.holds(number) => Ok(()),
                _ => Err("is too small or too large"),
            },
            (Self::Integer(range), Value::Number(number)) => match number.as_i64() {
                Some(number) if range.holds(number) => Ok(()),
                Some(_) => Err("is too small or too large"),
                None => Err("is not a whole number"),
            },
            (Self::Boolean, Value::Bool(_)) => Ok(()),
            (Self::Several { choices, items }, Value::Array(list)) => {
                let offered =
                    |word: &str| choices.as_ref().is_none_or(|all| all.iter().any(|known| known == word));
                if !list.iter().all(Value::is_string) {
                    return Err("is not a list of words");
                }
                if !list.iter().filter_map(Value::as_str).all(offered) {
                    return Err("has values that are not offered");
                }
                if items.holds(list.len() as u64) { Ok(()) } else { Err("has too few or too many values") }
            }
            (Self::Unknown, Value::String(_) | Value::Number(_) | Value::Bool(_)) => Ok(()),
            (Self::Unknown, Value::Array(list)) if list.iter().all(Value::is_string) => Ok(()),
            _ => Err("is of another type"),
        }
    }

    /// Converts text to a value.
    ///
    /// # Errors
    ///
    /// What is wrong with the text.
    pub(super) fn read(&self, words: &[String]) -> Result<Value, &'static str> {
        if let Self::Several { .. } = self {
            return Ok(words.into());
        }
        let [word] = words else { return Err("is given more than once") };
        match self {
            Self::Number(_) => match (word.parse::<i64>(), word.parse::<f64>()) {
                (Ok(number), _) => Ok(number.into()),
                (_, Ok(number)) if number.is_finite() => Ok(number.into()),
                _ => Err("is no number"),
            },
            Self::Integer(_) => word.parse::<i64>().map(Value::from).map_err(|_| "is not a whole number"),
            Self::Boolean => match word.as_str() {
                "true" | "yes" => Ok(true.into()),
                "false" | "no" => Ok(false.into()),
                _ => Err("is neither true nor false"),
            },
            Self::Text { .. } | Self::Several { .. } | Self::Unknown => Ok(word.as_str().into()),
        }
    }

    /// Returns what is allowed, in the schema's terms.
    pub(super) fn allowed(&self) -> Value {
        let mut allowed = Map::new();
        let word = match self {
            Self::Text { choices, letters, format, pattern } => {
                name(&mut allowed, choices.as_ref());
                letters.show(&mut allowed, "minLength", "maxLength");
                if let Some(format) = format {
                    allowed.insert("format".to_owned(), format.word().into());
                }
                if let Some(pattern) = pattern {
                    allowed.insert("pattern".to_owned(), pattern.text().into());
                }
                "string"
            }
            Self::Number(range) => {
                range.show(&mut allowed, "minimum", "maximum");
                "number"
            }
            Self::Integer(range) => {
                range.show(&mut allowed, "minimum", "maximum");
                "integer"
            }
            Self::Boolean => "boolean",
            Self::Several { choices, items } => {
                name(&mut allowed, choices.as_ref());
                items.show(&mut allowed, "minItems", "maxItems");
                "array"
            }
            Self::Unknown => return json!("a string, a number, true, false or a list of strings"),
        };
        allowed.insert("type".to_owned(), word.into());
        Value::Object(allowed)
    }
}

fn name(allowed: &mut Map<String, Value>, choices: Option<&Vec<String>>) {
    if let Some(choices) = choices {
        let short = |word: &String| word.chars().take(MAX_CHARS).collect::<String>();
        let named: Vec<String> = choices.iter().take(MAX_NAMED).map(short).collect();
        allowed.insert("enum".to_owned(), named.into());
    }
}

fn words(list: &Value) -> Option<Vec<String>> {
    let words = list.as_array()?.iter().filter_map(Value::as_str);
    Some(words.map(str::to_owned).collect())
}

fn constants(options: &Value) -> Option<Vec<String>> {
    let words = options.as_array()?.iter().filter_map(|option| lenient::read::<OptionSchema>(option).word.0);
    Some(words.collect())
}

/// The schema of a field, as it came.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct AskedSchema {
    #[serde(rename = "type")]
    kind: Value,
    #[serde(rename = "enum")]
    words: Value,
    one_of: Value,
    format: Value,
    pattern: Value,
    minimum: Value,
    maximum: Value,
    items: Value,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ItemsSchema {
    #[serde(rename = "enum")]
    words: Value,
    any_of: Value,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct OptionSchema {
    #[serde(rename = "const")]
    word: Lenient<String>,
}

impl StringFormat {
    const fn word(self) -> &'static str {
        match self {
            Self::Email => "email",
            Self::Uri => "uri",
            Self::Date => "date",
            Self::DateTime => "date-time",
        }
    }

    const fn wrong(self) -> &'static str {
        match self {
            Self::Email => "is not an email address",
            Self::Uri => "is not a URI with a scheme",
            Self::Date => "is not a date like 2026-11-21",
            Self::DateTime => "is not a time like 2026-11-21T20:29:42Z",
        }
    }

    fn fits(self, text: &str) -> bool {
        let plain = !text.contains(|letter: char| letter.is_whitespace() || letter.is_control());
        match self {
            Self::Email => {
                let parts = text.rsplit_once('@');
                plain
                    && parts.is_some_and(|(name, host)| {
                        !name.is_empty() && !host.is_empty() && !host.contains('@')
                    })
            }
            Self::Uri => {
                let scheme =
                    text.split_once(':').filter(|(_, rest)| !rest.is_empty()).map(|(scheme, _)| scheme);
                let letters = |scheme: &str| {
                    scheme.starts_with(|first: char| first.is_ascii_alphabetic())
                        && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte))
                };
                plain && scheme.is_some_and(letters)
            }
            Self::Date => text.len() == 10 && Timestamp::parse(&format!("{text}T00:00:00Z")).is_some(),
            Self::DateTime => {
                text.get(10..11).is_some_and(|between| between.eq_ignore_ascii_case("t"))
                    && Timestamp::parse(text).is_some()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_checked_against_their_field() {
        let text = json!({"type": "string", "minLength": 2, "maxLength": 3});
        let choice = json!({"type": "string", "enum": ["a", "b"]});
        let titled = json!({"type": "string", "oneOf": [{"const": "a", "title": "A"}]});
        let several = json!({"type": "array", "items": {"type": "string", "enum": ["a", "b"]}, "minItems": 1, "maxItems": 2});
        let named = json!({"type": "array", "items": {"anyOf": [{"const": "a", "title": "A"}]}});
        let number = json!({"type": "number", "minimum": 0.5, "maximum": 2});
        let integer = json!({"type": "integer", "minimum": 1, "maximum": 5});
        let format = |word: &str| json!({"type": "string", "format": word});
        let good = [
            (&text, json!("äö")),
            (&choice, json!("b")),
            (&titled, json!("a")),
            (&several, json!(["b", "a"])),
            (&named, json!([])),
            (&number, json!(2)),
            (&number, json!(0.5)),
            (&integer, json!(5)),
            (&json!({"type": "boolean"}), json!(false)),
            (&json!({"type": "colour"}), json!(["x"])),
            (&json!(7), json!(1.5)),
            (&format("email"), json!("a@b")),
            (&format("uri"), json!("mailto:x")),
            (&format("date"), json!("2024-02-29")),
            (&format("date-time"), json!("2026-11-21T20:29:42+01:00")),
            (&format("colour"), json!("anything")),
        ];
        for (schema, value) in &good {
            assert_eq!(FormField::of(schema).check(value), Ok(()), "{schema} {value}");
        }
        let bad = [
            (&text, json!("a")),
            (&text, json!("abcd")),
            (&text, json!(7)),
            (&choice, json!("c")),
            (&titled, json!("A")),
            (&several, json!([])),
            (&several, json!(["a", "b", "a"])),
            (&several, json!(["c"])),
            (&several, json!([1])),
            (&several, json!("a")),
            (&named, json!(["A"])),
            (&number, json!(0.4)),
            (&number, json!("1")),
            (&integer, json!(6)),
            (&integer, json!(1.5)),
            (&integer, json!(u64::MAX)),
            (&json!({"type": "boolean"}), json!("true")),
            (&json!({"type": "colour"}), json!({"x": 1})),
            (&json!({"type": "colour"}), json!(null)),
            (&format("email"), json!("a b@c")),
            (&format("email"), json!("@c")),
            (&format("uri"), json!("no scheme")),
            (&format("uri"), json!("1a:x")),
            (&format("date"), json!("2023-02-29")),
            (&format("date"), json!("21.11.2026")),
            (&format("date-time"), json!("2026-11-21")),
            (&json!({"type": "string", "pattern": "^[a-z]+$"}), json!("A")),
        ];
        for (schema, value) in &bad {
            assert!(FormField::of(schema).check(value).is_err(), "{schema} {value}");
        }
    }

    #[test]
    fn words_are_read_as_their_field_wants_them() {
        let read = |kind: &str, words: &[&str]| {
            let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
            FormField::of(&json!({"type": kind})).read(&words)
        };
        assert_eq!(read("string", &["7"]), Ok(json!("7")));
        assert_eq!(read("integer", &["-7"]), Ok(json!(-7)));
        assert_eq!(read("number", &["7"]), Ok(json!(7)));
        assert_eq!(read("number", &["7.5"]), Ok(json!(7.5)));
        assert_eq!(read("boolean", &["yes"]), Ok(json!(true)));
        assert_eq!(read("array", &["a", "b"]), Ok(json!(["a", "b"])));
        for (kind, words) in
            [("integer", &["7.5"][..]), ("number", &["NaN"]), ("boolean", &["1"]), ("string", &["a", "b"])]
        {
            assert!(read(kind, words).is_err(), "{kind} {words:?}");
        }
    }

    #[test]
    fn the_list_of_allowed_values_is_bounded() {
        let many: Vec<String> = (0..1000).map(|n| format!("{n}{}", "x".repeat(1000))).collect();
        let allowed = FormField::of(&json!({"type": "string", "enum": many})).allowed();
        assert_eq!(allowed["enum"].as_array().unwrap().len(), MAX_NAMED);
        assert!(allowed.to_string().len() < 30_000);
        let integer = FormField::of(&json!({"type": "integer", "minimum": 1})).allowed();
        assert_eq!(integer, json!({"type": "integer", "minimum": 1}));
    }
}
