//! A daemon whose node dies. Commands with `--host` wait until the same name leads to another node,
//! where a daemon starts with the same volume.

use std::fs;
use std::time::{Duration, SystemTime};

use serde_json::json;
use subagent_tests::harness::process::Process;
use subagent_tests::harness::{Gate, HostMachine, Running, SshHost, TestSandbox, wait_until};

use super::far_client::at_lap;

/// Time limit of operations there.
const DEADLINE: Duration = Duration::from_secs(120);

/// A node with a daemon, and another machine with its worker.
struct MovedDaemon {
    sandbox: TestSandbox,
    node: SshHost,
    others: Vec<SshHost>,
    worker: String,
    runtime: Process,
    /// A task, which waits for a gate.
    task: String,
}

impl MovedDaemon {
    /// Prepares both, without a daemon on the node, whose processes have these variables. `None`
    /// without an sshd, networks or mounts.
    fn prepare(variables: &[(&str, &str)]) -> Option<Self> {
        let sandbox = TestSandbox::new();
        // A killed daemon leaves its socket.
        let sockets = sandbox.file_name("run-of-the-node");
        fs::create_dir(&sockets).unwrap();
        let machine = HostMachine::default().variable("XDG_RUNTIME_DIR", &sockets);
        let machine = variables.iter().fold(machine, |machine, (name, value)| machine.variable(name, value));
        let node = SshHost::start_machine(&sandbox, machine)?;
        // The node is in the network of this machine, so its daemon reaches the other one.
        let others = SshHost::start_several(&sandbox, 1)?;
        fs::create_dir_all(sandbox.file("away")).unwrap();
        sandbox.change_user_config(|config| config["hosts"] = json!({"lap": node.entry(&sandbox)}));
        sandbox.init();
        let worker = sandbox.start_on("there-1");
        let runtime = sandbox.runtime(&worker);
        let text = sandbox.gate("task").directive();
        let run = ["task", "run", "--background", "--launcher", "demo", "--on", "there-1", "--text", &text];
        let task = sandbox.run(&run).data()["taskId"].as_str().unwrap().to_owned();
        sandbox.wait_for_prompt(1);
        // From here on, each local command would start a daemon beside that of the node.
        sandbox.kill_daemon();
        Some(Self { sandbox, node, others, worker, runtime, task })
    }

    /// Starts a daemon on the node, as an engine does.
    fn start_daemon(&self) {
        let entry = self.node.entry(&self.sandbox);
        let [host, config, program] =
            [&entry["host"], &entry["args"][1], &entry["program"]].map(|value| value.as_str().unwrap());
        let line = format!("cd {} && {program} daemon start", self.sandbox.workspace().display());
        let started = self.sandbox.command("ssh").args(["-F", config, host, &line]).run();
        assert!(started.status.success(), "{started}");
    }

    /// Returns the running daemon, which is on the node.
    fn daemon(&self) -> Process {
        let daemon = self.sandbox.daemon();
        let there = self.node.processes();
        assert!(there.iter().any(|one| one.pid == daemon.pid), "{daemon:?} is not on the node: {there:?}");
        daemon
    }

    /// Sends a prompt from afar, whose turn waits for the gate. Another command waits for the task.
    fn send(&self) -> (Gate, [Running; 2]) {
        let wait = ["task", "wait", &self.task, "--timeout", "10m"];
        let waiting_for_task = at_lap(&self.sandbox, &wait).deadline(5 * DEADLINE).spawn();
        let is_end = |one: &Process| one.name == "subagent" && one.command_line().contains("dial-daemon");
        wait_until("its connections, for the task and for questions", DEADLINE, || {
            (self.node.processes().iter().filter(|one| is_end(one)).count() == 2).then_some(())
        });
        let gate = self.sandbox.gate("turn");
        let over = self.sandbox.file_name("over");
        let text = format!("!say begun\n{}\n!touch {over}\n!say finished", gate.directive());
        let send = ["send", "--worker-id", &self.worker, "--text", &text, "--wait-timeout-seconds", "600"];
        let waiting = at_lap(&self.sandbox, &send).deadline(5 * DEADLINE).spawn();
        self.sandbox.wait_for_prompt(2);
        (gate, [waiting, waiting_for_task])
    }

