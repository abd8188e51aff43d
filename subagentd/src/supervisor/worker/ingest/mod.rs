//! Reads the journal into the store: each record becomes one row, and `core` decides its meaning.
//! While a batch with only progress is being stored, the next batch is read and interpreted.

pub(crate) mod apply;
pub(crate) mod batch;

use serde::Deserialize;
use subagent_core::model::{Fact, PermissionDecision, Spent, WorkerInput};
use subagent_core::rules::recovered::missing_end;
use subagent_protocol::budget::Money;
use subagent_protocol::definition::is_kept;
use subagent_protocol::details::RecordDetail;
use subagent_protocol::event::EventType;
use subagent_protocol::hook::Hook;
use subagent_protocol::options::Options;
use subagent_protocol::process::ProcessId;
use subagent_protocol::record::{
    AgentStarted, AnswerWritten, ApprovalClosed, ApprovalRequested, CancelRequested, Dispatching,
    ElicitationRequested, JournalRecord, OptionSet, RecordType, Segment, SessionOrigin, SessionRecord,
    StartFailed, Terminating, TurnEnd,
};
use subagent_protocol::time::Timestamp;
use subagent_protocol::{Code, Error, Result, surrogates};

use super::actor::Actor;
use super::runtime::hibernation::is_activity;
use super::tasks::limits::{PromptUsage, step};
use crate::descriptors;
use crate::store::workers::{self, details};
use crate::store::{Durability, NewEvent, facts, tasks};
use crate::supervisor::entropy;
use crate::supervisor::hooks::are_asked;
use crate::supervisor::runtimes::journal::{self, JournalBatch};
use crate::supervisor::start::definition;
use crate::supervisor::turns::agent_change;
use batch::{DecodedBatch, IngestState, PendingRow, Taken, is_progress, kind, payload_range};

/// Maximum number of batches in a row, so that a flooding agent does not block the actor.
const TURN_BATCHES: usize = 4;

/// How far the journal is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Goal {
    /// A limited number of batches.
    Some,
    /// At least up to the record with this number.
    Record(u64),
    /// To the end, because the writer is gone.
    End,
}

/// Failed restores after which the session is given up.
const MAX_RESTORE_FAILURES: usize = 2;

/// Content of records that concerns the actor, not the rules.
#[derive(Debug, Default)]
pub(crate) struct SessionUpdates {
    pub(crate) session_id: Option<String>,
    /// Why the agent could not restore the session.
    pub(crate) restore_failure: Option<String>,
    pub(crate) guard: Option<ProcessId>,
    /// Options that were set or refused.
    pub(crate) set: Vec<OptionSet>,
    /// Whether the newest record is the guard's proof.
    pub(crate) ended: bool,
    /// Whether the session contains a prompt with the definition's instructions. `None` if
    /// unchanged.
    pub(crate) instructed: Option<bool>,
    /// Mode and model at the start of a new session.
    pub(crate) began: Option<Options>,
}

impl SessionUpdates {
    /// Returns whether the records contained nothing of this. Ignores `ended`, which every record
    /// sets.
    pub(super) fn is_empty(&self) -> bool {
        let Self { session_id, restore_failure, guard, set, ended: _, instructed, began } = self;
        session_id.is_none()
            && restore_failure.is_none()
            && guard.is_none()
            && set.is_empty()
            && instructed.is_none()
            && began.is_none()
    }
}

