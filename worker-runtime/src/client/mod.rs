//! Carries out what the agent asks of its client: text files in the workspace, and terminals.

// File requests and terminal starts run in order on one thread, which exists only while there is
// work. A hanging file system delays these requests, but neither a cancel nor the end. The
// conversation decides what is carried out and when.

mod files;
mod lines;
mod output;
mod terminals;
#[cfg(test)]
mod tests;
mod walk;

use std::collections::VecDeque;
use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;

use subagent_protocol::sandbox::{Network, Sandbox};
use subagent_protocol::start::{AgentProgram, RuntimeStart};
use tokio::sync::mpsc;

use crate::acp::client_operation::{ClientOperation, ClientOperationStep, OperationSubject};
use crate::conversation::{ClientOperationError, ClientOperationResult, ConversationInput, ResolvedRequest};
use crate::guard::GuardStatus;
use crate::proxy::Proxy;
use terminals::{SpawnedTerminal, Terminals};
use walk::AccessScope;

/// Capacity of the event channel; senders wait when it is full.
const EVENTS: usize = 16;
/// Stack size of the thread: enough for a walk, as buffers are on the heap.
const STACK_BYTES: usize = 256 * 1024;

/// An event from the thread or from a terminal's guard.
#[derive(Debug)]
pub(crate) enum ClientEvent {
    /// The thread finished a job.
    JobDone(Done),
    /// A terminal's guard reports a status.
    Guard { terminal: u64, status: GuardStatus },
    /// A terminal's guard has ended.
    GuardGone { terminal: u64 },
    /// The sandbox's proxy refused a connection; the text is for the log.
    ConnectionRefused(String),
}

/// The result of a job.
#[derive(Debug)]
pub(crate) enum Done {
    /// A file request was carried out.
    Answered(Result<ClientOperationResult, ClientOperationError>),
    /// The path of a request was resolved.
    Found(Result<ResolvedRequest, ClientOperationError>),
    /// A terminal was started.
    Spawned(Box<Result<SpawnedTerminal, ClientOperationError>>),
}

/// The thread's current request.
#[derive(Debug)]
struct ClientJob {
    /// `None` once the request was dropped.
    call: Option<u64>,
    /// Whether the job may start a process.
    spawns: bool,
}

pub(crate) struct ClientExecutor {
    job_context: Arc<JobContext>,
    /// Requests for the thread, oldest first.
    waiting: VecDeque<(u64, ClientOperationStep)>,
    job: Option<ClientJob>,
    terminals: Terminals,
    ending: bool,
    given_up: bool,
    /// Events from the thread and from guards.
    pub(crate) events: mpsc::Receiver<ClientEvent>,
    events_in: mpsc::Sender<ClientEvent>,
}

/// Data that the thread needs.
struct JobContext {
    readable: AccessScope,
    writable: AccessScope,
    agent: AgentProgram,
    marker: String,
    guard_lock: OwnedFd,
    /// The only way out of the network of the agent's sandbox, if that lists hosts.
    proxy: Option<Proxy>,
}

impl ClientExecutor {
    /// Creates the client for this agent. Each terminal's guard holds `guard_lock` while it lives.
    ///
    /// # Errors
    ///
    /// The system's error if the proxy of its sandbox cannot be started.
    pub(crate) fn new(start: &RuntimeStart, guard_lock: OwnedFd) -> io::Result<Self> {
        let roots = if start.roots.is_empty() { vec![start.agent.cwd.clone()] } else { start.roots.clone() };
        let (readable, writable) = scopes(roots, start);
        let agent = AgentProgram { args: Vec::new(), ..start.agent.clone() };
        let (events_in, events) = mpsc::channel(EVENTS);
        let listed = agent.sandbox.as_ref().filter(|sandbox| sandbox.spec.network == Network::Hosts);
        let start_proxy = |sandbox: &Sandbox| Proxy::start(sandbox.spec.hosts.clone(), events_in.clone());
        let proxy = listed.map(start_proxy).transpose()?;
        Ok(Self {
            job_context: Arc::new(JobContext {
                readable,
                writable,
                agent,
                marker: start.marker.clone(),
                guard_lock,
                proxy,
            }),
            waiting: VecDeque::new(),
            job: None,
            terminals: Terminals::new(start.incarnation),
            ending: false,
            given_up: false,
            events,
            events_in,
        })
    }

