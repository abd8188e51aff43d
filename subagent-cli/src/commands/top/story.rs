//! The story of one worker, as it goes on, with a window that follows it or stands still. Pure.
//!
//! An agent may say a line of any length: what is kept of a text is bounded, and only what is seen is laid out.

use std::ops::Range;

use ratatui::text::Line;
use subagent_model::{append, item_of, join};
use subagent_protocol::api::{StoryItem, StoryKind, TranscriptShown};
use subagent_protocol::event::Event;
use subagent_protocol::ids::EventId;

use super::bounds;
use super::hosts::BoardWorker;
use super::styled;
use crate::output::human;
use crate::output::terminal::OutputTerminal;

/// More items are not kept; older ones are fetched again when they are scrolled to.
const MAX_ITEMS: usize = 4000;
/// As many items go at once.
const MAX_DROPPED: usize = 1000;
/// Events that arrive before the first page. It has those that are dropped.
const MAX_EARLY: usize = 10_000;

/// The story of a worker.
#[derive(Debug)]
pub(super) struct BoardStory {
    pub(super) worker: BoardWorker,
    items: Vec<StoryItem>,
    /// The laid out items, each for the width below.
    laid_out: Vec<Option<Vec<Line<'static>>>>,
    terminal: OutputTerminal,
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
    /// Whether the end is not kept, since the window is far from it. It is fetched again with the newest page.
    is_cut: bool,
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

impl BoardStory {
    /// A story of which nothing is there.
    pub(super) fn of(worker: BoardWorker, colour: bool) -> Self {
        Self {
            worker,
            items: Vec::new(),
            laid_out: Vec::new(),
            terminal: OutputTerminal { width: 0, colour },
            before: None,
            is_loading: false,
            has_failed: false,
            cursor: None,
            early: Some(Vec::new()),
            is_cut: false,
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
        // A page before what is there: the end is the farthest from what is looked at.
        self.cut();
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

    /// Takes an event of any worker of its daemon.
    pub(super) fn see(&mut self, event: &Event) {
        if event.worker_id != self.worker.id || self.cursor.is_some_and(|cursor| event.event_id <= cursor) {
            return;
        }
        if let Some(early) = &mut self.early {
            if early.len() < MAX_EARLY {
                early.push(event.clone());
            }
            return;
        }
        self.cursor = Some(event.event_id);
        if self.is_cut {
            return;
        }
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
            self.cut_start();
        }
        self.cut();
    }

    /// Drops what is the farthest from the window of a story that is not followed and too long.
    fn cut(&mut self) {
        let Top::At { item, line } = self.top else { return };
        if self.items.len() <= MAX_ITEMS {
            return;
        }
        match item.checked_sub(MAX_DROPPED).filter(|item| *item > MAX_DROPPED) {
            Some(item) => {
                self.cut_start();
                self.top = Top::At { item, line };
            }
            None => {
                self.items.truncate(MAX_ITEMS);
                self.laid_out.truncate(MAX_ITEMS);
                self.is_cut = true;
            }
        }
    }

    /// Drops items at the beginning, which are fetched again when they are scrolled to.
    fn cut_start(&mut self) {
        self.items.drain(..MAX_DROPPED);
        self.laid_out.drain(..MAX_DROPPED);
        self.before = self.items.first().map(|item| item.event_id);
        // A page that is on its way does not fit any more.
        self.is_loading = false;
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
        match self.is_cut {
            true => self.restart(),
            false => self.top = Top::Follows,
        }
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
            self.show_end();
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
mod tests;
