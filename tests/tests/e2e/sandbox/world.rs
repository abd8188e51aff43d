//! A world in which some layers of this machine confine an agent, with possible targets.

use std::fs;
use std::io::Write as _;
use std::net::TcpListener;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::os::unix::net::{SocketAddr, UnixListener};
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};
use subagent_tests::harness::TestSandbox;

/// The layers that confine an agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Confinement {
    Landlock,
    Bubblewrap,
    Both,
}

impl Confinement {
    pub(super) const ALL: [Self; 3] = [Self::Landlock, Self::Bubblewrap, Self::Both];

    /// Returns their names as a worker shows them.
    pub(super) fn names(self) -> Vec<&'static str> {
        match self {
            Self::Landlock => vec!["landlock"],
            Self::Bubblewrap => vec!["bubblewrap"],
            Self::Both => vec!["bubblewrap", "landlock"],
        }
    }
}

/// Whether this machine has both layers. If not, reports clearly that tests are skipped, or fails
/// if they are required.
pub(in super::super) fn has_layers() -> bool {
    let namespaces = ["--unshare-pid", "--unshare-net", "--ro-bind", "/", "/", "--", "true"];
    let bubblewrap =
        Command::new("bwrap").args(namespaces).output().is_ok_and(|output| output.status.success());
    let doctor = TestSandbox::new();
    let findings = doctor.run(&["doctor"]).document()["data"]["findings"].take();
    let seen = |id: &str| findings.as_array().and_then(|all| all.iter().find(|one| one["id"] == id).cloned());
    let landlock = seen("machine.landlock")
        .is_some_and(|one| one["seen"].as_str().is_some_and(|seen| seen.contains("sandboxes use version 6")));
    doctor.finish();
    if !(bubblewrap && landlock) {
        let missing = format!("Landlock: {landlock}, bubblewrap: {bubblewrap}");
        assert!(
            std::env::var_os("SUBAGENT_REQUIRE_SANDBOX").is_none(),
            "a layer of sandboxes is missing: {missing}"
        );
        // Not captured, so that it is visible.
        let _ =
            writeln!(std::io::stderr(), "SKIPPED: a test of sandboxes, a layer is missing here ({missing})");
    }
    bubblewrap && landlock
}

/// A world whose commands find only these layers.
pub(super) fn world(layers: Confinement) -> TestSandbox {
    let mut sandbox = TestSandbox::new();
    match layers {
        Confinement::Both => {}
        Confinement::Landlock => without_bubblewrap(&mut sandbox),
        Confinement::Bubblewrap => sandbox.set_env("SUBAGENT_SABOTAGE", "sandbox.no_landlock"),
    }
    for folder in [
        "home/.ssh",
        "home/.config/subagent",
        "outside/empty",
        "outside/bin",
        "main/.git/hooks",
        "ws/allowed",
    ] {
        fs::create_dir_all(sandbox.file(folder)).unwrap();
    }
    fs::write(sandbox.file("home/.ssh/id"), "a secret").unwrap();
    fs::write(sandbox.file("outside/victim"), "untouched").unwrap();
    // With Landlock alone, files created later beside something hidden, as the state directory is
    // here, cannot be read.
    fs::write(sandbox.file("ws/targets.json"), "").unwrap();
    sandbox
}

/// Sets a PATH with everything except bubblewrap.
pub(super) fn without_bubblewrap(sandbox: &mut TestSandbox) {
    let folder = sandbox.file("bin");
    fs::create_dir_all(&folder).unwrap();
    let path = std::env::var_os("PATH").unwrap();
    let programs =
        ["sh", "cat", "true", "echo", "git", "rm", "sleep", "unshare", "umount", "mount", "touch", "setsid"];
    for name in programs {
        let mut found = std::env::split_paths(&path).map(|path| path.join(name));
        if let Some(program) = found.find(|program| program.is_file()) {
            symlink(program, folder.join(name)).unwrap();
        }
    }
    sandbox.set_env("PATH", folder);
}

