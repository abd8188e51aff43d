//! One worker: the ACP client of its agent, the writer of its journal, and its command socket. Also
//! contains the guard, which ends the agent's whole process tree. Architecture invariant: this
//! crate knows no SQLite, no HTTP and no config file.

// It has one thread (and a second one while the agent waits for a file), and it outlives the
// daemon that started it. Its actions are in the journal before any process is notified.
//
// The daemon starts a runtime as `subagent-runtime run`, with
//
// | descriptor | what |
// |---|---|
// | 0 | one [`subagent_protocol::start::RuntimeStart`] as JSON, then end of file |
// | 1 | a pipe: one line as soon as the command socket listens, then end of file |
// | 2 | `/dev/null`, or a file for errors before there is a journal |
// | 3 ([`subagent_protocol::start::LOCK_FD`]) | `<directory>/lock`, open and locked; the starter closes its own |
// | 4 ([`subagent_protocol::start::GUARD_LOCK_FD`]) | `<directory>/guard.lock`, open and locked; handed to the guard |
//
// It exits with 0 after an ordinary end, proven by the journal's last record, and with 2 if it
// could not begin. SIGTERM, a command, or removing its lock file ends it.
//
// The command line starts `subagent-runtime ask` to ask an agent a question without a worker: see
// [`subagent_protocol::ask`]. The daemon starts `subagent-runtime command` to run one command of
// the user: see [`subagent_protocol::command_run`]. One such command is `subagent-runtime base`:
// see [`work_tree`].
//
// For a worker that is placed elsewhere, the daemon runs `subagent-runtime submit`,
// `subagent-runtime dial`, `subagent-runtime logs` and `subagent-runtime discard` there: see
// [`placement`]. The first process of a container is `subagent-runtime hold`.

mod acp;
mod ask;
#[cfg(feature = "testing")]
pub mod bare;
mod client;
#[cfg(target_os = "linux")]
mod command;
mod conversation;
mod daemon_start;
mod driver;
#[cfg(feature = "testing")]
pub mod fuzz;
mod git;
pub mod guard;
mod journal;
#[cfg(feature = "testing")]
pub mod measured;
mod memory;
mod placement;
mod proxy;
mod shorten;
mod socket;
mod spawn;
mod startup;
mod stderr;
mod watch;
pub mod work_tree;
pub mod worktree;

use std::ffi::OsString;
use std::io::{self, Write};
use std::process::ExitCode;

use subagent_protocol::error::is_storage_full;
use subagent_protocol::placement::UNKNOWN_COMMAND;
use subagent_protocol::placement::client::PLACE_ENDED;
use subagent_protocol::placement::podman::HOLD;
use subagent_protocol::placement::slurm::RELAY;
use subagent_protocol::start::STORAGE_FULL_EXIT;

/// Maximum number of host names that are looked up at the same time, each on a thread.
const MAX_LOOKUPS: usize = 4;

/// Runs `subagent-runtime`. `args` follow the program's name: `run`, `ask`, `command`, `base ...`,
/// `diff`, `worktree`, `submit`, `dial`, `discard`, `logs`, `--version`, `guard ...` or `confine ...`.
pub fn main(mut args: impl Iterator<Item = OsString>) -> ExitCode {
    match args.next().as_deref().and_then(|word| word.to_str()) {
        Some("run") => match run() {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                let failed = fail(&error.to_string());
                if is_storage_full(&error) { ExitCode::from(STORAGE_FULL_EXIT) } else { failed }
            }
        },
        Some("ask") => match ask::run() {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => fail(&error.to_string()),
        },
        #[cfg(target_os = "linux")]
        Some("command") => match command::run() {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => fail(&error.to_string()),
        },
        Some("base") => match (args.next(), args.next()) {
            (Some(cwd), Some(folder)) => {
                work_tree::main(cwd.as_ref(), folder.as_ref());
                ExitCode::SUCCESS
            }
            _ => fail("`base` needs a folder to look at and one to write to"),
        },
        Some("diff") => match work_tree::answer() {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => fail(&error.to_string()),
        },
        Some("worktree") => match worktree::run(args.next()) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => fail(&error.to_string()),
        },
        Some("submit") => match placement::submit::run(args.next()) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => fail(&error.to_string()),
        },
        Some("dial") => match placement::dial::run(args.next()) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => fail(&error.to_string()),
        },
        Some("discard") => match placement::discard::run(args.next(), args.next()) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => fail(&error.to_string()),
        },
        Some("logs") => match placement::logs::run(args.next(), args.next(), args.next()) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => fail(&error.to_string()),
        },
        Some(HOLD) => match placement::hold::run(args) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => fail(&error.to_string()),
        },
        Some(RELAY) => match placement::relay::run(args.next(), args.next()) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) if placement::relay::has_ended(&error) => {
                fail(&error.to_string());
                ExitCode::from(PLACE_ENDED)
            }
            Err(error) => fail(&error.to_string()),
        },
        Some("--version") => match writeln!(io::stdout(), "subagent-runtime {}", env!("CARGO_PKG_VERSION")) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => fail(&error.to_string()),
        },
        Some("guard") => guard::main(args),
        Some(subagent_sandbox::CONFINE) => subagent_sandbox::main(args),
        _ => fail(&format!(
            "{UNKNOWN_COMMAND}; expected `run`, `ask`, `command`, `base`, `diff`, `worktree`, `submit`, `dial`, `discard`, `logs`, `hold`, `relay` or `guard`",
        )),
    }
}

fn run() -> io::Result<()> {
    let startup = startup::take()?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .enable_time()
        .max_blocking_threads(MAX_LOOKUPS)
        .build()?;
    let result = runtime.block_on(driver::run(startup));
    // Does not wait for the lookup of a name.
    runtime.shutdown_background();
    result
}

fn fail(message: &str) -> ExitCode {
    // The error is lost if stderr is gone too.
    let _ = writeln!(io::stderr(), "subagent-runtime: {message}");
    ExitCode::from(2)
}