    /// Returns a new channel to the proxy for the agent's guard, if its sandbox has a proxy.
    pub(crate) fn proxy_channel(&self) -> io::Result<Option<OwnedFd>> {
        self.job_context.proxy_channel()
    }

    /// Carries out a request or queues it. Returns `None` if the response follows later.
    pub(crate) fn ask(
        &mut self,
        call: u64,
        step: ClientOperationStep,
    ) -> Option<Result<ClientOperationResult, ClientOperationError>> {
        let ClientOperationStep::Do(request, allowed) = step else {
            self.waiting.push_back((call, step));
            return None;
        };
        match request {
            ClientOperation::Output { terminal } => Some(self.terminals.output(&terminal)),
            ClientOperation::WaitForExit { terminal } => self.terminals.wait_for_exit(&terminal, call),
            ClientOperation::Kill { terminal } => Some(self.terminals.kill(&terminal)),
            ClientOperation::Create(_) if self.creating() >= self.terminals.room() => {
                let max = terminals::MAX_TERMINALS;
                Some(Err(ClientOperationError::internal(format!(
                    "too many terminals: {max} are open; release some"
                ))))
            }
            ClientOperation::Read { .. } | ClientOperation::Write { .. } | ClientOperation::Create(_) => {
                self.waiting.push_back((call, ClientOperationStep::Do(request, allowed)));
                None
            }
            // Returned by `other_answers`, together with those to waiting requests.
            ClientOperation::Release { terminal } => Some(self.terminals.release(&terminal)),
        }
    }

    fn creating(&self) -> usize {
        let waiting = self.waiting.iter().filter(|(_, step)| spawns(step)).count();
        waiting + usize::from(self.job.as_ref().is_some_and(|job| job.spawns))
    }

    /// Returns responses to other requests: those that waited for a terminal which was released.
    pub(crate) fn other_answers(&mut self) -> Vec<ConversationInput<'static>> {
        self.terminals.answers()
    }

    /// Gives the next request to the idle thread. Returns `None` if there is none or
    /// the thread is busy.
    pub(crate) fn begin_next(&mut self) -> Option<Vec<ConversationInput<'static>>> {
        if self.job.is_some() {
            return None;
        }
        let (call, step) = self.waiting.pop_front()?;
        let spawns = spawns(&step);
        let (job_context, events) = (Arc::clone(&self.job_context), self.events_in.clone());
        let work = move || {
            let done = job_context.carry_out(step);
            // The loop is gone. A spawned guard ends with its pipe.
            let _ = events.blocking_send(ClientEvent::JobDone(done));
        };
        let thread = std::thread::Builder::new().name("files".to_owned()).stack_size(STACK_BYTES);
        Some(match thread.spawn(work) {
            Ok(_) => {
                self.job = Some(ClientJob { call: Some(call), spawns });
                Vec::new()
            }
            Err(error) => {
                let outcome =
                    Err(ClientOperationError::internal(format!("no thread could be started: {error}")));
                vec![ConversationInput::CallDone { call, outcome }]
            }
        })
    }

    /// Takes an event from the thread or a guard.
    pub(crate) fn event(&mut self, event: ClientEvent) -> Vec<ConversationInput<'static>> {
        match event {
            ClientEvent::JobDone(done) => {
                let call = self.job.take().and_then(|job| job.call);
                match (done, call) {
                    (Done::Answered(outcome), Some(call)) => {
                        vec![ConversationInput::CallDone { call, outcome }]
                    }
                    (Done::Found(found), Some(call)) => vec![ConversationInput::CallFound { call, found }],
                    (Done::Answered(_) | Done::Found(_), None) => Vec::new(),
                    (Done::Spawned(spawned), call) => match *spawned {
                        Ok(spawned) => {
                            let wanted = call.filter(|_| !self.ending);
                            self.terminals.add(spawned, wanted, &self.events_in)
                        }
                        Err(refused) => {
                            let done = |call| ConversationInput::CallDone { call, outcome: Err(refused) };
                            call.map(done).into_iter().collect()
                        }
                    },
                }
            }
            ClientEvent::Guard { terminal, status } => self.terminals.guard_says(terminal, status),
            ClientEvent::GuardGone { terminal } => self.terminals.guard_gone(terminal),
            // The driver writes it to the log.
            ClientEvent::ConnectionRefused(_) => Vec::new(),
        }
    }

    /// The response to this request is no longer needed.
    pub(crate) fn drop_call(&mut self, call: u64) {
        self.waiting.retain(|(waiting, _)| *waiting != call);
        if let Some(job) = self.job.as_mut().filter(|job| job.call == Some(call)) {
            job.call = None;
        }
        self.terminals.drop_call(call);
    }

    /// Ends all terminals and starts nothing more. Returns whether a terminal
    /// may still be starting.
    pub(crate) fn end_all(&mut self) -> bool {
        self.ending = true;
        self.waiting.clear();
        if let Some(job) = &mut self.job {
            job.call = None;
        }
        self.terminals.end_all();
        self.job.as_ref().is_some_and(|job| job.spawns)
    }

    /// Stops waiting for a terminal whose start hangs. Its guard notices that we are
    /// gone and starts nothing.
    pub(crate) fn give_up(&mut self) {
        self.given_up = true;
    }

    /// Whether no process of any terminal is left.
    pub(crate) fn all_ended(&self) -> bool {
        let on_its_way = self.job.as_ref().is_some_and(|job| job.spawns) && !self.given_up;
        self.terminals.all_ended() && !on_its_way
    }

    /// Reaps guards that have ended.
    pub(crate) fn reap(&mut self) {
        self.terminals.reap();
    }

    /// Whether a guard died before its descendants.
    pub(crate) fn has_lost(&self) -> bool {
        self.terminals.has_lost()
    }

    /// The descendants of such guards were ended.
    pub(crate) fn rescued(&mut self) {
        self.terminals.rescued();
    }

    /// Returns the pids of the living guards.
    pub(crate) fn guards(&self) -> Vec<i32> {
        self.terminals.guards()
    }
}

