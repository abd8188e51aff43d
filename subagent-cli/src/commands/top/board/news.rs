//! News, and what a board makes of them.

use serde_json::Value;
use subagent_model::{Applied, Workers};
use subagent_protocol::api::{OverviewItem, OverviewShown, TranscriptShown};
use subagent_protocol::event::{Event, EventType};
use subagent_protocol::ids::{EventId, WorkerId};
use subagent_protocol::time::Timestamp;

use super::super::effect::{BoardCommand, BoardEffect, BoardEvent};
use super::super::list::ListEntry;
use super::super::story::BoardStory;
use super::super::view::{BoardView, TextView};
use super::{Board, BoardConnection, MAX_UNKNOWN, named};
use crate::commands::targets::selected::WorkerHead;
use crate::dialog::DialogOutcome;
use crate::failure::Failure;
use crate::output::advice;
use crate::output::style::Style;

impl Board {
    pub(crate) fn on_input(&mut self, input: BoardEvent, now: Timestamp) -> Vec<BoardEffect> {
        let mut effects = self.take(input, now);
        effects.extend(self.settle());
        effects
    }

    fn take(&mut self, input: BoardEvent, now: Timestamp) -> Vec<BoardEffect> {
        match input {
            BoardEvent::Snapshot(snapshot) => {
                self.workers = Some(Workers::new(&snapshot));
                self.paused = paused(&snapshot);
                self.asked.retry();
                if let Some(worker) = self.awaited.take_if(|worker| snapshot_has(&snapshot.items, worker)) {
                    self.list.choose(worker);
                }
            }
            BoardEvent::Events(events) => return self.see(&events),
            BoardEvent::Opened => match std::mem::replace(&mut self.link, BoardConnection::Connected) {
                BoardConnection::Lost | BoardConnection::Unreachable(_) => {
                    self.say(Style::Good, "connected to the daemon again");
                }
                BoardConnection::Unused | BoardConnection::Connecting | BoardConnection::Connected => {}
            },
            BoardEvent::Lost => self.link = BoardConnection::Lost,
            BoardEvent::Expired => {
                self.say(Style::Attention, "events were missed: this is a new snapshot");
                if let Some(story) = self.story() {
                    story.restart();
                }
            }
            BoardEvent::Unreachable(failure) => self.link = BoardConnection::Unreachable(sentence(&failure)),
            BoardEvent::Ended(command, ended) => return self.ended(&command, ended),
            BoardEvent::Question(request, Ok(shown)) => self.asked.show(&request, shown, now),
            BoardEvent::Question(request, Err(failure)) => {
                self.asked.fail(&request);
                self.fail(&failure);
            }
            BoardEvent::Filled(Err(failure)) | BoardEvent::Diff(_, Err(failure)) => self.fail(&failure),
            BoardEvent::Filled(Ok(DialogOutcome::Skipped | DialogOutcome::Interrupted)) => {
                self.say(Style::Attention, "the question was left open");
            }
            BoardEvent::Filled(Ok(DialogOutcome::Answered | DialogOutcome::Elsewhere)) => {}
            BoardEvent::Story(worker, before, page) => self.show_page(&worker, before, page),
            BoardEvent::Diff(worker, Ok(text)) => self.show_diff(worker, text),
            BoardEvent::Counted(worker, count) => {
                let is_current = self.counting.take().is_some_and(|(_, is_current)| is_current);
                if is_current {
                    self.counts.insert(worker, count);
                }
            }
        }
        Vec::new()
    }

    fn story(&mut self) -> Option<&mut BoardStory> {
        match &mut self.view {
            BoardView::Story(story) => Some(story),
            BoardView::Text(page) => page.behind.as_deref_mut(),
            BoardView::Help(_, behind) => behind.as_deref_mut(),
            BoardView::List => None,
        }
    }