    /// Ends the node, and then the turn, which no daemon sees.
    fn lose_node(&mut self, gate: &Gate) {
        self.node.shut_down();
        gate.open();
        wait_until("the end of the turn", DEADLINE, || (self.sandbox.touches("over") == 1).then_some(()));
        // The process with pid 1 must still reap it.
        wait_until("the end of the daemon", DEADLINE, || {
            self.sandbox.find_daemon().is_none_or(|daemon| !daemon.lives()).then_some(())
        });
        assert!(self.runtime.lives(), "{:?}", self.runtime);
    }

    /// Returns when the node last answered a command; `None` before the first time.
    fn answered(&self) -> Option<SystemTime> {
        let file = self.sandbox.file("home/.local/state/subagent/hosts/lap.json");
        fs::metadata(file).ok()?.modified().ok()
    }

    /// Asserts that the commands go on waiting after answers of the node without a daemon.
    fn refuses(&self, waiting: &mut [Running; 2]) {
        // The next one may have begun before.
        for _ in 0..2 {
            let before = self.answered();
            wait_until("an answer of the node", DEADLINE, || (self.answered() > before).then_some(()));
        }
        go_on(waiting);
    }

    /// Asserts that the command gets the end of the turn from another daemon than this one.
    fn finish(mut self, [waiting, waiting_for_task]: [Running; 2], first: &Process) {
        let waited = waiting.output().data_of("turn.waited");
        assert_eq!(waited["matchedEvent"]["type"], "turn.completed", "{waited}");
        assert!(waited["assistantText"].as_str().unwrap().contains("finished"), "{waited}");
        assert_ne!(self.daemon().pid, first.pid);
        self.sandbox.gate("task").open();
        assert_eq!(waiting_for_task.output().data()["status"], "completed");
        let shown = at_lap(&self.sandbox, &["worker", "show", &self.worker]).run().data_of("worker.shown");
        assert_eq!(shown["runtimePid"], self.runtime.pid, "{shown}");
        let count =
            |kind: &str| self.sandbox.number(&format!("SELECT count(*) FROM events WHERE type = '{kind}'"));
        assert_eq!((count("runtime.turn_dispatching"), count("turn.completed")), (2, 2));
        assert_eq!(self.sandbox.touches("over"), 1);
        let _ = at_lap(&self.sandbox, &["worker", "stop", &self.worker]).run().data_of("worker.stopped");
        // The daemon that checks what is left runs on this machine.
        self.node.shut_down();
        self.others.iter().for_each(SshHost::cut);
        self.sandbox.finish();
    }
}

/// Asserts that the commands have not ended.
fn go_on(waiting: &mut [Running; 2]) {
    for one in waiting {
        assert!(one.runs(), "{}", one.stdout());
    }
}

#[test]
fn a_send_goes_on_waiting_while_its_daemon_moves_to_another_node() {
    let Some(mut plane) = MovedDaemon::prepare(&[]) else { return };
    let _ = at_lap(&plane.sandbox, &["ls"]).run().data_of("workers.overview");
    let first = plane.daemon();
    let (gate, mut waiting) = plane.send();
    plane.lose_node(&gate);
    go_on(&mut waiting);
    plane.node.boot(&plane.sandbox);
    // The next attempt of the command starts a daemon there.
    plane.finish(waiting, &first);
}

#[test]
fn a_send_goes_on_waiting_while_an_engine_starts_its_daemon_on_another_node() {
    // Commands start no daemon there.
    let Some(mut plane) = MovedDaemon::prepare(&[("SUBAGENT_NO_AUTOSTART", "1")]) else { return };
    plane.start_daemon();
    let first = plane.daemon();
    let (gate, mut waiting) = plane.send();
    plane.lose_node(&gate);
    // The volume is not attached yet.
    let (volume, detached) = (plane.sandbox.workspace(), plane.sandbox.file("detached"));
    fs::rename(&volume, &detached).unwrap();
    plane.node.boot(&plane.sandbox);
    plane.refuses(&mut waiting);
    // An empty folder is there instead.
    fs::create_dir(&volume).unwrap();
    plane.refuses(&mut waiting);
    assert_eq!(fs::read_dir(&volume).unwrap().count(), 0);
    fs::remove_dir(&volume).unwrap();
    fs::rename(&detached, &volume).unwrap();
    plane.refuses(&mut waiting);
    plane.start_daemon();
    plane.finish(waiting, &first);
}
