//! What fills the screen of a board. Pure.

use super::hosts::BoardWorker;
use super::keys::KeyPress;
use super::story::BoardStory;
use super::styled;
use ratatui::text::Line;

/// What fills the screen.
#[derive(Debug)]
pub(super) enum BoardView {
    List,
    Story(Box<BoardStory>),
    Text(TextView),
    /// From which line on, and over which story.
    Help(usize, Option<Box<BoardStory>>),
}

/// A text that is read, as a diff.
#[derive(Debug)]
pub(super) struct TextView {
    pub(super) title: String,
    pub(super) worker: BoardWorker,
    text: String,
    /// The text for a width.
    lines: Option<(usize, Vec<Line<'static>>)>,
    pub(super) top: usize,
    /// The story that comes back when the page is left.
    pub(super) behind: Option<Box<BoardStory>>,
}

impl BoardView {
    /// The story that is there again when this is left.
    pub(super) fn behind(self) -> Option<Box<BoardStory>> {
        match self {
            Self::Story(story) => Some(story),
            Self::Text(page) => page.behind,
            Self::Help(_, behind) => behind,
            Self::List => None,
        }
    }
}

impl TextView {
    /// A text about a worker, over a story or over the list.
    pub(super) fn of(
        title: String,
        worker: BoardWorker,
        text: String,
        behind: Option<Box<BoardStory>>,
    ) -> Self {
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
pub(super) fn scrolled(top: usize, key: &KeyPress, height: usize, last: usize) -> Option<usize> {
    let place = match key {
        KeyPress::Up | KeyPress::Char('k') => top.saturating_sub(1),
        KeyPress::Down | KeyPress::Char('j') => top + 1,
        KeyPress::PageUp => top.saturating_sub(height),
        KeyPress::PageDown | KeyPress::Char(' ') => top + height,
        KeyPress::Home | KeyPress::Char('g') => 0,
        KeyPress::End | KeyPress::Char('G') => last,
        _ => return None,
    };
    Some(place.min(last))
}
