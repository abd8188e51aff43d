//! Parses the text of a config file (JSON or YAML) into a JSON value. Pure: it does not know the schema,
//! and every input gives a value or a located problem.

use std::fmt;

use serde::de::{self, Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

/// The reason why a text is neither JSON nor YAML.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SyntaxProblem {
    pub(crate) problem: String,
    pub(crate) line: Option<u64>,
    pub(crate) column: Option<u64>,
}

/// Parses JSON, or else YAML 1.2. An empty document is null. Duplicate keys are a problem in both.
pub(crate) fn parse(text: &str) -> Result<Value, SyntaxProblem> {
    // Some editors write a byte order mark, which has no meaning in UTF-8.
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    // YAML is almost a superset of JSON, but rejects some tabs.
    if !text.trim_start().starts_with(['{', '[']) {
        return parse_yaml(text);
    }
    parse_json(text).or_else(|as_json| {
        // If both fail, the parser that got further decides the format.
        parse_yaml(text)
            .map_err(|as_yaml| if as_yaml.position() > as_json.position() { as_yaml } else { as_json })
    })
}

impl SyntaxProblem {
    /// Takes the first line of a parser's message without positions, which are separate fields.
    fn new(message: &str, line: Option<u64>, column: Option<u64>) -> Self {
        let first = message.lines().next().unwrap_or_default();
        let mut places = first.match_indices(" at line ");
        let end =
            places.find(|(at, found)| first[at + found.len()..].starts_with(|c: char| c.is_ascii_digit()));
        let mut problem = end.map_or(first, |(at, _)| &first[..at]);
        // A removed position in brackets leaves the preceding word: "(defined at line 5)".
        if let (Some(_), Some((whole, open))) = (end, problem.rsplit_once(" ("))
            && !open.contains(')')
        {
            problem = whole;
        }
        Self { problem: problem.to_owned(), line, column }
    }

    fn position(&self) -> (Option<u64>, Option<u64>) {
        (self.line, self.column)
    }
}

fn parse_json(text: &str) -> Result<Value, SyntaxProblem> {
    serde_json::from_str::<Strict>(text).map(|strict| strict.0).map_err(|error| {
        // Both libraries use 0 for an unknown position.
        let place = |number: usize| u64::try_from(number).ok().filter(|number| *number > 0);
        SyntaxProblem::new(&error.to_string(), place(error.line()), place(error.column()))
    })
}

/// Parses JSON without the fallback to YAML.
pub(crate) fn parse_json_strictly(text: &str) -> Result<Value, SyntaxProblem> {
    parse_json(text.strip_prefix('\u{feff}').unwrap_or(text))
}

fn parse_yaml(text: &str) -> Result<Value, SyntaxProblem> {
    let options = serde_saphyr::options! {
        // YAML 1.2: `no` and `on` are words. Dropped tags and changed digits would be misleading.
        strict_booleans: true,
        leading_zero_numbers_as_strings: true,
        underscored_numbers_as_strings: true,
        reject_unsupported_tags: true,
        with_snippet: false,
    };
    serde_saphyr::from_str_with_options::<Strict>(text, options).map(|strict| strict.0).map_err(|error| {
        let location = error.location();
        let options = serde_saphyr::RenderOptions::new(&serde_saphyr::UserMessageFormatter);
        let rendered = error.without_snippet().render_with_options(options);
        SyntaxProblem::new(&rendered, location.map(|at| at.line()), location.map(|at| at.column()))
    })
}

/// A JSON value with duplicate keys rejected; plain `Value` accepts them.
struct Strict(Value);

impl<'de> Deserialize<'de> for Strict {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(StrictVisitor).map(Strict)
    }
}

struct StrictVisitor;

