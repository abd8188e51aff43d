//! Schedules: one owner waits for the next time, stores what is due, and starts it.
//!
//! A firing is stored before it is started, and becomes running in the transaction that stores its task or its turn. So a
//! daemon that dies anywhere loses none and starts none twice.

mod context;
mod owner;
mod view;

use std::sync::Arc;
use std::time::Duration;

use subagent_config::Environment;
use subagent_protocol::api::{
    AddSchedule, Attendant, FiringView, Firings, ScheduleRemoved, ScheduleView, ScheduledWork,
    Schedules as Listed,
};
use subagent_protocol::schedule::FiringStatus;
use subagent_protocol::{Code, Error, Result};
use tokio::sync::{Notify, watch};
use tokio::time::{timeout, timeout_at};

use crate::schedule::Times;
use crate::store::schedules::{self, ScheduleRow};
use crate::supervisor::{Caller, ScheduleChange, Supervisor, entropy};
use context::{Context, zone};

pub use context::Stay;

/// Firings that the log shows.
const MAX_LOG: u32 = 200;
/// Schedules of a state dir.
const MAX_SCHEDULES: usize = 1000;
/// Maximum length of a name, in bytes.
const MAX_NAME: usize = 64;
/// How long to wait until a change is carried out.
const CARRIED_OUT_WITHIN: Duration = Duration::from_secs(5);

/// The schedules of a daemon. Cheap to clone.
#[derive(Clone)]
pub struct Schedules(Arc<Context>);

impl Schedules {
    /// Begins to wait for the next time, until the daemon ends.
    #[must_use]
    pub fn start(supervisor: &Supervisor, environment: Environment, stay: Stay) -> Self {
        let context = Arc::new(Context {
            supervisor: supervisor.clone(),
            stream: supervisor.stream(),
            environment,
            stay,
            changed: Notify::new(),
            rounds: watch::Sender::new(context::Rounds::default()),
            waiting: watch::Sender::new(0),
            busy: watch::Sender::new(0),
        });
        tokio::spawn(owner::run(Arc::clone(&context)));
        Self(context)
    }

    /// Not zero while the daemon stays for schedules.
    #[must_use]
    pub fn busy(&self) -> watch::Receiver<usize> {
        self.0.busy.subscribe()
    }

    /// How many schedules have a next time or something that runs.
    #[must_use]
    pub fn waiting(&self) -> watch::Receiver<usize> {
        self.0.waiting.subscribe()
    }

    /// Adds a schedule.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT{field}` for a name, a time zone or times that cannot be used, or that never come;
    /// `SCHEDULE_UNATTENDED`, `NAME_TAKEN`, those of giving its task, `WORKER_NOT_FOUND`, `WORKER_STOPPED`.
    pub async fn add(&self, caller: Caller, mut request: AddSchedule) -> Result<ScheduleView> {
        let now = entropy::now();
        check_name(&request.name)?;
        let zone = zone(&request.timezone).map_err(|problem| wrong("timezone", problem))?;
        let times = Times::of(&request.when, zone, now).map_err(|problem| wrong("when", problem))?;
        let next = times.next(now).ok_or_else(|| wrong("when", "this time never comes".to_owned()))?;
        self.check_work(&mut request.work).await?;
        if self.0.stay.attendant(next, now) == Attendant::Unattended {
            let message =
                format!("it fires next at {next}, and the daemon in the background ends before that");
            return Err(Error::new(Code::ScheduleUnattended, message)
                .with("nextAt", next.to_string())
                .recommend(
                    "run `subagent daemon install`, or keep `subagentd run` running, then add it again",
                ));
        }
        let count = self.0.stream.store.read(|connection| Ok(schedules::all(connection)?.len())).await?;
        if count >= MAX_SCHEDULES {
            return Err(Error::new(
                Code::InvalidArgument,
                format!("there are {MAX_SCHEDULES} schedules already"),
            )
            .with("limit", MAX_SCHEDULES)
            .recommend("remove one that is not needed any more with `subagent schedule rm`"));
        }
        let name = request.name.clone();
        self.0.supervisor.add_schedule(caller, request).await?;
        self.carried_out().await;
        self.show(&name).await
    }

    /// What would be started has to exist now.
    async fn check_work(&self, work: &mut ScheduledWork) -> Result<()> {
        match work {
            ScheduledWork::Task(task) => self.0.supervisor.check_task(&self.0.with_environment(task)).await,
            ScheduledWork::Send(message) => {
                if message.text.trim().is_empty() {
                    return Err(wrong("text", "the message is empty".to_owned()));
                }
                message.worker = self.0.supervisor.find_worker(&message.worker).await?;
                match view::trouble(&self.0.stream, &message.worker).await? {
                    Some(error) => Err(error),
                    None => Ok(()),
                }
            }
        }
    }

