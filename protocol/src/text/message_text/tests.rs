//! How pieces become paragraphs, for given and for arbitrary steps of an agent.

use proptest::prelude::*;
use serde_json::json;

use super::*;

/// A step of an agent.
#[derive(Debug, Clone)]
enum AgentOutputStep {
    Say(String),
    Call,
}

fn of(limit: usize, steps: &[AgentOutputStep]) -> MessageText {
    let mut text = MessageText::up_to(limit);
    for step in steps {
        match step {
            AgentOutputStep::Say(piece) => text.push(piece),
            AgentOutputStep::Call => text.tool_call(),
        }
    }
    text
}

/// Interprets `|` as a tool call and everything else as pieces.
fn read(script: &str) -> MessageText {
    let mut steps = Vec::new();
    for (index, piece) in script.split('|').enumerate() {
        if index > 0 {
            steps.push(AgentOutputStep::Call);
        }
        steps.push(AgentOutputStep::Say(piece.to_owned()));
    }
    of(1000, &steps)
}

#[test]
fn a_tool_call_parts_paragraphs() {
    for (script, whole, last) in [
        ("Hello|Bye", "Hello\n\nBye", "Bye"),
        ("Hello\n|Bye", "Hello\n\nBye", "Bye"),
        ("Hello\n\n|Bye", "Hello\n\nBye", "Bye"),
        ("Hello|\n\n\nBye", "Hello\n\n\nBye", "Bye"),
        ("Hello|    code", "Hello\n\n    code", "    code"),
        ("Hello| | |Bye", "Hello\n\n  Bye", "  Bye"),
        ("|Bye", "Bye", "Bye"),
        ("a|b|c", "a\n\nb\n\nc", "c"),
        ("a|b|", "a\n\nb", "a\n\nb"),
        ("a|b|\n", "a\n\nb\n", "a\n\nb\n"),
        ("|", "", ""),
        ("  a ", "  a ", "  a "),
    ] {
        let text = read(script);
        assert_eq!((text.whole(), text.last()), (whole, last), "{script:?}");
        assert!(!text.is_truncated());
    }
}

#[test]
fn a_long_text_keeps_its_newest_paragraph() {
    let say = |text: &str| AgentOutputStep::Say(text.to_owned());
    let long = of(4, &[say("abc"), say("def")]);
    assert_eq!((long.last(), long.is_truncated()), ("abcd", true));
    let next = of(4, &[say("abc"), say("def"), AgentOutputStep::Call, say("x")]);
    assert_eq!((next.last(), next.is_truncated()), ("x", false));
    let grows = of(6, &[say("a"), AgentOutputStep::Call, say("bc"), say("def"), say("g")]);
    assert_eq!((grows.last(), grows.is_truncated()), ("bcdefg", false));
    let silent = of(4, &[say("abcdef"), AgentOutputStep::Call, say("x"), AgentOutputStep::Call]);
    assert_eq!((silent.last(), silent.is_truncated()), ("x", true), "the whole text is not kept");
    let blank =
        of(4, &[say("a"), AgentOutputStep::Call, say("b"), AgentOutputStep::Call, say("  "), say("é")]);
    assert_eq!(blank.last(), "  é", "the place of a call moves with the text");
    assert_eq!(of(3, &[say("aä€")]).last(), "aä");
}

#[test]
fn calls_of_child_sessions_are_no_calls_of_the_worker() {
    let event = |data: Value| json!({"type": "progress.update", "data": data});
    assert!(is_tool_call(&event(json!({"kind": "tool_call", "toolCallId": "1"}))));
    assert!(!is_tool_call(&event(json!({"kind": "tool_call_update", "toolCallId": "1"}))));
    assert!(!is_tool_call(&event(json!({"kind": "tool_call", "sessionId": "below"}))));
    assert!(!is_tool_call(&json!({"type": "progress.message", "data": {"kind": "tool_call"}})));
}

fn steps() -> impl Strategy<Value = Vec<AgentOutputStep>> {
    let step = prop_oneof![
        3 => "[ab\n\r é]{0,6}".prop_map(AgentOutputStep::Say),
        1 => Just(AgentOutputStep::Call),
    ];
    prop::collection::vec(step, 0..12)
}

/// Splits each piece into its characters.
fn crumbs(steps: &[AgentOutputStep]) -> Vec<AgentOutputStep> {
    let crumbs = |step: &AgentOutputStep| match step {
        AgentOutputStep::Say(piece) => {
            piece.chars().map(|char| AgentOutputStep::Say(char.to_string())).collect()
        }
        AgentOutputStep::Call => vec![AgentOutputStep::Call],
    };
    steps.iter().flat_map(crumbs).collect()
}

proptest! {
    #[test]
    fn only_line_breaks_are_added_and_they_can_be_taken_out(steps in steps()) {
        let (mut text, mut sent, mut breaks) = (String::new(), String::new(), Vec::new());
        let mut paragraphs = Paragraphs::default();
        for step in &steps {
            match step {
                AgentOutputStep::Say(piece) => {
                    if let Some(found) = paragraphs.begin(&text, piece) {
                        found.insert_into(&mut text);
                        breaks.push(found);
                    }
                    text.push_str(piece);
                    sent.push_str(piece);
                }
                AgentOutputStep::Call => paragraphs.tool_call(text.len()),
            }
        }
        prop_assert_eq!(without_breaks(&text, &breaks), sent);
        let whole = of(1000, &steps);
        prop_assert_eq!(whole.whole(), text.as_str());
        for found in breaks.iter().filter(|found| !text[..found.at].trim().is_empty()) {
            let (before, after) = text.split_at(found.end());
            let blanks = [&before[before.trim_end().len()..], &after[..after.len() - after.trim_start().len()]];
            prop_assert!(blanks.concat().matches('\n').count() >= 2, "{:?}", text);
        }
    }

    #[test]
    fn the_size_of_the_pieces_does_not_matter(steps in steps(), limit in 1_usize..40) {
        let (pieces, crumbs) = (of(1000, &steps), of(1000, &crumbs(&steps)));
        prop_assert_eq!((pieces.whole(), pieces.last()), (crumbs.whole(), crumbs.last()));
        let bounded = of(limit, &steps);
        prop_assert!(bounded.whole().len() <= limit + BLANK_LINE.len());
    }

    #[test]
    fn the_final_message_ends_the_text_and_is_empty_only_with_it(steps in steps()) {
        let text = of(1000, &steps);
        prop_assert!(text.whole().ends_with(text.last()));
        prop_assert_eq!(text.last().trim().is_empty(), text.whole().trim().is_empty());
        if let Some(call) = steps.iter().rposition(|step| matches!(step, AgentOutputStep::Call)) {
            let after = of(1000, &steps[call + 1..]);
            if !after.whole().trim().is_empty() {
                prop_assert_eq!(text.last().trim(), after.whole().trim());
            }
        }
    }
}
