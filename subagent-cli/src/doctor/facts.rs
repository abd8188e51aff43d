//! Facts that all checks share, collected once at the beginning.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::Duration;

use subagent_config::{Environment, RuntimeDir, regular};
use subagent_protocol::Code;
use subagent_protocol::api::{DaemonShown, Examination, Schedules, Triggers};
use subagent_protocol::notification::Sinks;

use super::finding::{CheckedPart, Finding};
use super::holders::{self, LockHolder, ProcessRole};
use crate::client::{ApiRequest, DaemonClient, block_on, read_info, running_soon};
use crate::failure::Failure;

/// Maximum time for the daemon's answer.
const ANSWER: Duration = Duration::from_secs(5);
/// Maximum time until a live daemon announces itself: it is starting, or its announcement was removed.
const ANNOUNCED: Duration = Duration::from_secs(3);
/// Maximum time for the daemon's examination of its database, which stops itself earlier.
const EXAMINE: Duration = Duration::from_secs(20);

/// The state dir to examine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExaminedStateDir {
    /// The state dir; outside of a workspace the one that would be created here.
    pub state_dir: PathBuf,
    /// Whether the folder is outside of a workspace.
    pub outside: bool,
}

#[derive(Debug)]
pub(super) enum Daemon {
    None,
    Answers(Box<DaemonShown>),
    /// The daemon runs, but a request failed.
    Fails(Failure),
    /// Whether a daemon runs is unknown.
    Hidden,
}

