//! The state of a board, and what keys and news make of it. Pure: it says what has to be done, others do it.

mod news;
#[cfg(test)]
mod tests;

use std::collections::HashSet;

use subagent_model::{OverviewRow, Workers};
use subagent_protocol::ids::{RequestId, WorkerId};
use subagent_protocol::state::WorkerState;
use subagent_protocol::time::Timestamp;

use super::asked::{Pressed, QuestionView};
use super::changed::ChangeCounts;
use super::editor::Editor;
use super::effect::{BoardCommand, BoardEffect};
use super::keys::KeyPress;
use super::list::{List, ListEntry, SelectedRow};
use super::prompt::{BoardPrompt, PromptAction};
use super::story::BoardStory;
use super::view::{BoardView, scrolled};
use crate::dialog::QuestionRef;
use crate::output::style::Style;

/// Workers that the stream knows and the overview does not: tasks that are hidden. More are not remembered.
const MAX_UNKNOWN: usize = 10_000;
/// What is said instead of a rule that is too long for the window.
pub(super) const HIDDEN_RULE: &str = "the rule does not fit: enlarge the window";

/// How the daemon is reached.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum BoardConnection {
    /// Nothing was ever started here: there is no daemon to ask.
    Unused,
    /// The first snapshot is on its way.
    Connecting,
    Connected,
    /// The connection was lost; another one is being made.
    Lost,
    /// The daemon cannot be asked, for this reason.
    Unreachable(String),
}

#[derive(Debug)]
pub(super) struct Board {
    /// The name of the workspace.
    pub(super) place: String,
    pub(super) link: BoardConnection,
    pub(super) workers: Option<Workers>,
    pub(super) list: List,
    pub(super) view: BoardView,
    pub(super) asked: QuestionView,
    pub(super) prompt: Option<BoardPrompt>,
    /// What was said last, until the next key.
    pub(super) notice: Option<(Style, String)>,
    /// Which schedules and triggers no longer fire.
    pub(super) paused: Option<String>,
    /// The changes of workers, of those of which they were counted.
    pub(super) counts: ChangeCounts,
    /// The worker whose lines are being counted, and whether they are the same as when that began.
    counting: Option<(WorkerId, bool)>,
    /// Workers that are not in the snapshot, for which another one was taken.
    unknown: HashSet<WorkerId>,
    /// A worker that is chosen as soon as it is there.
    awaited: Option<WorkerId>,
    /// Columns and rows of the list, story or text, as they were drawn last.
    pub(super) body: (usize, usize),
    pub(super) colour: bool,
}

impl Board {
    /// A board without workers.
    pub(super) fn new(place: String, link: BoardConnection, colour: bool) -> Self {
        Self {
            place,
            link,
            workers: None,
            list: List::default(),
            view: BoardView::List,
            asked: QuestionView::default(),
            prompt: None,
            notice: None,
            paused: None,
            counts: ChangeCounts::new(),
            counting: None,
            unknown: HashSet::new(),
            awaited: None,
            body: (80, 20),
            colour,
        }
    }

    /// The entries of the list.
    pub(super) fn entries(&self) -> Vec<ListEntry> {
        self.workers.as_ref().map(|workers| self.list.entries(workers)).unwrap_or_default()
    }

    /// The row of a worker.
    pub(super) fn row(&self, worker: &WorkerId) -> Option<&OverviewRow> {
        self.workers.as_ref()?.rows().iter().find(|row| row.worker_id() == worker)
    }

    /// The worker that keys are about.
    pub(super) fn current(&self) -> Option<&OverviewRow> {
        match &self.view {
            BoardView::Story(story) => self.row(&story.worker),
            BoardView::Text(page) => self.row(&page.worker),
            BoardView::Help(_, Some(story)) => self.row(&story.worker),
            BoardView::List | BoardView::Help(_, None) => self.row(&self.list.chosen()?.worker),
        }
    }

    /// The question that is shown.
    fn question(&self) -> Option<QuestionRef> {
        let row = self.current()?;
        let need = match (&self.view, self.list.chosen()) {
            (BoardView::List, Some(SelectedRow { request: Some(request), .. })) => {
                row.needs.iter().find(|need| need.request_id == *request)
            }
            (BoardView::Story(_), _) => row.needs.first(),
            _ => None,
        }?;
        Some(QuestionRef {
            worker_id: row.worker_id().to_string(),
            request_id: need.request_id.to_string(),
            kind: need.kind,
        })
    }

