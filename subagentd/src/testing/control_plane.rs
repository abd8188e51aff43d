//! A control plane on generated data, without a process behind it: for counted allocations and
//! for the benches of inner parts.

#![allow(missing_docs, clippy::unwrap_used, clippy::missing_panics_doc, reason = "generated data must work")]

use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;

use crate::api::{self, Api, Listening};
use crate::deliveries::DeliveryService;
use crate::schedules::{Scheduler, Stay};
use crate::store::{Cursor, Durability, NewName, NewWorker, Store, controllers, workers};
use crate::supervisor;
use crate::supervisor::runtimes::stray_processes::FormerClients;
use crate::supervisor::runtimes::stream::turns::DialTurns;
use crate::supervisor::{DaemonSettings, EventScope, Supervisor};
use subagent_config::{Environment, RuntimeDir};
use subagent_core::model::LifecycleState;
use subagent_protocol::api::{DaemonInfo, header};
use subagent_protocol::codec;
use subagent_protocol::ids::{ControllerId, WorkerId};
use subagent_protocol::process::ProcessId;
use subagent_protocol::time::Timestamp;
use subagent_protocol::{OLDEST_PROTOCOL, PROTOCOL};

const SPEC: &str = r#"{"launcher":{"name":"demo","backendKind":"acp-stdio","program":"/no/such","args":[]},"umask":18,"nofile":null,"environment":[]}"#;

/// A state dir with planted workers.
pub struct JournaledStateDir {
    dir: tempfile::TempDir,
    workers: Vec<WorkerId>,
}

impl JournaledStateDir {
    /// Creates a place with `workers` workers. Each has a journal of `events` pieces of text that
    /// no daemon has read, and a runtime that has ended.
    pub async fn new(workers: u8, events: u64) -> Self {
        // Not in TMPDIR: the path of a socket has 107 bytes at most.
        let dir = tempfile::tempdir_in("/tmp").unwrap();
        let state_dir = dir.path().join("state");
        std::fs::create_dir_all(&state_dir).unwrap();
        let store = Store::open(&state_dir.join("state.db")).unwrap();
        let workers: Vec<WorkerId> = (1..=workers).map(|number| WorkerId::from_random([number; 5])).collect();
        for worker in &workers {
            let folder = state_dir.join("runtimes").join(worker.as_str());
            std::fs::create_dir_all(&folder).unwrap();
            std::fs::write(folder.join("1.journal"), journal(worker, events)).unwrap();
            let worker_id = worker.clone();
            let insert = store.write(Durability::Full, 1, move |tx| {
                let controller = controllers::upsert(
                    tx,
                    &ControllerId::from_random([1; 5]),
                    Some("c"),
                    "/ws",
                    Timestamp(1),
                )?;
                let worker = NewWorker {
                    worker_id,
                    controller: controller.id,
                    name: NewName::OfLauncher,
                    label: "a worker".to_owned(),
                    launcher: "demo".to_owned(),
                    role: "default".to_owned(),
                    cwd: "/ws".to_owned(),
                    spec: SPEC.to_owned(),
                    placeholder: "sess_0".to_owned(),
                    state: LifecycleState::Starting,
                    placement: None,
                };
                let id = workers::insert(tx, &worker, Timestamp(1))?;
                workers::begin_incarnation(tx, id, 1, &subagent_config::proc::boot_id().unwrap())?;
                workers::update_cursor(tx, id, Cursor { segment: 1, offset: 0, number: 0 })
            });
            insert.await.unwrap();
        }
        store.close().await;
        Self { dir, workers }
    }

    /// Opens it: the workers are adopted, which takes their journals in.
    pub async fn open(&self) -> ControlPlane<'_> {
        let state_dir = self.dir.path().join("state");
        let env = Environment::new([("XDG_RUNTIME_DIR".into(), self.dir.path().into())], self.dir.path());
        let setup = DaemonSettings {
            runtime_dir: RuntimeDir::prepare(&env, &state_dir).unwrap(),
            state_dir,
            runtime_program: self.dir.path().join("no-such-program"),
            restart_cooldown: None,
            retention: None,
            placement: None,
            dial_turns: DialTurns::default(),
            former_clients: FormerClients::default(),
        };
        ControlPlane { on: self, supervisor: Supervisor::open(setup).await.unwrap() }
    }
}

/// An open control plane. [`Self::shutdown`] ends it.
pub struct ControlPlane<'a> {
    on: &'a JournaledStateDir,
    supervisor: Supervisor,
}

