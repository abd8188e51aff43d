//! The agent's terminals: commands, each below its own guard, with the end of their output. A
//! terminal is a pipe and not a pseudo terminal: only programs read the output, and there is no
//! input. When its command ends, everything that the command started ends too.

use std::fs::File;
use std::io::{self, PipeReader, Write as _};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use nix::sys::signal::Signal;
use subagent_protocol::bytes64::Bytes64;
use subagent_protocol::client::{ExitStatus, TerminalExited};
use subagent_protocol::start::AgentProgram;
use tokio::net::unix::pipe::Receiver;
use tokio::sync::mpsc;

use super::output::TerminalOutput;
use super::{ClientEvent, JobContext, files, walk};
use crate::acp::client_operation::TerminalCommand;
use crate::acp::lines::LineSplitter;
use crate::conversation::{ClientOperationError, ClientOperationResult, ConversationInput};
use crate::guard::{self, GuardStatus};
use crate::shorten;
use crate::spawn::{self, SpawnedGuard};

/// Maximum number of open terminals.
pub(super) const MAX_TERMINALS: usize = 32;
/// Output kept in the record of a terminal's end, in bytes.
const TAIL_BYTES: usize = 4096;
const OUTPUT_BYTES: usize = 64 * 1024;
/// Maximum number of reads from the pipe after the command's end, before the end is reported.
const LAST_READS: usize = 64;
const STATUS_LINE_BYTES: usize = 16 * 1024;

/// A guard with its command and the command's output pipe.
#[derive(Debug)]
pub(crate) struct SpawnedTerminal {
    guard: Child,
    life: File,
    status: PipeReader,
    output: PipeReader,
    output_bytes: usize,
}

/// Starts a guard for a command. Blocks: runs on the thread.
pub(super) fn spawn(
    job_context: &JobContext,
    command: &TerminalCommand,
    allowed: Option<&str>,
) -> Result<SpawnedTerminal, ClientOperationError> {
    let name = command.cwd.as_deref().map_or_else(|| job_context.agent.cwd.to_string_lossy(), Into::into);
    let (folder, _) = walk::to_folder(&job_context.readable, files::walk_path(&name, allowed))
        .map_err(|error| files::refused_cwd(&name, &error))?;
    spawn_in(job_context, command, &name, &folder).map_err(|error| {
        ClientOperationError::internal(format!(
            "cannot start {}: {error}",
            shorten::text(&command.program, 200)
        ))
    })
}

fn spawn_in(
    job_context: &JobContext,
    command: &TerminalCommand,
    name: &str,
    folder: &OwnedFd,
) -> io::Result<SpawnedTerminal> {
    let (output, printed) = io::pipe()?;
    let variable =
        |name: String, value: &str| (Bytes64(name.into_bytes()), Bytes64(value.as_bytes().to_vec()));
    let mut env = job_context.agent.env.clone();
    env.push(variable("PWD".to_owned(), name));
    // Only for the command: its variables must not change which guard runs.
    let own = command.env.iter().filter(|(name, _)| name != spawn::MARKER);
    env.extend(own.map(|(name, value)| variable(format!("{}{name}", guard::COMMAND_ENV), value)));
    let guarded = AgentProgram {
        program: command.program.clone(),
        args: command.args.clone(),
        // The folder that was found, even if its name leads elsewhere by now.
        cwd: PathBuf::from(format!("/proc/self/fd/{}", folder.as_raw_fd())),
        env,
        umask: job_context.agent.umask,
        nofile: job_context.agent.nofile,
        sandbox: job_context.agent.sandbox.clone(),
    };
    let stdio = [Stdio::null(), Stdio::from(printed.try_clone()?), Stdio::from(printed)];
    let (lock, proxy) = (job_context.guard_lock.try_clone()?, job_context.proxy_channel()?);
    let SpawnedGuard { guard, life, status } =
        spawn::start_guard(&guarded, &job_context.marker, lock, proxy, stdio)?;
    Ok(SpawnedTerminal { guard, life, status, output, output_bytes: command.output_bytes })
}

