//! Requests about triggers. After the firing they share everything with schedules.

use subagent_protocol::api::{
    AddTrigger, DeliverTrigger, FireTrigger, FiringView, Firings, TriggerRemoved, TriggerView, Triggers,
};
use subagent_protocol::time::Timestamp;
use subagent_protocol::trigger::{MAX_PAYLOAD_BYTES, TriggerSource};
use subagent_protocol::{Code, Error, Result};

use super::checks::{check_name, check_trigger, wrong};
use super::{Scheduler, view};
use crate::store::schedules::firings::NewFiring;
use crate::store::schedules::{FiringSource, ScheduleKind, StoredTimes};
use crate::supervisor::{ApiCaller, NewSchedule, ScheduleChange, entropy};

/// Maximum length of the identifier of an occurrence, in bytes.
const MAX_OCCURRENCE: usize = 200;

impl Scheduler {
    /// Adds a trigger.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT{field}` for a name, a source or a template that cannot be used;
    /// `SCHEDULE_UNATTENDED`, `NAME_TAKEN`, those of giving its task, `WORKER_NOT_FOUND`,
    /// `WORKER_STOPPED`.
    pub(crate) async fn add_trigger(&self, caller: ApiCaller, request: AddTrigger) -> Result<TriggerView> {
        let AddTrigger { choice, name, mut source, overlap, max_failures, mut work } = request;
        check_name(ScheduleKind::Trigger, &name)?;
        check_trigger(&self.0, &mut source, &mut work).await?;
        if let TriggerSource::Command { every_seconds, .. } = &source {
            let now = entropy::now();
            let millis = i64::try_from(every_seconds.saturating_mul(1000)).unwrap_or(i64::MAX);
            self.check_attended(Timestamp(now.0.saturating_add(millis)), now)?;
        }
        let rules =
            StoredTimes { starter: FiringSource::Trigger { source }, overlap, max_failures, declared: None };
        self.store(caller, NewSchedule { choice, name: name.clone(), rules, work }).await?;
        self.until_watched(&name).await?;
        self.show_trigger(&name).await
    }

    /// All triggers.
    ///
    /// # Errors
    /// `STORAGE_ERROR`.
    pub(crate) async fn list_triggers(&self) -> Result<Triggers> {
        let mut items = Vec::new();
        for row in self.rows(ScheduleKind::Trigger).await? {
            items.extend(view::trigger(&self.0, row).await?);
        }
        let problems = self.0.declarations.problems(ScheduleKind::Trigger).await;
        Ok(Triggers { count: items.len(), items, problems })
    }

    /// One trigger.
    ///
    /// # Errors
    /// `TRIGGER_NOT_FOUND`.
    pub(crate) async fn show_trigger(&self, name: &str) -> Result<TriggerView> {
        let shown = view::trigger(&self.0, self.row(ScheduleKind::Trigger, name).await?).await?;
        shown.ok_or_else(|| ScheduleKind::Trigger.not_found(name))
    }

    /// What became of its newest occurrences.
    ///
    /// # Errors
    /// `TRIGGER_NOT_FOUND`.
    pub(crate) async fn trigger_log(&self, name: &str) -> Result<Firings> {
        self.firings(ScheduleKind::Trigger, name).await
    }

    /// Keeps it from firing. What it has started goes on.
    ///
    /// # Errors
    /// `TRIGGER_NOT_FOUND`, `INVALID_CONTROLLER_HANDLE`.
    pub(crate) async fn pause_trigger(&self, caller: ApiCaller, name: &str) -> Result<TriggerView> {
        self.change(caller, ScheduleKind::Trigger, name, ScheduleChange::Pause).await?;
        self.show_trigger(name).await
    }

    /// Lets it fire again, for occurrences from now on.
    ///
    /// # Errors
    /// `TRIGGER_NOT_FOUND`, `INVALID_CONTROLLER_HANDLE`.
    pub(crate) async fn resume_trigger(&self, caller: ApiCaller, name: &str) -> Result<TriggerView> {
        self.change(caller, ScheduleKind::Trigger, name, ScheduleChange::Resume).await?;
        self.until_watched(name).await?;
        self.show_trigger(name).await
    }

    /// Fires it once, now, without a payload, whether it is paused or not.
    ///
    /// # Errors
    /// `TRIGGER_NOT_FOUND`, `INVALID_CONTROLLER_HANDLE`.
    pub(crate) async fn run_trigger(&self, caller: ApiCaller, name: &str) -> Result<FiringView> {
        let firing = NewFiring { manual: true, ..NewFiring::default() };
        self.fire(caller, ScheduleKind::Trigger, name, ScheduleChange::Run(firing)).await
    }

    /// Fires it for an occurrence, once.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT{field}` for a payload that is binary, and for an occurrence that is empty
    /// or too long; `PAYLOAD_TOO_LARGE`, `TRIGGER_NOT_FOUND`, `TRIGGER_PAUSED`,
    /// `INVALID_CONTROLLER_HANDLE`.
    pub(crate) async fn fire_trigger(
        &self,
        caller: ApiCaller,
        name: &str,
        request: FireTrigger,
    ) -> Result<FiringView> {
        let FireTrigger { payload, occurrence } = request;
        if let Some(payload) = &payload {
            check_payload(payload)?;
        }
        if occurrence.as_ref().is_some_and(|id| id.trim().is_empty() || id.len() > MAX_OCCURRENCE) {
            let message = format!("the identifier of an occurrence has 1 to {MAX_OCCURRENCE} bytes");
            return Err(wrong("occurrence", message));
        }
        let firing = NewFiring { manual: false, occurrence, payload };
        self.fire(caller, ScheduleKind::Trigger, name, ScheduleChange::Fire(firing)).await
    }

    /// Fires it for a request to its webhook.
    ///
    /// # Errors
    /// `UNAUTHORIZED`, and as [`Self::fire_trigger`].
    pub(crate) async fn deliver_trigger(
        &self,
        caller: ApiCaller,
        name: &str,
        request: DeliverTrigger,
    ) -> Result<FiringView> {
        self.check_token(name, &request.token).await?;
        self.fire_trigger(caller, name, request.fire).await
    }

    /// Removes it. What it has started goes on.
    ///
    /// # Errors
    /// `TRIGGER_NOT_FOUND`, `INVALID_CONTROLLER_HANDLE`.
    pub(crate) async fn remove_trigger(&self, caller: ApiCaller, name: &str) -> Result<TriggerRemoved> {
        self.change(caller, ScheduleKind::Trigger, name, ScheduleChange::Remove).await?;
        Ok(TriggerRemoved { name: name.to_owned() })
    }
}

/// Checks the payload of a request.
///
/// # Errors
/// `PAYLOAD_TOO_LARGE`; `INVALID_ARGUMENT{field}` for a binary one.
pub fn check_payload(payload: &str) -> Result<()> {
    if payload.len() > MAX_PAYLOAD_BYTES {
        let message =
            format!("the payload has {} bytes; a trigger takes at most {MAX_PAYLOAD_BYTES}", payload.len());
        return Err(Error::new(Code::PayloadTooLarge, message)
            .with("field", "payload")
            .with("limitBytes", MAX_PAYLOAD_BYTES)
            .recommend("pass the name of a file, or the part that matters"));
    }
    if payload.contains('\0') {
        return Err(wrong("payload", "the payload is binary: it has a NUL character".to_owned())
            .recommend("pass the name of a file, or text"));
    }
    Ok(())
}
