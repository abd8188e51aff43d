//! What schedules start, in the transaction that stores the firing, and changes of schedules by
//! their owners. Must not decide when something is due: that is `schedules`'s.

use std::path::PathBuf;

use serde::Serialize;
use serde_json::{Value, json};
use subagent_core::model::{QueuePosition, Queued, WorkerInput};
use subagent_core::rules::reasons::stopped_for_good;
use subagent_protocol::api::{CancelTask, ControllerChoice, RunTask, ScheduledWork};
use subagent_protocol::budget::Limits;
use subagent_protocol::ids::{ControllerId, TurnId};
use subagent_protocol::schedule::SchedulePause;
use subagent_protocol::time::Timestamp;
use subagent_protocol::{Code, Error, Result};

use super::spec;
use crate::store::schedules::firings::NewFiring;
use crate::store::schedules::{self, ScheduleKind, ScheduleRow, StoredTimes, firings};
use crate::store::{
    Connection, Durability, OwnerCheck, RowId, Tx, accounts, controllers as stored_controllers, requests,
};
use crate::supervisor::controllers::ownership;
use crate::supervisor::orders::RequestTarget;
use crate::supervisor::tasks::TaskCaller;
use crate::supervisor::tasks::messages::cancel_task;
use crate::supervisor::tasks::spawn::run_task;
use crate::supervisor::turns::text;
use crate::supervisor::worker::{Also, Respond};
use crate::supervisor::{ApiCaller, Supervisor, addresses, controllers, entropy, hooks};

/// A schedule or a trigger to be stored.
#[derive(Debug, Serialize)]
pub(crate) struct NewSchedule {
    pub(crate) choice: ControllerChoice,
    pub(crate) name: String,
    pub(crate) rules: StoredTimes,
    pub(crate) work: ScheduledWork,
}

/// A change of a schedule or a trigger.
#[derive(Debug, Clone)]
pub(crate) enum ScheduleChange {
    Pause,
    Resume,
    /// Fires it once, now.
    Run(NewFiring),
    /// The same, unless it is paused.
    Fire(NewFiring),
    Remove,
}

/// Why a task or a turn ends for the next firing.
const REPLACED: &str = "the next firing of its schedule takes its place";

/// Adds a schedule or a trigger for the controller that the request means.
///
/// # Errors
/// `NAME_TAKEN`, `CONTROLLER_NOT_FOUND`, `INVALID_CONTROLLER_HANDLE`, `IDEMPOTENCY_CONFLICT`.
pub(crate) async fn add_schedule(supervisor: &Supervisor, caller: ApiCaller, new: NewSchedule) -> Result<()> {
    let (owner, key) = supervisor.guarded(caller, "add schedule", &new)?;
    let (state_db, now) = (supervisor.shared.store.path().display().to_string(), entropy::now());
    let NewSchedule { choice, name, rules, mut work } = new;
    let add = move |tx: &mut Tx<'_>| {
        let row = controllers::of_new_worker(tx.connection(), &choice, &owner, &state_db)?;
        place_in(&mut work, &row.controller_id);
        schedules::insert(tx, &name, &row.controller_id, &rules, &work, now)
    };
    let write = move |tx: &mut Tx<'_>| requests::once(tx, key.as_ref(), now, add);
    supervisor.shared.store.write(Durability::Full, 1, write).await.map(drop)
}

/// Stores what a config file declares: a new schedule or trigger, or a new version of `row`. A
/// workspace without a controller gets one, without an owner. `passed` is the only time of the
/// schedule, if that is in the past.
///
/// # Errors
/// `NAME_TAKEN`, `INVALID_CONTROLLER_HANDLE` for a controller that requires a handle, those of
/// the source of a trigger, `STORAGE_ERROR`.
pub(crate) async fn store_declared(
    supervisor: &Supervisor,
    new: NewSchedule,
    row: Option<ScheduleRow>,
    budget: Limits,
    passed: Option<Timestamp>,
) -> Result<()> {
    let fresh = ControllerId::from_random(entropy::random()?);
    budget.check()?;
    let now = entropy::now();
    let NewSchedule { choice, name, rules, mut work } = new;
    let write = move |tx: &mut Tx<'_>| {
        let controller = match controllers::find(tx.connection(), &choice, None)? {
            Some(row) if stored_controllers::requires_handle(tx.connection(), row.id)? => {
                return Err(needs_handle(rules.starter.kind(), &row.controller_id));
            }
            Some(row) => row,
            None => {
                let id = ownership::controller_to_init(tx, &choice, fresh)?;
                let row = stored_controllers::upsert(tx, &id, None, &choice.workspace_key, now)?;
                accounts::open_for_controller(tx, row.id, budget)?;
                row
            }
        };
        place_in(&mut work, &controller.controller_id);
        match &row {
            Some(row) if row.times.starter.kind() == rules.starter.kind() => {
                if !schedules::redeclare(tx, row, &controller.controller_id, &rules, &work, now)? {
                    return Ok(());
                }
            }
            other => {
                if let Some(row) = other {
                    schedules::delete(tx, row.id)?;
                }
                schedules::insert(tx, &name, &controller.controller_id, &rules, &work, now)?;
            }
        }
        passed.map_or(Ok(()), |at| schedules::leave_out_passed(tx, &name, at, now))
    };
    supervisor.shared.store.write(Durability::Full, 1, write).await
}

