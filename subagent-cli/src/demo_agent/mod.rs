//! The scripted ACP agent behind the hidden command `subagent demo-agent`: what it does in a turn is written
//! in the prompt, so that the demo and the tests need no model and no network.
//!
//! It knows ACP and nothing of this project's daemon, runtime or files. Blocking I/O on purpose: one thread
//! reads stdin, the main thread does everything else, so that a script's order is the order on the wire.
//! The scripts and flags are listed in `docs/demo-agent.md`.

mod agent;
mod choices;
mod commands;
mod edits;
mod elicitations;
mod floods;
mod inbox;
mod options;
mod permissions;
mod script;
mod sessions;
mod shapes;
mod turn;
mod updates;
mod wire;

use std::env;
use std::ffi::OsString;
use std::io::{self, Read, Write};
use std::process::ExitCode;
use std::thread;
use std::time::Duration;

use nix::sys::signal::{SigSet, Signal};

use agent::Agent;
use options::{Mode, Options};

/// Runs the agent on this process's stdin and stdout until stdin ends, or until a flag or a script ends it.
///
/// `args` are the arguments after the command's own name; they must be the last arguments of the process,
/// because `!spawn` starts the same program again with what comes before them. Call it before any thread
/// exists: the processes of `!spawn` fork. Usage errors end with exit code 2 and a line on stderr.
pub fn run(args: impl Iterator<Item = OsString>) -> ExitCode {
    let args: Vec<OsString> = args.collect();
    let self_args = args_before(&args);
    let options = match Options::parse(args.into_iter()) {
        Ok(options) => options,
        Err(error) => {
            complain(&error);
            return ExitCode::from(2);
        }
    };
    match start(options, self_args) {
        Ok(code) => code,
        Err(error) => {
            complain(&error.to_string());
            ExitCode::FAILURE
        }
    }
}

fn start(options: Options, self_args: Vec<OsString>) -> io::Result<ExitCode> {
    if options.ignore_term {
        // Blocked before the first thread exists, so that every thread has it blocked.
        SigSet::from(Signal::SIGTERM).thread_block()?;
    }
    match (options.mode, &options.pids) {
        (Mode::Exit(code), _) => {
            complain(&format!("exiting with code {code}, as told by --exit"));
            Ok(ExitCode::from(code))
        }
        (Mode::NoAcp, _) => no_acp(options.ignore_stdin_eof),
        (Mode::Spawned(shape), Some(pids)) => Ok(shapes::live(shape, pids)),
        (Mode::Spawned(_), None) => Err(io::Error::other("--spawned needs --pids")),
        (Mode::Serve, _) => Agent::new(options, self_args)?.serve(),
    }
}

/// A program that is no ACP agent: it greets, reads and never answers.
fn no_acp(ignore_stdin_eof: bool) -> io::Result<ExitCode> {
    let mut out = io::stdout().lock();
    out.write_all(b"Welcome to demo-agent.\nThis is plain text, not ACP.\n> ")?;
    out.flush()?;
    let mut buffer = [0; 4096];
    let mut stdin = io::stdin().lock();
    while stdin.read(&mut buffer)? > 0 {}
    if ignore_stdin_eof {
        // Staying until it is killed is what the flag asks for.
        loop {
            thread::sleep(Duration::from_secs(3600));
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// What stands before `args` on this process's command line, without the program's name.
fn args_before(args: &[OsString]) -> Vec<OsString> {
    let all: Vec<OsString> = env::args_os().skip(1).collect();
    all.strip_suffix(args).map(<[OsString]>::to_vec).unwrap_or_default()
}

fn complain(text: &str) {
    // If stderr is closed there is nobody to tell.
    let _ = writeln!(io::stderr(), "demo-agent: {text}");
}
