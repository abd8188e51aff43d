//! The schedules and triggers that the user's config file declares, and which of them are not in
//! effect.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use jiff::tz::TimeZone;
use sha2::{Digest as _, Sha256};
use subagent_config::declared::{DeclaredSchedule, DeclaredSource, DeclaredStart, DeclaredTrigger};
use subagent_config::{Config, Environment, Workspace};
use subagent_protocol::api::DeclarationProblem;
use subagent_protocol::ids::hex;
use subagent_protocol::trigger::TriggerSource;
use subagent_protocol::{Error, Result};
use tokio::sync::Mutex;

use super::folders::{Folders, not_available};
use super::handover;
use crate::store::schedules::{Declaration, FiringSource, ScheduleKind, ScheduleRow};
use crate::user_config::UserConfigFile;

/// The declarations of a daemon.
pub(super) struct Declarations {
    pub(super) environment: Environment,
    /// State dir of this daemon, without symbolic links.
    pub(super) state_dir: PathBuf,
    /// Whether the file is looked at in the next round.
    pub(super) asked: AtomicBool,
    pub(super) state: Mutex<DeclaredState>,
}

pub(super) struct DeclaredState {
    pub(super) file: UserConfigFile,
    /// The entries of the last readable version; `None` before it was read.
    pub(super) entries: Option<Vec<DeclaredEntry>>,
    /// Whether the entries were not carried out completely.
    pub(super) is_pending: bool,
    /// Since when the file is without an entry that is stored.
    pub(super) removed_since: Option<Instant>,
    /// Set while the file is missing or empty and entries of it are stored.
    pub(super) blank: Option<DeclarationProblem>,
    /// Why the present version cannot be read.
    pub(super) unusable: Option<DeclarationProblem>,
    pub(super) problems: Vec<(ScheduleKind, DeclarationProblem)>,
    /// Names of entries whose folders do not answer, and of those that another daemon takes. They
    /// start nothing.
    pub(super) unavailable: HashSet<String>,
}

impl DeclaredState {
    /// Whether another look may find less to report.
    pub(super) fn has_problems(&self) -> bool {
        !self.problems.is_empty() || self.blank.is_some()
    }
}

/// An entry with its name.
#[derive(Debug, Clone)]
pub(super) enum DeclaredEntry {
    Schedule(String, DeclaredSchedule),
    Trigger(String, DeclaredTrigger),
}

impl DeclaredEntry {
    pub(super) fn all(config: Config) -> Vec<Self> {
        let schedules = config.schedules.into_iter().map(|(name, one)| Self::Schedule(name, one));
        let triggers = config.triggers.into_iter().map(|(name, one)| Self::Trigger(name, one));
        schedules.chain(triggers).collect()
    }

    /// Whether the entry leaves its time zone to the system.
    pub(super) fn has_zone_of_system(&self) -> bool {
        matches!(self, Self::Schedule(_, DeclaredSchedule { timezone: None, .. }))
    }

    pub(super) fn name(&self) -> &str {
        let (Self::Schedule(name, _) | Self::Trigger(name, _)) = self;
        name
    }

    pub(super) fn kind(&self) -> ScheduleKind {
        match self {
            Self::Schedule(..) => ScheduleKind::Schedule,
            Self::Trigger(..) => ScheduleKind::Trigger,
        }
    }

    pub(super) fn start(&self) -> &DeclaredStart {
        match self {
            Self::Schedule(_, DeclaredSchedule { start, .. })
            | Self::Trigger(_, DeclaredTrigger { start, .. }) => start,
        }
    }

    /// SHA-256 of everything that decides what is stored for it.
    pub(super) fn sha256(&self, workspace: &Workspace) -> String {
        let entry = match self {
            Self::Schedule(_, schedule) => serde_json::to_string(schedule),
            Self::Trigger(_, trigger) => serde_json::to_string(trigger),
        };
        // Keys and values are text, so this cannot fail.
        let entry = entry.unwrap_or_default();
        hex(&Sha256::digest(format!("{} {entry}", workspace.root.display())))
    }
}

