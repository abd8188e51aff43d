//! Tests of the notifications' texts and bodies.

use super::*;

fn who(label: &str, path: &[&str]) -> Who {
    Who {
        worker_id: "w_0123456789".parse().unwrap(),
        label: label.to_owned(),
        cwd: "/home/ann/my project".to_owned(),
        path: path.iter().map(|name| (*name).to_owned()).collect(),
    }
}

fn question(subject: &str) -> NotifiedQuestion {
    NotifiedQuestion {
        event_id: EventId(7),
        request_id: "ap_0123456789".parse().unwrap(),
        kind: QuestionKind::Permission,
        worker: who("build", &[]),
        since: Timestamp(0),
        subject: subject.to_owned(),
        detail: None,
    }
}

#[test]
fn a_question_says_who_what_since_when_and_how_to_answer() {
    let one = SinkNotification::Questions(vec![question("npm test")]);
    assert_eq!(one.title(), "build asks");
    assert_eq!(
        one.text(),
        "npm test\nsince 1970-01-01T00:00:00+00:00\n\
         subagent approve --worker-id w_0123456789 --request ap_0123456789 --decision allow \
         --cwd '/home/ann/my project'"
    );
    let form = NotifiedQuestion { kind: QuestionKind::Elicitation, ..question("Which port?") };
    assert_eq!(
        SinkNotification::Questions(vec![form]).command(),
        "subagent approval show ap_0123456789 --cwd '/home/ann/my project'"
    );
}

#[test]
fn several_questions_are_counted_and_the_first_five_are_named() {
    let all: Vec<NotifiedQuestion> = (0..7).map(|number| question(&format!("line {number}"))).collect();
    let several = SinkNotification::Questions(all);
    assert_eq!(several.title(), "7 questions are open");
    let text = several.text();
    assert!(text.contains("line 4") && !text.contains("line 5") && text.contains("and 2 more"), "{text}");
    assert_eq!(several.command(), "subagent approval list --cwd '/home/ann/my project'");
    assert_eq!(several.json(Timestamp(0))["data"]["questions"].as_array().unwrap().len(), 7);
}

#[test]
fn text_of_an_agent_has_no_control_characters_and_an_end() {
    let hostile = format!("rm \u{1b}]0;title\u{7}\u{202e}\n\r{}", "x".repeat(100_000));
    let notification = SinkNotification::Questions(vec![NotifiedQuestion {
        worker: who(&hostile, &[&hostile]),
        detail: Some(hostile.clone()),
        ..question(&hostile)
    }]);
    for text in [
        notification.title(),
        notification.text(),
        notification.body(Format::Json, Timestamp(0)).1,
        notification.body(Format::Text, Timestamp(0)).1,
        notification.body(Format::Slack, Timestamp(0)).1,
    ] {
        assert!(!text.contains(['\u{1b}', '\u{7}', '\u{202e}', '\r']), "{text:?}");
        assert!(text.len() < 20_000, "{}", text.len());
    }
    assert!(!notification.title().contains('\n'));
}

#[test]
fn slack_gets_no_link_mention_or_markup_of_an_agent() {
    let notification =
        SinkNotification::Questions(vec![question("<!channel> <https://evil|click> *b* & `c`")]);
    let (content_type, body) = notification.body(Format::Slack, Timestamp(0));
    assert_eq!(content_type, "application/json");
    let body: Value = serde_json::from_str(&body).unwrap();
    let text = body["text"].as_str().unwrap();
    assert!(text.starts_with("*build asks*\n"), "{text}");
    assert!(text.contains("&lt;!channel&gt; &lt;https://evil|click&gt;"), "{text}");
    assert_eq!(text.matches(['*', '`', '<']).count(), 2, "{text}");
}

#[test]
fn a_failure_names_its_code() {
    let failed = SinkNotification::Happened(Happened {
        event_id: EventId(7),
        occasion: Occasion::Failed,
        worker: who("build", &[]),
        turn_id: None,
        since: Timestamp(0),
        reason: Some("AGENT_ERROR".to_owned()),
        detail: None,
    });
    assert_eq!(failed.title(), "build failed");
    assert!(failed.text().starts_with("AGENT_ERROR\nat "), "{}", failed.text());
    assert_eq!(failed.command(), "subagent worker show w_0123456789 --cwd '/home/ann/my project'");
    assert_eq!(failed.json(Timestamp(0))["type"], "failed");
}
