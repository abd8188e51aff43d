//! Converts a user's text to the steps of the model's response: pure, no I/O, no vendor.

// The first line that begins with a directive counts, with all text after it, so that an agent or
// a manager may add a preamble. A directive on a later line overrides `FAIL` and `CUT`:
//
// | directive | the model |
// |---|---|
// | `SAY: text` | says the text, in a few chunks |
// | `RUN: command` | calls the agent's shell tool, then says `DONE: ` and what the tool returned |
// | `READ: path` | the same with the agent's tool for reading a file |
// | `WRITE: path=text` | the same with the agent's tool for writing a file |
// | `MCP: server/tool {arguments}` | the same with a tool of an MCP server |
// | `DELEGATE: text` | the same with the agent's tool for a subagent, which gets the text |
// | `SLOW: seconds` | says `tick N ` every 50 ms for this time |
// | `GATE: path` | says `waiting `, waits until the file exists (at most 60 s), says `opened`; with a text in the lines below, waits and says that |
// | `FAIL: status` | answers with this HTTP status, however often it is asked |
// | `FAIL: status seconds` | the same, and names the time until the limit ends |
// | `CUT: text` | says the text and breaks the connection |
// | anything else | says the whole text back |

use std::path::PathBuf;
use std::time::Duration;

use super::tools::ScriptedTool;

/// The time between two chunks of `SLOW`.
const TICK: Duration = Duration::from_millis(50);
/// Upper limit for everything that a test waits for.
const MAX_SLOW: Duration = Duration::from_secs(600);
/// How long `GATE` waits for its file.
pub(super) const GATE_LIMIT: Duration = Duration::from_secs(60);
/// Approximate number of chunks of a text.
const CHUNKS: usize = 3;

/// The state of a conversation, as far as the response depends on it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Turn {
    /// The last message is the user's.
    User(String),
    /// A tool that the model called has returned this.
    ToolReturned(String),
}

/// One step of the model's response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ModelResponseStep {
    /// Streams one chunk of text.
    Text(String),
    /// Pauses for this time.
    Pause(Duration),
    /// Pauses until the file exists, [`GATE_LIMIT`] at most.
    WaitFor(PathBuf),
    /// Calls one of the agent's tools.
    Call(ScriptedTool),
    /// Responds with this HTTP status instead of a stream; always the only step.
    Fail {
        status: u16,
        /// Seconds until the limit ends, named in the headers of the response.
        reset: Option<u64>,
    },
    /// Breaks the connection without an end.
    Cut,
}

impl ModelResponseStep {
    /// Returns the text of a text step.
    pub(super) fn text(&self) -> Option<&str> {
        if let Self::Text(text) = self { Some(text) } else { None }
    }
}

/// Returns the response to a turn.
pub(super) fn answer(turn: &Turn) -> Vec<ModelResponseStep> {
    match turn {
        Turn::ToolReturned(output) => chunks(&format!("DONE: {output}")),
        Turn::User(text) => match directive(text) {
            Some(("SAY", text)) => chunks(text),
            Some(("RUN", command)) => vec![ModelResponseStep::Call(ScriptedTool::Shell(command.to_owned()))],
            Some(("READ", path)) => vec![ModelResponseStep::Call(ScriptedTool::Read(path.to_owned()))],
            Some(("WRITE", file)) => match file.split_once('=') {
                Some((path, text)) => {
                    vec![ModelResponseStep::Call(ScriptedTool::Write(path.into(), text.into()))]
                }
                None => chunks("WRITE: needs path=text"),
            },
            Some(("MCP", call)) => mcp(call),
            Some(("DELEGATE", text)) => {
                vec![ModelResponseStep::Call(ScriptedTool::Delegate(text.to_owned()))]
            }
            Some(("FAIL", words)) => vec![fail(words)],
            Some(("CUT", text)) => chunks(text).into_iter().chain([ModelResponseStep::Cut]).collect(),
            Some(("SLOW", seconds)) => slow(seconds),
            Some(("GATE", gate)) => match gate.split_once('\n') {
                Some((path, text)) => {
                    [ModelResponseStep::WaitFor(path.into())].into_iter().chain(chunks(text)).collect()
                }
                None => {
                    vec![
                        ModelResponseStep::Text("waiting ".into()),
                        ModelResponseStep::WaitFor(gate.into()),
                        ModelResponseStep::Text("opened".into()),
                    ]
                }
            },
            _ => chunks(text),
        },
    }
}

/// Returns the first directive and its argument.
fn directive(text: &str) -> Option<(&'static str, &str)> {
    let mut rest = text;
    loop {
        for name in ["SAY", "RUN", "READ", "WRITE", "MCP", "DELEGATE", "SLOW", "GATE", "FAIL", "CUT"] {
            if let Some(argument) = rest.strip_prefix(name).and_then(|rest| rest.strip_prefix(':')) {
                // Some agents prepend a failed prompt to the next one.
                let later = argument.split_once('\n').filter(|_| matches!(name, "FAIL" | "CUT"));
                let later = later.and_then(|(_, later)| directive(later));
                return later.or(Some((name, argument.trim())));
            }
        }
        rest = rest.split_once('\n')?.1;
    }
}

