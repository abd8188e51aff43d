//! News, and what a board makes of them.

use serde_json::Value;
use subagent_model::{Applied, Workers};
use subagent_protocol::api::{OverviewItem, OverviewShown, TranscriptShown};
use subagent_protocol::event::{Event, EventType};
use subagent_protocol::ids::{EventId, WorkerId};
use subagent_protocol::time::Timestamp;

use super::super::asked::QuestionView;
use super::super::effect::{BoardCommand, BoardEffect, BoardEvent};
use super::super::hosts::{BoardConnection, BoardHost, BoardWorker, HostIndex, SilenceReason};
use super::super::list::ListEntry;
use super::super::story::BoardStory;
use super::super::view::{BoardView, TextView};
use super::{Board, MAX_UNKNOWN};
use crate::commands::targets::has_state;
use crate::commands::targets::selected::WorkerHead;
use crate::dialog::DialogOutcome;
use crate::failure::Failure;
use crate::output::advice;
use crate::output::style::Style;

impl Board {
    pub(crate) fn on_input(
        &mut self,
        host: HostIndex,
        input: BoardEvent,
        now: Timestamp,
    ) -> Vec<BoardEffect> {
        let mut effects = self.take(host, input, now);
        effects.extend(self.settle());
        effects
    }

    fn take(&mut self, host: HostIndex, input: BoardEvent, now: Timestamp) -> Vec<BoardEffect> {
        self.hear(host, &input, now);
        let is_asked = host == self.asked_host;
        match input {
            BoardEvent::Found(workspace) => {
                let link = match has_state(&workspace) {
                    true => BoardConnection::Connecting,
                    false => BoardConnection::Unused,
                };
                self.connect(host, link);
            }
            BoardEvent::Snapshot(snapshot) => {
                if let Some(known) = self.hosts.get_mut(host) {
                    known.workers = Some(Workers::new(&snapshot));
                    known.paused = paused(&snapshot);
                }
                if is_asked {
                    self.asked.retry();
                }
                let is_there = |worker: &mut BoardWorker| {
                    worker.host == host && snapshot_has(&snapshot.items, &worker.id)
                };
                if let Some(worker) = self.awaited.take_if(is_there) {
                    self.list.choose(worker);
                }
            }
            BoardEvent::Events(events) => return self.see(host, &events),
            BoardEvent::Opened => {
                let was = self.connect(host, BoardConnection::Connected);
                if let Some(BoardConnection::Lost | BoardConnection::Unreachable(_)) = was {
                    let host = self.hosts.get(host).filter(|host| host.is_far);
                    let whose = host.map_or_else(|| "the daemon".to_owned(), |host| host.name.clone());
                    self.say(Style::Good, &format!("connected to {whose} again"));
                }
            }
            BoardEvent::Lost => _ = self.connect(host, BoardConnection::Lost),
            BoardEvent::Expired => {
                self.say(Style::Attention, "events were missed: this is a new snapshot");
                if let Some(story) = self.story(host) {
                    story.restart();
                }
            }
            BoardEvent::Unreachable(failure) => {
                self.connect(host, BoardConnection::Unreachable(why(&failure)));
                // It may never be answered.
                if let Some(host) = self.hosts.get_mut(host) {
                    host.counting = None;
                }
            }
            BoardEvent::Ended(command, ended) => return self.ended(host, &command, ended),
            BoardEvent::Question(request, Ok(shown)) if is_asked => self.asked.show(&request, shown, now),
            BoardEvent::Question(request, Err(failure)) if is_asked => {
                self.asked.fail(&request);
                self.fail(&failure);
            }
            BoardEvent::Question(..) => {}
            BoardEvent::Filled(Err(failure)) | BoardEvent::Diff(_, Err(failure)) => self.fail(&failure),
            BoardEvent::Filled(Ok(DialogOutcome::Skipped | DialogOutcome::Interrupted)) => {
                self.say(Style::Attention, "the question was left open");
            }
            BoardEvent::Filled(Ok(DialogOutcome::Answered | DialogOutcome::Elsewhere)) => {}
            BoardEvent::Story(id, before, page) => self.show_page(&BoardWorker { host, id }, before, page),
            BoardEvent::Diff(id, Ok(text)) => self.show_diff(BoardWorker { host, id }, text),
            BoardEvent::Counted(id, count) => {
                let known = self.hosts.get_mut(host);
                let counting = known.and_then(|host| host.counting.take_if(|(counted, _)| *counted == id));
                if counting.is_some_and(|(_, is_current)| is_current) {
                    self.counts.insert(BoardWorker { host, id }, count);
                }
            }
        }
        Vec::new()
    }