/// Changes a schedule or a trigger. Gives the firing of [`ScheduleChange::Run`] and
/// [`ScheduleChange::Fire`].
///
/// # Errors
/// `SCHEDULE_NOT_FOUND`, `TRIGGER_NOT_FOUND`, `TRIGGER_PAUSED`, `INVALID_CONTROLLER_HANDLE`,
/// `IDEMPOTENCY_CONFLICT`.
pub(crate) async fn change_schedule(
    supervisor: &Supervisor,
    caller: ApiCaller,
    kind: ScheduleKind,
    name: &str,
    change: ScheduleChange,
) -> Result<Option<RowId>> {
    let (owner, key) = supervisor.guarded(caller, &format!("{change:?} {} {name}", kind.word()), &())?;
    let gone = match change {
        ScheduleChange::Remove => gone_file_of(supervisor, kind, name).await,
        _ => None,
    };
    let (name, now) = (name.to_owned(), entropy::now());
    let carry_out = move |tx: &mut Tx<'_>| {
        let row = schedules::named(tx.connection(), kind, &name)?;
        if let Some(controller) = stored_controllers::by_id(tx.connection(), row.controller_id.as_str())? {
            stored_controllers::check_owner(tx.connection(), &owner, &controller)?;
        }
        match change {
            ScheduleChange::Pause => {
                schedules::ends::pause(tx, row.id, SchedulePause::User, None, now).map(|_| None)
            }
            ScheduleChange::Resume => schedules::resume(tx, &row, now).map(|()| None),
            ScheduleChange::Fire(_) if row.paused.is_some() => Err(paused(&row)),
            ScheduleChange::Run(firing) | ScheduleChange::Fire(firing) => {
                firings::insert_now(tx, row.id, &firing, now).map(|firing| Some(firing.0))
            }
            ScheduleChange::Remove
                if row.times.declared.as_ref().is_some_and(|one| gone.as_ref() != Some(&one.file)) =>
            {
                Err(is_declared(&row))
            }
            ScheduleChange::Remove => schedules::delete(tx, row.id).map(|()| None),
        }
    };
    let write = move |tx: &mut Tx<'_>| requests::once(tx, key.as_ref(), now, carry_out);
    let (firing, _) = supervisor.shared.store.write(Durability::Full, 1, write).await?;
    Ok(firing.map(RowId))
}

/// Returns the file that declares this one, if the file is missing or empty.
async fn gone_file_of(supervisor: &Supervisor, kind: ScheduleKind, name: &str) -> Option<PathBuf> {
    let name = name.to_owned();
    let read = move |connection: &Connection| schedules::named(connection, kind, &name);
    // A repeated request finds nothing any more, and gets its earlier response.
    let declared = supervisor.shared.store.read(read).await.ok()?.times.declared?;
    let looked = tokio::task::spawn_blocking(move || {
        let is_gone = match std::fs::metadata(&declared.file) {
            Ok(found) => found.len() == 0,
            Err(error) => error.kind() == std::io::ErrorKind::NotFound,
        };
        is_gone.then_some(declared.file)
    });
    looked.await.unwrap_or_default()
}

/// Gives the task of a firing.
///
/// # Errors
/// As [`Self::run_task`].
pub(crate) async fn fire_task(supervisor: &Supervisor, firing: RowId, request: RunTask) -> Result<()> {
    run_task(supervisor, TaskCaller::Schedule { firing }, request).await.map(drop)
}

