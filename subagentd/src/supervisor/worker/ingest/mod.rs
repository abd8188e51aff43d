//! Reads the journal into the store: each record becomes one row, and `core` decides its meaning.
//! While a batch with only progress is being stored, the next batch is read and interpreted.

pub(crate) mod batch;
pub(crate) mod journal;
pub(crate) mod records;

use batch::{DecodedBatch, IngestState, PendingRow, Taken, is_progress, kind, payload_range};
use records::{SessionUpdates, body, input};
use subagent_core::model::{Fact, PermissionDecision, Spent, Transition, WorkerInput};
use subagent_core::rules::recovered::missing_end;
use subagent_protocol::data::EventData;
use subagent_protocol::data::workers::JournalGap;
use subagent_protocol::details::RecordDetail;
use subagent_protocol::event::EventType;
use subagent_protocol::hook::Hook;
use subagent_protocol::record::{ApprovalRequested, JournalRecord, RecordType, Segment, SessionRecord};
use subagent_protocol::time::Timestamp;
use subagent_protocol::{Code, Error, Result};

use super::actor::Actor;
use super::runtime::hibernation::is_activity;
use super::settings;
use super::tasks::prompt::{PromptUsage, step};
use crate::descriptors;
use crate::store::workers::{self, details};
use crate::store::{Durability, NewEvent, facts, tasks};
use crate::supervisor::entropy;
use crate::supervisor::hooks::are_asked;
use crate::supervisor::runtimes::journal::{JournalBatch, remove_before};
use crate::supervisor::start::definition;
use crate::supervisor::turns::agent_change;

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

/// Reads the journal up to `goal`. Returns whether there is more.
///
/// # Errors
/// `STORAGE_ERROR`, `STORAGE_FULL`. Nothing of the failed batch was stored; the next call reads
/// it again.
pub(crate) async fn ingest(actor: &mut Actor, goal: Goal) -> Result<bool> {
    let mut batches = 0;
    let mut ahead = None;
    loop {
        let DecodedBatch { batch, taken } = match ahead.take() {
            Some(ahead) => ahead?,
            None => {
                let basis = IngestState {
                    worker: actor.worker.clone(),
                    watch: actor.questions.policy.clone(),
                    prompt: actor.tasks.limits.open.clone(),
                    cursor: actor.journal.cursor,
                    clean_end: actor.runtime.clean_end,
                };
                read(actor, basis, goal)?
            }
        };
        let (end, drained) = (batch.end, batch.drained);
        actor.journal.damaged |= batch.damaged;
        let reached = |number: u64, batches: usize| match goal {
            // The runtime announces further records, also those in another segment.
            Goal::Some => drained || batches >= TURN_BATCHES,
            Goal::Record(wanted) => number >= wanted,
            Goal::End => false,
        };
        if let Some(taken) = taken {
            batches += 1;
            let more = !(end || reached(taken.next.cursor.number, batches));
            let basis = if more { taken.basis() } else { None };
            ahead = take(actor, batch.bytes, taken, basis.map(|basis| (basis, goal))).await?;
        }
        if end || reached(actor.journal.cursor.number, batches) {
            return Ok(!(end || drained));
        }
    }
}

/// Reads the journal. Schedules another attempt if the store fails.
pub(crate) async fn ingest_or_retry(actor: &mut Actor, goal: Goal) -> bool {
    match ingest(actor, goal).await {
        Ok(more) => {
            actor.journal.more = more;
            actor.journal.retry = None;
            actor.journal.is_free();
            true
        }
        Err(error) => {
            tracing::error!(worker = %actor.identity.worker_id, %error, "the journal cannot be taken in; trying again");
            actor.journal.retry_later(error);
            false
        }
    }
}

/// Reads and interprets a batch.
fn read(actor: &mut Actor, basis: IngestState, goal: Goal) -> Result<DecodedBatch> {
    let from = basis.cursor;
    let batch = actor.journal.reader.read(from, goal == Goal::End).map_err(|error| {
        if descriptors::is_reached(&error) {
            return descriptors::too_many("cannot open the journal of the worker");
        }
        Error::new(
            Code::StorageError,
            format!("the journal of {} cannot be read: {error}", actor.identity.worker_id),
        )
    })?;
    let moved = (batch.next.segment, batch.next.offset) != (from.segment, from.offset);
    let taken = moved.then(|| understand(actor, basis, &batch));
    Ok(DecodedBatch { batch, taken })
}

