//! The state of a runtime's driver, in components that each own what belongs together.

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;

use subagent_protocol::ids::RequestId;
use subagent_protocol::start::RuntimeStart;
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::agent_process::AgentProcess;
use super::alarms::Alarms;
use super::connections::DaemonConnections;
use super::daemon_restart::DaemonReplacement;
use super::own_files::OwnFiles;
use super::records::RecordWriter;
use crate::acp::requests;
use crate::client::ClientExecutor;
use crate::conversation::{Conversation, ConversationConfig};
use crate::daemon_start::starter::DaemonStarter;
use crate::journal::{Identity, Journal, JournalLayout};
use crate::stderr::StderrLog;

pub(super) struct Driver {
    pub(super) conversation: Conversation,
    pub(super) records: RecordWriter,
    pub(super) agent: AgentProcess,
    pub(super) client: ClientCalls,
    pub(super) daemon: DaemonConnections,
    /// `None` if another process has to start a daemon.
    pub(super) replacement: Option<DaemonReplacement>,
    pub(super) files: OwnFiles,
    pub(super) log: StderrLog,
    pub(super) alarms: Alarms,
    pub(super) signals: DriverSignals,
    pub(super) done: bool,
}

/// The client requests of the agent.
pub(super) struct ClientCalls {
    pub(super) executor: ClientExecutor,
    /// Requests whose records are written.
    pub(super) calls: VecDeque<u64>,
    pub(super) serves: bool,
}

pub(super) struct DriverSignals {
    pub(super) terminate: Signal,
    pub(super) child: Signal,
    /// Handlers that do nothing. The agent would inherit ignored signals.
    _ignored: [Signal; 2],
}

impl Driver {
    pub(super) fn begin(start: &RuntimeStart, lock: File, guard_lock: OwnedFd) -> io::Result<Self> {
        let layout = JournalLayout {
            directory: start.directory.clone(),
            segment: start.segment,
            first_record: start.first_record,
            segment_bytes: start.limits.segment_bytes,
            quota_bytes: start.limits.journal_quota_bytes,
        };
        let identity = Identity {
            worker_id: start.worker_id.clone(),
            incarnation: start.incarnation,
            boot_id: start.boot_id.clone(),
        };
        let journal = Journal::begin(layout, identity)?;
        let files = OwnFiles::bind(start, lock)?;
        let conversation = Conversation::new(ConversationConfig {
            session: start.session.clone(),
            resume_only: start.resume_only,
            restore_failures: start.restore_failures.clone(),
            context: requests::SessionContext {
                cwd: start.agent.cwd.to_string_lossy().into_owned(),
                additional_directories: start
                    .additional_directories
                    .iter()
                    .map(|path| path.to_string_lossy().into_owned())
                    .collect(),
                mcp_servers: start.mcp_servers.clone(),
                instructions: start.instructions.clone(),
                system_prompt: false,
            },
            command: std::iter::once(&start.agent.program).chain(&start.agent.args).cloned().collect(),
            timeouts: start.timeouts,
            last_turn: start.last_turn,
            options: start.options.clone(),
            login: start.login.clone(),
            client_rules: start.client_rules.clone(),
            make_request_id: Box::new(random_request_id),
        });
        let starter = start.daemon.clone().and_then(|start| DaemonStarter::new(start).ok());
        Ok(Self {
            conversation,
            records: RecordWriter::new(journal),
            agent: AgentProcess::new(start.limits.max_line_bytes),
            client: ClientCalls {
                executor: ClientExecutor::new(start, guard_lock)?,
                calls: VecDeque::new(),
                serves: false,
            },
            daemon: DaemonConnections::new(start),
            replacement: starter.map(DaemonReplacement::new),
            files,
            log: StderrLog::open(&start.log),
            alarms: Alarms::default(),
            signals: DriverSignals {
                terminate: signal(SignalKind::terminate())?,
                child: signal(SignalKind::child())?,
                _ignored: [signal(SignalKind::hangup())?, signal(SignalKind::interrupt())?],
            },
            done: false,
        })
    }

    pub(super) fn take_errors(&mut self, bytes: &[u8]) {
        self.log.write(bytes);
        self.agent.tail.push(bytes);
    }
}

fn random_request_id() -> Option<RequestId> {
    let mut bytes = [0; RequestId::BYTES];
    getrandom::fill(&mut bytes).ok()?;
    Some(RequestId::from_random(bytes))
}