impl Actor {
    /// Reads the journal up to `goal`. Returns whether there is more.
    ///
    /// # Errors
    /// `STORAGE_ERROR`, `STORAGE_FULL`. Nothing of the failed batch was stored; the next call reads
    /// it again.
    pub(super) async fn ingest(&mut self, goal: Goal) -> Result<bool> {
        let mut batches = 0;
        let mut ahead = None;
        loop {
            let DecodedBatch { batch, taken } = match ahead.take() {
                Some(ahead) => ahead?,
                None => {
                    let basis = IngestState {
                        worker: self.worker.clone(),
                        watch: self.watch.clone(),
                        prompt: self.task_limits.open.clone(),
                        cursor: self.cursor,
                        clean_end: self.clean_end,
                    };
                    self.read(basis, goal)?
                }
            };
            let (end, drained) = (batch.end, batch.drained);
            self.damaged |= batch.damaged;
            let reached = |number: u64, batches: usize| match goal {
                // The runtime announces further records, also those in another segment.
                Goal::Some => drained || batches >= TURN_BATCHES,
                Goal::Record(wanted) => number >= wanted,
                Goal::End => false,
            };
            if let Some(taken) = taken {
                batches += 1;
                let more = !(end || reached(taken.cursor.number, batches));
                let basis = if more { taken.basis() } else { None };
                ahead = self.take(batch.bytes, taken, basis.map(|basis| (basis, goal))).await?;
            }
            if end || reached(self.cursor.number, batches) {
                return Ok(!(end || drained));
            }
        }
    }

    /// Reads and interprets a batch.
    fn read(&mut self, basis: IngestState, goal: Goal) -> Result<DecodedBatch> {
        let from = basis.cursor;
        let batch = self.journal.read(from, goal == Goal::End).map_err(|error| {
            if descriptors::is_reached(&error) {
                return descriptors::too_many("cannot open the journal of the worker");
            }
            Error::new(
                Code::StorageError,
                format!("the journal of {} cannot be read: {error}", self.worker_id),
            )
        })?;
        let moved = (batch.next.segment, batch.next.offset) != (from.segment, from.offset);
        let taken = moved.then(|| self.understand(basis, &batch));
        Ok(DecodedBatch { batch, taken })
    }