/// The state of a terminal.
#[derive(Debug)]
enum TerminalPhase {
    /// The guard starts the command for this request; `None` once the request was dropped.
    Starting(Option<u64>),
    /// The command runs; these requests wait for its end.
    Running(Vec<u64>),
    /// The command has ended.
    Exited(ExitStatus),
}

struct AgentTerminal {
    number: u64,
    phase: TerminalPhase,
    guard: Child,
    /// The guard was reaped, so its pid may belong to another process.
    reaped: bool,
    /// The guard sent its last status or died.
    gone: bool,
    /// No process can be left below the guard.
    clean: bool,
    released: bool,
    /// The guard got the order to end the command.
    end_requested: bool,
    life: File,
    output: Arc<Mutex<TerminalOutput>>,
}

pub(super) struct Terminals {
    incarnation: u64,
    last: u64,
    all: Vec<AgentTerminal>,
    answers: Vec<ConversationInput<'static>>,
}

impl Terminals {
    pub(super) fn new(incarnation: u64) -> Self {
        Self { incarnation, last: 0, all: Vec::new(), answers: Vec::new() }
    }

    /// Returns how many more terminals may be opened.
    pub(super) fn room(&self) -> usize {
        MAX_TERMINALS.saturating_sub(self.all.len())
    }

