//! The story of one worker, as it goes on, with a window that follows it or stands still. Pure.
//!
//! An agent may say a line of any length: what is kept of a text is bounded, and only what is seen is laid out.

use std::ops::Range;

use ratatui::text::Line;
use subagent_model::{append, item_of, join};
use subagent_protocol::api::{StoryItem, StoryKind, TranscriptShown};
use subagent_protocol::event::Event;
use subagent_protocol::ids::{EventId, WorkerId};

use super::bounds;
use super::styled;
use crate::output::human;
use crate::output::terminal::Terminal;

/// More items are not kept; older ones are fetched again when they are scrolled to.
const MAX_ITEMS: usize = 4000;
/// As many items go at once.
const MAX_DROPPED: usize = 1000;
/// Events that arrive before the first page. It has those that are dropped.
const MAX_EARLY: usize = 10_000;

/// The story of a worker.
#[derive(Debug)]
pub(super) struct Story {
    pub(super) worker: WorkerId,
    items: Vec<StoryItem>,
    /// The laid out items, each for the width below.
    laid_out: Vec<Option<Vec<Line<'static>>>>,
    terminal: Terminal,
    /// Where the page before begins; `None` at the beginning.
    before: Option<EventId>,
    /// Whether a page is on its way.
    is_loading: bool,
    /// Whether the last page could not be fetched. It is fetched again when the person scrolls.
    has_failed: bool,
    /// The last event that is in the items.
    cursor: Option<EventId>,
    /// Events that came before the first page; `None` behind it.
    early: Option<Vec<Event>>,
    top: Top,
}

/// The first line that is seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Top {
    /// So that the end is seen.
    Follows,
    /// This line of this item.
    At { item: usize, line: usize },
}

impl Story {
    /// A story of which nothing is there.
    pub(super) fn of(worker: WorkerId, colour: bool) -> Self {
        Self {
            worker,
            items: Vec::new(),
            laid_out: Vec::new(),
            terminal: Terminal { width: 0, colour },
            before: None,
            is_loading: false,
            has_failed: false,
            cursor: None,
            early: Some(Vec::new()),
            top: Top::Follows,
        }
    }

    /// Whether no page has come.
    pub(super) fn is_empty(&self) -> bool {
        self.early.is_some()
    }

    /// Whether new items move the window.
    pub(super) fn follows(&self) -> bool {
        self.top == Top::Follows
    }

    /// Begins anew: events are missing.
    pub(super) fn restart(&mut self) {
        *self = Self::of(self.worker.clone(), self.terminal.colour);
    }

    /// Takes a page, the newest one or that before what is there.
    pub(super) fn show(&mut self, page: TranscriptShown) {
        (self.is_loading, self.has_failed) = (false, false);
        self.before = page.before;
        let known = self.items.len();
        let later = std::mem::take(&mut self.items);
        self.items = page.items;
        join(&mut self.items, later);
        self.items.iter_mut().for_each(bound);
        self.laid_out = vec![None; self.items.len()];
        if let Top::At { item, line } = self.top {
            let more = self.items.len().saturating_sub(known);
            self.top = Top::At { item: item + more, line };
        }
        if let Some(early) = self.early.take() {
            self.cursor = page.cursor;
            early.iter().for_each(|event| self.see(event));
        }
    }

    /// A page could not be fetched: what is there goes on.
    pub(super) fn fail(&mut self) {
        (self.is_loading, self.has_failed) = (false, true);
    }

    /// Whether the last page could not be fetched.
    pub(super) fn has_failed(&self) -> bool {
        self.has_failed
    }

    /// Whether this is the page that is on its way: the newest one, or that before an event.
    pub(super) fn awaits(&self, before: Option<EventId>) -> bool {
        let is_next =
            if self.is_empty() { before.is_none() } else { before.is_some() && before == self.before };
        self.is_loading && is_next
    }

    /// Whether the first page has to be fetched; true once.
    pub(super) fn begin(&mut self) -> bool {
        self.is_empty() && !self.has_failed && !std::mem::replace(&mut self.is_loading, true)
    }

    /// Takes an event of any worker.
    pub(super) fn see(&mut self, event: &Event) {
        if event.worker_id != self.worker || self.cursor.is_some_and(|cursor| event.event_id <= cursor) {
            return;
        }
        if let Some(early) = &mut self.early {
            if early.len() < MAX_EARLY {
                early.push(event.clone());
            }
            return;
        }
        self.cursor = Some(event.event_id);
        let Some(item) = item_of(event) else { return };
        let changed = append(&mut self.items, item);
        self.laid_out.resize(self.items.len(), None);
        if let Some(item) = self.items.get_mut(changed) {
            bound(item);
        }
        if let Some(laid_out) = self.laid_out.get_mut(changed) {
            *laid_out = None;
        }
        if self.items.len() > MAX_ITEMS && self.follows() {
            self.items.drain(..MAX_DROPPED);
            self.laid_out.drain(..MAX_DROPPED);
            self.before = self.items.first().map(|item| item.event_id);
            // A page that is on its way does not fit any more.
            self.is_loading = false;
        }
    }

    /// The page that is needed now, if the window is at the beginning of what is there.
    pub(super) fn wanted(&mut self) -> Option<EventId> {
        let is_at_top = matches!(self.top, Top::At { item: 0, line: 0 });
        let before = self.before.filter(|_| is_at_top && !self.is_loading && !self.has_failed)?;
        self.is_loading = true;
        Some(before)
    }