    /// Stores an interpreted batch while it reads `ahead`.
    ///
    /// # Errors
    /// Those of the store. Nothing was stored, and the batch read ahead is discarded.
    async fn take(
        &mut self,
        bytes: Vec<u8>,
        taken: Taken,
        ahead: Option<(IngestState, Goal)>,
    ) -> Result<Option<Result<DecodedBatch>>> {
        let before = self.cursor;
        let Taken {
            worker,
            watch,
            prompt,
            drafts,
            actions,
            cursor,
            aside,
            reports,
            incarnation,
            gap,
            changed,
            misread,
            active,
            durability,
        } = taken;
        let restores = reports.iter().rev().find_map(RecordDetail::restores);
        let SessionUpdates { session_id, restore_failure, guard, set, ended, instructed, began } = aside;
        let instructed = instructed.filter(|_| self.spec.agent.is_some());
        let spec = self.spec_with(&set, began)?;
        let failures = match (&session_id, restore_failure) {
            // A successful session resets the count, even if a start failed in the same batch.
            (Some(_), _) if !self.restore_failures.is_empty() => Some(Vec::new()),
            (None, Some(failure)) => {
                let mut failures = self.restore_failures.clone();
                failures.truncate(MAX_RESTORE_FAILURES - 1);
                failures.insert(0, failure);
                Some(failures)
            }
            _ => None,
        };
        let facts: Vec<Fact> = drafts.iter().flat_map(|draft| draft.facts.iter().cloned()).collect();
        let (id, now, runtime) = (self.id, entropy::now(), self.runtime_process());
        let (row, session) = (changed.then(|| worker.clone()), session_id.clone());
        let (begun, stored_failures) = (incarnation.clone(), failures.clone());
        let spec_text = spec.as_ref().map(|(_, text)| text.clone());
        let steps = prompt.as_ref().map(PromptUsage::steps).filter(|steps| *steps > self.task_limits.steps());
        let (store, cwd) = (self.shared.store.clone(), self.cwd.clone());
        let stored = store.write(durability, drafts.len(), move |tx| {
            tx.begin_records(id, before.number)?;
            let mut last = None;
            // A record with facts is stored on its own.
            for drafts in drafts.chunk_by(|one, next| one.facts.is_empty() && next.facts.is_empty()) {
                let facts = drafts.first().map_or(&[][..], |draft| &draft.facts);
                let facts_first = drafts.first().is_some_and(|draft| draft.facts_first);
                if facts_first {
                    facts::store(tx, id, facts, None, now)?;
                }
                let events: Vec<NewEvent<'_>> = drafts.iter().map(|draft| draft.event(&bytes)).collect();
                let seq = tx.insert_events(id, &events)?;
                let facts = if facts_first { &[] } else { facts };
                let added = facts::store(tx, id, facts, seq, now)?;
                last = added.last().map(|(_, seq)| *seq).or(seq);
            }
            if let Some((incarnation, boot_id)) = &begun {
                workers::begin_incarnation(tx, id, *incarnation, boot_id)?;
            }
            if let Some(session) = &session {
                workers::update_session(tx, id, session)?;
            }
            if let Some(instructed) = instructed {
                workers::update_instructed(tx, id, instructed)?;
            }
            if !reports.is_empty() {
                details::update(tx, id, reports)?;
            }
            if let Some(text) = &spec_text {
                workers::update_spec(tx, id, text)?;
            }
            if let Some(failures) = &stored_failures {
                workers::update_restore_failures(tx, id, failures)?;
            }
            if guard.is_some() {
                workers::update_processes(tx, id, runtime, guard)?;
            }
            if let Some(steps) = steps {
                tasks::limits::count_steps(tx, id, steps)?;
            }
            let mut agent = None;
            match &row {
                Some(worker) => {
                    workers::update(tx, id, worker, cursor, now)?;
                    agent = agent_change::changed(tx, id, worker, &cwd, now)?;
                    let mut ended = Vec::new();
                    tasks::ends::settle(tx, id, worker, now, &mut ended)?;
                    last = ended.last().map(|(_, seq)| *seq).or(last);
                }
                None => workers::update_cursor(tx, id, cursor)?,
            }
            Ok((last, agent))
        });
        // The writer gets its order before the next batch is read.
        let (stored, ahead) =
            tokio::join!(biased; stored, async { ahead.map(|(basis, goal)| self.read(basis, goal)) });
        let (last_seq, agent) = stored?;
        self.cursor = cursor;
        self.watch = watch;
        self.task_limits.open = prompt;
        self.clean_end = ended;
        self.damaged |= gap;
        self.gap |= gap;
        if let Some((incarnation, boot_id)) = incarnation {
            (self.incarnation, self.boot_id, self.may_live) = (incarnation, Some(boot_id), true);
        }
        self.misread += misread;
        self.restores = restores.unwrap_or(self.restores);
        if active {
            self.is_active();
        }
        if session_id.is_some() {
            self.session_id = session_id;
            self.waking_since = None;
        }
        if let Some(failures) = failures {
            self.restore_failures = failures;
        }
        if guard.is_some() {
            self.shared.set_guard(&self.worker_id, guard);
        }
        if let Some((spec, _)) = spec {
            self.spec = spec;
        }
        self.take_changed(agent);
        self.adopt(worker, &facts, last_seq);
        self.todo.extend(actions);
        self.answer_settings(set).await;
        if changed && cursor.segment > before.segment {
            journal::remove_before(&self.directory, cursor.segment);
        }
        Ok(ahead)
    }