    fn see(&mut self, events: &[Event]) -> Vec<BoardEffect> {
        let mut refresh = false;
        for event in events {
            if let Some(story) = self.story() {
                story.see(event);
            }
            let kind = event.event_type;
            // A turn has ended, or a person looks now: files have changed.
            if kind.ends_turn() || kind.is_question() {
                self.counts.remove(&event.worker_id);
                if let Some((worker, is_current)) = &mut self.counting {
                    *is_current &= *worker != event.worker_id;
                }
            }
            let applied = self.workers.as_mut().map(|workers| workers.apply(event));
            refresh |= match applied {
                Some(Applied::Unknown) => {
                    self.unknown.len() < MAX_UNKNOWN && self.unknown.insert(event.worker_id.clone())
                }
                Some(Applied::Row) => changes_what_events_do_not_say(kind),
                Some(Applied::Nothing | Applied::Seen) | None => false,
            };
            refresh |= matches!(kind, EventType::SchedulePaused | EventType::TriggerPaused);
        }
        if refresh { vec![BoardEffect::Refresh] } else { Vec::new() }
    }

    fn show_page(
        &mut self,
        worker: &WorkerId,
        before: Option<EventId>,
        page: Result<TranscriptShown, Failure>,
    ) {
        // Another page may have been asked for before the story was begun anew or its beginning was dropped.
        let awaits = |story: &&mut BoardStory| story.worker == *worker && story.awaits(before);
        let Some(story) = self.story().filter(awaits) else { return };
        match page {
            Ok(page) => story.show(page),
            Err(failure) => {
                story.fail();
                self.fail(&failure);
            }
        }
    }

    fn show_diff(&mut self, worker: WorkerId, text: String) {
        let Some(row) = self.current().filter(|row| *row.worker_id() == worker) else { return };
        let title = format!("diff of {}", named(row));
        if text.is_empty() {
            self.say(Style::Plain, "nothing has changed since its first turn");
            return;
        }
        self.notice = None;
        let behind = std::mem::replace(&mut self.view, BoardView::List).behind();
        self.view = BoardView::Text(TextView::of(title, worker, text, behind));
    }

    fn ended(&mut self, command: &BoardCommand, ended: Result<Value, Failure>) -> Vec<BoardEffect> {
        match ended {
            Ok(data) => {
                let started = command.words.first().is_some_and(|word| word == "run");
                let worker = WorkerHead::of(&data);
                let name = worker.name.filter(|_| started);
                let said = name.map(|name| format!("{name} {}", command.says.1));
                self.say(Style::Good, said.as_deref().unwrap_or(&command.says.1));
                if started {
                    self.awaited = worker.worker_id.and_then(|worker| worker.parse().ok());
                }
            }
            Err(failure) => {
                self.asked.reopen(command);
                self.fail(&failure);
            }
        }
        // It has changed something, or found that something is another one than what is shown.
        vec![BoardEffect::Refresh]
    }

    fn fail(&mut self, failure: &Failure) {
        self.say(Style::Bad, &sentence(failure));
    }

    /// Brings what is chosen, fetched and counted in line with what is there.
    pub(super) fn settle(&mut self) -> Vec<BoardEffect> {
        let mut effects = Vec::new();
        let entries = self.entries();
        if let Some(workers) = &self.workers {
            self.list.settle(&entries, workers);
        }
        let question = self.question();
        effects.extend(self.asked.turn_to(question).map(BoardEffect::ShowQuestion));
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
        if self.counting.is_none()
            && let Some(worker) = self.uncounted(&entries)
        {
            self.counting = Some((worker.clone(), true));
            effects.push(BoardEffect::Count(worker));
        }
        effects
    }

    /// The first worker that is seen and whose changed lines are not counted.
    fn uncounted(&self, entries: &[ListEntry]) -> Option<WorkerId> {
        let workers = self.workers.as_ref()?;
        let seen = entries.iter().skip(self.list.top).take(self.body.1);
        let ids = seen.filter_map(|entry| match entry {
            ListEntry::Item(item) => Some(item.find(workers)?.0.worker_id()),
            ListEntry::Head(..) => None,
        });
        ids.into_iter().find(|worker| !self.counts.contains_key(*worker)).cloned()
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

/// An error in a line, with what to do.
fn sentence(failure: &Failure) -> String {
    let hint = advice::hint(failure).map(|hint| format!(" ({hint})")).unwrap_or_default();
    format!("{failure}{hint}")
}