fn fail(words: &str) -> ModelResponseStep {
    let mut words = words.split_whitespace();
    let status = words.next().and_then(|status| status.parse().ok()).unwrap_or(500);
    ModelResponseStep::Fail { status, reset: words.next().and_then(|seconds| seconds.parse().ok()) }
}

fn mcp(call: &str) -> Vec<ModelResponseStep> {
    let (name, arguments) = call.split_once(' ').unwrap_or((call, "{}"));
    match serde_json::from_str(arguments) {
        Ok(arguments) => vec![ModelResponseStep::Call(ScriptedTool::Mcp(name.into(), arguments))],
        Err(error) => chunks(&format!("MCP: {arguments:?} is no object of arguments: {error}")),
    }
}

fn slow(seconds: &str) -> Vec<ModelResponseStep> {
    let wanted = seconds.parse().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    match wanted {
        Some(wanted) if wanted <= MAX_SLOW => (1..=wanted.as_millis() / TICK.as_millis())
            .flat_map(|tick| {
                [ModelResponseStep::Text(format!("tick {tick} ")), ModelResponseStep::Pause(TICK)]
            })
            .collect(),
        _ => chunks(&format!("SLOW: needs seconds, 0 to {}, not {seconds:?}", MAX_SLOW.as_secs())),
    }
}

/// Splits the text between characters into a few pieces, none of them empty.
fn chunks(text: &str) -> Vec<ModelResponseStep> {
    let characters: Vec<char> = text.chars().collect();
    let size = characters.len().div_ceil(CHUNKS).max(1);
    characters.chunks(size).map(|chunk| ModelResponseStep::Text(chunk.iter().collect())).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn said(steps: &[ModelResponseStep]) -> String {
        steps
            .iter()
            .filter_map(
                |step| if let ModelResponseStep::Text(text) = step { Some(text.as_str()) } else { None },
            )
            .collect()
    }

    fn to(text: &str) -> Vec<ModelResponseStep> {
        answer(&Turn::User(text.into()))
    }

    #[test]
    fn says_in_several_chunks() {
        let steps = to("SAY: hello there");
        assert_eq!(steps.len(), 3);
        assert_eq!(said(&steps), "hello there");
    }

    #[test]
    fn a_preamble_may_stand_before_the_directive() {
        let shell = ModelResponseStep::Call(ScriptedTool::Shell("echo a\necho b".into()));
        assert_eq!(to("You are a reviewer.\n\nRUN: echo a\necho b"), [shell]);
    }

    #[test]
    fn a_directive_stands_at_the_beginning_of_a_line() {
        assert_eq!(said(&to("please SAY: no")), "please SAY: no");
    }

    #[test]
    fn the_first_directive_counts() {
        assert_eq!(said(&to("SAY: one\nRUN: two")), "one\nRUN: two");
    }

    #[test]
    fn a_failure_counts_only_as_the_last_directive() {
        assert_eq!(to("FAIL: 400"), [ModelResponseStep::Fail { status: 400, reset: None }]);
        assert_eq!(to("FAIL: 429 60"), [ModelResponseStep::Fail { status: 429, reset: Some(60) }]);
        for failed in ["FAIL: 400", "CUT: half"] {
            assert_eq!(said(&to(&format!("{failed}\n\nSAY: after"))), "after");
        }
    }

    #[test]
    fn a_tool_that_returned_ends_the_turn() {
        assert_eq!(said(&answer(&Turn::ToolReturned("RUN: again".into()))), "DONE: RUN: again");
    }

    #[test]
    fn a_gate_speaks_before_it_waits() {
        let steps = to("GATE: /tmp/a b");
        assert!(
            matches!(&steps[..], [ModelResponseStep::Text(_), ModelResponseStep::WaitFor(path), ModelResponseStep::Text(_)] if path.as_os_str() == "/tmp/a b")
        );
    }

    #[test]
    fn a_gate_with_a_text_says_that_and_nothing_before() {
        let steps = to("GATE: /tmp/a\n{\"b\": 1}");
        assert_eq!(steps[0], ModelResponseStep::WaitFor("/tmp/a".into()));
        assert_eq!(said(&steps), "{\"b\": 1}");
    }

    #[test]
    fn slow_lasts_as_long_as_asked() {
        let steps = to("SLOW: 0.5");
        let silence: Duration = steps
            .iter()
            .filter_map(|step| if let ModelResponseStep::Pause(time) = step { Some(*time) } else { None })
            .sum();
        assert_eq!(silence, Duration::from_millis(500));
        assert!(said(&steps).ends_with("tick 10 "));
    }

    #[test]
    fn slow_says_what_is_wrong_with_its_argument() {
        for wrong in ["SLOW:", "SLOW: soon", "SLOW: -1", "SLOW: NaN", "SLOW: 601"] {
            assert!(said(&to(wrong)).contains("needs seconds"), "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn no_text_is_lost_and_no_chunk_empty(text in ".*") {
            let steps = chunks(&text);
            prop_assert!(steps.len() <= CHUNKS);
            prop_assert!(!steps.contains(&ModelResponseStep::Text(String::new())));
            prop_assert_eq!(said(&steps), text);
        }

        #[test]
        fn every_text_has_an_answer(text in "\\PC*") {
            prop_assert!(text.is_empty() || directive(&text).is_some() || !to(&text).is_empty());
        }
    }
}
