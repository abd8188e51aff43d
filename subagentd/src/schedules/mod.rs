//! Schedules and triggers: one owner waits for the next time or event, stores what is due, and
//! starts it. A firing is stored before it is started, and becomes running in the transaction that
//! stores its task or its turn. So a daemon that dies anywhere loses none and starts none twice.

mod checks;
mod commands;
mod config_check;
mod context;
mod declarations;
mod declared;
mod folders;
mod handover;
mod owner;
mod sources;
mod triggers;
mod view;
mod watching;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use subagent_config::Environment;
use subagent_protocol::api::{
    AddSchedule, Attendant, FiringView, Firings, ScheduleRemoved, ScheduleView, Schedules as Listed,
};
use subagent_protocol::schedule::FiringStatus;
use subagent_protocol::time::Timestamp;
use subagent_protocol::{Code, Error, Result};
use tokio::sync::{Notify, watch};
use tokio::time::{timeout, timeout_at};

use crate::store::schedules::firings::NewFiring;
use crate::store::schedules::{self, FiringSource, ScheduleKind, ScheduleRow, StoredTimes, firings};
use crate::supervisor;
use crate::supervisor::{ApiCaller, NewSchedule, ScheduleChange, Supervisor, entropy};
use checks::{check_name, check_room, check_work, first_time};
use context::ScheduleContext;
use declarations::Declarations;
use folders::Folders;

pub use config_check::check_declared;
pub(crate) use context::Stay;
pub use triggers::check_payload;

/// Firings that the log shows.
const MAX_LOG: u32 = 200;
/// How long to wait until a change is carried out.
const CARRIED_OUT_WITHIN: Duration = Duration::from_secs(5);

/// The schedules and triggers of a daemon. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Scheduler(Arc<ScheduleContext>);

impl Scheduler {
    /// Begins to wait for the next time, until the daemon ends.
    #[must_use]
    pub(crate) fn start(
        supervisor: &Supervisor,
        environment: Environment,
        runtime_program: PathBuf,
        state_dir: PathBuf,
        stay: Stay,
    ) -> Self {
        let context = Arc::new(ScheduleContext {
            declarations: Declarations::new(environment.clone(), state_dir),
            folders: Folders::default(),
            runtime_program,
            supervisor: supervisor.clone(),
            stream: supervisor.stream(),
            environment,
            stay,
            changed: Notify::new(),
            rounds: watch::Sender::new(context::Rounds::default()),
            waiting: watch::Sender::new(0),
            busy: watch::Sender::new(0),
            watched: watch::Sender::default(),
        });
        tokio::spawn(owner::run(Arc::clone(&context)));
        tokio::spawn(declared::watch(Arc::clone(&context)));
        Self(context)
    }

    /// Not zero while the daemon stays for schedules.
    #[must_use]
    pub(crate) fn busy(&self) -> watch::Receiver<usize> {
        self.0.busy.subscribe()
    }

    /// How many schedules have a next time or something that runs.
    #[must_use]
    pub(crate) fn waiting(&self) -> watch::Receiver<usize> {
        self.0.waiting.subscribe()
    }

    /// Adds a schedule.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT{field}` for a name, a time zone or times that cannot be used, or that
    /// never come; `SCHEDULE_UNATTENDED`, `NAME_TAKEN`, those of giving its task,
    /// `WORKER_NOT_FOUND`, `WORKER_STOPPED`.
    pub(crate) async fn add(&self, caller: ApiCaller, request: AddSchedule) -> Result<ScheduleView> {
        let AddSchedule { choice, name, when, timezone, missed, overlap, max_failures, mut work } = request;
        let now = entropy::now();
        check_name(ScheduleKind::Schedule, &name)?;
        let next = first_time(&when, &timezone, now)?;
        check_work(&self.0, &mut work).await?;
        self.check_attended(next, now)?;
        let starter = FiringSource::Times { when, timezone, missed };
        let rules = StoredTimes { starter, overlap, max_failures, declared: None };
        self.store(caller, NewSchedule { choice, name: name.clone(), rules, work }).await?;
        self.show(&name).await
    }

    /// Stores a new schedule or trigger, if there is room for it.
    async fn store(&self, caller: ApiCaller, new: NewSchedule) -> Result<()> {
        let count = self.0.stream.store.read(|connection| Ok(schedules::all(connection)?.len())).await?;
        check_room(count)?;
        supervisor::start::scheduled::add_schedule(&self.0.supervisor, caller, new).await?;
        self.carried_out().await;
        Ok(())
    }

    /// Refuses a time at which no daemon is there.
    fn check_attended(&self, next: Timestamp, now: Timestamp) -> Result<()> {
        if self.0.stay.attendant(next, now) != Attendant::Unattended {
            return Ok(());
        }
        let message = format!("it is due next at {next}, and the daemon in the background ends before that");
        Err(Error::new(Code::ScheduleUnattended, message)
            .with("nextAt", next.to_string())
            .recommend("run `subagent daemon install`, or keep `subagentd run` running, then add it again"))
    }

    /// All schedules.
    ///
    /// # Errors
    /// `STORAGE_ERROR`.
    pub(crate) async fn list(&self) -> Result<Listed> {
        let mut items = Vec::new();
        for row in self.rows(ScheduleKind::Schedule).await? {
            items.extend(view::schedule(&self.0, row).await?);
        }
        let problems = self.0.declarations.problems(ScheduleKind::Schedule).await;
        Ok(Listed { count: items.len(), items, problems })
    }

