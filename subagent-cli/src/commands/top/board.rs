//! The state of a board, and what keys and news make of it. Pure: it says what has to be done, others do it.

mod news;
#[cfg(test)]
mod tests;

use std::collections::{HashMap, HashSet};

use subagent_model::{Row, Workers};
use subagent_protocol::ids::{RequestId, WorkerId};
use subagent_protocol::state::WorkerState;
use subagent_protocol::time::Timestamp;

use super::asked::{Asked, Pressed};
use super::editor::Editor;
use super::effect::{Command, Effect};
use super::keys::Key;
use super::list::{Chosen, Entry, List};
use super::prompt::{Answer, Prompt};
use super::story::Story;
use super::view::{View, scrolled};
use crate::dialog::Question;
use crate::output::style::Style;

/// Workers that the stream knows and the overview does not: tasks that are hidden. More are not remembered.
const MAX_UNKNOWN: usize = 10_000;
/// What is said instead of a rule that is too long for the window.
pub(super) const HIDDEN_RULE: &str = "the rule does not fit: enlarge the window";

/// How the daemon is reached.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Link {
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

/// A board.
#[derive(Debug)]
pub(super) struct Board {
    /// The name of the workspace.
    pub(super) place: String,
    pub(super) link: Link,
    pub(super) workers: Option<Workers>,
    pub(super) list: List,
    pub(super) view: View,
    pub(super) asked: Asked,
    pub(super) prompt: Option<Prompt>,
    /// What was said last, until the next key.
    pub(super) notice: Option<(Style, String)>,
    /// Changed lines, of workers of which they were counted.
    pub(super) counts: HashMap<WorkerId, Option<(u64, u64)>>,
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
    pub(super) fn new(place: String, link: Link, colour: bool) -> Self {
        Self {
            place,
            link,
            workers: None,
            list: List::default(),
            view: View::List,
            asked: Asked::default(),
            prompt: None,
            notice: None,
            counts: HashMap::new(),
            counting: None,
            unknown: HashSet::new(),
            awaited: None,
            body: (80, 20),
            colour,
        }
    }

    /// The entries of the list.
    pub(super) fn entries(&self) -> Vec<Entry> {
        self.workers.as_ref().map(|workers| self.list.entries(workers)).unwrap_or_default()
    }

    /// The row of a worker.
    pub(super) fn row(&self, worker: &WorkerId) -> Option<&Row> {
        self.workers.as_ref()?.rows().iter().find(|row| row.worker_id() == worker)
    }

    /// The worker that keys are about.
    pub(super) fn current(&self) -> Option<&Row> {
        match &self.view {
            View::Story(story) => self.row(&story.worker),
            View::Text(page) => self.row(&page.worker),
            View::Help(_, Some(story)) => self.row(&story.worker),
            View::List | View::Help(_, None) => self.row(&self.list.chosen()?.worker),
        }
    }

    /// The question that is shown.
    fn question(&self) -> Option<Question> {
        let row = self.current()?;
        let need = match (&self.view, self.list.chosen()) {
            (View::List, Some(Chosen { request: Some(request), .. })) => {
                row.needs.iter().find(|need| need.request_id == *request)
            }
            (View::Story(_), _) => row.needs.first(),
            _ => None,
        }?;
        Some(Question {
            worker_id: row.worker_id().to_string(),
            request_id: need.request_id.to_string(),
            kind: need.kind,
        })
    }

    /// Takes a key.
    pub(super) fn on_key(&mut self, key: &Key, now: Timestamp) -> Vec<Effect> {
        // The person has seen it.
        self.notice = None;
        let mut effects = match key {
            Key::Ctrl('c') => vec![Effect::Quit],
            Key::Ctrl('z') => vec![Effect::Suspend],
            Key::Ctrl('l') => vec![Effect::Redraw, Effect::Refresh],
            key => match self.prompt.take() {
                Some(prompt) => self.on_prompt(prompt, key),
                None => self.on_plain(key, now),
            },
        };
        effects.extend(self.settle());
        effects
    }

    fn on_prompt(&mut self, mut prompt: Prompt, key: &Key) -> Vec<Effect> {
        match prompt.press(key) {
            Answer::Going => self.prompt = Some(prompt),
            Answer::Left => {}
            Answer::Missing(what) => {
                self.say(Style::Attention, what);
                self.prompt = Some(prompt);
            }
            Answer::Next(next) => self.prompt = Some(next),
            Answer::Filter(text) => {
                self.prompt = (*key != Key::Escape).then_some(prompt);
                self.list.filter = text;
            }
            Answer::Command(command) => return self.command(command),
            Answer::Reject(request, note) => {
                let command = self.asked.reject(&request, &note);
                return self.command(command);
            }
        }
        Vec::new()
    }

