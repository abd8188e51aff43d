//! Starts a real runtime as the daemon does, drives its command socket, and reads its journal.
#![allow(dead_code, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use command_fds::{CommandFdExt, FdMapping};
use serde_json::{Value, json};
use subagent_protocol::bytes64::Bytes64;
use subagent_protocol::codec::{self, Decoded};
use subagent_protocol::frame::{FromRuntime, Refusal, RuntimeCommand as Order, RuntimeHello, ToRuntime};
use subagent_protocol::ids::{RequestId, TurnId, WorkerId};
use subagent_protocol::record::{JournalRecord, RecordType};
use subagent_protocol::start::{AgentProgram, GUARD_LOCK_FD, LOCK_FD, RuntimeLimits, RuntimeStart, Timeouts};
use subagent_protocol::state::Desired;
use tempfile::TempDir;

/// Time limit of every step, even on a busy machine.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(30);

pub(crate) fn example(name: &str) -> PathBuf {
    let own = std::env::current_exe().unwrap();
    own.parent().unwrap().parent().unwrap().join("examples").join(name)
}

/// Waits for a condition by polling: files and other processes send no notification.
pub(crate) fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + TIMEOUT;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < deadline, "waited in vain for {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

pub(crate) fn is_alive(pid: i32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with(['Z', 'X']))
}

/// A record of a journal.
#[derive(Debug, Clone)]
pub(crate) struct Read {
    pub(crate) n: u64,
    pub(crate) t: RecordType,
    pub(crate) turn: Option<u64>,
    pub(crate) k: Option<String>,
    pub(crate) body: Value,
}

pub(crate) struct WorkerFixture {
    pub(crate) directory: TempDir,
    pub(crate) start: RuntimeStart,
}

/// A running runtime. Dropping it kills it with everything below it.
pub(crate) struct RuntimeProcess {
    pub(crate) child: Child,
}

impl WorkerFixture {
    pub(crate) fn new(agent_args: &[&str]) -> Self {
        let directory = TempDir::new().unwrap();
        let path = directory.path();
        let env = [("PATH", std::env::var("PATH").unwrap()), ("MINI", "1".to_owned())];
        let start = RuntimeStart {
            task_server_there: false,
            protocol: 1,
            worker_id: WorkerId::from_random([7; 5]),
            incarnation: 1,
            generation: 5,
            directory: path.to_owned(),
            socket: path.join("s"),
            log: path.join("start.log"),
            segment: 1,
            first_record: 1,
            last_turn: 0,
            boot_id: "boot".to_owned(),
            container_token: None,
            lease_ms: None,
            marker: "marker-of-a-test".to_owned(),
            agent: AgentProgram {
                sandbox: None,
                program: example("mini-agent").to_str().unwrap().to_owned(),
                args: agent_args.iter().map(|arg| (*arg).to_owned()).collect(),
                cwd: path.to_owned(),
                env: env.map(|(name, value)| (Bytes64(name.into()), Bytes64(value.into_bytes()))).into(),
                umask: 0o22,
                nofile: Some(512),
            },
            session: None,
            resume_only: false,
            restore_failures: Vec::new(),
            timeouts: Timeouts {
                startup_ms: 20_000,
                initialize_ms: None,
                session_ms: None,
                turn_ms: None,
                cancel_grace_ms: 300,
                stop_grace_ms: 300,
            },
            limits: RuntimeLimits::default(),
            roots: Vec::new(),
            private: Vec::new(),
            options: subagent_protocol::options::Options::default(),
            login: subagent_protocol::start::Login::default(),
            client_rules: None,
            daemon: None,
            instructions: None,
            mcp_servers: subagent_protocol::mcp::McpServers::default(),
            additional_directories: vec![],
        };
        Self { directory, start }
    }

    fn locked(&self, name: &str) -> OwnedFd {
        let file = File::create(self.directory.path().join(name)).unwrap();
        file.try_lock().unwrap();
        file.into()
    }

    pub(crate) fn run(&self) -> RuntimeProcess {
        self.run_with(&[])
    }

    /// Runs it with these variables in the runtime's own environment.
    pub(crate) fn run_with(&self, env: &[(&str, &str)]) -> RuntimeProcess {
        let mut command = Command::new(example("runtime"));
        command.envs(env.iter().copied());
        command.arg("run").stdin(Stdio::piped()).stdout(Stdio::null());
        command
            .fd_mappings(vec![
                FdMapping { parent_fd: self.locked("lock"), child_fd: LOCK_FD },
                FdMapping { parent_fd: self.locked("guard.lock"), child_fd: GUARD_LOCK_FD },
            ])
            .unwrap();
        let mut child = command.spawn().unwrap();
        let mut input = child.stdin.take().unwrap();
        input.write_all(&serde_json::to_vec(&self.start).unwrap()).unwrap();
        RuntimeProcess { child }
    }

    pub(crate) fn connect(&self) -> Connection {
        let stream = until("the command socket", || UnixStream::connect(&self.start.socket).ok());
        stream.set_read_timeout(Some(TIMEOUT)).unwrap();
        Connection { input: BufReader::new(stream.try_clone().unwrap()), output: stream, next: 0 }
    }