    /// Notes when a daemon has answered.
    fn hear(&mut self, host: HostIndex, input: &BoardEvent, now: Timestamp) {
        let Some(host) = self.hosts.get_mut(host) else { return };
        let was_connected = host.link == BoardConnection::Connected;
        let has_answered = match input {
            BoardEvent::Found(_) | BoardEvent::Snapshot(_) | BoardEvent::Events(_) | BoardEvent::Opened => {
                true
            }
            BoardEvent::Lost | BoardEvent::Unreachable(_) => was_connected,
            _ => false,
        };
        if has_answered {
            host.answered = Some(now);
        }
    }

    /// Stores how a daemon is reached; returns how it was.
    fn connect(&mut self, host: HostIndex, link: BoardConnection) -> Option<BoardConnection> {
        let host: &mut BoardHost = self.hosts.get_mut(host)?;
        Some(std::mem::replace(&mut host.link, link))
    }

    /// The story that is shown, or that is behind what is shown, of a worker of this daemon.
    fn story(&mut self, host: HostIndex) -> Option<&mut BoardStory> {
        let story = match &mut self.view {
            BoardView::Story(story) => Some(&mut **story),
            BoardView::Text(page) => page.behind.as_deref_mut(),
            BoardView::Help(_, behind) => behind.as_deref_mut(),
            BoardView::List => None,
        };
        story.filter(|story| story.worker.host == host)
    }

    fn see(&mut self, host: HostIndex, events: &[Event]) -> Vec<BoardEffect> {
        let mut refresh = false;
        for event in events {
            if let Some(story) = self.story(host) {
                story.see(event);
            }
            let kind = event.event_type;
            // A turn has ended, or a person looks now: files have changed.
            if kind.ends_turn() || kind.is_question() {
                self.counts.remove(&BoardWorker { host, id: event.worker_id.clone() });
            }
            let Some(known) = self.hosts.get_mut(host) else { continue };
            if (kind.ends_turn() || kind.is_question())
                && let Some((worker, is_current)) = &mut known.counting
            {
                *is_current &= *worker != event.worker_id;
            }
            let applied = known.workers.as_mut().map(|workers| workers.apply(event));
            refresh |= match applied {
                Some(Applied::Unknown) => {
                    known.unknown.len() < MAX_UNKNOWN && known.unknown.insert(event.worker_id.clone())
                }
                Some(Applied::Row) => changes_what_events_do_not_say(kind),
                Some(Applied::Nothing | Applied::Seen) | None => false,
            };
            refresh |= matches!(kind, EventType::SchedulePaused | EventType::TriggerPaused);
        }
        if refresh { vec![BoardEffect::Refresh(host)] } else { Vec::new() }
    }

    fn show_page(
        &mut self,
        worker: &BoardWorker,
        before: Option<EventId>,
        page: Result<TranscriptShown, Failure>,
    ) {
        // Another page may have been asked for before the story was begun anew or its beginning was dropped.
        let awaits = |story: &&mut BoardStory| story.worker == *worker && story.awaits(before);
        let Some(story) = self.story(worker.host).filter(awaits) else { return };
        match page {
            Ok(page) => story.show(page),
            Err(failure) => {
                story.fail();
                self.fail(&failure);
            }
        }
    }

    fn show_diff(&mut self, worker: BoardWorker, text: String) {
        let Some((_, row)) = self.current().filter(|(current, _)| *current == worker) else { return };
        let title = format!("diff of {}", self.hosts.called(worker.host, row));
        if text.is_empty() {
            self.say(Style::Plain, "nothing has changed since its first turn");
            return;
        }
        self.notice = None;
        let behind = std::mem::replace(&mut self.view, BoardView::List).behind();
        self.view = BoardView::Text(TextView::of(title, worker, text, behind));
    }

    fn ended(
        &mut self,
        host: HostIndex,
        command: &BoardCommand,
        ended: Result<Value, Failure>,
    ) -> Vec<BoardEffect> {
        match ended {
            Ok(data) => {
                let started = command.words.first().is_some_and(|word| word == "run");
                let worker = WorkerHead::of(&data);
                let name = worker.name.filter(|_| started);
                let said = name.map(|name| format!("{name} {}", command.says.1));
                self.say(Style::Good, said.as_deref().unwrap_or(&command.says.1));
                if started {
                    let id = worker.worker_id.and_then(|worker| worker.parse().ok());
                    self.awaited = id.map(|id| BoardWorker { host, id });
                }
            }
            Err(failure) => {
                if host == self.asked_host {
                    self.asked.reopen(command);
                }
                self.fail(&failure);
            }
        }
        // It has changed something, or found that something is another one than what is shown.
        vec![BoardEffect::Refresh(host)]
    }

