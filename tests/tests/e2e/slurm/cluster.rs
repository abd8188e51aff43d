//! A real Slurm cluster of one node, of `tests/engines/slurm.sh`: its own daemons, keys, ports and
//! folders. Dropping it ends them and asserts that no job and no process is left.

use std::fs;
use std::io::Write as _;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output as ProcessOutput, Stdio};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};
use subagent_tests::harness::process::{self, Process};
use subagent_tests::harness::{TestSandbox, say, wait_until, wait_while};
use tempfile::TempDir;

pub(crate) const DEADLINE: Duration = Duration::from_secs(60);
/// Number of pairs of ports that are tried: another process may take a free one first.
const PORTS: usize = 5;
const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/engines/slurm.sh");

pub(crate) struct Slurm {
    /// Outside of the sandbox, which regards a process with its path as its own.
    folder: TempDir,
    munged: Child,
    controller: Option<Child>,
    node: Option<Child>,
}

impl Slurm {
    /// Starts the cluster, and adds the placement `cluster` to the config file of the sandbox's user.
    /// Says loudly if there is no Slurm on this machine.
    ///
    /// # Panics
    ///
    /// If there is none with `SUBAGENT_REQUIRE_SLURM`.
    pub(crate) fn start(sandbox: &mut TestSandbox) -> Option<Self> {
        let parts = [
            "/usr/sbin/munged",
            "/usr/sbin/slurmctld",
            "/usr/sbin/slurmd",
            "/usr/bin/sbatch",
            "/usr/bin/srun",
        ];
        if !parts.iter().all(|program| Path::new(program).exists()) {
            let missing = "slurm-wlm or munge is missing: workers in jobs are not tested";
            assert!(std::env::var_os("SUBAGENT_REQUIRE_SLURM").is_none(), "{missing}");
            say(&format!("SKIPPED: {missing}"));
            return None;
        }
        let folder = tempfile::Builder::new().prefix("slurm-").tempdir_in("/tmp").unwrap();
        let path = folder.path().to_owned();
        let mut started = None;
        for _ in 0..PORTS {
            started = started_at(&path);
            if started.is_some() {
                break;
            }
        }
        let (munged, controller, node) = started.unwrap();
        let slurm = Self { folder, munged, controller: Some(controller), node: Some(node) };
        sandbox.set_env("SLURM_CONF", slurm.config());
        slurm.place(sandbox, json!({}));
        Some(slurm)
    }

    fn config(&self) -> PathBuf {
        self.folder.path().join("slurm.conf")
    }

    /// The folder of the placed workers.
    pub(crate) fn placed(sandbox: &TestSandbox) -> PathBuf {
        sandbox.file("shared")
    }

    /// Writes the placement `cluster` with these keys into the config file of the sandbox's user.
    pub(crate) fn place(&self, sandbox: &TestSandbox, keys: Value) {
        let id = sandbox.path().file_name().unwrap().to_str().unwrap();
        let home = sandbox.file("home-of-nodes");
        fs::create_dir_all(&home).unwrap();
        let work = sandbox.file("scratch");
        fs::create_dir_all(&work).unwrap();
        let mut there = json!({
            "kind": "slurm",
            "cwd": work,
            "folder": Self::placed(sandbox),
            "program": sandbox.executable("subagent-runtime"),
            "args": [format!("--export=HOME={},TEST_SANDBOX_ID={id}", home.display())],
        });
        for (key, value) in keys.as_object().unwrap() {
            match (key.as_str(), value) {
                ("args", Value::Array(more)) => there["args"].as_array_mut().unwrap().extend(more.clone()),
                (_, Value::Null) => drop(there.as_object_mut().unwrap().remove(key)),
                _ => there[key] = value.clone(),
            }
        }
        sandbox.place("cluster", there, json!({}));
    }

    /// Runs a client of Slurm.
    pub(crate) fn try_run(&self, words: &[&str]) -> ProcessOutput {
        client(self.folder.path(), words)
    }

