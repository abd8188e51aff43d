//! `subagent demo`: shows the main guarantees with a real daemon, a real runtime and a scripted
//! agent. Every step prints a command and runs it as a process. It must use only what the commands
//! print, like a user.

mod interrupt;
mod next;
mod shell;

use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::time::{Duration, Instant};

use subagent_config::Environment;
use subagent_protocol::Code;

use crate::failure::{Failure, Result};
use crate::output::CliOutcome;
use shell::{DemoShell, said};

/// Time in milliseconds for which the agent continues to work after the daemon is killed.
const WORK: &str = "1200";
/// Maximum time until killed processes are gone.
const GONE: Duration = Duration::from_secs(10);

/// Runs the demo in a temporary workspace and deletes it.
///
/// # Errors
/// The first step with an unexpected result, with its output.
pub fn run() -> Result<CliOutcome> {
    let begun = Instant::now();
    let signals = interrupt::Listener::new()?;
    let folder = tempfile::Builder::new()
        .prefix("subagent-demo-")
        .tempdir()
        .map_err(|error| Failure::internal(format!("no temporary folder can be made: {error}")))?;
    let shell = DemoShell::new(folder.path())?;
    signals.clean_up(&shell, folder.path().to_owned());
    said(&format!("A temporary workspace: {}", folder.path().display()));
    let result = show(&shell, folder.path());
    if result.is_err() {
        // The first failure is reported, but the started processes must stop too.
        let _ = shell.run("subagentd", &["stop", "--workers"]);
    }
    result?;
    said(&format!("\nDone in {:.1} s. Nothing is left.\n", begun.elapsed().as_secs_f64()));
    if let Ok(cwd) = std::env::current_dir() {
        next::lines(&Environment::new(std::env::vars_os(), cwd)).iter().for_each(|line| said(line));
    }
    Ok(CliOutcome::Printed(std::process::ExitCode::SUCCESS))
}

fn show(shell: &DemoShell, folder: &Path) -> Result<()> {
    said("\n# 1. A config file with one launcher: the scripted agent that is built into subagent");
    shell.write(
        ".subagent/config.yaml",
        &format!(
            "launchers:\n  demo:\n    command: \"{}\"\n    args: [demo-agent]\ndefaults:\n  launcher: demo\n",
            shell.program("subagent").display()
        ),
    )?;
    shell.run("subagent", &["launcher", "probe", "demo"])?;

    said("\n# 2. Own the workspace. The first command starts the daemon");
    shell.run("subagent", &["controller", "init"])?;

    said("\n# 3. Start a worker: a runtime and a guard of its own, and the agent below them");
    let started = shell.run("subagent", &["worker", "start"])?;
    let worker = value(&started, "workerId")?;

    said("\n# 4. A turn that streams. `send` waits for its end; `watch` shows it as it comes");
    shell.write("story.txt", "Once\n!sleep 200\n!say upon\n!sleep 200\n!say a time.\n")?;
    let watch = shell.follow(&worker)?;
    let sent = shell.run("subagent", &["send", "--worker-id", &worker, "--text-file", "story.txt"])?;
    expect(&sent, "matchedEvent", "turn.completed")?;
    watch.end("Once upon a time.")?;

    said("\n# 5. The agent changes files. `diff` shows what has changed since its first turn");
    shell.write(
        "edit.txt",
        "!edit create greeting.txt Hello,\\nword.\n!edit replace greeting.txt 2 world.\n",
    )?;
    let sent = shell.run("subagent", &["send", "--worker-id", &worker, "--text-file", "edit.txt"])?;
    expect(&sent, "matchedEvent", "turn.completed")?;
    let diff = shell.run("subagent", &["diff", &worker])?;
    if !diff.contains("+world.") {
        return Err(Failure::internal(format!("the diff lacks the agent's change:\n{diff}")));
    }

    said("\n# 6. The agent asks for a permission. The turn waits for the answer, also while the daemon dies");
    shell.write("ask.txt", "!ask execute rm -rf build\n")?;
    let asked = shell.run("subagent", &["send", "--worker-id", &worker, "--text-file", "ask.txt"])?;
    let request = value(&asked, "requestId")?;
    said("  The daemon dies while the question is open:");
    shell.kill_daemon()?;
    shell.run(
        "subagent",
        &["approve", "--worker-id", &worker, "--request", &request, "--decision", "allow"],
    )?;
    // The turn continues; without this wait the worker would be busy for the next message.
    shell.run("subagent", &["wait", "--worker-id", &worker, "--all"])?;

    said("\n# 7. The daemon is killed in the middle of a turn. The turn goes on");
    shell.write("work.txt", &format!("Working.\n!sleep {WORK}\n!say Finished without a daemon.\n"))?;
    let accepted =
        shell.run("subagent", &["send", "--worker-id", &worker, "--text-file", "work.txt", "--no-wait"])?;
    expect(&accepted, "state", "running")?;
    let turn = value(&accepted, "turnId")?;
    shell.kill_daemon()?;
    said("  The next command starts another daemon, which takes the running worker over:");
    shell.wait_for_end(&worker, &turn, "Finished without a daemon.")?;

    said("\n# 8. Stop. `stopped` is said only when the guard has proved that nothing is left");
    let pids = shell.processes(&worker)?;
    shell.run("subagent", &["worker", "stop", &worker])?;
    shell.run("subagentd", &["stop"])?;
    let left = shell::wait_until_gone(&pids, GONE);
    if !left.is_empty() {
        return Err(Failure::internal(format!("these processes are still there: {left:?}")));
    }
    said(&format!(
        "  Processes of the worker ({}): all gone.",
        pids.iter().map(i32::to_string).collect::<Vec<_>>().join(", ")
    ));
    fs::remove_dir_all(folder.join(".subagent"))
        .map_err(|error| Failure::internal(format!("the demo's state cannot be removed: {error}")))?;
    Ok(())
}

/// Returns the value of a `key: value` line.
fn value(text: &str, key: &str) -> Result<String> {
    let line = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(": "));
    line.map(str::to_owned)
        .ok_or_else(|| Failure::internal(format!("the command did not print {key}:\n{text}")))
}

fn expect(text: &str, key: &str, wanted: &str) -> Result<()> {
    let found = value(text, key)?;
    if found == wanted {
        return Ok(());
    }
    Err(Failure::new(Code::Internal, format!("{key} is {found}, not {wanted}:\n{text}")))
}

/// Flushes stdout, so that the user sees a slow step at once.
fn flush() {
    let _ = std::io::stdout().flush();
}