    /// A key outside of a prompt: one for the question that is shown, for the view, or for the worker.
    fn on_plain(&mut self, key: &Key, now: Timestamp) -> Vec<Effect> {
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
            Pressed::FillIn(question) => return vec![Effect::FillIn(question)],
            Pressed::Note(request) => {
                self.prompt = Some(Prompt::Note(request, Editor::default()));
                return Vec::new();
            }
        }
        let is_taken = match &self.view {
            View::List => self.on_list(key),
            View::Story(_) => self.on_story(key),
            View::Text(_) | View::Help(..) => self.on_page(key),
        };
        match is_taken {
            true => Vec::new(),
            false => self.on_any(key),
        }
    }

    /// Keys that mean the same in every view.
    fn on_any(&mut self, key: &Key) -> Vec<Effect> {
        let current =
            self.current().map(|row| (row.worker_id().clone(), named(row), row.active_turn_id.is_some()));
        match (key, current) {
            (Key::Char('q'), _) => return vec![Effect::Quit],
            (Key::Char('?'), _) => {
                let behind = std::mem::replace(&mut self.view, View::List).behind();
                self.view = View::Help(0, behind);
            }
            (Key::Char('w'), _) => {
                let agent = self.current().map(|row| row.snapshot.launcher.clone()).unwrap_or_default();
                self.prompt = Some(Prompt::Agent(Editor::with(&agent)));
            }
            (Key::Char('/'), _) => {
                self.view = View::List;
                self.prompt = Some(Prompt::Filter(Editor::with(&self.list.filter)));
            }
            (Key::Char('d'), Some((worker, name, _))) => {
                self.say(Style::Dim, &format!("comparing the files of {name}"));
                return vec![Effect::ShowDiff(worker)];
            }
            (Key::Char('s'), Some((worker, name, _))) => {
                self.prompt = Some(Prompt::Message(worker, name, Editor::default()));
            }
            (Key::Char('x'), Some((worker, name, _))) => self.prompt = Some(Prompt::Stop(worker, name)),
            (Key::Char('c'), Some((worker, name, true))) => {
                let words = ["cancel", worker.as_str()].map(str::to_owned).to_vec();
                let says =
                    (format!("canceling the turn of {name}"), format!("the turn of {name} is canceled"));
                return self.command(Command { words, says });
            }
            (Key::Char('c'), Some((_, name, false))) => {
                self.say(Style::Attention, &format!("{name} has no open turn"));
            }
            (Key::Char('d' | 's' | 'x' | 'c'), None) => self.say(Style::Attention, "no worker is chosen"),
            _ => {}
        }
        Vec::new()
    }

    fn on_list(&mut self, key: &Key) -> bool {
        let page = isize::try_from(self.body.1 / 2).unwrap_or(1);
        let entries = self.entries();
        let Some(workers) = &self.workers else { return false };
        match key {
            Key::Up | Key::Char('k') => self.list.step(-1, &entries, workers),
            Key::Down | Key::Char('j') => self.list.step(1, &entries, workers),
            Key::PageUp => self.list.step(-page, &entries, workers),
            Key::PageDown => self.list.step(page, &entries, workers),
            Key::Home | Key::Char('g') => self.list.step(isize::MIN, &entries, workers),
            Key::End | Key::Char('G') => self.list.step(isize::MAX, &entries, workers),
            Key::Tab => self.list.next_question(&entries, workers),
            Key::Char('t') => self.list.is_tree = !self.list.is_tree,
            Key::Escape => self.list.filter.clear(),
            Key::Enter => {
                if let Some(chosen) = self.list.chosen() {
                    self.view = View::Story(Box::new(Story::of(chosen.worker.clone(), self.colour)));
                }
            }
            _ => return false,
        }
        true
    }

    fn on_story(&mut self, key: &Key) -> bool {
        let (width, height) = self.body;
        let page = isize::try_from(height / 2).unwrap_or(1);
        let View::Story(story) = &mut self.view else { return false };
        match key {
            Key::Up | Key::Char('k') => story.scroll(-1, width, height),
            Key::Down | Key::Char('j') => story.scroll(1, width, height),
            Key::PageUp => story.scroll(-page, width, height),
            Key::PageDown | Key::Char(' ') => story.scroll(page, width, height),
            Key::Home | Key::Char('g') => story.show_start(width, height),
            Key::End | Key::Char('G' | 'f') => story.show_end(),
            Key::Escape | Key::Left | Key::Char('q') => self.view = View::List,
            _ => return false,
        }
        true
    }

    fn on_page(&mut self, key: &Key) -> bool {
        let (width, height) = (self.body.0, self.body.1.max(1));
        let (top, count) = match &mut self.view {
            View::Text(page) => {
                let count = page.lines(width).len();
                (&mut page.top, count)
            }
            View::Help(top, _) => (top, super::help::LINES.len()),
            View::List | View::Story(_) => return false,
        };
        match scrolled(*top, key, height, count.saturating_sub(height)) {
            Some(place) => *top = place,
            None if matches!(key, Key::Escape | Key::Left | Key::Enter | Key::Char('q' | '?')) => {
                self.leave_page()
            }
            None => return false,
        }
        true
    }

    fn leave_page(&mut self) {
        let behind = std::mem::replace(&mut self.view, View::List).behind();
        self.view = behind.map_or(View::List, View::Story);
    }

    fn command(&mut self, command: Command) -> Vec<Effect> {
        self.say(Style::Dim, &format!("{} ...", command.says.0));
        vec![Effect::Command(command)]
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
pub(super) fn named(row: &Row) -> String {
    match row.snapshot.name.as_str() {
        "" => row.worker_id().to_string(),
        name => name.to_owned(),
    }
}

/// The word of a state in a view.
pub(super) fn state_word(state: WorkerState) -> String {
    state.as_str().replace('_', " ")
}