impl ControlPlane<'_> {
    /// Follows the first worker until `events` pieces of text were seen.
    pub async fn follow(&self, events: u64) {
        let mut follower = supervisor::events::follow::follow(
            &self.supervisor,
            self.on.workers[0].as_str(),
            None,
            true,
            false,
            EventScope::TaskMilestones,
        )
        .await
        .unwrap();
        let mut seen = 0;
        while seen < events {
            let page = follower.next().await.unwrap();
            assert!(!page.is_empty(), "the worker is over after {seen} of {events}");
            let is_piece = |line: &&[u8]| memmem(line, b"\"progress.message\"");
            seen += page.split(|byte| *byte == b'\n').filter(is_piece).count() as u64;
        }
    }

    /// Serves it, for as long as the runtime of the caller lives; gives the socket.
    pub fn serve(&self) -> PathBuf {
        let (supervisor, dir) = (self.supervisor.clone(), self.on.dir.path());
        let socket = dir.join("s");
        let listener = tokio::net::UnixListener::bind(&socket).unwrap();
        let (control, stops, phases) = api::control();
        let (listening, replace, connections) = Listening::new(listener);
        let info = Arc::new(DaemonInfo {
            protocol: PROTOCOL,
            oldest_protocol: OLDEST_PROTOCOL,
            version: String::new(),
            process: ProcessId { pid: 1, start_time: 1 },
            generation: 1,
            socket: socket.clone(),
            state_dir: dir.join("state"),
            state_folder: None,
            mode: String::new(),
            ending: false,
            started_at: Timestamp(0),
        });
        let of_workers = supervisor.clone();
        let guards: api::Guards = Arc::new(move || of_workers.guards());
        let env = Environment::new([], dir);
        let program = dir.join("no-such-program");
        let deliveries = DeliveryService::start(&supervisor, env.clone(), program.clone(), dir);
        let schedules = Scheduler::start(&supervisor, env.clone(), program, dir.into(), Stay::Service);
        let router = api::router(Api {
            supervisor,
            deliveries,
            schedules,
            environment: Arc::new(env),
            info,
            last_worker: api::LastWorker::default(),
            control,
        });
        tokio::spawn(async move {
            let _kept = (stops, phases, replace, connections);
            api::serve(listening, router, guards, std::future::pending()).await
        });
        socket
    }

    /// Ends its actors and closes the database.
    pub async fn shutdown(self) {
        self.supervisor.shutdown(false).await.unwrap();
    }
}

fn memmem(text: &[u8], part: &[u8]) -> bool {
    text.windows(part.len()).any(|window| window == part)
}

fn journal(worker: &WorkerId, events: u64) -> Vec<u8> {
    let boot = subagent_config::proc::boot_id().unwrap();
    let mut bytes = Vec::new();
    let head = format!(
        r#"{{"n":1,"at":1,"t":"segment","b":{{"workerId":"{worker}","incarnation":1,"segment":1,"bootId":"{boot}","protocol":{PROTOCOL}}}}}"#
    );
    codec::encode(head.as_bytes(), &mut bytes);
    let session = r#"{"n":2,"at":1,"t":"session","b":{"sessionId":"s","origin":"new","contextLost":false}}"#;
    codec::encode(session.as_bytes(), &mut bytes);
    for number in 3..3 + events {
        let record = format!(
            r#"{{"n":{number},"at":1,"t":"update","k":"message","b":{{"sessionId":"s","update":{{"sessionUpdate":"agent_message_chunk","content":{{"type":"text","text":"piece {number} "}}}}}}}}"#
        );
        codec::encode(record.as_bytes(), &mut bytes);
    }
    let ended = format!(r#"{{"n":{},"at":1,"t":"ended","b":{{"killed":0,"millis":0}}}}"#, 3 + events);
    codec::encode(ended.as_bytes(), &mut bytes);
    bytes
}

/// A connection that asks for the same again and again.
pub struct KeepAliveClient(UnixStream);

impl KeepAliveClient {
    pub fn connect(socket: &std::path::Path) -> Self {
        Self(UnixStream::connect(socket).unwrap())
    }

    /// One request; the length of its answer.
    pub fn get(&mut self, path: &str) -> usize {
        let name = header::PROTOCOL;
        let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n{name}: {PROTOCOL}\r\n\r\n");
        self.0.write_all(request.as_bytes()).unwrap();
        let mut answer = Vec::new();
        loop {
            let mut buffer = [0; 16 * 1024];
            let length = self.0.read(&mut buffer).unwrap();
            assert!(length > 0, "closed after {}", String::from_utf8_lossy(&answer));
            answer.extend_from_slice(&buffer[..length]);
            let text = String::from_utf8_lossy(&answer);
            let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
            let head = head.to_ascii_lowercase();
            assert!(head.starts_with("http/1.1 200"), "{text}");
            let wanted: usize = head
                .split("content-length: ")
                .nth(1)
                .and_then(|rest| rest.lines().next())
                .unwrap()
                .parse()
                .unwrap();
            if body.len() >= wanted {
                return answer.len();
            }
        }
    }
}

/// Opens a database, creates it if it is missing, and closes it.
pub async fn open_and_close_store(path: &std::path::Path) {
    Store::open(path).unwrap().close().await;
}