impl<'de> Visitor<'de> for StrictVisitor {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON or YAML value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_none<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E: de::Error>(self, value: f64) -> Result<Value, E> {
        serde_json::Number::from_f64(value)
            .map(Value::Number)
            .ok_or_else(|| E::custom("a number must be finite"))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<Value, A::Error> {
        let mut items = Vec::new();
        while let Some(Strict(item)) = access.next_element()? {
            items.push(item);
        }
        Ok(Value::Array(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Value, A::Error> {
        let mut object = Map::new();
        while let Some(key) = access.next_key::<String>()? {
            if object.contains_key(&key) {
                return Err(de::Error::custom(format_args!("the key `{key}` is given twice")));
            }
            let Strict(value) = access.next_value()?;
            object.insert(key, value);
        }
        Ok(Value::Object(object))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[track_caller]
    fn problem(text: &str) -> SyntaxProblem {
        parse(text).expect_err("must not parse")
    }

    #[test]
    fn nothing_is_null() {
        for text in ["", "\n", "# only a comment\n", "null", "~", "---\n", "\u{feff}", "\u{feff}# x\r\n"] {
            assert_eq!(parse(text), Ok(Value::Null), "{text:?}");
        }
    }

    #[test]
    fn yaml_beyond_the_old_subset() {
        let text = "a: [x, 'y z', 3]\nb: {k: v}\nc: |\n  one\n  two\nd: \"tab\\there\"\ne: >-\n    folded\n    text\n";
        let expected = json!({"a": ["x", "y z", 3], "b": {"k": "v"}, "c": "one\ntwo\n", "d": "tab\there", "e": "folded text"});
        assert_eq!(parse(text), Ok(expected));
    }

    #[test]
    fn anchors_aliases_and_merge_keys() {
        let text = "base: &b {x: 1, y: 2}\nsame: *b\nmore:\n  <<: *b\n  y: 3\n";
        let expected = json!({"base": {"x": 1, "y": 2}, "same": {"x": 1, "y": 2}, "more": {"x": 1, "y": 3}});
        assert_eq!(parse(text).unwrap(), expected);
    }

    #[test]
    fn byte_order_mark_and_windows_line_ends() {
        assert_eq!(parse("\u{feff}a: 1\r\nb:\r\n  - x\r\n"), Ok(json!({"a": 1, "b": ["x"]})));
        assert_eq!(parse("\u{feff}{\"a\":\r\n1}\r\n"), Ok(json!({"a": 1})));
    }

    #[test]
    fn json_may_be_indented_with_tabs() {
        assert_eq!(parse("{\n\t\"a\": [\n\t\t1\n\t]\n}\n"), Ok(json!({"a": [1]})));
    }

    #[test]
    fn a_flow_mapping_that_is_not_json_is_yaml() {
        assert_eq!(parse("{a: 1, b: [c]}"), Ok(json!({"a": 1, "b": ["c"]})));
    }

    #[test]
    fn words_and_digits_stay_what_they_look_like() {
        let text = "a: no\nb: on\nc: 0022\nd: 1_000\ne: true\nf: 2026-01-01\n";
        let expected = json!({"a": "no", "b": "on", "c": "0022", "d": "1_000", "e": true, "f": "2026-01-01"});
        assert_eq!(parse(text), Ok(expected));
    }

    #[test]
    fn a_tab_as_indentation_is_located() {
        let found = problem("launchers:\n\tcodex:\n\t\tcommand: x\n");
        assert_eq!(found.line, Some(2), "{found:?}");
        assert!(found.column.is_some());
    }

    #[test]
    fn a_key_given_twice_is_located_in_yaml_and_json() {
        let yaml = problem("a: 1\nb: 2\na: 3\n");
        assert_eq!((yaml.line, yaml.column), (Some(3), Some(1)), "{yaml:?}");
        let json = problem("{\"x\": {\"a\": 1,\n \"a\": 2}}");
        assert_eq!(json.line, Some(2), "{json:?}");
        assert!(json.column.is_some());
        assert!(json.problem.contains('a') && !json.problem.contains("line 2"), "{json:?}");
    }

    #[test]
    fn errors_are_one_line_and_located() {
        for text in
            ["a: [1, 2\n", "a: 'x\n", "a: *nowhere\n", "a: b: c\n", "- a\nb: 1\n", "{\"a\": ]", "a: !odd x\n"]
        {
            let found = problem(text);
            assert!(!found.problem.is_empty() && !found.problem.contains('\n'), "{text:?}: {found:?}");
            assert!(!found.problem.contains("column"), "{text:?}: {found:?}");
            assert!(found.line.is_some() && found.column.is_some(), "{text:?}: {found:?}");
        }
    }

    #[test]
    fn several_documents_and_non_finite_numbers_are_refused() {
        problem("a: 1\n---\nb: 2\n");
        problem("a: .nan\n");
        problem("a: .inf\n");
    }

    #[test]
    fn depth_and_alias_bombs_are_refused() {
        problem(&"[".repeat(100_000));
        problem(&"{\"a\":".repeat(100_000));
        problem(&format!("a: {}", "[".repeat(100_000)));
        problem(&"- ".repeat(100_000));
        let mut bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
        for level in 1..12 {
            let below = format!("*a{}, ", level - 1).repeat(10);
            bomb.push_str(&format!("a{level}: &a{level} [{below}]\n"));
        }
        let found = problem(&bomb).problem;
        assert!(found.ends_with('}') && !found.contains("at line"), "a whole sentence: {found}");
    }

    #[test]
    fn positions_are_cut_off_at_the_first_one() {
        let reported = |message: &str| SyntaxProblem::new(message, None, None).problem;
        assert_eq!(reported("too much at line 1, column 13 (defined at line 5, column 9) (used"), "too much");
        assert_eq!(reported("odd (defined at line 5, column 9)"), "odd");
        assert_eq!(reported("odd (a) thing at line 5 column 9"), "odd (a) thing");
        assert_eq!(
            reported("the key `me at line x` is given twice at line 2"),
            "the key `me at line x` is given twice"
        );
        assert_eq!(reported("nothing (more"), "nothing (more");
    }

    proptest::proptest! {
        #[test]
        fn any_json_value_survives(keys in proptest::collection::btree_map("[a-z]{1,6}", "\\PC{0,12}", 0..6)) {
            let value = json!({"m": keys, "n": [1, -2, 1.5, true, null]});
            proptest::prop_assert_eq!(parse(&value.to_string()).unwrap(), value);
        }

        #[test]
        fn any_text_gives_a_value_or_a_problem(text in "(\\PC|[\\[\\]{}:,&*!|>'\"%#\\-\\t\\n ]){0,60}") {
            let _ = parse(&text);
        }
    }
}