    fn understand(&self, basis: IngestState, batch: &JournalBatch) -> Taken {
        let JournalBatch { bytes, records, next, .. } = batch;
        let IngestState { mut worker, watch, prompt, cursor: from, clean_end } = basis;
        worker.queue.gated |= self.budgets.has_news();
        let mut taken = Taken {
            worker,
            watch,
            prompt,
            drafts: Vec::with_capacity(records.len()),
            actions: Vec::new(),
            cursor: *next,
            aside: SessionUpdates { ended: clean_end, ..SessionUpdates::default() },
            reports: Vec::new(),
            incarnation: None,
            gap: false,
            misread: 0,
            active: false,
            changed: next.segment != from.segment,
            durability: Durability::Progress,
        };
        let mut number = from.number;
        for (range, _) in records {
            let json = &bytes[range.clone()];
            let record: JournalRecord<'_> = match serde_json::from_slice(json) {
                Ok(record) => record,
                Err(error) => {
                    // The resulting gap in the record numbers is stored with the next record.
                    tracing::error!(worker = %self.worker_id, %error, "a record of the journal is not understood");
                    taken.misread += 1;
                    continue;
                }
            };
            if record.n <= number {
                continue;
            }
            let mut facts = Vec::new();
            if record.n != number + 1 {
                let data = serde_json::json!({"firstMissing": number + 1, "lastMissing": record.n - 1});
                facts.push(Fact::Event { event_type: EventType::JournalGap, data, turn: None });
                taken.gap = true;
            }
            number = record.n;
            if record.t == RecordType::Update && subagent_failpoint::sabotaged("ingest.skip") {
                continue;
            }
            taken.changed |= !is_progress(record.t) || !facts.is_empty();
            if !is_progress(record.t) {
                taken.durability = Durability::Full;
            }
            taken.active |= is_activity(&record);
            let mut input = match record.t {
                RecordType::Segment => body(&record).map(|segment| self.superseded(segment, &mut taken)),
                _ => input(&record, taken.worker.known_turn, &mut taken.aside, |error| self.located(error)),
            };
            if self.spec.parks() {
                input = input.map(|input| input.map(|input| input.with_limit(Timestamp(record.at))));
            }
            if let Ok(Some(WorkerInput::Session { took_ms, .. })) = &mut input {
                *took_ms = self.waking_since.map(|since| millis(since.elapsed()));
            }
            taken.changed |= taken.incarnation.is_some();
            let facts_first = matches!(input, Ok(Some(WorkerInput::TurnRecovered { .. })));
            if facts_first && let Some(open) = taken.worker.turn().map(|open| open.no) {
                // An agent has one turn at a time.
                let end = WorkerInput::TurnEnd { turn: open, end: missing_end() };
                if let Ok(step) = taken.worker.step(end) {
                    taken.worker = step.worker;
                    facts.extend(step.facts);
                }
            }
            match input {
                Ok(Some(input)) => match taken.worker.step(input) {
                    Ok(step) => {
                        taken.worker = step.worker;
                        facts.extend(step.facts);
                        if subagent_failpoint::sabotaged("decision.keep_open") {
                            facts.retain(|fact| !matches!(fact, Fact::ApprovalClosed { .. }));
                        }
                        taken.actions.extend(step.actions);
                        answer_for_the_user(&record, &mut taken, &mut facts);
                    }
                    Err(error) => {
                        tracing::error!(worker = %self.worker_id, n = record.n, %error, "the journal contradicts the rules");
                        taken.misread += 1;
                    }
                },
                Ok(None) => {}
                Err(error) => {
                    tracing::error!(worker = %self.worker_id, n = record.n, %error, "a record's body is not understood");
                    taken.misread += 1;
                }
            }
            if let (RecordType::Session, Some(agent)) = (record.t, &self.spec.agent)
                && let Ok(session) = body::<SessionRecord>(&record)
            {
                facts.push(definition::applied(agent, &session));
            }
            let mut follows = by_rule(&record, &mut taken, &mut facts, &self.spec.hooks);
            if let Some(step) = step(&record, &mut taken.prompt, &self.worker_id, &taken.worker) {
                facts.push(step.progress);
                follows |= step.over.is_some_and(|input| taken.follows(input, &mut facts));
            }
            if follows {
                (taken.changed, taken.durability) = (true, Durability::Full);
            }
            was_then(&record, &mut facts);
            taken.reports.extend(RecordDetail::of(&record));
            let held = facts.iter().any(|fact| matches!(fact, Fact::ApprovalHeld { .. }));
            taken.drafts.push(PendingRow {
                number: record.n,
                turn: record.turn,
                at: record.at,
                event_type: if held { EventType::RuntimeApprovalHeld } else { record.event_type() },
                kind: kind(&record),
                record: record.t,
                payload: payload_range(bytes, &record),
                facts,
                facts_first,
            });
        }
        taken.cursor.number = number;
        if taken.gap || taken.incarnation.is_some() || next.segment != from.segment {
            taken.durability = Durability::Full;
        }
        taken
    }

    /// Handles a segment of a runtime that the store does not know, because the store was restored
    /// from an older copy. The runtime that it knows has ended before.
    fn superseded(&self, segment: Segment, taken: &mut Taken) -> Option<WorkerInput> {
        let known = taken.incarnation.as_ref().map_or(self.incarnation, |(incarnation, _)| *incarnation);
        let clean = std::mem::take(&mut taken.aside.ended);
        if segment.incarnation <= known {
            return None;
        }
        taken.incarnation = Some((segment.incarnation, segment.boot_id));
        // A prompt without a record may still have been sent, so it is not repeated.
        (known > 0).then_some(WorkerInput::RuntimeGone { clean, rebooted: true })
    }
}