/// Stores an interpreted batch while it reads `ahead`.
///
/// # Errors
/// Those of the store. Nothing was stored, and the batch read ahead is discarded.
async fn take(
    actor: &mut Actor,
    bytes: Vec<u8>,
    taken: Taken,
    ahead: Option<(IngestState, Goal)>,
) -> Result<Option<Result<DecodedBatch>>> {
    let before = actor.journal.cursor;
    let Taken {
        next,
        drafts,
        actions,
        aside,
        reports,
        incarnation,
        gap,
        changed,
        misread,
        active,
        durability,
    } = taken;
    let IngestState { worker, watch, prompt, cursor, clean_end } = next;
    let restores = reports.iter().rev().find_map(RecordDetail::restores);
    let SessionUpdates { session_id, restore_failure, guard, set, ended: _, instructed, began } = aside;
    let instructed = instructed.filter(|_| actor.spec.agent.is_some());
    let spec = actor.settings.spec_with(&actor.spec, &set, began)?;
    let failures = actor.session.failures_with(session_id.is_some(), restore_failure);
    let facts: Vec<Fact> = drafts.iter().flat_map(|draft| draft.facts.iter().cloned()).collect();
    let (id, now, runtime) = (actor.identity.id, entropy::now(), actor.runtime.process());
    let (row, session) = (changed.then(|| worker.clone()), session_id.clone());
    let (begun, stored_failures) = (incarnation.clone(), failures.clone());
    let spec_text = spec.as_ref().map(|(_, text)| text.clone());
    let steps = prompt.as_ref().map(PromptUsage::steps).filter(|steps| *steps > actor.tasks.limits.steps());
    let (store, cwd) = (actor.shared.store.clone(), actor.identity.cwd.clone());
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
        tokio::join!(biased; stored, async { ahead.map(|(basis, goal)| read(actor, basis, goal)) });
    let (last_seq, agent) = stored?;
    actor.journal.cursor = cursor;
    actor.questions.policy = watch;
    actor.tasks.limits.open = prompt;
    actor.runtime.clean_end = clean_end;
    actor.journal.damaged |= gap;
    actor.journal.gap |= gap;
    if let Some((incarnation, boot_id)) = incarnation {
        (actor.runtime.incarnation, actor.runtime.boot_id, actor.runtime.may_live) =
            (incarnation, Some(boot_id), true);
    }
    actor.journal.misread += misread;
    actor.session.restores = restores.unwrap_or(actor.session.restores);
    if active {
        actor.session.is_active();
    }
    if session_id.is_some() {
        actor.session.id = session_id;
        actor.session.waking_since = None;
    }
    if let Some(failures) = failures {
        actor.session.restore_failures = failures;
    }
    if guard.is_some() && actor.runtime.is_here(&actor.shared.boot_id) {
        actor.shared.live.set_guard(&actor.identity.worker_id, guard);
    }
    if let Some((spec, _)) = spec {
        actor.spec = spec;
    }
    actor.take_changed(agent);
    actor.adopt(Transition { worker, facts, actions }, last_seq);
    settings::answer(actor, set).await;
    if changed && cursor.segment > before.segment {
        remove_before(&actor.identity.directory, cursor.segment);
        actor.runtime.place.stored(cursor.segment);
    }
    Ok(ahead)
}