/// Sends the message of a firing, behind what waits for the worker. The worker is an id or a
/// name.
///
/// # Errors
/// As [`Self::send`].
pub(crate) async fn fire_message(
    supervisor: &Supervisor,
    firing: RowId,
    worker: &str,
    text: &str,
) -> Result<()> {
    let worker = addresses::find(supervisor, worker).await?;
    let row = supervisor.row(&worker).await?;
    if row.state == "stopped" {
        let error = stopped_for_good(subagent_protocol::state::WorkerState::Stopped);
        return Err(error.with("workerId", worker));
    }
    text::check_text(text)?;
    let mut text = text.to_owned();
    let turn_id = TurnId::from_random(entropy::random()?);
    if let Some(mut prompt) = hooks::prompt_to(&supervisor.shared, &row, text.clone()).await? {
        prompt.turn_id = Some(turn_id.clone());
        if let Some(context) = hooks::of_prompt(&supervisor.shared, prompt).await? {
            text = format!("{text}\n\n{context}");
            text::check_text(&text)?;
        }
    }
    let RequestTarget::Live(handle) = supervisor.reach(&row, &OwnerCheck(None), &None).await? else {
        return Err(Error::new(Code::Internal, "a firing has no key"));
    };
    let (message, input) = text::plain(&text);
    let queued = Queued { turn_id: turn_id.clone(), message, input, sender: None };
    let input =
        WorkerInput::Enqueue { queued, urgency: QueuePosition::Queued, most: spec::queue_limit(&row) };
    let (worker_id, now) = (row.worker_id.clone(), entropy::now());
    let also: Also = Box::new(move |tx: &mut Tx<'_>, id: RowId| {
        firings::start(tx, firing, (id, &worker_id), Some(&turn_id), now)
    });
    supervisor.order_also(&handle, None, None, input, nothing(), None, Some(also)).await.map(drop)
}

/// Cancels what a firing has started.
///
/// # Errors
/// `TASK_NOT_FOUND`, `WORKER_NOT_FOUND`, `STORAGE_ERROR`.
pub(crate) async fn cancel_firing(
    supervisor: &Supervisor,
    firing: RowId,
    worker: &str,
    turn: Option<&str>,
) -> Result<()> {
    let Some(turn) = turn else {
        let request = CancelTask { reason: Some(REPLACED.to_owned()) };
        return cancel_task(supervisor, TaskCaller::Schedule { firing }, worker, request).await.map(drop);
    };
    let row = supervisor.row(worker).await?;
    let turn_id: TurnId = turn.parse().map_err(|_| Error::new(Code::TurnNotFound, turn))?;
    let RequestTarget::Live(handle) = supervisor.reach(&row, &OwnerCheck(None), &None).await? else {
        return Ok(());
    };
    let open = handle.snapshot.borrow().worker.open_turn().cloned();
    let input = match open {
        Some(open) if open == turn_id => {
            WorkerInput::Cancel { turn: Some(turn_id), reason: REPLACED.to_owned() }
        }
        _ => WorkerInput::DropQueued { turn_id },
    };
    supervisor.order(&handle, None, None, input, nothing()).await.map(drop)
}

/// Sets the controller of a task. Variables are not stored.
fn place_in(work: &mut ScheduledWork, controller: &ControllerId) {
    if let ScheduledWork::Task(task) = work
        && let Some(place) = &mut task.manager
    {
        place.choice.controller_id = Some(controller.as_str().to_owned());
        place.env.clear();
    }
}

/// The error for an entry of a config file whose controller requires a handle.
fn needs_handle(kind: ScheduleKind, controller: &ControllerId) -> Error {
    let message = "the controller of this workspace requires its owner's handle (`controller init \
                   --require-handle`), and an entry of a config file has none";
    Error::new(Code::InvalidControllerHandle, message)
        .with("controllerId", controller.as_str())
        .with("requireHandle", true)
        .recommend(format!("remove the entry, and run `subagent {} add` with the handle", kind.word()))
}

/// The error for the removal of what a config file declares.
fn is_declared(row: &ScheduleRow) -> Error {
    let word = row.times.starter.kind().word();
    let file = row.times.declared.as_ref().map(|declared| declared.file.display().to_string());
    let file = file.unwrap_or_default();
    Error::new(Code::InvalidArgument, format!("the {word} {} is declared in {file}", row.name))
        .with(word, row.name.as_str())
        .with("configPath", file)
        .recommend(format!(
            "remove its entry from this file, or keep it from firing with `subagent {word} pause {}`",
            row.name
        ))
}

fn paused(row: &ScheduleRow) -> Error {
    let reason = row.paused.map_or("", SchedulePause::as_str);
    Error::new(Code::TriggerPaused, format!("the trigger {} is paused ({reason})", row.name))
        .with("trigger", row.name.as_str())
        .recommend("`subagent trigger resume` lets it fire again, `subagent trigger run` fires it once")
}

fn nothing() -> Respond {
    Box::new(|_, _| -> Value { json!(null) })
}
