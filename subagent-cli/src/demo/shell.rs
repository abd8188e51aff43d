//! Acts as a user at a shell: runs commands, reads their output, kills a process.

use std::fs;
use std::io::{self, BufRead as _, BufReader, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde::Deserialize;
use serde_json::Value;
use subagent_config::proc;
use subagent_protocol::event::{EventType, SeenEvent};
use subagent_protocol::lenient::{self, Lenient};

use super::flush;
use super::interrupt::DemoProcesses;
use crate::failure::{Failure, Result};

const STEP: Duration = Duration::from_secs(60);

/// A folder, and the commands that run in it.
#[derive(Debug, Clone)]
pub(super) struct DemoShell {
    folder: PathBuf,
    programs: PathBuf,
    children: DemoProcesses,
}

/// The data of the events that the demo shows.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct DemoEventData<'a> {
    #[serde(borrow)]
    text: Lenient<&'a str>,
    stop_reason: Lenient<&'a str>,
}

/// The file in which a daemon is found.
#[derive(Deserialize)]
struct DemoDaemon {
    process: DemoProcess,
}

#[derive(Deserialize)]
struct DemoProcess {
    pid: i32,
}

/// The answer of `worker show`.
#[derive(Default, Deserialize)]
#[serde(default)]
struct DemoShown {
    #[serde(deserialize_with = "lenient::object")]
    data: DemoWorker,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct DemoWorker {
    runtime_pid: Lenient<i32>,
}

/// A running `watch --follow` whose lines are printed as they arrive.
pub(super) struct RunningWatch {
    child: Child,
    lines: mpsc::Receiver<String>,
    children: DemoProcesses,
}

/// Prints a line for the user.
pub(super) fn said(line: &str) {
    // The next command detects a closed terminal.
    let _ = writeln!(std::io::stdout(), "{line}");
    flush();
}

impl DemoShell {
    pub(super) fn new(folder: &Path) -> Result<Self> {
        let own = std::env::current_exe()
            .map_err(|error| Failure::internal(format!("cannot find out where this program is: {error}")))?;
        let programs = own.parent().unwrap_or(Path::new("/")).to_owned();
        Ok(Self { folder: folder.to_owned(), programs, children: DemoProcesses::default() })
    }

    pub(super) fn program(&self, name: &str) -> PathBuf {
        self.programs.join(name)
    }