/// Returns the input that follows from a record. `known_turn` is the newest known turn of the
/// worker. `located` adds file locations to the error of a start.
///
/// # Errors
/// If the body does not match the type of the record.
pub(crate) fn input(
    record: &JournalRecord<'_>,
    known_turn: u64,
    aside: &mut SessionUpdates,
    located: impl FnOnce(Error) -> Error,
) -> serde_json::Result<Option<WorkerInput>> {
    aside.ended = record.t == RecordType::Ended;
    let turn = record.turn.unwrap_or(0);
    Ok(match record.t {
        RecordType::Session => {
            let session: SessionRecord = record.body()?;
            if session.origin == SessionOrigin::New || session.context_lost {
                aside.instructed = Some(false);
            }
            if session.origin == SessionOrigin::New {
                aside.began = Some(session.began);
            }
            aside.session_id = Some(session.session_id);
            Some(WorkerInput::Session {
                origin: session.origin,
                context_lost: session.context_lost,
                context_lost_reason: session.context_lost_reason,
                took_ms: None,
            })
        }
        RecordType::StartFailed => {
            let error = body::<StartFailed>(record)?.error;
            let phase = error.details.get("phase").and_then(|phase| phase.as_str());
            // A missing login and a rate limit do not concern the session.
            let category = error.details.get("reasonCategory").and_then(|category| category.as_str());
            let other = matches!(category, Some("auth" | "rate_limit"));
            let restoring = !other && matches!(phase, Some("session/load" | "session/resume"));
            aside.restore_failure = restoring.then(|| error.message.clone());
            Some(WorkerInput::StartFailed { error: located(error) })
        }
        RecordType::Dispatching if turn > known_turn => {
            Some(WorkerInput::TurnRecovered { turn, turn_id: body::<Dispatching>(record)?.turn_id })
        }
        RecordType::Dispatching => Some(WorkerInput::Dispatching { turn }),
        RecordType::ApprovalRequested => {
            Some(WorkerInput::ApprovalRequested { request_id: body::<ApprovalRequested>(record)?.request_id })
        }
        RecordType::ElicitationRequested => Some(WorkerInput::ElicitationRequested {
            request_id: body::<ElicitationRequested>(record)?.request_id,
        }),
        RecordType::ApprovalClosed => {
            let closed: ApprovalClosed = record.body()?;
            Some(WorkerInput::ApprovalClosed { request_id: closed.request_id, reason: closed.reason })
        }
        RecordType::AnswerWritten => {
            Some(WorkerInput::AnswerWritten { request_id: body::<AnswerWritten>(record)?.request_id })
        }
        RecordType::CancelRequested => {
            Some(WorkerInput::CancelRequested { turn, reason: body::<CancelRequested>(record)?.reason })
        }
        // An unreadable body still ends the turn, which must not stay open.
        RecordType::TurnEnd => {
            let end = record.body().unwrap_or_else(|_| missing_end());
            if let TurnEnd::Answered { stop_reason, .. } = &end
                && is_kept(stop_reason.as_deref())
            {
                aside.instructed = Some(true);
            }
            Some(WorkerInput::TurnEnd { turn, end })
        }
        RecordType::AgentStarted => {
            aside.guard = Some(body::<AgentStarted>(record)?.guard);
            None
        }
        RecordType::AgentExited => Some(WorkerInput::Ending),
        RecordType::OptionSet => {
            aside.set.push(record.body()?);
            None
        }
        RecordType::Terminating => {
            Some(WorkerInput::Terminating { reason: body::<Terminating>(record)?.reason })
        }
        RecordType::Update => cost(record),
        RecordType::Ended
        | RecordType::Segment
        | RecordType::Sealed
        | RecordType::ChildUpdate
        | RecordType::Notification
        | RecordType::Noise
        | RecordType::ClientRequest
        | RecordType::ClientResponse
        | RecordType::TerminalExited => None,
    })
}