/// Returns a file in the worktree of the worker `other`, if it exists.
fn other(sandbox: &TestSandbox) -> PathBuf {
    let listed = sandbox.run(&["worktree", "list"]).data_of("worktree.listed");
    let items = listed["items"].as_array().unwrap();
    let path = items.iter().find(|item| item["name"] == "other").map(|item| item["path"].as_str().unwrap());
    path.map_or_else(|| "/nonexistent".into(), |path| Path::new(path).join("a.txt"))
}

/// Targets that stay available for the agent's attempts.
pub(super) struct Bait {
    _listeners: (TcpListener, UnixListener, UnixListener),
    /// The file that lists all of them.
    pub(super) file: PathBuf,
}

impl Bait {
    /// Creates the targets for this worker's agent, whose sandbox has this network. `listed` is the
    /// only host of a list.
    pub(super) fn lay(sandbox: &TestSandbox, worker: &str, network: &str, listed: &str) -> Self {
        let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
        let foreign = UnixListener::bind(sandbox.file("outside/socket")).unwrap();
        let name = format!("{}-abstract", sandbox.path().display());
        let nowhere = UnixListener::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap();
        let shown = sandbox.show(worker);
        let inside = Path::new(shown["cwd"].as_str().unwrap()).join("allowed");
        let runtime = sandbox.runtime(worker);
        let daemon = sandbox.daemon();
        let info: Value =
            serde_json::from_slice(&fs::read(sandbox.state_dir().join("daemon.json")).unwrap()).unwrap();
        let targets = json!({
            "root": sandbox.path(), "outside": sandbox.file("outside"), "inside": inside,
            "repository": sandbox.file("ws/.git"), "otherWorktree": other(sandbox),
            "hidden": sandbox.file("home/.ssh/id"), "hiddenFolder": sandbox.file("home/.ssh"),
            "database": sandbox.state_dir().join("state.db"),
            "environment": environment(&sandbox.file("run"), worker),
            "daemon": daemon.pid, "runtime": runtime.pid, "guard": sandbox.guard(&runtime).pid,
            "socket": socket(&info), "runtimeSocket": shown["runtimeSocket"],
            "foreignSocket": sandbox.file("outside/socket"), "abstract": name,
            "port": tcp.local_addr().unwrap().port(), "network": network, "listed": listed,
        });
        let file = sandbox.file("ws/targets.json");
        fs::write(&file, targets.to_string()).unwrap();
        Self { _listeners: (tcp, foreign, nowhere), file }
    }
}

/// Returns the daemon's socket path from its own report.
fn socket(info: &Value) -> String {
    let texts = info.as_object().unwrap().values().filter_map(Value::as_str);
    let socket = texts.into_iter().find(|text| text.starts_with('/') && Path::new(text).exists());
    socket.unwrap_or_else(|| panic!("{info}")).to_owned()
}

/// Returns the file with a worker's environment.
fn environment(folder: &Path, worker: &str) -> PathBuf {
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap().flatten() {
            let (path, found) = (entry.path(), entry.metadata().unwrap());
            if found.is_dir() {
                folders.push(path);
            } else if found.is_file()
                && found.permissions().mode() & 0o777 == 0o600
                && path.to_string_lossy().contains(worker)
            {
                return path;
            }
        }
    }
    panic!("there is no file with the environment of {worker}");
}

/// Returns the content of folders outside the agent's, to detect changes.
pub(super) fn contents(folders: &[PathBuf]) -> Vec<(PathBuf, Option<Vec<u8>>)> {
    let mut all = Vec::new();
    let mut folders = folders.to_vec();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap().flatten() {
            let kind = entry.file_type().unwrap();
            if kind.is_dir() {
                folders.push(entry.path());
            }
            let bytes = kind.is_file().then(|| fs::read(entry.path()).unwrap());
            all.push((entry.path(), bytes));
        }
    }
    all.sort();
    all
}