    /// Takes over a guard. Ends it at once if its request was dropped.
    pub(super) fn add(
        &mut self,
        spawned: SpawnedTerminal,
        call: Option<u64>,
        events: &mpsc::Sender<ClientEvent>,
    ) -> Vec<ConversationInput<'static>> {
        let SpawnedTerminal { guard, life, status, output: pipe, output_bytes } = spawned;
        self.last += 1;
        let output = Arc::new(Mutex::new(TerminalOutput::new(output_bytes)));
        let mut terminal = AgentTerminal {
            number: self.last,
            phase: TerminalPhase::Starting(call),
            guard,
            reaped: false,
            gone: false,
            clean: false,
            released: false,
            end_requested: false,
            life,
            output: Arc::clone(&output),
        };
        let pipes = spawn::receiver(pipe).and_then(|pipe| Ok((pipe, spawn::receiver(status)?)));
        let mut answers = Vec::new();
        match pipes {
            Ok((pipe, status)) => {
                tokio::spawn(listen(self.last, pipe, status, output, events.clone()));
            }
            Err(error) => {
                // Without a status pipe the end cannot be reported. Treats the guard as dead.
                (terminal.gone, terminal.released) = (true, true);
                let outcome =
                    Err(ClientOperationError::internal(format!("cannot listen to the command: {error}")));
                answers.extend(call.map(|call| ConversationInput::CallDone { call, outcome }));
            }
        }
        if call.is_none() {
            terminal.release();
        }
        self.all.push(terminal);
        answers
    }

    fn find(&mut self, id: &str) -> Result<&mut AgentTerminal, ClientOperationError> {
        let incarnation = self.incarnation;
        let of_this_name = |terminal: &&mut AgentTerminal| {
            let known = !matches!(terminal.phase, TerminalPhase::Starting(_)) && !terminal.released;
            known && name(incarnation, terminal.number) == id
        };
        let unknown =
            || ClientOperationError::not_found(format!("no such terminal: {}", shorten::text(id, 100)));
        self.all.iter_mut().find(of_this_name).ok_or_else(unknown)
    }

    pub(super) fn output(&mut self, id: &str) -> Result<ClientOperationResult, ClientOperationError> {
        let terminal = self.find(id)?;
        let exit = match &terminal.phase {
            TerminalPhase::Exited(exit) => Some(exit.clone()),
            TerminalPhase::Starting(_) | TerminalPhase::Running(_) => None,
        };
        let (text, truncated) = lock(&terminal.output).text(exit.is_some());
        Ok(ClientOperationResult::Output { text, truncated, exit })
    }

    pub(super) fn wait_for_exit(
        &mut self,
        id: &str,
        call: u64,
    ) -> Option<Result<ClientOperationResult, ClientOperationError>> {
        let terminal = match self.find(id) {
            Ok(terminal) => terminal,
            Err(refused) => return Some(Err(refused)),
        };
        match &mut terminal.phase {
            TerminalPhase::Exited(exit) => Some(Ok(ClientOperationResult::Exited(exit.clone()))),
            TerminalPhase::Running(waiting) => {
                waiting.push(call);
                None
            }
            TerminalPhase::Starting(_) => {
                Some(Err(ClientOperationError::internal("the terminal has not started")))
            }
        }
    }

    pub(super) fn kill(&mut self, id: &str) -> Result<ClientOperationResult, ClientOperationError> {
        self.find(id)?.end();
        Ok(ClientOperationResult::Done)
    }

    pub(super) fn release(&mut self, id: &str) -> Result<ClientOperationResult, ClientOperationError> {
        let waiting = self.find(id)?.release();
        let released = |call| ConversationInput::CallDone {
            call,
            outcome: Err(ClientOperationError::not_found("the terminal was released meanwhile")),
        };
        self.answers.extend(waiting.into_iter().map(released));
        self.sweep();
        Ok(ClientOperationResult::Done)
    }

    /// Returns the responses that became ready since the last call.
    pub(super) fn answers(&mut self) -> Vec<ConversationInput<'static>> {
        std::mem::take(&mut self.answers)
    }

    pub(super) fn drop_call(&mut self, call: u64) {
        for terminal in &mut self.all {
            match &mut terminal.phase {
                TerminalPhase::Starting(starter) if *starter == Some(call) => {
                    terminal.release();
                }
                TerminalPhase::Running(waiting) => waiting.retain(|waiting| *waiting != call),
                TerminalPhase::Starting(_) | TerminalPhase::Exited(_) => {}
            }
        }
    }

    pub(super) fn end_all(&mut self) {
        for terminal in &mut self.all {
            terminal.release();
        }
        self.sweep();
    }

    pub(super) fn guard_says(&mut self, number: u64, status: GuardStatus) -> Vec<ConversationInput<'static>> {
        let id = name(self.incarnation, number);
        let Some(terminal) = self.all.iter_mut().find(|terminal| terminal.number == number) else {
            return Vec::new();
        };
        match status {
            GuardStatus::Spawned { .. } => match terminal.phase {
                TerminalPhase::Starting(call) => {
                    terminal.phase = TerminalPhase::Running(Vec::new());
                    let created = |call| ConversationInput::CallDone {
                        call,
                        outcome: Ok(ClientOperationResult::Created { terminal: id }),
                    };
                    call.map(created).into_iter().collect()
                }
                TerminalPhase::Running(_) | TerminalPhase::Exited(_) => Vec::new(),
            },
            GuardStatus::SpawnFailed { message, .. } => {
                terminal.clean = true;
                terminal.not_started(message)
            }
            GuardStatus::Exited { code, signal, .. } => terminal.exited(id, exit_status(code, signal)),
            GuardStatus::Clean { .. } => {
                terminal.clean = true;
                Vec::new()
            }
            GuardStatus::Ending | GuardStatus::Incomplete { .. } | GuardStatus::Unknown => Vec::new(),
        }
    }

    pub(super) fn guard_gone(&mut self, number: u64) -> Vec<ConversationInput<'static>> {
        let id = name(self.incarnation, number);
        let Some(terminal) = self.all.iter_mut().find(|terminal| terminal.number == number) else {
            return Vec::new();
        };
        terminal.gone = true;
        let inputs = match terminal.phase {
            TerminalPhase::Starting(_) => {
                terminal.not_started("it was ended before it had started".to_owned())
            }
            // Its exit status is unknown.
            TerminalPhase::Running(_) => terminal.exited(id, ExitStatus::default()),
            TerminalPhase::Exited(_) => Vec::new(),
        };
        self.reap();
        inputs
    }

    pub(super) fn reap(&mut self) {
        for terminal in self.all.iter_mut().filter(|terminal| !terminal.reaped) {
            // An error means that it was reaped already, when the processes of a
            // dead guard were ended.
            terminal.reaped = !matches!(terminal.guard.try_wait(), Ok(None));
        }
        self.sweep();
    }

    fn sweep(&mut self) {
        self.all.retain(|terminal| !(terminal.released && terminal.has_ended()));
    }

    pub(super) fn all_ended(&self) -> bool {
        self.all.iter().all(AgentTerminal::has_ended)
    }

    pub(super) fn has_lost(&self) -> bool {
        self.all.iter().any(|terminal| terminal.gone && !terminal.clean)
    }

    pub(super) fn rescued(&mut self) {
        for terminal in self.all.iter_mut().filter(|terminal| terminal.gone) {
            terminal.clean = true;
        }
        self.reap();
    }

    pub(super) fn guards(&self) -> Vec<i32> {
        let alive = self.all.iter().filter(|terminal| !terminal.reaped && !terminal.gone);
        alive.filter_map(|terminal| i32::try_from(terminal.guard.id()).ok()).collect()
    }
}