    /// Moves the window by this number of lines; up if it is negative.
    pub(super) fn scroll(&mut self, by: isize, width: usize, height: usize) {
        self.has_failed = false;
        self.fit(width);
        let (mut item, mut line) = self.first(height);
        let mut left = by.unsigned_abs();
        if by < 0 {
            while left > line && item > 0 {
                left -= line + 1;
                item -= 1;
                line = self.lines(item).len().saturating_sub(1);
            }
            line = line.saturating_sub(left);
        } else {
            while item < self.items.len() && line + left >= self.lines(item).len() {
                left -= self.lines(item).len().saturating_sub(line).min(left);
                (item, line) = (item + 1, 0);
            }
            line += left;
        }
        self.top = Top::At { item, line };
        self.follow_at_end(height);
    }

    /// Moves the window to the beginning of what is there.
    pub(super) fn show_start(&mut self, width: usize, height: usize) {
        self.has_failed = false;
        self.fit(width);
        self.top = Top::At { item: 0, line: 0 };
        self.follow_at_end(height);
    }

    /// Moves the window to the end, which it follows from then on.
    pub(super) fn show_end(&mut self) {
        self.top = Top::Follows;
    }

    /// The lines that are seen.
    pub(super) fn window(&mut self, width: usize, height: usize) -> Vec<Line<'static>> {
        self.fit(width);
        let (first, line) = self.first(height);
        let mut seen = Vec::with_capacity(height);
        for item in first..self.items.len() {
            let skipped = if item == first { line } else { 0 };
            let room = height.saturating_sub(seen.len());
            if room == 0 {
                break;
            }
            seen.extend(self.lines(item).iter().skip(skipped).take(room).cloned());
        }
        seen
    }

    /// Follows the end if all behind the first line that is seen fits.
    fn follow_at_end(&mut self, height: usize) {
        let Top::At { item, line } = self.top else { return };
        let mut room = height + line;
        for item in item..self.items.len() {
            match room.checked_sub(self.lines(item).len()) {
                Some(left) => room = left,
                None => return,
            }
        }
        // At the beginning of a page, the window stands still until the page before it is there.
        if self.before.is_none() || (item, line) != (0, 0) {
            self.top = Top::Follows;
        }
    }

    /// The first line that is seen, in a window of this height.
    fn first(&mut self, height: usize) -> (usize, usize) {
        match self.top {
            Top::At { item, line } => (item, line),
            Top::Follows => {
                let mut room = height;
                for item in (0..self.items.len()).rev() {
                    let lines = self.lines(item).len();
                    match room.checked_sub(lines) {
                        Some(left) => room = left,
                        None => return (item, lines - room),
                    }
                }
                (0, 0)
            }
        }
    }

    /// Lays everything out anew for another width.
    fn fit(&mut self, width: usize) {
        if self.terminal.width != width {
            self.terminal.width = width;
            self.laid_out.fill(None);
        }
    }

    /// The lines of an item.
    fn lines(&mut self, index: usize) -> &[Line<'static>] {
        let is_apart = self.is_apart(index);
        let (Some(item), Some(laid_out)) = (self.items.get(index), self.laid_out.get_mut(index)) else {
            return &[];
        };
        laid_out.get_or_insert_with(|| {
            let mut lines = if is_apart { vec![Line::default()] } else { Vec::new() };
            lines.extend(styled::lines(&human::story_item(item, self.terminal), self.terminal.width));
            lines
        })
    }

    /// Whether an empty line stands before an item: between those of different kinds.
    fn is_apart(&self, index: usize) -> bool {
        let kinds = |range: Range<usize>| self.items.get(range).unwrap_or_default();
        match kinds(index.saturating_sub(1)..index + 1) {
            [before, item] => before.kind != item.kind || item.kind == StoryKind::User,
            _ => false,
        }
    }
}

/// Keeps a part of what is long in an item.
fn bound(item: &mut StoryItem) {
    bounds::keep_end(&mut item.text);
    item.data.iter_mut().for_each(|(key, value)| bounds::cut_member(key, value));
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::super::bounds::MAX_TEXT;
    use super::super::fixture::{event, id};
    use super::*;

    fn page(items: Value, before: Value) -> TranscriptShown {
        let page = json!({"workerId": id(1), "items": items, "before": before, "cursor": "ev_000000000010"});
        serde_json::from_value(page).unwrap()
    }

    fn said(seq: i64, text: &str) -> Event {
        event(seq, 1, "message.sent", json!({"text": text}))
    }

    /// A story of these messages.
    fn story(count: i64) -> Story {
        let mut story = Story::of(id(1), false);
        assert!(story.begin() && !story.begin());
        story.show(page(json!([]), Value::Null));
        (1..=count).for_each(|seq| story.see(&said(seq, &seq.to_string())));
        story
    }

    fn seen(story: &mut Story, height: usize) -> String {
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
        let mut story = Story::of(id(1), false);
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
        let mut story = Story::of(id(1), false);
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
        let mut story = Story::of(id(1), false);
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
        let call = json!({"kind": "tool_call", "toolCallId": "1", "title": "\u{202e}\u{1b}[2Jx", "content": content});
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
}