/// Sends a request to a running daemon.
fn answered<T: serde::de::DeserializeOwned>(state_dir: PathBuf, path: &'static str) -> Result<T, Failure> {
    let ask = ApiRequest::get(path).within(Some(EXAMINE));
    block_on(async {
        let mut client = DaemonClient::of_running(state_dir);
        let late = || Failure::new(Code::DaemonUnresponsive, "it did not answer in time");
        let found = tokio::time::timeout(EXAMINE, client.ask(&ask)).await;
        let found = found.unwrap_or_else(|_| Err(late()))?;
        serde_json::from_value(found)
            .map_err(|error| Failure::internal(format!("its answer is incomplete: {error}")))
    })
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum StateDirStatus {
    /// There is no workspace. The path is that of a new one in this folder.
    Outside,
    /// The state dir is missing, or its path is not a folder.
    Absent,
    /// The state dir exists and is readable.
    There,
    /// The state dir is inaccessible, with the system's error.
    Hidden(String),
}

impl StateDirStatus {
    fn of(state_dir: &Path) -> Self {
        let looked = state_dir.metadata().and_then(|meta| {
            // A folder can be listable but not searchable.
            let within = || std::fs::read_dir(state_dir).and_then(|_| state_dir.join(".").metadata());
            if meta.is_dir() { within().map(|_| true) } else { Ok(false) }
        });
        match looked {
            Ok(true) => Self::There,
            Ok(false) => Self::Absent,
            Err(error) if error.kind() == ErrorKind::NotFound => Self::Absent,
            Err(error) => Self::Hidden(error.to_string()),
        }
    }
}

/// The facts that all checks share.
#[derive(Debug)]
pub(super) struct DoctorFacts {
    pub(super) env: Environment,
    pub(super) cwd: Option<PathBuf>,
    pub(super) state_dir: PathBuf,
    pub(super) state: StateDirStatus,
    /// Whether to repair problems.
    pub(super) fix: bool,
    /// Processes with a runtime's marker.
    pub(super) marked: Vec<(i32, String)>,
    pub(super) holders: Vec<LockHolder>,
    /// Our processes whose state dir is unknown, because the system denies access.
    pub(super) unknown_processes: Vec<i32>,
    pub(super) daemon: Daemon,
    /// The daemon's examination of workers and database. It is requested last: a runtime that was found
    /// before and is not in it is an orphan.
    pub(super) examination: Option<Examination>,
    /// The reason for a missing examination although a daemon answers.
    pub(super) unexamined: Option<Failure>,
    /// The notification targets of the daemon.
    pub(super) sinks: Option<Sinks>,
    /// What starts work at certain times.
    pub(super) schedules: Option<Schedules>,
    /// Triggers, which start work on events.
    pub(super) triggers: Option<Triggers>,
    /// The folders of the sockets that exist.
    pub(super) runtime_dirs: Vec<RuntimeDir>,
}

impl DoctorFacts {
    pub(super) fn gather(
        env: &Environment,
        cwd: Option<PathBuf>,
        place: ExaminedStateDir,
        fix: bool,
    ) -> Self {
        let ExaminedStateDir { state_dir, outside } = place;
        let state = if outside { StateDirStatus::Outside } else { StateDirStatus::of(&state_dir) };
        let announced = read_info(&state_dir).and_then(|info| info.socket.parent().map(PathBuf::from));
        let mut facts = Self {
            env: env.clone(),
            cwd,
            runtime_dirs: RuntimeDir::existing(env, announced.as_deref(), &state_dir),
            state_dir,
            state,
            fix,
            marked: Vec::new(),
            holders: Vec::new(),
            unknown_processes: Vec::new(),
            daemon: Daemon::None,
            examination: None,
            unexamined: None,
            sinks: None,
            schedules: None,
            triggers: None,
        };
        if facts.state == StateDirStatus::Absent {
            return facts;
        }
        // Markers are read before the holders, because a guard exists before the processes below it.
        facts.marked = subagentd::stray_processes::marked();
        let (all, unknown) = holders::find();
        match facts.state {
            StateDirStatus::Outside => facts.holders = all,
            _ => {
                let own = |holder: &LockHolder| holder.state_dir == facts.state_dir;
                facts.holders = all.into_iter().filter(own).collect();
                facts.unknown_processes = unknown;
            }
        }
        if facts.state == StateDirStatus::There {
            facts.ask();
        } else if matches!(facts.state, StateDirStatus::Hidden(_)) {
            facts.daemon = Daemon::Hidden;
        }
        facts
    }

    /// Whether the state dir is readable.
    pub(super) fn has_state(&self) -> bool {
        self.state == StateDirStatus::There
    }

    /// Returns the warning of a check that cannot look, so that it does not report success.
    pub(super) fn hidden(&self, group: CheckedPart, id: &'static str) -> Option<Finding> {
        let StateDirStatus::Hidden(why) = &self.state else { return None };
        let seen = format!("not looked at: {}: {why}", self.state_dir.display());
        Some(Finding::warning(group, id, seen).advise("run this as its owner"))
    }

    fn ask(&mut self) {
        if self.holders.iter().any(|holder| holder.role == ProcessRole::Daemon && holder.stopped) {
            let why = Failure::new(Code::DaemonUnresponsive, "the daemon is stopped by a signal");
            self.daemon = Daemon::Fails(why);
            return;
        }
        let announced = regular::read(&self.state_dir.join("daemon.json"));
        if announced.is_err_and(|error| error.kind() == ErrorKind::PermissionDenied) {
            self.daemon = Daemon::Hidden;
            return;
        }
        let state_dir = self.state_dir.clone();
        let lives = self.holders.iter().any(|holder| holder.role == ProcessRole::Daemon);
        let asked = block_on(async {
            let late = || Failure::new(Code::DaemonUnresponsive, "the daemon does not answer");
            let now = tokio::time::Instant::now();
            let soon = if lives { now + ANNOUNCED } else { now };
            tokio::time::timeout(ANSWER, running_soon(&state_dir, soon)).await.unwrap_or_else(|_| Err(late()))
        });
        self.daemon = match asked {
            Ok(None) => Daemon::None,
            Ok(Some(shown)) => Daemon::Answers(Box::new(shown)),
            Err(failure) => Daemon::Fails(failure),
        };
        if !matches!(self.daemon, Daemon::Answers(_)) {
            return;
        }
        match answered(state_dir.clone(), "/v1/daemon/examination") {
            Ok(examination) => self.examination = Some(examination),
            Err(failure) => self.unexamined = Some(failure),
        }
        // An older daemon has none.
        self.sinks = answered(state_dir.clone(), "/v1/notifications").ok();
        self.schedules = answered(state_dir.clone(), "/v1/schedules").ok();
        self.triggers = answered(state_dir, "/v1/triggers").ok();
    }

    /// Returns the examination if it contains all workers.
    pub(super) fn all_workers(&self) -> Option<&Examination> {
        self.examination.as_ref().filter(|examination| examination.all_workers)
    }

    /// Returns why a worker is an orphan, if that is certain. An unreadable row still counts as known, and
    /// a damaged table may lack rows.
    pub(super) fn orphan_reason(&self, worker: &str) -> Option<&'static str> {
        let all = self.all_workers()?;
        match all.workers.iter().find(|known| known.worker_id == worker) {
            Some(known) => (known.state == "stopped").then_some("is stopped"),
            None => {
                let known = all.known_workers.as_ref()?;
                let certain = all.database.problems.is_empty();
                (certain && !known.iter().any(|known| known == worker))
                    .then_some("is unknown to the database")
            }
        }
    }

    pub(super) fn fix_command(&self) -> String {
        let place = self
            .cwd
            .as_ref()
            .map_or_else(String::new, |cwd| format!(" --cwd {}", shell_words::quote(&cwd.to_string_lossy())));
        format!("`subagent doctor --fix{place}`")
    }
}