/// Applies the policy to a record in the same transaction, or holds a request for its hooks.
/// Returns whether that changed anything.
fn by_rule(record: &JournalRecord<'_>, taken: &mut Taken, facts: &mut Vec<Fact>, hooks: &[Hook]) -> bool {
    let (seen, asked_for) = match taken.watch.as_mut() {
        Some(watch) => (watch.see(record), watch.take_asked_for()),
        None => (None, None),
    };
    let is_asked = asked_for.is_some();
    facts.extend(asked_for.map(Fact::Inbox));
    if record.t == RecordType::ApprovalRequested
        && let Ok(asked) = body::<ApprovalRequested>(record)
        && are_asked(hooks, &asked, seen.as_ref())
    {
        return taken.follows(WorkerInput::HoldForHooks { request_id: asked.request_id }, facts);
    }
    let Some(input) = seen else { return is_asked };
    // A refused input belongs to a request that is closed or was unreadable, so there is nothing to
    // decide.
    taken.follows(input, facts)
}

/// Sets the time of clock facts to that of the record, which may be old.
fn was_then(record: &JournalRecord<'_>, facts: &mut [Fact]) {
    for fact in facts {
        if let Fact::Spent(Spent::Clock { at, .. }) = fact {
            *at = Some(record.at);
        }
    }
}

/// Returns the cost of the session that an update reports.
fn cost(record: &JournalRecord<'_>) -> Option<WorkerInput> {
    let text = record.b?.get();
    if record.k.as_deref() != Some("usage") || !text.contains("\"cost\"") {
        return None;
    }
    let body: serde_json::Value = surrogates::parse(text).ok()?;
    Some(WorkerInput::CostReported { cost: Money::of(&body["update"]["cost"])? })
}

/// Breaks the product for tests that must notice it: answers a request in the user's name.
fn answer_for_the_user(record: &JournalRecord<'_>, taken: &mut Taken, facts: &mut Vec<Fact>) {
    if record.t != RecordType::ApprovalRequested || !subagent_failpoint::sabotaged("approval.answer") {
        return;
    }
    let Ok(asked) = body::<ApprovalRequested>(record) else { return };
    let choice =
        PermissionDecision { option_id: Some("allow-once".to_owned()), alias: None, decision: String::new() };
    let input = WorkerInput::Decide { request_id: asked.request_id, choice, note: None };
    let _ = taken.follows(input, facts);
}

fn millis(time: std::time::Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

fn body<T: for<'b> Deserialize<'b>>(record: &JournalRecord<'_>) -> serde_json::Result<T> {
    record.body()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_end_that_cannot_be_read_ends_the_turn_all_the_same() {
        for body in ["null", r#"{"end":"swallowed"}"#, "[1]", "\"answered\""] {
            let text = format!(r#"{{"n":7,"at":1,"t":"turnEnd","turn":3,"b":{body}}}"#);
            let record: JournalRecord<'_> = serde_json::from_str(&text).unwrap();
            let input = input(&record, 3, &mut SessionUpdates::default(), |error| error).unwrap();
            assert_eq!(input, Some(WorkerInput::TurnEnd { turn: 3, end: missing_end() }), "{body}");
        }
    }
}