fn understand(actor: &Actor, basis: IngestState, batch: &JournalBatch) -> Taken {
    let JournalBatch { bytes, records, next, .. } = batch;
    let (from, clean_end) = (basis.cursor, basis.clean_end);
    let mut taken = Taken {
        next: IngestState { cursor: *next, ..basis },
        drafts: Vec::with_capacity(records.len()),
        actions: Vec::new(),
        aside: SessionUpdates { ended: clean_end, ..SessionUpdates::default() },
        reports: Vec::new(),
        incarnation: None,
        gap: false,
        misread: 0,
        active: false,
        changed: next.segment != from.segment,
        durability: Durability::Progress,
    };
    taken.next.worker.queue.gated |= actor.budgets.has_news();
    let mut number = from.number;
    let clock_offset = actor.runtime.place.clock_offset();
    for (range, _) in records {
        let json = &bytes[range.clone()];
        let record: JournalRecord<'_> = match serde_json::from_slice::<JournalRecord<'_>>(json) {
            // Deadlines and budgets are those of the clock here.
            Ok(record) => JournalRecord { at: record.at.saturating_add(clock_offset), ..record },
            Err(error) => {
                // The resulting gap in the record numbers is stored with the next record.
                tracing::error!(worker = %actor.identity.worker_id, %error, "a record of the journal is not understood");
                taken.misread += 1;
                continue;
            }
        };
        if record.n <= number {
            continue;
        }
        let mut facts = Vec::new();
        if record.n != number + 1 {
            let gap = JournalGap { first_missing: number + 1, last_missing: record.n - 1 };
            facts.push(Fact::Event { data: EventData::JournalGap(gap), turn: None });
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
            RecordType::Segment => body(&record).map(|segment| superseded(actor, segment, &mut taken)),
            _ => input(&record, taken.next.worker.known_turn, &mut taken.aside, |error| {
                actor.identity.located(error, &actor.spec.launcher.name)
            }),
        };
        if actor.spec.parks() {
            input = input.map(|input| input.map(|input| input.with_limit(Timestamp(record.at))));
        }
        if let Ok(Some(WorkerInput::Session { took_ms, .. })) = &mut input {
            *took_ms = actor.session.waking_since.map(|since| millis(since.elapsed()));
        }
        taken.changed |= taken.incarnation.is_some();
        let facts_first = matches!(input, Ok(Some(WorkerInput::TurnRecovered { .. })));
        if facts_first && let Some(open) = taken.next.worker.turn().map(|open| open.no) {
            // An agent has one turn at a time.
            let end = WorkerInput::TurnEnd { turn: open, end: missing_end() };
            if let Ok(step) = taken.next.worker.step(end) {
                taken.next.worker = step.worker;
                facts.extend(step.facts);
            }
        }
        match input {
            Ok(Some(input)) => match taken.next.worker.step(input) {
                Ok(step) => {
                    taken.next.worker = step.worker;
                    facts.extend(step.facts);
                    if subagent_failpoint::sabotaged("decision.keep_open") {
                        facts.retain(|fact| !matches!(fact, Fact::ApprovalClosed { .. }));
                    }
                    taken.actions.extend(step.actions);
                    answer_for_the_user(&record, &mut taken, &mut facts);
                }
                Err(error) => {
                    tracing::error!(worker = %actor.identity.worker_id, n = record.n, %error, "the journal contradicts the rules");
                    taken.misread += 1;
                }
            },
            Ok(None) => {}
            Err(error) => {
                tracing::error!(worker = %actor.identity.worker_id, n = record.n, %error, "a record's body is not understood");
                taken.misread += 1;
            }
        }
        if let (RecordType::Session, Some(agent)) = (record.t, &actor.spec.agent)
            && let Ok(session) = body::<SessionRecord>(&record)
        {
            facts.push(definition::applied(agent, &session));
        }
        let mut follows = by_rule(&record, &mut taken, &mut facts, &actor.spec.hooks);
        if let Some(step) =
            step(&record, &mut taken.next.prompt, &actor.identity.worker_id, &taken.next.worker)
        {
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
    (taken.next.cursor.number, taken.next.clean_end) = (number, taken.aside.ended);
    if taken.gap || taken.incarnation.is_some() || next.segment != from.segment {
        taken.durability = Durability::Full;
    }
    taken
}

/// Handles a segment of a runtime that the store does not know, because the store was restored
/// from an older copy. The runtime that it knows has ended before.
fn superseded(actor: &Actor, segment: Segment, taken: &mut Taken) -> Option<WorkerInput> {
    let known = taken.incarnation.as_ref().map_or(actor.runtime.incarnation, |(incarnation, _)| *incarnation);
    let clean = std::mem::take(&mut taken.aside.ended);
    if segment.incarnation <= known {
        return None;
    }
    taken.incarnation = Some((segment.incarnation, segment.boot_id));
    // A prompt without a record may still have been sent, so it is not repeated.
    (known > 0).then_some(WorkerInput::RuntimeGone { clean, rebooted: true, place: None })
}

/// Applies the policy to a record in the same transaction, or holds a request for its hooks.
/// Returns whether that changed anything.
fn by_rule(record: &JournalRecord<'_>, taken: &mut Taken, facts: &mut Vec<Fact>, hooks: &[Hook]) -> bool {
    let (seen, asked_for) = match taken.next.watch.as_mut() {
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
