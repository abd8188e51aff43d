//! Containers of a real podman with runc: a root file system of the programs of this machine, and a
//! storage, locks and config of its own. Dropping it asserts that no container is left.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use nix::sys::resource::{Resource, getrlimit};
use nix::sys::signal::Signal;
use serde_json::{Value, json};
use subagent_tests::harness::process::{self, Process};
use subagent_tests::harness::{TestSandbox, say, wait_until, wait_while};
use tempfile::TempDir;

pub(crate) const DEADLINE: Duration = Duration::from_secs(60);
/// Time limit for the end of a container whose worker was stopped.
const SOON: Duration = Duration::from_secs(20);

pub(crate) struct Podman {
    /// Outside of the sandbox, which regards a process with its path as its own.
    folder: TempDir,
    config: PathBuf,
}

impl Podman {
    /// Prepares the engine, and adds the placement `box` to the config file of the sandbox's user.
    /// Says loudly if there is no podman on this machine.
    ///
    /// # Panics
    ///
    /// If there is none with `SUBAGENT_REQUIRE_PODMAN`.
    pub(crate) fn prepare(sandbox: &mut TestSandbox) -> Option<Self> {
        let is_there = |program: &str| Command::new(program).arg("--version").output().is_ok();
        if !(is_there("podman") && is_there("runc")) {
            let missing = "podman or runc is missing: workers in containers are not tested";
            assert!(std::env::var_os("SUBAGENT_REQUIRE_PODMAN").is_none(), "{missing}");
            say(&format!("SKIPPED: {missing}"));
            return None;
        }
        let folder = tempfile::Builder::new().prefix("podman-").tempdir_in("/tmp").unwrap();
        let root = folder.path().join("rootfs");
        for name in ["dev", "etc", "proc", "run", "sys", "tmp", "usr", "work", "var"] {
            fs::create_dir_all(root.join(name)).unwrap();
        }
        for name in ["bin", "lib", "lib64", "sbin"] {
            symlink(format!("usr/{name}"), root.join(name)).unwrap();
        }
        // Locks in shared memory belong to all storages of the machine.
        let config = folder.path().join("containers.conf");
        let tmp = folder.path().join("tmp");
        let text = format!(
            "[engine]\nlock_type = \"file\"\nruntime = \"runc\"\ncgroup_manager = \"cgroupfs\"\n\
             events_logger = \"none\"\ntmp_dir = \"{}\"\n",
            tmp.display()
        );
        fs::write(&config, text).unwrap();
        sandbox.set_env("CONTAINERS_CONF", config.to_str().unwrap());
        let podman = Self { folder, config };
        podman.place(sandbox, json!({}));
        Some(podman)
    }

    fn command(&self) -> Vec<String> {
        let at = |name: &str| self.folder.path().join(name).to_str().unwrap().to_owned();
        let words = ["podman", "--root", &at("storage"), "--runroot", &at("run")];
        words.map(str::to_owned).into()
    }

    /// Writes the placement `box` with these keys into the config file of the sandbox's user.
    pub(crate) fn place(&self, sandbox: &TestSandbox, keys: Value) {
        // A container cannot have higher limits than this process; podman asks for the highest.
        let (_, files) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
        let files = files.min(1 << 16);
        let id = sandbox.path().file_name().unwrap().to_str().unwrap();
        let path = sandbox.path().to_str().unwrap();
        let executables = sandbox.executable("subagent");
        let executables = Path::new(&executables).parent().unwrap().to_str().unwrap();
        let there = json!({
            "kind": "podman",
            "command": self.command(),
            "image": self.folder.path().join("rootfs"),
            "cwd": "/work",
            // The files that steer the scripted agent, and its program.
            "mounts": [".:/work", "/usr:/usr:ro", format!("{path}:{path}"), format!("{executables}:{executables}:ro")],
            "args": [
                "--rootfs", "--network=none", format!("--env=TEST_SANDBOX_ID={id}"),
                format!("--ulimit=nofile={files}:{files}"), "--ulimit=nproc=4096:4096",
            ],
        });
        sandbox.place("box", there, keys);
    }

    /// Has these lines of the shell executed before each command of the client, with its words as `$@`.
    pub(crate) fn wrap(&self, sandbox: &TestSandbox, lines: &str) {
        // The name says which engine it is.
        let script = sandbox.file("wrapped/podman");
        fs::create_dir(script.parent().unwrap()).unwrap();
        fs::write(&script, format!("#!/bin/sh\n{lines}\nexec podman \"$@\"\n")).unwrap();
        fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
        let mut command = self.command();
        command[0] = script.to_str().unwrap().to_owned();
        self.place(sandbox, json!({"command": command}));
    }

    /// The output of a command of podman.
    pub(crate) fn run(&self, words: &[&str]) -> String {
        let command = self.command();
        let output = Command::new(&command[0])
            .args(&command[1..])
            .args(words)
            .env("CONTAINERS_CONF", &self.config)
            .output()
            .unwrap();
        assert!(output.status.success(), "podman {words:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// The names of all containers.
    pub(crate) fn containers(&self) -> Vec<String> {
        self.run(&["ps", "--all", "--format", "{{.Names}}"]).lines().map(str::to_owned).collect()
    }
}

impl Podman {
    /// The numbers of a worker's runtimes that have a container.
    pub(crate) fn numbers(&self, worker: &str) -> Vec<u64> {
        let number = |name: &String| name.split_once(&format!("-{worker}-"))?.1.parse().ok();
        self.containers().iter().filter_map(number).collect()
    }
}

impl Podman {
    /// The name of a container that runs.
    pub(crate) fn running(&self) -> Option<String> {
        self.run(&["ps", "--format", "{{.Names}}"]).lines().next().map(str::to_owned)
    }

    /// Waits until no container is left: soon after the stop of the workers, and before an empty one would
    /// end by itself.
    pub(crate) fn ends_with_its_workers(&self) {
        wait_until("the end of all containers", SOON, || self.containers().is_empty().then_some(()));
    }

    /// Kills a container, unless it has ended.
    pub(crate) fn kill(&self, name: &str) {
        let command = self.command();
        let mut kill = Command::new(&command[0]);
        let _ = kill.args(&command[1..]).args(["kill", name]).env("CONTAINERS_CONF", &self.config).output();
    }
}

impl Podman {
    /// The monitors of containers.
    fn monitors(&self) -> Vec<Process> {
        let folder = self.folder.path().to_str().unwrap();
        let is_own = |one: &Process| one.name == "conmon" && one.command_line().contains(folder);
        process::all().into_iter().filter(is_own).collect()
    }

    /// Ends what podman leaves if its client is killed during the start of a container.
    pub(crate) fn end_monitors(&self) {
        for monitor in self.monitors() {
            monitor.children().iter().for_each(|one| one.signal(Signal::SIGKILL));
            monitor.signal(Signal::SIGKILL);
        }
    }
}

impl Drop for Podman {
    fn drop(&mut self) {
        let left = wait_while(DEADLINE, || Some(self.containers()).filter(|left| !left.is_empty()));
        for name in left.iter().flatten() {
            let _ = self.run(&["rm", "--force", name]);
        }
        let monitors = wait_while(SOON, || Some(self.monitors()).filter(|monitors| !monitors.is_empty()));
        self.end_monitors();
        if !std::thread::panicking() {
            assert!(left.is_none() && monitors.is_none(), "left: {left:?} {monitors:?}");
        } else if let Some(left) = left {
            let _ = writeln!(std::io::stderr(), "--- containers: {left:?}");
        }
    }
}
