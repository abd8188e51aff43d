//! The JUnit XML of a run: one test case. Pure.

use std::io;

use quick_xml::events::{BytesDecl, BytesText, Event};
use quick_xml::writer::Writer;
use subagent_protocol::clean::{clean, one_line};
use subagent_protocol::markdown::beginning;

use super::{FinishedRun, MAX_MESSAGE_BYTES};

/// The name of the suite.
const SUITE: &str = "subagent run";

/// The document.
///
/// # Errors
/// Never for text; the writer's type has them.
pub(crate) fn document(ended: &FinishedRun<'_>) -> io::Result<String> {
    let problem = ended.problem.as_ref();
    let count = |is_error: bool| u8::from(problem.is_some_and(|problem| problem.is_error == is_error));
    let (errors, failures) = (count(true).to_string(), count(false).to_string());
    let time = format!("{:.3}", ended.took.as_secs_f64());
    let counts = [("tests", "1"), ("failures", &failures), ("errors", &errors), ("time", &time)];
    let (case, class) = (word(&ended.case), word(&ended.agent));
    let mut xml = Writer::new_with_indent(Vec::new(), b' ', 2);
    xml.write_event(Event::Decl(BytesDecl::new("1.0", Some("UTF-8"), None)))?;
    xml.create_element("testsuites").with_attributes(counts).write_inner_content(|xml| {
        let suite = xml.create_element("testsuite").with_attribute(("name", SUITE)).with_attributes(counts);
        suite.with_attribute(("skipped", "0")).write_inner_content(|xml| {
            let attributes = [("name", case.as_str()), ("classname", &class), ("time", &time)];
            xml.create_element("testcase").with_attributes(attributes).write_inner_content(|xml| {
                if let Some(problem) = problem {
                    let name = if problem.is_error { "error" } else { "failure" };
                    let attributes = [("message", word(&problem.message)), ("type", word(&problem.code))];
                    let attributes = attributes.iter().map(|(key, value)| (*key, value.as_str()));
                    xml.create_element(name)
                        .with_attributes(attributes)
                        .write_text_content(BytesText::new(&text(&problem.text)))?;
                }
                if let Some(message) = ended.message {
                    let message = text(&beginning(message, MAX_MESSAGE_BYTES));
                    xml.create_element("system-out").write_text_content(BytesText::new(&message))?;
                }
                Ok(())
            })?;
            Ok(())
        })?;
        Ok(())
    })?;
    let mut document = xml.into_inner();
    document.push(b'\n');
    String::from_utf8(document).map_err(io::Error::other)
}

/// Text as XML 1.0 may have it.
fn text(text: &str) -> String {
    // Most others are removed by `clean`, with the escape sequences that they begin.
    let is_allowed = |c: &char| !matches!(c, '\u{0}'..='\u{8}' | '\u{b}' | '\u{c}' | '\u{e}'..='\u{1f}' | '\u{fffe}' | '\u{ffff}');
    clean(text).chars().filter(is_allowed).collect()
}

/// The same in one line.
fn word(word: &str) -> String {
    text(&one_line(word))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;
    use quick_xml::Reader;
    use serde_json::Value;

    use super::super::RunProblem;
    use super::*;

    fn ended(case: &str, message: Option<&'static str>, problem: Option<RunProblem>) -> FinishedRun<'static> {
        FinishedRun {
            case: case.to_owned(),
            agent: "codex".to_owned(),
            worker: None,
            label: "done",
            took: Duration::from_millis(1500),
            figures: None,
            usage: &Value::Null,
            message,
            problem,
        }
    }

    fn problem(text: &str, is_error: bool) -> RunProblem {
        RunProblem { is_error, code: "CODE".to_owned(), message: text.to_owned(), text: text.to_owned() }
    }

    #[test]
    fn a_success_has_its_message() {
        let expected = r#"<?xml version="1.0" encoding="UTF-8"?>
<testsuites tests="1" failures="0" errors="0" time="1.500">
  <testsuite name="subagent run" tests="1" failures="0" errors="0" time="1.500" skipped="0">
    <testcase name="Fix it" classname="codex" time="1.500">
      <system-out>a ]]&gt; &lt;b&gt; &amp;
c</system-out>
    </testcase>
  </testsuite>
</testsuites>
"#;
        let run = ended("Fix it", Some("a ]]> <b> &\r\u{0}\u{1b}[31mc\u{ffff}"), None);
        assert_eq!(document(&run).unwrap(), expected);
    }

    #[test]
    fn a_run_that_did_its_work_badly_is_a_failure_and_any_other_an_error() {
        for (is_error, counts, element) in [
            (true, r#"failures="0" errors="1""#, r#"<error message="&lt;x&gt; &quot;y" type="CODE">"#),
            (false, r#"failures="1" errors="0""#, r#"<failure message="&lt;x&gt; &quot;y" type="CODE">"#),
        ] {
            let document = document(&ended("a", None, Some(problem("<x>\n\"y", is_error)))).unwrap();
            assert_eq!(document.matches(counts).count(), 2, "{document}");
            assert!(document.contains(element) && !document.contains("system-out"), "{document}");
        }
    }

    fn is_legal(c: char) -> bool {
        matches!(c, '\t' | '\n' | ' '..='\u{d7ff}' | '\u{e000}'..='\u{fffd}' | '\u{10000}'..)
    }

    proptest! {
        #[test]
        fn no_text_breaks_the_document(hostile in "(.|\n|\r|\u{0}|\u{b}|\u{1b}\\[|\u{ffff}|<|>|&|'|\"|]]>|<!--|<\\?){0,40}") {
            let mut run = ended(&hostile, None, Some(problem(&hostile, false)));
            run.message = Some(&hostile);
            run.agent.clone_from(&hostile);
            let document = document(&run).unwrap();
            prop_assert!(document.chars().all(is_legal), "not XML 1.0");
            let mut reader = Reader::from_str(&document);
            let (mut open, mut elements) = (0, 0);
            loop {
                match reader.read_event().unwrap() {
                    Event::Start(element) => {
                        open += 1;
                        elements += 1;
                        for attribute in element.attributes() {
                            attribute.unwrap();
                        }
                    }
                    Event::End(_) => open -= 1,
                    Event::Eof => break,
                    Event::Text(_) | Event::GeneralRef(_) | Event::Decl(_) => {}
                    other => prop_assert!(false, "{other:?}"),
                }
            }
            prop_assert_eq!((open, elements), (0, 5), "{}", document);
        }
    }
}
