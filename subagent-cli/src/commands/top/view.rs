//! What fills the screen of a board. Pure.

use ratatui::text::Line;
use subagent_protocol::ids::WorkerId;

use super::keys::Key;
use super::story::Story;
use super::styled;

/// What fills the screen.
#[derive(Debug)]
pub(super) enum View {
    List,
    Story(Box<Story>),
    Text(Page),
    /// From which line on, and over which story.
    Help(usize, Option<Box<Story>>),
}

/// A text that is read, as a diff.
#[derive(Debug)]
pub(super) struct Page {
    pub(super) title: String,
    /// Of which worker.
    pub(super) worker: WorkerId,
    text: String,
    /// The text for a width.
    lines: Option<(usize, Vec<Line<'static>>)>,
    pub(super) top: usize,
    /// Behind it.
    pub(super) behind: Option<Box<Story>>,
}

impl View {
    /// The story that is there again when this is left.
    pub(super) fn behind(self) -> Option<Box<Story>> {
        match self {
            Self::Story(story) => Some(story),
            Self::Text(page) => page.behind,
            Self::Help(_, behind) => behind,
            Self::List => None,
        }
    }
}

impl Page {
    /// A text about a worker, over a story or over the list.
    pub(super) fn of(title: String, worker: WorkerId, text: String, behind: Option<Box<Story>>) -> Self {
        Self { title, worker, text, lines: None, top: 0, behind }
    }

    /// The lines for this width.
    pub(super) fn lines(&mut self, width: usize) -> &[Line<'static>] {
        let text = &self.text;
        let known = self.lines.take_if(|(known, _)| *known == width);
        let (_, lines) = self.lines.insert(known.unwrap_or_else(|| (width, styled::lines(text, width))));
        lines
    }
}

/// The first line of a text after a key, where the last window begins at `last`; `None` if the key does not scroll.
pub(super) fn scrolled(top: usize, key: &Key, height: usize, last: usize) -> Option<usize> {
    let place = match key {
        Key::Up | Key::Char('k') => top.saturating_sub(1),
        Key::Down | Key::Char('j') => top + 1,
        Key::PageUp => top.saturating_sub(height),
        Key::PageDown | Key::Char(' ') => top + height,
        Key::Home | Key::Char('g') => 0,
        Key::End | Key::Char('G') => last,
        _ => return None,
    };
    Some(place.min(last))
}