    /// The output of a client of Slurm.
    pub(crate) fn run(&self, words: &[&str]) -> String {
        let output = self.try_run(words);
        assert!(output.status.success(), "{words:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// The names of all jobs that have not ended, with their states.
    pub(crate) fn jobs(&self) -> Vec<(String, String)> {
        let listed = self.run(&["squeue", "--noheader", "--format=%j %T"]);
        listed.lines().filter_map(|line| line.split_once(' ')).map(|(n, s)| (n.into(), s.into())).collect()
    }

    /// The names of all jobs that the cluster remembers, with their states.
    pub(crate) fn past_jobs(&self) -> Vec<(String, String)> {
        let listed = self.run(&["squeue", "--noheader", "--states=all", "--format=%j %T"]);
        listed.lines().filter_map(|line| line.split_once(' ')).map(|(n, s)| (n.into(), s.into())).collect()
    }

    /// The job of a worker's runtime that runs or waits.
    pub(crate) fn job_of(&self, worker: &str, number: u64) -> String {
        let ends = format!("-{worker}-{number}");
        wait_until("the job of a worker", DEADLINE, || {
            self.jobs().into_iter().map(|(name, _)| name).find(|name| name.ends_with(&ends))
        })
    }

    /// Fills all nodes with a job, and returns its id.
    pub(crate) fn fill(&self) -> String {
        let words = ["sbatch", "--parsable", "--exclusive", "--output=/dev/null", "--wrap=exec sleep 600"];
        let job = self.run(&words).trim().to_owned();
        wait_until("the job that fills the node", DEADLINE, || {
            let state = self.run(&["squeue", "--noheader", "--format=%T", "--jobs", &job]);
            (state.trim() == "RUNNING").then_some(())
        });
        job
    }

    /// Kills the controller, which keeps its state.
    pub(crate) fn kill_controller(&mut self) {
        // Its helper ends with it.
        ended(self.controller.take(), Signal::SIGKILL);
    }

    /// Ends the controller as its administrator does: it stores its state before.
    pub(crate) fn end_controller(&mut self) {
        ended(self.controller.take(), Signal::SIGTERM);
    }

    pub(crate) fn start_controller(&mut self) {
        self.controller = Some(daemon(self.folder.path(), "slurmctld"));
        let path = self.folder.path();
        wait_until("the controller", DEADLINE, || {
            client(path, &["scontrol", "ping"]).status.success().then_some(())
        });
    }

    /// Lets the cluster forget jobs soon after their end.
    pub(crate) fn forget_soon(&self) {
        let config = fs::read_to_string(self.config()).unwrap();
        fs::write(self.config(), config.replace("MinJobAge=300", "MinJobAge=2")).unwrap();
        let _ = self.run(&["scontrol", "reconfigure"]);
    }

    /// Drains the node, or lets it take jobs again.
    pub(crate) fn update_node(&self, state: &str) {
        let node = self.run(&["sinfo", "--noheader", "--format=%n"]);
        let words = [format!("nodename={}", node.trim()), format!("state={state}")];
        let is_so =
            || self.run(&["sinfo", "--noheader", "--format=%T"]).contains("drain") == (state == "drain");
        wait_until("another state of the node", DEADLINE, || {
            // A node whose daemon starts has no state that can be changed.
            let _ = self.try_run(&["scontrol", "update", &words[0], &words[1], "reason=test"]);
            is_so().then_some(())
        });
    }

    /// Kills the daemon of the node, and starts it again. Jobs go on.
    pub(crate) fn restart_node(&mut self) {
        ended(self.node.take(), Signal::SIGKILL);
        self.node = Some(daemon(self.folder.path(), "slurmd"));
    }

    /// The processes of Slurm beside those of a job, which have titles without a path.
    fn steps(&self) -> Vec<Process> {
        let is_own = |one: &Process| {
            let files = fs::read_dir(format!("/proc/{}/fd", one.pid)).into_iter().flatten().flatten();
            let mut files = files.filter_map(|file| fs::read_link(file.path()).ok());
            one.name == "slurmstepd" && files.any(|file| file.starts_with(self.folder.path()))
        };
        process::all().into_iter().filter(is_own).collect()
    }

    /// The processes of the cluster, jobs included.
    fn processes(&self) -> Vec<Process> {
        let path = self.folder.path().to_str().unwrap();
        let is_own = |one: &Process| one.command_line().contains(path);
        process::all().into_iter().filter(is_own).collect()
    }
}

/// Configures and starts the daemons; `None` if another process took a port.
fn started_at(folder: &Path) -> Option<(Child, Child, Child)> {
    let ports = [(); 2].map(|()| TcpListener::bind(("127.0.0.1", 0)).unwrap());
    let ports = ports.map(|listener| listener.local_addr().unwrap().port().to_string());
    let configured = Command::new(SCRIPT).arg("configure").arg(folder).args(ports).status().unwrap();
    assert!(configured.success());
    let mut munged = daemon(folder, "munged");
    wait_until("munged", DEADLINE, || folder.join("munge/socket").exists().then_some(()));
    let mut controller = daemon(folder, "slurmctld");
    let mut node = daemon(folder, "slurmd");
    let works = wait_until("the cluster", DEADLINE, || {
        if controller.try_wait().unwrap().is_some() || node.try_wait().unwrap().is_some() {
            return Some(false);
        }
        let state = client(folder, &["sinfo", "--noheader", "--format=%T"]);
        (state.stdout.trim_ascii() == b"idle").then_some(true)
    });
    if works {
        return Some((munged, controller, node));
    }
    say(&format!("slurm did not start: {}", logs(folder)));
    for child in [&mut node, &mut controller, &mut munged] {
        let _ = child.kill();
        let _ = child.wait();
    }
    None
}

/// Starts a daemon of the cluster.
fn daemon(folder: &Path, name: &str) -> Child {
    let log = fs::OpenOptions::new().create(true).append(true).open(folder.join("log")).unwrap();
    Command::new(SCRIPT)
        .args([name.as_ref(), folder.as_os_str()])
        .current_dir("/")
        .stdin(Stdio::null())
        .stdout(log.try_clone().unwrap())
        .stderr(log)
        .spawn()
        .unwrap()
}

fn client(folder: &Path, words: &[&str]) -> ProcessOutput {
    let mut command = Command::new(words[0]);
    command.args(&words[1..]).env("SLURM_CONF", folder.join("slurm.conf")).output().unwrap()
}

fn logs(folder: &Path) -> String {
    let read = |name: &str| fs::read_to_string(folder.join(name)).unwrap_or_default();
    ["log", "slurmctld.log", "slurmd.log"].map(read).concat()
}

fn ended(child: Option<Child>, signal: Signal) {
    if let Some(mut child) = child {
        let _ = kill(Pid::from_raw(i32::try_from(child.id()).unwrap()), signal);
        let _ = child.wait();
    }
}

impl Drop for Slurm {
    fn drop(&mut self) {
        let left = match std::thread::panicking() || self.controller.is_none() {
            true => None,
            false => wait_while(DEADLINE, || Some(self.jobs()).filter(|jobs| !jobs.is_empty())),
        };
        let _ = self.try_run(&["scancel", "--signal=KILL", "--full", "--me"]);
        ended(self.node.take(), Signal::SIGTERM);
        ended(self.controller.take(), Signal::SIGTERM);
        ended(
            Some(std::mem::replace(&mut self.munged, Command::new("true").spawn().unwrap())),
            Signal::SIGTERM,
        );
        let _ = self.munged.wait();
        // Without a controller, they would report the end of their job for an hour.
        for step in self.steps() {
            step.signal(Signal::SIGKILL);
        }
        let steps = wait_while(DEADLINE, || Some(self.steps()).filter(|left| !left.is_empty()));
        let processes = wait_while(DEADLINE, || Some(self.processes()).filter(|left| !left.is_empty()));
        for process in processes.iter().flatten() {
            process.signal(Signal::SIGKILL);
        }
        if std::thread::panicking() {
            let _ = writeln!(std::io::stderr(), "--- slurm: {}", logs(self.folder.path()));
        } else {
            let none = left.is_none() && processes.is_none() && steps.is_none();
            assert!(none, "left: {left:?} {processes:?} {steps:?}");
        }
    }
}