    pub(super) fn on_key(&mut self, key: &KeyPress, now: Timestamp) -> Vec<BoardEffect> {
        // The person has seen it.
        self.notice = None;
        let mut effects = match key {
            KeyPress::Ctrl('c') => vec![BoardEffect::Quit],
            KeyPress::Ctrl('z') => vec![BoardEffect::Suspend],
            KeyPress::Ctrl('l') => vec![BoardEffect::Redraw, BoardEffect::Refresh],
            key => match self.prompt.take() {
                Some(prompt) => self.on_prompt(prompt, key),
                None => self.on_plain(key, now),
            },
        };
        effects.extend(self.settle());
        effects
    }

    fn on_prompt(&mut self, mut prompt: BoardPrompt, key: &KeyPress) -> Vec<BoardEffect> {
        match prompt.press(key) {
            PromptAction::Going => self.prompt = Some(prompt),
            PromptAction::Left => {}
            PromptAction::Missing(what) => {
                self.say(Style::Attention, what);
                self.prompt = Some(prompt);
            }
            PromptAction::Next(next) => self.prompt = Some(next),
            PromptAction::Filter(text) => {
                self.prompt = (*key != KeyPress::Escape).then_some(prompt);
                self.list.filter = text;
            }
            PromptAction::Command(command) => return self.command(command),
            PromptAction::Reject(request, note) => {
                let command = self.asked.reject(&request, &note);
                return self.command(command);
            }
        }
        Vec::new()
    }

    /// A key outside of a prompt: one for the question that is shown, for the view, or for the worker.
    fn on_plain(&mut self, key: &KeyPress, now: Timestamp) -> Vec<BoardEffect> {
        match self.asked.press(key, now) {
            Pressed::Passed => {}
            Pressed::Shown => return Vec::new(),
            Pressed::TooEarly => {
                self.say(Style::Attention, "the question has just come up: read it, then answer");
                return Vec::new();
            }
            Pressed::RuleHidden => {
                self.say(Style::Attention, HIDDEN_RULE);
                return Vec::new();
            }
            Pressed::Answer(command) => return self.command(command),
            Pressed::FillIn(question) => return vec![BoardEffect::FillIn(question)],
            Pressed::Note(request) => {
                self.prompt = Some(BoardPrompt::Note(request, Editor::default()));
                return Vec::new();
            }
        }
        let is_taken = match &self.view {
            BoardView::List => self.on_list(key),
            BoardView::Story(_) => self.on_story(key),
            BoardView::Text(_) | BoardView::Help(..) => self.on_page(key),
        };
        match is_taken {
            true => Vec::new(),
            false => self.on_any(key),
        }
    }

    /// Keys that mean the same in every view.
    fn on_any(&mut self, key: &KeyPress) -> Vec<BoardEffect> {
        let current =
            self.current().map(|row| (row.worker_id().clone(), named(row), row.active_turn_id.is_some()));
        match (key, current) {
            (KeyPress::Char('q'), _) => return vec![BoardEffect::Quit],
            (KeyPress::Char('?'), _) => {
                let behind = std::mem::replace(&mut self.view, BoardView::List).behind();
                self.view = BoardView::Help(0, behind);
            }
            (KeyPress::Char('w'), _) => {
                let agent = self.current().map(|row| row.snapshot.launcher.clone()).unwrap_or_default();
                self.prompt = Some(BoardPrompt::Agent(Editor::with(&agent)));
            }
            (KeyPress::Char('/'), _) => {
                self.view = BoardView::List;
                self.prompt = Some(BoardPrompt::Filter(Editor::with(&self.list.filter)));
            }
            (KeyPress::Char('d'), Some((worker, name, _))) => {
                self.say(Style::Dim, &format!("comparing the files of {name}"));
                return vec![BoardEffect::ShowDiff(worker)];
            }
            (KeyPress::Char('s'), Some((worker, name, _))) => {
                self.prompt = Some(BoardPrompt::Message(worker, name, Editor::default()));
            }
            (KeyPress::Char('x'), Some((worker, name, _))) => {
                self.prompt = Some(BoardPrompt::Stop(worker, name))
            }
            (KeyPress::Char('c'), Some((worker, name, true))) => {
                self.prompt = Some(BoardPrompt::Cancel(worker, name))
            }
            (KeyPress::Char('c'), Some((_, name, false))) => {
                self.say(Style::Attention, &format!("{name} has no open turn"));
            }
            (KeyPress::Char('d' | 's' | 'x' | 'c'), None) => {
                self.say(Style::Attention, "no worker is chosen")
            }
            _ => {}
        }
        Vec::new()
    }