impl AgentTerminal {
    fn has_ended(&self) -> bool {
        self.gone && self.clean && self.reaped
    }

    /// Ends the command and all its descendants.
    fn end(&mut self) {
        // One byte at most, and never a blocking write: a stopped guard does not read. A guard that
        // is gone needs no order.
        if !self.gone && !std::mem::replace(&mut self.end_requested, true) {
            let _ = self.life.write_all(&[guard::END]);
        }
    }

    /// Ends the terminal for good. Returns the requests that waited for its end.
    fn release(&mut self) -> Vec<u64> {
        if std::mem::replace(&mut self.released, true) {
            return Vec::new();
        }
        self.end();
        lock(&self.output).forget();
        match &mut self.phase {
            TerminalPhase::Starting(call) => *call = None,
            TerminalPhase::Running(waiting) => return std::mem::take(waiting),
            TerminalPhase::Exited(_) => {}
        }
        Vec::new()
    }

    fn not_started(&mut self, message: String) -> Vec<ConversationInput<'static>> {
        self.released = true;
        let call = match &mut self.phase {
            TerminalPhase::Starting(call) => call.take(),
            TerminalPhase::Running(_) | TerminalPhase::Exited(_) => None,
        };
        let done = |call| ConversationInput::CallDone {
            call,
            outcome: Err(ClientOperationError::internal(message)),
        };
        call.map(done).into_iter().collect()
    }

    fn exited(&mut self, terminal_id: String, exit: ExitStatus) -> Vec<ConversationInput<'static>> {
        let waiting = match std::mem::replace(&mut self.phase, TerminalPhase::Exited(exit.clone())) {
            TerminalPhase::Running(waiting) => waiting,
            TerminalPhase::Starting(_) | TerminalPhase::Exited(_) => Vec::new(),
        };
        let (output_bytes, tail) = {
            let output = lock(&self.output);
            (output.printed(), output.tail(TAIL_BYTES))
        };
        let exited = TerminalExited { terminal_id, exit_status: exit.clone(), output_bytes, tail };
        let done = waiting.into_iter().map(|call| ConversationInput::CallDone {
            call,
            outcome: Ok(ClientOperationResult::Exited(exit.clone())),
        });
        std::iter::once(ConversationInput::TerminalExited(exited)).chain(done).collect()
    }
}

fn name(incarnation: u64, number: u64) -> String {
    format!("term_{incarnation}_{number}")
}

fn exit_status(code: Option<i32>, signal: Option<i32>) -> ExitStatus {
    let signal = signal.map(|number| match Signal::try_from(number) {
        Ok(signal) => signal.as_str().to_owned(),
        Err(_) => format!("signal {number}"),
    });
    ExitStatus { exit_code: code.and_then(|code| u32::try_from(code).ok()), signal }
}

