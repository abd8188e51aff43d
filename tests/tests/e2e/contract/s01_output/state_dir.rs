//! Every command names its state dir in each request. A forwarder between commands and daemon reads the requests.

use std::fs;
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::Shutdown;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use serde_json::Value;
use subagent_tests::harness::TestSandbox;

use super::commands::leaves;

/// Time limit of one command.
const DEADLINE: Duration = Duration::from_secs(60);
const HEADER: &str = "subagent-state-dir: ";

/// A state dir whose `daemon.json` names the forwarder.
struct Forwarder {
    state_dir: PathBuf,
    /// The heads of all requests.
    heads: Arc<Mutex<Vec<String>>>,
}

impl Forwarder {
    fn before(sandbox: &TestSandbox) -> Self {
        let state_dir = sandbox.file("forwarded");
        fs::DirBuilder::new().mode(0o700).create(&state_dir).unwrap();
        let (socket, listens) = (sandbox.daemon_info().unwrap().socket, state_dir.join("socket"));
        let info = fs::read(sandbox.state_dir().join("daemon.json")).unwrap();
        let mut info: Value = serde_json::from_slice(&info).unwrap();
        info["socket"] = listens.to_str().unwrap().into();
        info["stateDir"] = state_dir.to_str().unwrap().into();
        info.as_object_mut().unwrap().remove("stateFolder");
        fs::write(state_dir.join("daemon.json"), info.to_string()).unwrap();
        let listener = UnixListener::bind(listens).unwrap();
        let heads = Arc::new(Mutex::new(Vec::new()));
        let all = Arc::clone(&heads);
        // It ends with the process of the test.
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (socket, all) = (socket.clone(), Arc::clone(&all));
                // A connection that breaks off is an error of the command.
                thread::spawn(move || forward(&stream, &socket, &all));
            }
        });
        Self { state_dir, heads }
    }

    fn heads(&self) -> Vec<String> {
        self.heads.lock().unwrap().clone()
    }
}

/// Forwards one request, without the state dir that it names, and its response.
fn forward(client: &UnixStream, socket: &Path, heads: &Mutex<Vec<String>>) -> io::Result<()> {
    let mut reader = BufReader::new(client);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if reader.read_line(&mut head)? == 0 {
            return Ok(());
        }
    }
    heads.lock().unwrap().push(head.clone());
    let value = |line: &str| line.strip_prefix("content-length: ").and_then(|length| length.parse().ok());
    let mut body = vec![0; head.lines().find_map(value).unwrap_or(0)];
    reader.read_exact(&mut body)?;
    let mut daemon = UnixStream::connect(socket)?;
    for line in head.lines().filter(|line| !line.is_empty() && !line.starts_with(HEADER)) {
        write!(daemon, "{line}\r\n")?;
    }
    // One request for each connection, so that responses need not be parsed.
    daemon.write_all(b"connection: close\r\n\r\n")?;
    daemon.write_all(&body)?;
    io::copy(&mut daemon, &mut &*client)?;
    client.shutdown(Shutdown::Both)
}

#[test]
fn every_command_names_its_state_dir_in_each_request() {
    let (sandbox, _) = TestSandbox::with_worker();
    let forwarder = Forwarder::before(&sandbox);
    let meta = forwarder.state_dir.metadata().unwrap();
    let named = format!("{HEADER}{}:{}:", meta.dev(), meta.ino());
    let mut commands: Vec<_> = leaves(&sandbox).into_iter().map(|leaf| (leaf.path, leaf.required)).collect();
    // These end the daemon.
    commands.sort_by_key(|(path, _)| path.first().is_some_and(|word| word == "daemon"));
    let mut asking = 0;
    for (path, required) in commands {
        let before = forwarder.heads().len();
        // Most of them fail: what they ask for is not there.
        let command = sandbox.command("subagent").args(&path).args(&required).args(["--json"]);
        let command =
            command.env("SUBAGENT_STATE_DIR", &forwarder.state_dir).env("SUBAGENT_NO_AUTOSTART", "1");
        let output = command.deadline(DEADLINE).run();
        let heads = forwarder.heads().split_off(before);
        asking += usize::from(!heads.is_empty());
        for head in heads {
            let names: Vec<&str> = head.lines().filter(|line| line.starts_with(HEADER)).collect();
            assert!(names.len() == 1 && names[0].starts_with(&named), "{path:?}: {head}{output}");
        }
    }
    assert!(asking > 30, "only {asking} commands have asked the daemon");
    sandbox.finish();
}