    fn on_list(&mut self, key: &KeyPress) -> bool {
        let page = isize::try_from(self.body.1 / 2).unwrap_or(1);
        let entries = self.entries();
        let Some(workers) = &self.workers else { return false };
        match key {
            KeyPress::Up | KeyPress::Char('k') => self.list.step(-1, &entries, workers),
            KeyPress::Down | KeyPress::Char('j') => self.list.step(1, &entries, workers),
            KeyPress::PageUp => self.list.step(-page, &entries, workers),
            KeyPress::PageDown => self.list.step(page, &entries, workers),
            KeyPress::Home | KeyPress::Char('g') => self.list.step(isize::MIN, &entries, workers),
            KeyPress::End | KeyPress::Char('G') => self.list.step(isize::MAX, &entries, workers),
            KeyPress::Tab => self.list.next_question(&entries, workers),
            KeyPress::Char('t') => self.list.is_tree = !self.list.is_tree,
            KeyPress::Escape => self.list.filter.clear(),
            KeyPress::Enter => {
                if let Some(chosen) = self.list.chosen() {
                    self.view =
                        BoardView::Story(Box::new(BoardStory::of(chosen.worker.clone(), self.colour)));
                }
            }
            _ => return false,
        }
        true
    }

    fn on_story(&mut self, key: &KeyPress) -> bool {
        let (width, height) = self.body;
        let page = isize::try_from(height / 2).unwrap_or(1);
        let BoardView::Story(story) = &mut self.view else { return false };
        match key {
            KeyPress::Up | KeyPress::Char('k') => story.scroll(-1, width, height),
            KeyPress::Down | KeyPress::Char('j') => story.scroll(1, width, height),
            KeyPress::PageUp => story.scroll(-page, width, height),
            KeyPress::PageDown | KeyPress::Char(' ') => story.scroll(page, width, height),
            KeyPress::Home | KeyPress::Char('g') => story.show_start(width, height),
            KeyPress::End | KeyPress::Char('G' | 'f') => story.show_end(),
            KeyPress::Escape | KeyPress::Left | KeyPress::Char('q') => self.view = BoardView::List,
            _ => return false,
        }
        true
    }

    fn on_page(&mut self, key: &KeyPress) -> bool {
        let (width, height) = (self.body.0, self.body.1.max(1));
        let (top, count) = match &mut self.view {
            BoardView::Text(page) => {
                let count = page.lines(width).len();
                (&mut page.top, count)
            }
            BoardView::Help(top, _) => (top, super::help::LINES.len()),
            BoardView::List | BoardView::Story(_) => return false,
        };
        match scrolled(*top, key, height, count.saturating_sub(height)) {
            Some(place) => *top = place,
            None if matches!(
                key,
                KeyPress::Escape | KeyPress::Left | KeyPress::Enter | KeyPress::Char('q' | '?')
            ) =>
            {
                self.leave_page()
            }
            None => return false,
        }
        true
    }

    fn leave_page(&mut self) {
        let behind = std::mem::replace(&mut self.view, BoardView::List).behind();
        self.view = behind.map_or(BoardView::List, BoardView::Story);
    }

    fn command(&mut self, command: BoardCommand) -> Vec<BoardEffect> {
        self.say(Style::Dim, &format!("{} ...", command.says.0));
        vec![BoardEffect::Command(command)]
    }

    fn say(&mut self, style: Style, text: &str) {
        self.notice = Some((style, text.to_owned()));
    }

    /// The id of the question that is shown.
    pub(super) fn shown_request(&self) -> Option<RequestId> {
        self.question()?.request_id.parse().ok()
    }
}

/// The name of a worker.
pub(super) fn named(row: &OverviewRow) -> String {
    match row.snapshot.name.as_str() {
        "" => row.worker_id().to_string(),
        name => name.to_owned(),
    }
}

/// The word of a state in a view.
pub(super) fn state_word(state: WorkerState) -> String {
    state.as_str().replace('_', " ")
}