    /// All schedules.
    ///
    /// # Errors
    /// `STORAGE_ERROR`.
    pub async fn list(&self) -> Result<Listed> {
        let rows = self.0.stream.store.read(schedules::all).await?;
        let mut items = Vec::with_capacity(rows.len());
        for row in rows {
            items.push(view::schedule(&self.0, row).await?);
        }
        Ok(Listed { count: items.len(), items })
    }

    /// One schedule.
    ///
    /// # Errors
    /// `SCHEDULE_NOT_FOUND`.
    pub async fn show(&self, name: &str) -> Result<ScheduleView> {
        view::schedule(&self.0, self.row(name).await?).await
    }

    /// What became of its newest times.
    ///
    /// # Errors
    /// `SCHEDULE_NOT_FOUND`.
    pub async fn log(&self, name: &str) -> Result<Firings> {
        let row = self.row(name).await?;
        let items =
            self.0.stream.store.read(move |connection| schedules::log(connection, &row, MAX_LOG)).await?;
        Ok(Firings { count: items.len(), items })
    }

    async fn row(&self, name: &str) -> Result<ScheduleRow> {
        let name = name.to_owned();
        self.0.stream.store.read(move |connection| schedules::named(connection, &name)).await
    }

    /// Keeps it from firing. What it has started goes on.
    ///
    /// # Errors
    /// `SCHEDULE_NOT_FOUND`, `INVALID_CONTROLLER_HANDLE`.
    pub async fn pause(&self, caller: Caller, name: &str) -> Result<ScheduleView> {
        self.change(caller, name, ScheduleChange::Pause).await?;
        self.show(name).await
    }

    /// Lets it fire again. Times at which it was paused do not count as missed.
    ///
    /// # Errors
    /// `SCHEDULE_NOT_FOUND`, `INVALID_CONTROLLER_HANDLE`.
    pub async fn resume(&self, caller: Caller, name: &str) -> Result<ScheduleView> {
        self.change(caller, name, ScheduleChange::Resume).await?;
        self.show(name).await
    }

    /// Fires it once, now, whether it is paused or not.
    ///
    /// # Errors
    /// `SCHEDULE_NOT_FOUND`, `INVALID_CONTROLLER_HANDLE`.
    pub async fn run(&self, caller: Caller, name: &str) -> Result<FiringView> {
        let mut rounds = self.0.rounds.subscribe();
        let firing = self.change(caller, name, ScheduleChange::Run).await?;
        let end = tokio::time::Instant::now() + CARRIED_OUT_WITHIN;
        loop {
            rounds.borrow_and_update();
            let of = name.to_owned();
            let found = self.0.stream.store.read(move |connection| match firing {
                Some(firing) => schedules::firing(connection, &of, firing),
                None => Ok(None),
            });
            let removed = || Error::new(Code::ScheduleNotFound, "the schedule was removed meanwhile");
            let shown = found.await?.ok_or_else(removed)?;
            // One that waits for an earlier one is shown as such.
            let waits = shown.status == FiringStatus::Waiting;
            if !waits || !matches!(timeout_at(end, rounds.changed()).await, Ok(Ok(()))) {
                return Ok(shown);
            }
        }
    }

    /// Removes it. What it has started goes on.
    ///
    /// # Errors
    /// `SCHEDULE_NOT_FOUND`, `INVALID_CONTROLLER_HANDLE`.
    pub async fn remove(&self, caller: Caller, name: &str) -> Result<ScheduleRemoved> {
        self.change(caller, name, ScheduleChange::Remove).await?;
        Ok(ScheduleRemoved { name: name.to_owned() })
    }

    async fn change(
        &self,
        caller: Caller,
        name: &str,
        change: ScheduleChange,
    ) -> Result<Option<crate::store::RowId>> {
        let changed = self.0.supervisor.change_schedule(caller, name, change).await?;
        self.carried_out().await;
        Ok(changed)
    }

    /// Waits until the owner has looked at what was changed.
    async fn carried_out(&self) {
        let mut rounds = self.0.rounds.subscribe();
        // The round that is under way may have looked before.
        let after = rounds.borrow_and_update().begun + 1;
        self.0.changed.notify_one();
        let is_over = timeout(CARRIED_OUT_WITHIN, rounds.wait_for(|rounds| rounds.ended >= after)).await;
        if is_over.is_err() {
            tracing::warn!("a change of a schedule is stored, and is not carried out yet");
        }
    }
}

fn wrong(field: &str, problem: String) -> Error {
    Error::new(Code::InvalidArgument, problem).with("field", field)
}

fn check_name(name: &str) -> Result<()> {
    let is_plain = |char: char| char.is_ascii_alphanumeric() || "-_.".contains(char);
    if name.is_empty()
        || name.len() > MAX_NAME
        || !name.chars().all(is_plain)
        || name.starts_with(['-', '_', '.'])
    {
        let message = format!(
            "a schedule's name has 1 to {MAX_NAME} letters, digits, `-`, `_` and `.`, and begins with none of the last three"
        );
        return Err(wrong("name", message));
    }
    Ok(())
}
