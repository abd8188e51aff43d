//! Stories with pages and events, and windows that move over them.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::super::bounds::MAX_TEXT;
use super::super::fixture::{at, event, id};
use super::*;

fn page(items: Value, before: Value) -> TranscriptShown {
    let page = json!({"workerId": id(1), "items": items, "before": before, "cursor": "ev_000000000010"});
    serde_json::from_value(page).unwrap()
}

fn said(seq: i64, text: &str) -> Event {
    event(seq, 1, "message.sent", json!({"text": text}))
}

/// A story of these messages.
fn story(count: i64) -> BoardStory {
    let mut story = BoardStory::of(at(1), false);
    assert!(story.begin() && !story.begin());
    story.show(page(json!([]), Value::Null));
    (1..=count).for_each(|seq| story.see(&said(seq, &seq.to_string())));
    story
}

fn seen(story: &mut BoardStory, height: usize) -> String {
    let lines = story.window(20, height);
    lines
        .iter()
        .map(|line| line.to_string().trim_start_matches("> ").to_owned())
        .collect::<Vec<_>>()
        .join(",")
}

#[test]
fn the_window_follows_the_end() {
    let mut story = story(3);
    assert_eq!(seen(&mut story, 9), "1,,2,,3");
    assert_eq!(seen(&mut story, 2), ",3");
    story.see(&said(4, "4"));
    assert_eq!((seen(&mut story, 3).as_str(), story.follows()), ("3,,4", true));
}

#[test]
fn a_window_that_was_scrolled_stands_still() {
    let mut story = story(4);
    story.scroll(-2, 20, 3);
    assert_eq!(seen(&mut story, 3), "2,,3");
    story.see(&said(5, "5"));
    assert_eq!((seen(&mut story, 3).as_str(), story.follows()), ("2,,3", false));
    story.scroll(1, 20, 3);
    assert_eq!(seen(&mut story, 3), ",3,");
    story.scroll(99, 20, 3);
    assert_eq!((seen(&mut story, 3).as_str(), story.follows()), ("4,,5", true));
    story.scroll(-99, 20, 3);
    assert_eq!(seen(&mut story, 3), "1,,2");
    story.show_end();
    assert_eq!(seen(&mut story, 1), "5");
    story.show_start(20, 3);
    assert_eq!(seen(&mut story, 3), "1,,2");
}

#[test]
fn a_page_before_is_fetched_at_the_beginning_and_does_not_move_the_window() {
    let mut story = BoardStory::of(at(1), false);
    let item = |seq: &str, text: &str| json!({"eventId": seq, "ts": "2026-11-21T20:29:42Z", "kind": "user", "text": text});
    story.begin();
    story.show(page(
        json!([item("ev_000000000009", "9"), item("ev_00000000000a", "10")]),
        json!("ev_000000000009"),
    ));
    assert_eq!(story.wanted(), None);
    story.show_start(20, 9);
    let before = "ev_000000000009".parse().unwrap();
    assert_eq!((story.wanted(), story.wanted()), (Some(before), None), "once");
    story.show(page(json!([item("ev_000000000007", "7"), item("ev_000000000008", "8")]), Value::Null));
    assert_eq!(seen(&mut story, 2), ",9");
    story.scroll(-99, 20, 2);
    assert_eq!((seen(&mut story, 2).as_str(), story.wanted()), ("7,", None));
}

#[test]
fn events_before_the_first_page_are_seen_once() {
    let mut story = BoardStory::of(at(1), false);
    story.begin();
    // The cursor of the page is behind the first of them.
    let mut first = said(0, "in the page");
    first.event_id = EventId(16);
    [first, said(1, "behind it"), event(2, 9, "message.sent", json!({"text": "of another one"}))]
        .iter()
        .for_each(|event| story.see(event));
    story.show(page(json!([]), Value::Null));
    assert_eq!(seen(&mut story, 9), "behind it");
    story.restart();
    assert!(story.begin());
    story.fail();
    assert!(!story.begin(), "what cannot be fetched is not fetched again and again");
    story.scroll(-1, 20, 9);
    assert!(story.begin(), "but when the person scrolls");
}

