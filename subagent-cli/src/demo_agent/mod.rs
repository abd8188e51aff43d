//! The scripted ACP agent of the hidden command `subagent demo-agent`: prompts contain its actions,
//! so that demo and tests need no model and no network (`docs/demo-agent.md`). It must not know the
//! daemon, runtime or files of this project. Blocking I/O keeps the order of a script.

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
mod steps;
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

use agent::{AfterTurn, DemoAction, DemoAgent, RunningTurn};
use inbox::InboxEvent;
use options::{DemoAgentMode, DemoAgentOptions};

/// Maximum duration of a single wait of the idle agent.
const IDLE: Duration = Duration::from_secs(3600);

/// Runs the agent on stdin and stdout until stdin ends, or until a flag or script ends it.
///
/// `args` are the arguments after the command's name. They must be the last arguments of the process,
/// because `!spawn` starts the same program with the preceding ones. Call it before any thread exists,
/// because `!spawn` forks. Usage errors give exit code 2 and a line on stderr.
pub fn run(args: impl Iterator<Item = OsString>) -> ExitCode {
    let args: Vec<OsString> = args.collect();
    let self_args = args_before(&args);
    let options = match DemoAgentOptions::parse(args.into_iter()) {
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

fn start(options: DemoAgentOptions, self_args: Vec<OsString>) -> io::Result<ExitCode> {
    if options.ignore_term {
        // Blocked before the first thread starts, so that every thread inherits it.
        SigSet::from(Signal::SIGTERM).thread_block()?;
    }
    match (options.mode, &options.pids) {
        (DemoAgentMode::Exit(code), _) => {
            complain(&format!("exiting with code {code}, as told by --exit"));
            Ok(ExitCode::from(code))
        }
        (DemoAgentMode::NoAcp, _) => no_acp(options.ignore_stdin_eof),
        (DemoAgentMode::Spawned(shape), Some(pids)) => Ok(shapes::live(shape, pids)),
        (DemoAgentMode::Spawned(_), None) => Err(io::Error::other("--spawned needs --pids")),
        (DemoAgentMode::Serve, _) => serve(&mut DemoAgent::new(options, self_args)?),
    }
}

/// Acts as a program without ACP: it greets, reads and never responds.
fn no_acp(ignore_stdin_eof: bool) -> io::Result<ExitCode> {
    let mut out = io::stdout().lock();
    out.write_all(b"Welcome to demo-agent.\nThis is plain text, not ACP.\n> ")?;
    out.flush()?;
    let mut buffer = [0; 4096];
    let mut stdin = io::stdin().lock();
    while stdin.read(&mut buffer)? > 0 {}
    if ignore_stdin_eof {
        // The flag asks to stay until killed.
        loop {
            thread::sleep(Duration::from_secs(3600));
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns the arguments before `args` on this process's command line, without the program's name.
fn args_before(args: &[OsString]) -> Vec<OsString> {
    let all: Vec<OsString> = env::args_os().skip(1).collect();
    all.strip_suffix(args).map(<[OsString]>::to_vec).unwrap_or_default()
}

fn complain(text: &str) {
    // A closed stderr cannot report an error.
    let _ = writeln!(io::stderr(), "demo-agent: {text}");
}

/// Serves until stdin ends or a script ends the process.
fn serve(agent: &mut DemoAgent) -> io::Result<ExitCode> {
    loop {
        let message = match agent.deferred.pop_front() {
            Some(message) => message,
            None => {
                agent.out.flush()?;
                match agent.inbox.wait(IDLE) {
                    Some(InboxEvent::Message(message)) => message,
                    Some(InboxEvent::InputEnded) if !agent.options.ignore_stdin_eof => {
                        return Ok(ExitCode::SUCCESS);
                    }
                    Some(InboxEvent::InputEnded | InboxEvent::ShellEnded { .. }) | None => continue,
                }
            }
        };
        // Outside of a turn, cancels and responses have no effect.
        if let DemoAction::Run(prompt) = agent.handle(message, RunningTurn::Idle)?
            && let AfterTurn::Exit(code) = steps::run(agent, prompt)?
        {
            return Ok(code);
        }
    }
}
