//! What all looks share: found out once, at the beginning.

use std::path::PathBuf;
use std::time::Duration;

use subagent_config::{Environment, RuntimeDir};
use subagent_protocol::Code;
use subagent_protocol::api::{DaemonShown, Examination};

use super::holders::{self, Holder, Role};
use crate::client::{Ask, Client, block_on, read_info, running};
use crate::failure::Failure;

/// How long the daemon may take to say that it is there.
const ANSWER: Duration = Duration::from_secs(5);
/// How long it may take to examine its database; it ends its checks by itself before.
const EXAMINE: Duration = Duration::from_secs(20);

/// The daemon, as far as it can be asked.
#[derive(Debug)]
pub(super) enum Daemon {
    /// None runs.
    None,
    /// One runs and answers.
    Answers(Box<DaemonShown>),
    /// One runs, and this came instead of an answer.
    Fails(Failure),
}

/// What is known at the beginning.
#[derive(Debug)]
pub(super) struct Facts {
    pub(super) env: Environment,
    pub(super) cwd: Option<PathBuf>,
    pub(super) state_dir: PathBuf,
    /// Whether the state dir is there.
    pub(super) has_state: bool,
    /// Whether to mend what can be mended.
    pub(super) fix: bool,
    /// Processes with a marker, looked for before the holders: their guard was there before them.
    pub(super) marked: Vec<(i32, String)>,
    pub(super) holders: Vec<Holder>,
    pub(super) daemon: Daemon,
    /// What the daemon says of its workers and its database, asked for last: a runtime that was found before and is
    /// not in it belongs to nobody.
    pub(super) examination: Option<Examination>,
    /// Why there is none although a daemon answers.
    pub(super) unexamined: Option<Failure>,
    /// The folders of the sockets that exist.
    pub(super) runtime_dirs: Vec<RuntimeDir>,
}

impl Facts {
    pub(super) fn gather(env: &Environment, cwd: Option<PathBuf>, state_dir: PathBuf, fix: bool) -> Self {
        let has_state = state_dir.is_dir();
        let announced = read_info(&state_dir).and_then(|info| info.socket.parent().map(PathBuf::from));
        let mut facts = Self {
            env: env.clone(),
            cwd,
            runtime_dirs: RuntimeDir::existing(env, announced.as_deref(), &state_dir),
            state_dir,
            has_state,
            fix,
            marked: Vec::new(),
            holders: Vec::new(),
            daemon: Daemon::None,
            examination: None,
            unexamined: None,
        };
        if has_state {
            facts.marked = subagentd::supervisor::strays::marked();
            facts.holders = holders::find(&facts.state_dir);
            facts.ask();
        }
        facts
    }

    fn ask(&mut self) {
        if self.holders.iter().any(|holder| holder.role == Role::Daemon && holder.stopped) {
            let why = Failure::new(Code::DaemonUnresponsive, "the daemon is stopped by a signal");
            self.daemon = Daemon::Fails(why);
            return;
        }
        let state_dir = self.state_dir.clone();
        let asked = block_on(async {
            let late = || Failure::new(Code::DaemonUnresponsive, "the daemon does not answer");
            tokio::time::timeout(ANSWER, running(&state_dir)).await.unwrap_or_else(|_| Err(late()))
        });
        self.daemon = match asked {
            Ok(None) => Daemon::None,
            Ok(Some(shown)) => Daemon::Answers(Box::new(shown)),
            Err(failure) => Daemon::Fails(failure),
        };
        if !matches!(self.daemon, Daemon::Answers(_)) {
            return;
        }
        let ask = Ask::get("/v1/daemon/examination").within(Some(EXAMINE));
        let examined = block_on(async {
            let mut client = Client::of_running(state_dir);
            let late = || Failure::new(Code::DaemonUnresponsive, "it did not answer in time");
            let found = tokio::time::timeout(EXAMINE, client.ask(&ask)).await;
            let found = found.unwrap_or_else(|_| Err(late()))?;
            serde_json::from_value(found)
                .map_err(|error| Failure::internal(format!("its answer lacks something: {error}")))
        });
        match examined {
            Ok(examination) => self.examination = Some(examination),
            Err(failure) => self.unexamined = Some(failure),
        }
    }

    /// What is stored of all workers, if the daemon has told of all.
    pub(super) fn all_workers(&self) -> Option<&Examination> {
        self.examination.as_ref().filter(|examination| examination.all_workers)
    }

    /// Why a worker is nobody's, if that is certain: a row that cannot be read is still somebody's, and a damaged table
    /// may lack some.
    pub(super) fn nobodys(&self, worker: &str) -> Option<&'static str> {
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

    /// The command that mends.
    pub(super) fn fix_command(&self) -> String {
        let place = self
            .cwd
            .as_ref()
            .map_or_else(String::new, |cwd| format!(" --cwd {}", shell_words::quote(&cwd.to_string_lossy())));
        format!("`subagent doctor --fix{place}`")
    }
}
