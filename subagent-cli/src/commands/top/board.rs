//! The state of a board, and what keys and news make of it. Pure: it says what has to be done, others do it.

mod news;
#[cfg(test)]
mod tests;

use subagent_model::OverviewRow;
use subagent_protocol::ids::RequestId;
use subagent_protocol::state::WorkerState;
use subagent_protocol::time::Timestamp;

use super::asked::{Pressed, QuestionView};
use super::changed::ChangeCounts;
use super::editor::Editor;
use super::effect::{BoardCommand, BoardEffect};
use super::hosts::{BoardHost, BoardHosts, BoardWorker, HostIndex, cleaned_name};
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

#[derive(Debug)]
pub(super) struct Board {
    /// The name of what is shown: of the workspace, if it is one.
    pub(super) place: String,
    pub(super) hosts: BoardHosts,
    pub(super) list: List,
    pub(super) view: BoardView,
    pub(super) asked: QuestionView,
    /// The daemon that has the question which is shown.
    asked_host: HostIndex,
    pub(super) prompt: Option<BoardPrompt>,
    /// The daemon for which something is typed.
    prompt_host: HostIndex,
    /// What was said last, until the next key.
    pub(super) notice: Option<(Style, String)>,
    /// The changes of workers, of those of which they were counted.
    pub(super) counts: ChangeCounts,
    /// A worker that is chosen as soon as it is there.
    awaited: Option<BoardWorker>,
    /// Columns and rows of the list, story or text, as they were drawn last.
    pub(super) body: (usize, usize),
    pub(super) colour: bool,
}

impl Board {
    /// A board without workers.
    pub(super) fn new(place: String, hosts: BoardHosts, colour: bool) -> Self {
        Self {
            place,
            hosts,
            list: List::default(),
            view: BoardView::List,
            asked: QuestionView::default(),
            asked_host: HostIndex::default(),
            prompt: None,
            prompt_host: HostIndex::default(),
            notice: None,
            counts: ChangeCounts::new(),
            awaited: None,
            body: (80, 20),
            colour,
        }
    }

    /// The entries of the list.
    pub(super) fn entries(&self) -> Vec<ListEntry> {
        self.list.entries(&self.hosts)
    }

    /// The worker that keys are about, if it is shown.
    pub(super) fn current(&self) -> Option<(BoardWorker, &OverviewRow)> {
        let worker = match &self.view {
            BoardView::Story(story) => story.worker.clone(),
            BoardView::Text(page) => page.worker.clone(),
            BoardView::Help(_, Some(story)) => story.worker.clone(),
            BoardView::List | BoardView::Help(_, None) => self.list.chosen()?.worker()?,
        };
        let row = self.hosts.row(&worker)?;
        Some((worker, row))
    }

    /// The host without an answer that is chosen, or whose worker is read.
    pub(super) fn silent(&self) -> Option<&BoardHost> {
        let host = match &self.view {
            BoardView::Story(story) | BoardView::Help(_, Some(story)) => story.worker.host,
            BoardView::Text(page) => page.worker.host,
            BoardView::List | BoardView::Help(_, None) => {
                self.list.chosen().filter(|chosen| chosen.id.is_none())?.host
            }
        };
        self.hosts.silent().find(|(at, _)| *at == host).map(|(_, host)| host)
    }

    /// The name of a worker in this board.
    pub(super) fn called(&self, worker: &BoardWorker) -> Option<String> {
        Some(self.hosts.called(worker.host, self.hosts.row(worker)?))
    }

    /// The question that is shown, and the daemon that has it.
    fn question(&self) -> Option<(HostIndex, QuestionRef)> {
        let (worker, row) = self.current()?;
        let need = match (&self.view, self.list.chosen()) {
            (BoardView::List, Some(SelectedRow { request: Some(request), .. })) => {
                row.needs.iter().find(|need| need.request_id == *request)
            }
            (BoardView::Story(_), _) => row.needs.first(),
            _ => None,
        }?;
        let question = QuestionRef {
            worker_id: row.worker_id().to_string(),
            request_id: need.request_id.to_string(),
            kind: need.kind,
        };
        Some((worker.host, question))
    }