/// Returns two scopes: where the agent may read files and run commands, and where it may write.
/// Both are its roots, limited by its sandbox.
fn scopes(roots: Vec<PathBuf>, start: &RuntimeStart) -> (AccessScope, AccessScope) {
    let spec = start.agent.sandbox.as_ref().map(|sandbox| &sandbox.spec);
    let hidden = spec.map(|spec| spec.hide.clone()).unwrap_or_default();
    let private: Vec<PathBuf> = start.private.iter().cloned().chain(hidden).collect();
    let read = spec.and_then(|spec| Some([spec.read.clone()?, spec.write.clone()].concat()));
    let write = spec.map(|spec| spec.write.clone());
    let opened = write.clone().unwrap_or_default();
    let writable = AccessScope { roots, private, opened, confined: write };
    (AccessScope { confined: read, ..writable.clone() }, writable)
}

fn spawns(step: &ClientOperationStep) -> bool {
    matches!(step, ClientOperationStep::Do(ClientOperation::Create(_), _))
}

impl JobContext {
    fn proxy_channel(&self) -> io::Result<Option<OwnedFd>> {
        self.proxy.as_ref().map(Proxy::channel).transpose()
    }

    fn carry_out(&self, step: ClientOperationStep) -> Done {
        match step {
            ClientOperationStep::Find(subject) => Done::Found(self.find(&subject)),
            ClientOperationStep::Do(request, allowed) => {
                subagent_failpoint::hit("client_file.before_open");
                let done = self.work(request, allowed.as_deref());
                subagent_failpoint::hit("client_file.after_close");
                done
            }
        }
    }

    fn find(&self, subject: &OperationSubject) -> Result<ResolvedRequest, ClientOperationError> {
        match subject {
            OperationSubject::File(path) => files::find_source(&self.readable, path),
            OperationSubject::Target(path, shown) => files::find_target(&self.writable, path, *shown),
            OperationSubject::Folder(Some(path)) => files::find_folder(&self.readable, path),
            OperationSubject::Folder(None) => {
                files::find_folder(&self.readable, &self.agent.cwd.to_string_lossy())
            }
        }
    }

    fn work(&self, request: ClientOperation, allowed: Option<&str>) -> Done {
        match request {
            ClientOperation::Read { path, line, limit } => {
                Done::Answered(files::read(&self.readable, &path, allowed, line, limit))
            }
            ClientOperation::Write { path, content } => {
                Done::Answered(files::write(&self.writable, self.agent.umask, &path, allowed, &content))
            }
            ClientOperation::Create(command) => {
                Done::Spawned(Box::new(terminals::spawn(self, &command, allowed)))
            }
            // These requests are carried out at once.
            ClientOperation::Output { .. }
            | ClientOperation::WaitForExit { .. }
            | ClientOperation::Kill { .. }
            | ClientOperation::Release { .. } => {
                Done::Answered(Err(ClientOperationError::internal("no such request")))
            }
        }
    }
}