/// The time zone of a schedule: by default that of the system when the entry was stored first, so
/// that the environment of a later daemon does not move its times.
pub(super) fn timezone(schedule: &DeclaredSchedule, row: Option<&ScheduleRow>) -> String {
    let recorded = row.and_then(|row| match (&row.times.declared, &row.times.starter) {
        (Some(Declaration { zone_of_system: true, .. }), FiringSource::Times { timezone, .. }) => {
            Some(timezone)
        }
        _ => None,
    });
    let system = || TimeZone::system().iana_name().map(str::to_owned);
    let zone = schedule.timezone.as_ref().or(recorded).cloned().or_else(system);
    zone.unwrap_or_else(|| "UTC".to_owned())
}

impl Declarations {
    pub(super) fn new(environment: Environment, state_dir: PathBuf) -> Self {
        let state = DeclaredState {
            file: UserConfigFile::new(environment.clone()),
            entries: None,
            is_pending: false,
            removed_since: None,
            blank: None,
            unusable: None,
            problems: Vec::new(),
            unavailable: HashSet::new(),
        };
        let state_dir = state_dir.canonicalize().unwrap_or(state_dir);
        Self { environment, state_dir, asked: AtomicBool::new(true), state: Mutex::new(state) }
    }

    /// Asks for a look in the next round if one may change something.
    pub(super) async fn is_stale(&self) -> bool {
        let state = self.state.lock().await;
        let is_stale = state.file.has_changed()
            || state.is_pending
            || state.has_problems()
            || handover::is_pending(&self.state_dir);
        if is_stale {
            self.asked.store(true, Ordering::Release);
        }
        is_stale
    }

    /// Whether another look may find less to report.
    pub(super) async fn has_problems(&self) -> bool {
        self.state.lock().await.has_problems()
    }

    /// Names of entries that start nothing.
    pub(super) async fn unavailable(&self) -> HashSet<String> {
        self.state.lock().await.unavailable.clone()
    }

    /// Entries of this kind that are not in effect as they are declared.
    pub(super) async fn problems(&self, kind: ScheduleKind) -> Vec<DeclarationProblem> {
        let state = self.state.lock().await;
        let of_kind = state.problems.iter().filter(|(of, _)| *of == kind).map(|(_, problem)| problem.clone());
        state.unusable.iter().chain(&state.blank).cloned().chain(of_kind).collect()
    }

    /// Looks for the workspaces of these entries, at the same time. Each is `INVALID_ARGUMENT` if
    /// the folder cannot be used, and `TIMED_OUT{folder}` if it does not answer.
    pub(super) async fn workspaces(
        &self,
        folders: &Folders,
        entries: &[DeclaredEntry],
    ) -> Vec<Result<Workspace>> {
        let deadline = Folders::deadline();
        // Entries of one folder share a look.
        let mut looks = HashMap::new();
        for start in entries.iter().map(DeclaredEntry::start) {
            looks.entry((&start.cwd, &start.state_dir)).or_insert_with(|| {
                let (start, environment) = (start.clone(), self.environment.clone());
                let folder = PathBuf::from(&start.cwd);
                folders.begin(&folder, move || start.workspace(&environment).map_err(Error::from))
            });
        }
        let mut found = HashMap::new();
        for (place, look) in looks {
            found.insert(place, look.until(deadline).await.flatten());
        }
        let of = |start: &DeclaredStart| {
            let looked = found.get(&(&start.cwd, &start.state_dir)).cloned();
            looked.unwrap_or_else(|| Err(not_available(Path::new(&start.cwd))))
        };
        entries.iter().map(|entry| of(entry.start())).collect()
    }

    /// Whether this is a workspace of this daemon.
    pub(super) fn has(&self, workspace: &Workspace) -> bool {
        workspace.state_dir == self.state_dir
    }
}

/// The source of a trigger with this folder.
pub(super) fn trigger_source(declared: &DeclaredSource, cwd: PathBuf) -> TriggerSource {
    match declared.clone() {
        DeclaredSource::Request => TriggerSource::Request {},
        DeclaredSource::After { worker, status } => TriggerSource::After { worker, status },
        DeclaredSource::Command { line, every_seconds, timeout_seconds } => {
            TriggerSource::Command { command: line, cwd, every_seconds, timeout_seconds }
        }
        DeclaredSource::Files { globs, debounce_ms } => {
            TriggerSource::Files { folder: cwd, globs, debounce_ms }
        }
        DeclaredSource::Webhook { token_sha256 } => {
            TriggerSource::Webhook { token_sha256: Some(token_sha256) }
        }
    }
}