    /// One schedule.
    ///
    /// # Errors
    /// `SCHEDULE_NOT_FOUND`.
    pub(crate) async fn show(&self, name: &str) -> Result<ScheduleView> {
        let shown = view::schedule(&self.0, self.row(ScheduleKind::Schedule, name).await?).await?;
        shown.ok_or_else(|| ScheduleKind::Schedule.not_found(name))
    }

    /// What became of its newest times.
    ///
    /// # Errors
    /// `SCHEDULE_NOT_FOUND`.
    pub(crate) async fn log(&self, name: &str) -> Result<Firings> {
        self.firings(ScheduleKind::Schedule, name).await
    }

    async fn firings(&self, kind: ScheduleKind, name: &str) -> Result<Firings> {
        let row = self.row(kind, name).await?;
        let items =
            self.0.stream.store.read(move |connection| firings::log(connection, &row, MAX_LOG)).await?;
        Ok(Firings { count: items.len(), items })
    }

    async fn row(&self, kind: ScheduleKind, name: &str) -> Result<ScheduleRow> {
        self.in_line_with_config().await;
        let name = name.to_owned();
        self.0.stream.store.read(move |connection| schedules::named(connection, kind, &name)).await
    }

    async fn rows(&self, kind: ScheduleKind) -> Result<Vec<ScheduleRow>> {
        self.in_line_with_config().await;
        let mut rows = self.0.stream.store.read(schedules::all).await?;
        rows.retain(|row| row.times.starter.kind() == kind);
        Ok(rows)
    }

    /// Keeps it from firing. What it has started goes on.
    ///
    /// # Errors
    /// `SCHEDULE_NOT_FOUND`, `INVALID_CONTROLLER_HANDLE`.
    pub(crate) async fn pause(&self, caller: ApiCaller, name: &str) -> Result<ScheduleView> {
        self.change(caller, ScheduleKind::Schedule, name, ScheduleChange::Pause).await?;
        self.show(name).await
    }

    /// Lets it fire again. Times at which it was paused do not count as missed.
    ///
    /// # Errors
    /// `SCHEDULE_NOT_FOUND`, `INVALID_CONTROLLER_HANDLE`.
    pub(crate) async fn resume(&self, caller: ApiCaller, name: &str) -> Result<ScheduleView> {
        self.change(caller, ScheduleKind::Schedule, name, ScheduleChange::Resume).await?;
        self.show(name).await
    }

    /// Fires it once, now, whether it is paused or not.
    ///
    /// # Errors
    /// `SCHEDULE_NOT_FOUND`, `INVALID_CONTROLLER_HANDLE`.
    pub(crate) async fn run(&self, caller: ApiCaller, name: &str) -> Result<FiringView> {
        let firing = NewFiring { manual: true, ..NewFiring::default() };
        self.fire(caller, ScheduleKind::Schedule, name, ScheduleChange::Run(firing)).await
    }

    /// Stores a firing, and waits for a short time until it is started.
    async fn fire(
        &self,
        caller: ApiCaller,
        kind: ScheduleKind,
        name: &str,
        firing: ScheduleChange,
    ) -> Result<FiringView> {
        let mut rounds = self.0.rounds.subscribe();
        let firing = self.change(caller, kind, name, firing).await?;
        let end = tokio::time::Instant::now() + CARRIED_OUT_WITHIN;
        loop {
            rounds.borrow_and_update();
            let of = name.to_owned();
            let found = self.0.stream.store.read(move |connection| match firing {
                Some(firing) => firings::get(connection, &of, firing),
                None => Ok(None),
            });
            let shown = found.await?.ok_or_else(|| kind.not_found(name))?;
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
    pub(crate) async fn remove(&self, caller: ApiCaller, name: &str) -> Result<ScheduleRemoved> {
        self.change(caller, ScheduleKind::Schedule, name, ScheduleChange::Remove).await?;
        Ok(ScheduleRemoved { name: name.to_owned() })
    }

    async fn change(
        &self,
        caller: ApiCaller,
        kind: ScheduleKind,
        name: &str,
        change: ScheduleChange,
    ) -> Result<Option<crate::store::RowId>> {
        self.in_line_with_config().await;
        let changed =
            supervisor::start::scheduled::change_schedule(&self.0.supervisor, caller, kind, name, change)
                .await?;
        self.carried_out().await;
        Ok(changed)
    }

    /// Waits until a change of the config file is carried out.
    async fn in_line_with_config(&self) {
        if self.0.declarations.is_stale().await {
            self.carried_out().await;
        }
    }

    /// Waits until the owner has looked at what was changed.
    async fn carried_out(&self) {
        let mut rounds = self.0.rounds.subscribe();
        // The round that is under way may have looked before.
        let after = rounds.borrow_and_update().begun + 1;
        self.0.changed.notify_one();
        let is_over = timeout(CARRIED_OUT_WITHIN, rounds.wait_for(|rounds| rounds.ended >= after)).await;
        if is_over.is_err() {
            tracing::warn!("a change of a schedule or a trigger is stored, and is not carried out yet");
        }
    }
}