    /// Opens a connection that is served.
    pub(crate) fn hello(&self) -> (Connection, RuntimeHello) {
        let mut connection = self.connect();
        connection.send(&ToRuntime::Hello {
            protocol: 1,
            generation: self.start.generation,
            desired: Desired::Run,
        });
        let hello = match connection.receive() {
            Some(FromRuntime::Hello(hello)) => *hello,
            other => panic!("{other:?}"),
        };
        (connection, hello)
    }

    /// Opens a connection to a runtime that has a session.
    pub(crate) fn ready(&self) -> Connection {
        let (connection, _) = self.hello();
        self.wait_for(RecordType::Session);
        connection
    }

    pub(crate) fn journal(&self) -> Vec<Read> {
        let mut all = Vec::new();
        for segment in 1.. {
            let Ok(bytes) = fs::read(self.directory.path().join(format!("{segment}.journal"))) else { break };
            let mut rest = bytes.as_slice();
            while let Decoded::Record { json, size } = codec::decode(rest, usize::MAX) {
                rest = &rest[size..];
                let record: JournalRecord<'_> = serde_json::from_slice(json).unwrap();
                let body = record.b.map_or(Value::Null, |body| serde_json::from_str(body.get()).unwrap());
                let k = record.k.map(std::borrow::Cow::into_owned);
                all.push(Read { n: record.n, t: record.t, turn: record.turn, k, body });
            }
            // A segment may have grown since it was read; only its last record proves
            // that it is complete.
            if all.last().is_none_or(|record| record.t != RecordType::Sealed) {
                break;
            }
        }
        for (record, n) in all.iter().zip(1..) {
            assert_eq!(record.n, n, "the numbers have a gap");
        }
        all
    }

    pub(crate) fn wait_for(&self, t: RecordType) -> Read {
        self.wait_for_nth(t, 1)
    }

    pub(crate) fn wait_for_nth(&self, t: RecordType, nth: usize) -> Read {
        until(t.as_str(), || self.journal().into_iter().filter(|record| record.t == t).nth(nth - 1))
    }

    pub(crate) fn types(&self) -> Vec<RecordType> {
        self.journal().into_iter().map(|record| record.t).collect()
    }

    /// Returns the agent's texts in order.
    pub(crate) fn texts(&self, turn: Option<u64>) -> Vec<String> {
        let updates = self.journal().into_iter().filter(|r| r.t == RecordType::Update && r.turn == turn);
        updates.map(|r| r.body["update"]["content"]["text"].as_str().unwrap().to_owned()).collect()
    }

    pub(crate) fn guard_lock_is_free(&self) -> bool {
        File::open(self.directory.path().join("guard.lock")).unwrap().try_lock().is_ok()
    }

    pub(crate) fn log(&self) -> String {
        fs::read_to_string(&self.start.log).unwrap_or_default()
    }
}

impl RuntimeProcess {
    pub(crate) fn pid(&self) -> i32 {
        i32::try_from(self.child.id()).unwrap()
    }

    /// Waits for its end and returns the exit code.
    pub(crate) fn ended(&mut self) -> Option<i32> {
        until("the end of the runtime", || self.child.try_wait().unwrap()).code()
    }
}

impl Drop for RuntimeProcess {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A connection to the command socket.
pub(crate) struct Connection {
    input: BufReader<UnixStream>,
    output: UnixStream,
    next: u64,
}

impl Connection {
    pub(crate) fn send(&mut self, frame: &ToRuntime) {
        let mut line = serde_json::to_vec(frame).unwrap();
        line.push(b'\n');
        self.output.write_all(&line).unwrap();
    }

    pub(crate) fn send_text(&mut self, line: &str) {
        self.output.write_all(format!("{line}\n").as_bytes()).unwrap();
    }

    /// Returns the next frame; `None` at the end of the connection.
    pub(crate) fn receive(&mut self) -> Option<FromRuntime> {
        let mut line = String::new();
        match self.input.read_line(&mut line) {
            Ok(0) => None,
            Ok(_) => Some(serde_json::from_str(&line).unwrap()),
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => None,
            Err(error) => panic!("{error}"),
        }
    }

    pub(crate) fn order(&mut self, command: Order) -> Option<Refusal> {
        self.next += 1;
        let id = self.next;
        self.send(&ToRuntime::Command { id, command });
        loop {
            match self.receive().expect("a reply") {
                FromRuntime::Reply { id: of, refusal } if of == id => return refusal,
                FromRuntime::End(_) => {}
                other => panic!("{other:?}"),
            }
        }
    }

    pub(crate) fn prompt(&mut self, turn: u64, text: &str) -> Option<Refusal> {
        let turn_id = TurnId::from_random([u8::try_from(turn).unwrap(); 5]);
        let prompt = vec![json!({"type": "text", "text": text})];
        self.order(Order::Prompt { turn, turn_id, prompt, attachments: vec![], change: None })
    }

    pub(crate) fn answer(&mut self, request_id: &Value, option: Option<&str>) -> Option<Refusal> {
        let request_id: RequestId = request_id.as_str().unwrap().parse().unwrap();
        self.order(Order::Answer { request_id, option_id: option.map(str::to_owned), rule: None })
    }

    pub(crate) fn cancel(&mut self, turn: u64) -> Option<Refusal> {
        self.order(Order::Cancel { turn, reason: "test".to_owned() })
    }

    pub(crate) fn terminate(&mut self) -> Option<Refusal> {
        self.order(Order::Terminate { reason: "test".to_owned() })
    }
}