    fn fail(&mut self, failure: &Failure) {
        self.say(Style::Bad, &sentence(failure));
    }

    /// Brings what is chosen, fetched and counted in line with what is there.
    pub(super) fn settle(&mut self) -> Vec<BoardEffect> {
        let mut effects = Vec::new();
        let entries = self.entries();
        self.list.settle(&entries, &self.hosts);
        let question = self.question();
        let host = question.as_ref().map_or(self.asked_host, |(host, _)| *host);
        if host != self.asked_host {
            // Another daemon may have a question with the same id.
            (self.asked_host, self.asked) = (host, QuestionView::default());
        }
        let wanted = self.asked.turn_to(question.map(|(_, question)| question));
        effects.extend(wanted.map(|request| BoardEffect::ShowQuestion(host, request)));
        if let BoardView::Story(story) = &mut self.view {
            match story.begin() {
                true => effects.push(BoardEffect::ShowStory(story.worker.clone(), None)),
                false => {
                    let page = story
                        .wanted()
                        .map(|before| BoardEffect::ShowStory(story.worker.clone(), Some(before)));
                    effects.extend(page);
                }
            }
        }
        for worker in self.uncounted(&entries) {
            let host = self.hosts.get_mut(worker.host).filter(|host| host.counting.is_none());
            if let Some(host) = host {
                host.counting = Some((worker.id.clone(), true));
                effects.push(BoardEffect::Count(worker));
            }
        }
        effects
    }

    /// The workers that are seen and whose changed lines are not counted. Each daemon counts one at a
    /// time, and not while the connection is lost.
    fn uncounted(&self, entries: &[ListEntry]) -> Vec<BoardWorker> {
        let counts = |host: HostIndex| {
            let host = self.hosts.get(host);
            host.is_some_and(|host| host.counting.is_none() && host.link != BoardConnection::Lost)
        };
        let seen = entries.iter().skip(self.list.top).take(self.body.1);
        let workers = seen.filter_map(|entry| match entry {
            ListEntry::Item(item) if counts(item.at.host) => {
                let id = item.find(&self.hosts)?.0.worker_id().clone();
                Some(BoardWorker { host: item.at.host, id })
            }
            ListEntry::Item(_) | ListEntry::Head(..) | ListEntry::Host(_) => None,
        });
        workers.filter(|worker| !self.counts.contains_key(worker)).collect()
    }
}

/// A line about the schedules and triggers that no longer fire.
fn paused(snapshot: &OverviewShown) -> Option<String> {
    let schedules = snapshot.paused_schedules.iter();
    let schedules = schedules.map(|one| ("schedule", &one.schedule, one.reason, &one.error));
    let triggers = snapshot.paused_triggers.iter();
    let triggers = triggers.map(|one| ("trigger", &one.trigger, one.reason, &one.error));
    let mut all = schedules.chain(triggers);
    let (word, name, reason, error) = all.next()?;
    let others = match all.count() {
        0 => String::new(),
        count => format!(" and {count} more"),
    };
    let reason = reason.as_str().replace('_', " ");
    let why = error.as_ref().map(|error| format!(": {}", error.message)).unwrap_or_default();
    Some(format!("{word} {name}{others} paused ({reason}), see subagent {word} list{why}"))
}

fn snapshot_has(items: &[OverviewItem], worker: &WorkerId) -> bool {
    items.iter().any(|item| item.worker_id == *worker)
}

/// Whether a snapshot after this event has more than the event: usage, budgets, worktrees, names.
fn changes_what_events_do_not_say(kind: EventType) -> bool {
    kind.ends_turn()
        || matches!(
            kind,
            EventType::WorkerStarted
                | EventType::WorkerStopped
                | EventType::WorktreeCreated
                | EventType::WorktreeLanded
                | EventType::WorktreeRetired
                | EventType::WorktreeRemoved
        )
}

/// Why a daemon cannot be asked.
fn why(failure: &Failure) -> SilenceReason {
    let said = failure.facts().stderr.0.filter(|said| !said.trim().is_empty());
    SilenceReason { sentence: sentence(failure), short: said.unwrap_or(&failure.message).to_owned() }
}

/// An error in a line, with what to do.
fn sentence(failure: &Failure) -> String {
    let hint = advice::hint(failure).map(|hint| format!(" ({hint})")).unwrap_or_default();
    format!("{failure}{hint}")
}