    pub(super) fn on_key(&mut self, key: &KeyPress, now: Timestamp) -> Vec<BoardEffect> {
        // The person has seen it.
        self.notice = None;
        let mut effects = match key {
            KeyPress::Ctrl('c') => vec![BoardEffect::Quit],
            KeyPress::Ctrl('z') => vec![BoardEffect::Suspend],
            KeyPress::Ctrl('l') => {
                let all = self.hosts.all().map(|(host, _)| BoardEffect::Refresh(host));
                std::iter::once(BoardEffect::Redraw).chain(all).collect()
            }
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
            PromptAction::Command(command) => return self.command(self.prompt_host, command),
            PromptAction::Reject(request, note) => {
                let command = self.asked.reject(&request, &note);
                return self.command(self.prompt_host, command);
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
            Pressed::Answer(command) => return self.command(self.asked_host, command),
            Pressed::FillIn(question) => return vec![BoardEffect::FillIn(self.asked_host, question)],
            Pressed::Note(request) => {
                self.ask(self.asked_host, BoardPrompt::Note(request, Editor::default()));
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
        let current = self.current().map(|(worker, row)| {
            let name = self.hosts.called(worker.host, row);
            (worker, name, row.active_turn_id.is_some())
        });
        match (key, current) {
            (KeyPress::Char('q'), _) => return vec![BoardEffect::Quit],
            (KeyPress::Char('?'), _) => {
                let behind = std::mem::replace(&mut self.view, BoardView::List).behind();
                self.view = BoardView::Help(0, behind);
            }
            (KeyPress::Char('w'), current) => self.begin_run(current.map(|(worker, ..)| worker)),
            (KeyPress::Char('/'), _) => {
                self.view = BoardView::List;
                let typed = Editor::with(&self.list.filter);
                self.ask(HostIndex::default(), BoardPrompt::Filter(typed));
            }
            (KeyPress::Char('d'), Some((worker, name, _))) => {
                self.say(Style::Dim, &format!("comparing the files of {name}"));
                return vec![BoardEffect::ShowDiff(worker)];
            }
            (KeyPress::Char('s'), Some((worker, name, _))) => {
                self.ask(worker.host, BoardPrompt::Message(worker.id, name, Editor::default()));
            }
            (KeyPress::Char('x'), Some((worker, name, _))) => {
                self.ask(worker.host, BoardPrompt::Stop(worker.id, name));
            }
            (KeyPress::Char('c'), Some((worker, name, true))) => {
                self.ask(worker.host, BoardPrompt::Cancel(worker.id, name));
            }
            (KeyPress::Char('c'), Some((_, name, false))) => {
                self.say(Style::Attention, &format!("{name} has no open turn"));
            }
            (KeyPress::Char('d' | 's' | 'x' | 'c'), None) => {
                let silent = self.silent().map(|host| format!("{} does not answer", host.name));
                self.say(Style::Attention, silent.as_deref().unwrap_or("no worker is chosen"));
            }
            _ => {}
        }
        Vec::new()
    }

    fn on_list(&mut self, key: &KeyPress) -> bool {
        let page = isize::try_from(self.body.1 / 2).unwrap_or(1);
        let entries = self.entries();
        let hosts = &self.hosts;
        match key {
            KeyPress::Up | KeyPress::Char('k') => self.list.step(-1, &entries, hosts),
            KeyPress::Down | KeyPress::Char('j') => self.list.step(1, &entries, hosts),
            KeyPress::PageUp => self.list.step(-page, &entries, hosts),
            KeyPress::PageDown => self.list.step(page, &entries, hosts),
            KeyPress::Home | KeyPress::Char('g') => self.list.step(isize::MIN, &entries, hosts),
            KeyPress::End | KeyPress::Char('G') => self.list.step(isize::MAX, &entries, hosts),
            KeyPress::Tab => self.list.next_question(&entries, hosts),
            KeyPress::Char('t') => self.list.is_tree = !self.list.is_tree,
            KeyPress::Escape => self.list.filter.clear(),
            KeyPress::Enter => {
                if let Some(worker) = self.list.chosen().and_then(SelectedRow::worker) {
                    self.view = BoardView::Story(Box::new(BoardStory::of(worker, self.colour)));
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

    /// Asks for something to type, for a daemon.
    fn ask(&mut self, host: HostIndex, prompt: BoardPrompt) {
        (self.prompt, self.prompt_host) = (Some(prompt), host);
    }

    /// Asks for an agent of this machine and its task.
    fn begin_run(&mut self, current: Option<BoardWorker>) {
        let Some(here) = self.hosts.here() else {
            let said = "no workspace is here: `subagent --host NAME run` starts an agent on a host";
            self.say(Style::Attention, said);
            return;
        };
        let row = current.filter(|worker| worker.host == here).and_then(|worker| self.hosts.row(&worker));
        let agent = row.map(|row| cleaned_name(&row.snapshot.launcher)).unwrap_or_default();
        self.ask(here, BoardPrompt::Agent(Editor::with(&agent)));
    }

    fn command(&mut self, host: HostIndex, command: BoardCommand) -> Vec<BoardEffect> {
        self.say(Style::Dim, &format!("{} ...", command.says.0));
        vec![BoardEffect::Command(host, command)]
    }

    /// Says that nothing can be done at a daemon, because it was not reached so far.
    pub(super) fn refuse(&mut self, host: HostIndex) {
        let name = self.hosts.get(host).map(|host| host.name.clone()).unwrap_or_default();
        self.say(Style::Bad, &format!("{name} has not answered yet"));
    }

    fn say(&mut self, style: Style, text: &str) {
        self.notice = Some((style, text.to_owned()));
    }

    /// The id of the question that is shown.
    pub(super) fn shown_request(&self) -> Option<RequestId> {
        self.question()?.1.request_id.parse().ok()
    }
}

/// The word of a state in a view.
pub(super) fn state_word(state: WorkerState) -> String {
    state.as_str().replace('_', " ")
}