    pub(super) fn write(&self, name: &str, text: &str) -> Result<()> {
        let path = self.folder.join(name);
        let failed = |error| Failure::internal(format!("cannot write {}: {error}", path.display()));
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent).map_err(failed)?;
        }
        fs::write(&path, text).map_err(failed)?;
        said(&format!("$ cat {name}"));
        for line in text.lines() {
            said(&format!("  {line}"));
        }
        Ok(())
    }

    fn command(&self, program: &str, args: &[&str]) -> Command {
        let mut command = Command::new(self.program(program));
        command.args(args).current_dir(&self.folder).stdin(Stdio::null());
        // The demo has its own workspace, independent of the user's settings.
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("SUBAGENT_") {
                command.env_remove(name);
            }
        }
        command
    }

    pub(super) fn children(&self) -> DemoProcesses {
        self.children.clone()
    }

    fn output(&self, command: &mut Command) -> io::Result<Output> {
        let child = self.children.spawn(command.stdout(Stdio::piped()).stderr(Stdio::piped()))?;
        let pid = child.id();
        let output = child.wait_with_output();
        self.children.ended(pid);
        output
    }

    /// Stops all processes of the demo.
    pub(super) fn stop_all(&self) -> io::Result<()> {
        if !self.folder.join(".subagent/state").exists() {
            return Ok(());
        }
        // A killed command may leave a daemon that is starting, or a worker without a daemon.
        let starting: (&str, &[&str]) = ("subagent", &["daemon", "start"]);
        for (program, args) in [starting, ("subagentd", &["stop", "--workers"])] {
            // A second Ctrl-C must not stop them.
            let output = self.command(program, args).process_group(0).output()?;
            if !output.status.success() {
                return Err(io::Error::other(String::from_utf8_lossy(&output.stderr).into_owned()));
            }
        }
        Ok(())
    }

    /// Prints a command, runs it, and prints its output.
    pub(super) fn run(&self, program: &str, args: &[&str]) -> Result<String> {
        said(&format!("$ {program} {}", args.join(" ")));
        let begun = Instant::now();
        let output = self
            .output(&mut self.command(program, args))
            .map_err(|error| Failure::internal(format!("{program} cannot be run: {error}")))?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        for line in text.lines() {
            said(&format!("  {line}"));
        }
        if !output.status.success() {
            let complaint = String::from_utf8_lossy(&output.stderr).into_owned();
            return Err(Failure::internal(format!("{program} {} failed: {complaint}", args.join(" "))));
        }
        said(&format!("  ({:.0} ms)", begun.elapsed().as_secs_f64() * 1000.0));
        Ok(text)
    }

    fn json(&self, args: &[&str]) -> Result<Value> {
        let output = self
            .output(self.command("subagent", args).arg("--json"))
            .map_err(|error| Failure::internal(format!("subagent cannot be run: {error}")))?;
        serde_json::from_slice(&output.stdout)
            .map_err(|error| Failure::internal(format!("subagent printed no JSON: {error}")))
    }

    pub(super) fn follow(&self, worker: &str) -> Result<RunningWatch> {
        let args = ["watch", "--worker-id", worker, "--follow", "--timeout-seconds", "60"];
        said(&format!("$ subagent {} &", args.join(" ")));
        let mut child = self
            .children
            .spawn(self.command("subagent", &args).stdout(Stdio::piped()))
            .map_err(|error| Failure::internal(format!("subagent cannot be run: {error}")))?;
        let Some(stdout) = child.stdout.take() else { return Err(Failure::internal("watch has no output")) };
        let (sender, lines) = mpsc::channel();
        let begun = Instant::now();
        std::thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(std::io::Result::ok) {
                let Ok(event) = serde_json::from_str::<Value>(&line) else { continue };
                let event: SeenEvent<'_, DemoEventData<'_>> = SeenEvent::of(&event);
                if let Some(text) =
                    event.data.text.0.filter(|_| event.event_type() == Some(EventType::ProgressMessage))
                {
                    said(&format!("  [watch {:4.0} ms] {text}", begun.elapsed().as_secs_f64() * 1000.0));
                    if sender.send(text.to_owned()).is_err() {
                        return;
                    }
                }
            }
        });
        Ok(RunningWatch { child, lines, children: self.children() })
    }

    /// Kills the daemon to simulate a crash.
    pub(super) fn kill_daemon(&self) -> Result<()> {
        let path = self.folder.join(".subagent/state/daemon.json");
        let info: Option<DemoDaemon> =
            fs::read(&path).ok().and_then(|text| serde_json::from_slice(&text).ok());
        let Some(DemoDaemon { process: DemoProcess { pid } }) = info else {
            return Err(Failure::internal("no daemon is running"));
        };
        said(&format!("$ kill -9 {pid}   # the daemon"));
        kill(Pid::from_raw(pid), Signal::SIGKILL)
            .map_err(|error| Failure::internal(format!("the daemon cannot be killed: {error}")))
    }

    /// Waits for the end of a turn and checks its last text.
    pub(super) fn wait_for_end(&self, worker: &str, turn: &str, text: &str) -> Result<()> {
        let deadline = Instant::now() + STEP;
        said(&format!("$ subagent watch --worker-id {worker} --follow"));
        let follow = ["watch", "--worker-id", worker, "--follow", "--timeout-seconds", "30"];
        let mut child = self
            .children
            .spawn(self.command("subagent", &follow).stdout(Stdio::piped()))
            .map_err(|error| Failure::internal(format!("subagent cannot be run: {error}")))?;
        let Some(stdout) = child.stdout.take() else { return Err(Failure::internal("watch has no output")) };
        let mut heard = false;
        let mut ended = false;
        for line in BufReader::new(stdout).lines().map_while(std::io::Result::ok) {
            let Ok(event) = serde_json::from_str::<Value>(&line) else { continue };
            let event: SeenEvent<'_, DemoEventData<'_>> = SeenEvent::of(&event);
            if event.turn_id != Some(turn) {
                continue;
            }
            let DemoEventData { text: said_text, stop_reason } = event.data;
            let shown = said_text.0.or(stop_reason.0);
            let shown = shown.and_then(|text| text.lines().next()).unwrap_or_default();
            said(&format!("  {}  {shown}", event.kind));
            heard |= said_text.0 == Some(text);
            ended = event.event_type() == Some(EventType::TurnCompleted);
            if ended || Instant::now() > deadline {
                break;
            }
        }
        end(&mut child, &self.children);
        if heard && ended {
            return Ok(());
        }
        Err(Failure::internal("the turn did not end as it should"))
    }

    /// Returns the runtime of a worker and all its descendants.
    pub(super) fn processes(&self, worker: &str) -> Result<Vec<i32>> {
        let shown = self.json(&["worker", "show", worker])?;
        let DemoShown { data: DemoWorker { runtime_pid: Lenient(runtime) } } = lenient::read(&shown);
        let Some(runtime) = runtime else { return Err(Failure::internal("the worker has no runtime")) };
        let mut found = vec![runtime];
        for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
            let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<i32>().ok()) else {
                continue;
            };
            if proc::ancestors(pid).is_ok_and(|chain| chain.iter().skip(1).any(|above| above.pid == runtime))
            {
                found.push(pid);
            }
        }
        Ok(found)
    }
}

impl RunningWatch {
    /// Waits until the whole text was seen, then ends the watch.
    pub(super) fn end(mut self, text: &str) -> Result<()> {
        let deadline = Instant::now() + STEP;
        let mut seen: Vec<String> = Vec::new();
        while seen.join(" ") != text {
            match self.lines.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok(piece) => seen.push(piece.trim().to_owned()),
                Err(_) => {
                    end(&mut self.child, &self.children);
                    return Err(Failure::internal(format!("watch showed {seen:?}, not {text:?}")));
                }
            }
        }
        end(&mut self.child, &self.children);
        Ok(())
    }
}

fn end(child: &mut Child, children: &DemoProcesses) {
    // The command may have ended already.
    let _ = child.kill();
    let _ = child.wait();
    children.ended(child.id());
}

/// Waits until processes are gone; returns the remaining ones.
pub(super) fn wait_until_gone(pids: &[i32], patience: Duration) -> Vec<i32> {
    let deadline = Instant::now() + patience;
    loop {
        let left: Vec<i32> =
            pids.iter().copied().filter(|pid| proc::process(*pid).is_ok_and(|found| !found.ended)).collect();
        if left.is_empty() || Instant::now() > deadline {
            return left;
        }
        // The processes are not children of this one, so their end causes no signal.
        std::thread::sleep(Duration::from_millis(5));
    }
}