fn lock(output: &Mutex<TerminalOutput>) -> MutexGuard<'_, TerminalOutput> {
    output.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Reads a command's output and its guard's status until the guard is gone.
async fn listen(
    terminal: u64,
    pipe: Receiver,
    status: Receiver,
    output: Arc<Mutex<TerminalOutput>>,
    events: mpsc::Sender<ClientEvent>,
) {
    let mut pipe = Some(pipe);
    let mut lines = LineSplitter::new(STATUS_LINE_BYTES);
    loop {
        tokio::select! {
            () = readable(pipe.as_ref()) => {
                if read(pipe.as_ref(), &output) == PipeReadStatus::End {
                    pipe = None;
                }
            }
            () = readable(Some(&status)) => {
                let mut bytes = Vec::with_capacity(4096);
                match status.try_read_buf(&mut bytes) {
                    Err(error) if would_block(&error) => continue,
                    Ok(0) | Err(_) => break,
                    Ok(_) => {}
                }
                for status in lines.read::<GuardStatus>(&bytes) {
                    if matches!(status, GuardStatus::Exited { .. }) {
                        // All output of the command itself is in the pipe.
                        drain(pipe.as_ref(), &output);
                    }
                    if events.send(ClientEvent::Guard { terminal, status }).await.is_err() {
                        return;
                    }
                }
            }
        }
    }
    drain(pipe.as_ref(), &output);
    // The receiver may be gone.
    let _ = events.send(ClientEvent::GuardGone { terminal }).await;
}

async fn readable(pipe: Option<&Receiver>) {
    match pipe {
        Some(pipe) => {
            // The next read reports an error again.
            let _ = pipe.readable().await;
        }
        None => std::future::pending().await,
    }
}

#[derive(PartialEq, Eq)]
enum PipeReadStatus {
    More,
    NotNow,
    End,
}

fn read(pipe: Option<&Receiver>, output: &Mutex<TerminalOutput>) -> PipeReadStatus {
    let Some(pipe) = pipe else { return PipeReadStatus::End };
    let mut bytes = Vec::with_capacity(OUTPUT_BYTES);
    match pipe.try_read_buf(&mut bytes) {
        Ok(0) => PipeReadStatus::End,
        Ok(_) => {
            lock(output).push(&bytes);
            PipeReadStatus::More
        }
        Err(error) if would_block(&error) => PipeReadStatus::NotNow,
        Err(_) => PipeReadStatus::End,
    }
}

/// Reads what is available, without waiting for more.
fn drain(pipe: Option<&Receiver>, output: &Mutex<TerminalOutput>) {
    for _ in 0..LAST_READS {
        if read(pipe, output) != PipeReadStatus::More {
            return;
        }
    }
}

fn would_block(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}

#[cfg(test)]
mod tests {
    use std::process::Command as Program;
    use std::time::Duration;

    use nix::fcntl::{FcntlArg, fcntl};

    use super::*;

    #[test]
    fn a_guard_that_does_not_listen_blocks_nothing() {
        let (done, is_done) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            let _inside = runtime.enter();
            let ((_deaf, life), (status, _says)) = (io::pipe().unwrap(), io::pipe().unwrap());
            let (output, _prints) = io::pipe().unwrap();
            let room = fcntl(&life, FcntlArg::F_SETPIPE_SZ(1)).unwrap();
            let guard = Program::new("true").spawn().unwrap();
            let spawned =
                SpawnedTerminal { guard, life: OwnedFd::from(life).into(), status, output, output_bytes: 1 };
            let (mut terminals, (events, _)) = (Terminals::new(1), mpsc::channel(1));
            terminals.add(spawned, Some(1), &events);
            terminals.guard_says(1, GuardStatus::Spawned { pid: 1 });
            for _ in 0..=room {
                assert_eq!(terminals.kill("term_1_1"), Ok(ClientOperationResult::Done));
            }
            done.send(()).unwrap();
        });
        is_done.recv_timeout(Duration::from_secs(10)).expect("a kill waits for the guard");
    }
}