#[test]
fn a_page_before_that_cannot_be_fetched_is_fetched_again_when_the_person_scrolls() {
    let mut story = BoardStory::of(at(1), false);
    story.begin();
    assert!(story.awaits(None) && !story.awaits(Some(EventId(9))));
    let item =
        json!({"eventId": "ev_000000000009", "ts": "2026-11-21T20:29:42Z", "kind": "user", "text": "9"});
    story.show(page(json!([item]), json!("ev_000000000009")));
    assert!(!story.awaits(None), "it is there");
    story.show_start(20, 9);
    let before = story.wanted();
    assert!(story.awaits(before) && !story.awaits(Some(EventId(8))) && !story.awaits(None));
    story.fail();
    assert_eq!(story.wanted(), None);
    story.scroll(-1, 20, 9);
    assert_eq!((story.wanted(), before), (before, Some(EventId(9))));
}

#[test]
fn a_text_of_any_length_is_bounded() {
    let mut story = story(0);
    story.see(&event(1, 1, "progress.message", json!({"text": "x".repeat(32 << 20)})));
    assert!(story.items[0].text.len() <= 2 * MAX_TEXT + 9);
    let content = json!([{"type": "content", "content": {"type": "text", "text": "ä".repeat(1 << 20)}}]);
    let call =
        json!({"kind": "tool_call", "toolCallId": "1", "title": "\u{202e}\u{1b}[2Jx", "content": content});
    story.see(&event(2, 1, "progress.update", call));
    assert!(story.items[1].data["content"].to_string().len() < 2 * MAX_TEXT);
    let output = format!("{}end", "ä".repeat(1 << 20));
    let call = json!({"kind": "tool_call_update", "toolCallId": "1", "terminalOutput": output});
    story.see(&event(3, 1, "progress.update", call));
    let kept = story.items[1].data["terminalOutput"].as_str().unwrap();
    assert!(kept.ends_with("end") && kept.len() <= MAX_TEXT + 9);
    let lines = story.window(40, 10);
    assert!(lines.len() == 10 && lines.iter().all(|line| line.width() <= 40));
    assert!(lines.iter().all(|line| !line.to_string().contains(['\u{1b}', '\u{202e}'])), "{lines:?}");
}

#[test]
fn a_long_story_is_cut_and_its_beginning_fetched_again() {
    let mut story = story(i64::try_from(MAX_ITEMS).unwrap() + 1);
    assert_eq!(story.items.len(), MAX_ITEMS + 1 - MAX_DROPPED);
    story.show_start(20, 3);
    assert!(story.wanted().is_some());
}

proptest! {
    #[test]
    fn every_walk_stays_within_the_story(steps in proptest::collection::vec(-9isize..9, 0..40), count in 0i64..12, height in 0usize..9) {
        let mut story = story(count);
        for by in steps {
            story.scroll(by, 7, height);
            let all = usize::try_from(count).unwrap() * 2;
            prop_assert_eq!(story.window(7, height).len(), height.min(all.saturating_sub(1)));
        }
    }
}

#[test]
fn a_story_that_is_not_followed_is_bounded_and_its_end_is_fetched_again() {
    let count = i64::try_from(MAX_ITEMS).unwrap();
    let mut story = story(10);
    let _ = story.window(20, 3);
    story.show_start(20, 3);
    (11..2 * count).for_each(|seq| story.see(&said(seq, &seq.to_string())));
    assert_eq!((story.items.len(), story.laid_out.len()), (MAX_ITEMS, MAX_ITEMS));
    assert_eq!(seen(&mut story, 3), "1,,2");
    assert!(!story.begin(), "what is looked at stays");
    story.show_end();
    assert!(story.begin(), "the end is fetched");
    // Pages before it as well.
    let mut story = self::story(10);
    let _ = story.window(20, 3);
    for _ in 0..20 {
        story.show_start(20, 3);
        let old = json!({"eventId": "ev_000000000001", "ts": "2026-11-21T20:29:42Z", "kind": "user", "text": "old"});
        story.show(page(json!(vec![old; 500]), json!("ev_000000000001")));
    }
    assert_eq!((story.items.len(), story.is_cut), (MAX_ITEMS, true));
    // The end of what is kept leads to the newest page.
    story.scroll(isize::MAX, 20, 3);
    assert!(story.is_empty() && story.begin());
}
