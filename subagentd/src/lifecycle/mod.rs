//! The daemon's lifecycle: start, exclusive claim, service and end; all of `subagentd run`. It must
//! not know the meaning of requests (`api`) or how workers run (`supervisor`). The program parses
//! the command line into [`RunOptions`].

mod awaited;
mod claim;
mod client;
mod error;
mod heartbeat;
mod idle;
mod log;
mod memory;
mod notify;
mod once;
mod options;
mod payload;
mod process;
mod report;
mod restore;
mod serve;
mod signals;
mod socket;

mod stop;

use std::process::ExitCode;
use std::time::Duration;

use subagent_config::{proc, state_dir};
use subagent_protocol::{Code, Error, Result};
use tokio::runtime::{Builder, Runtime};

pub use claim::files::{DAEMON_INFO, DAEMON_LOCK, START_LOCK, STATUS_FILE};
pub use options::{
    DEFAULT_IDLE_EXIT_SECONDS, MAX_SECONDS, RunOptions, StartMode, days, idle_exit_seconds, retention_days,
};

pub use restore::{EndedDaemon, RestoreOptions, Restored, restore};

use report::StartReporter;

/// Maximum wait for blocked threads at the very end.
const LAST_GRACE: Duration = Duration::from_secs(1);

/// Maximum number of threads. More do not make one state dir faster, since the store has one
/// writer.
const MAX_THREADS: usize = 4;

/// Runs the daemon until it ends. Call it at the start of the program, before there are threads.
/// Only the standard streams may be open: in the background all other descriptors are closed.
#[must_use]
pub fn run(options: RunOptions) -> ExitCode {
    let mut report = StartReporter::new(options.mode, options.json);
    match run_reporting(&options, &mut report) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            report.failed(&error);
            notify::ServiceManager::of(&options).failed(&error);
            ExitCode::FAILURE
        }
    }
}

fn run_reporting(options: &RunOptions, report: &mut StartReporter) -> Result<()> {
    // An agent could otherwise replace a killed or hanging daemon.
    refuse_below_guard("subagentd run")?;
    memory::give_back_large_blocks();
    report.starter = process::prepare(options.mode)?;
    state_dir::prepare(&options.state_dir).map_err(Error::from)?;
    let folder = claim::identity::settle(&options.state_dir)?;
    if options.once {
        return once::run(options, report);
    }
    let claim = claim::takeover::claim(options)?;
    let log = log::init(options)?;
    let runtime = runtime()?;
    let outcome = runtime.block_on(Box::pin(serve::serve(options, folder, claim, &log, report)));
    // The lock is released last: the next holder must find no active part of this daemon.
    let (lock, outcome) = match outcome {
        Ok((lock, outcome)) => (Some(lock), outcome),
        Err(error) => (None, Err(error)),
    };
    runtime.shutdown_timeout(LAST_GRACE);
    if let Some(lock) = lock {
        lock.release_at_exit();
    }
    outcome
}

/// Refuses to start with a `/proc` of another pid namespace, where the pids of peers do not match.
///
/// # Errors
/// `DAEMON_START_FAILED`.
pub fn refuse_foreign_proc() -> Result<()> {
    proc::is_of_this_namespace().map_err(|cause| {
        error::start_failed("it cannot distinguish an agent from its owner", &cause)
            .recommend(proc::FOREIGN_ADVICE)
    })
}

/// Refuses commands that bypass the daemon's own checks to an agent and its descendants.
///
/// # Errors
/// `FORBIDDEN_FROM_WORKER`; `DAEMON_START_FAILED` with a foreign `/proc`.
pub fn refuse_below_guard(what: &str) -> Result<()> {
    refuse_foreign_proc()?;
    if !proc::is_below_guard() {
        return Ok(());
    }
    let message =
        format!("{what} is only for the owner of the workers, not for an agent or a process below it");
    Err(Error::new(Code::ForbiddenFromWorker, message)
        .recommend("ask the person or program that manages this worker"))
}

fn runtime() -> Result<Runtime> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(MAX_THREADS);
    Builder::new_multi_thread()
        .worker_threads(threads)
        .thread_name("subagentd")
        .enable_all()
        .build()
        .map_err(|cause| error::start_failed("its threads cannot be started", &cause))
}
