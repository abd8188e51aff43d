//! A daemon whose node dies. Commands with `--host` wait until the same name leads to another node,
//! where a daemon starts with the same volume.

use std::fs;
use std::time::{Duration, SystemTime};

use serde_json::{Value, json};
use subagent_tests::harness::process::Process;
use subagent_tests::harness::{Gate, HostMachine, Running, SshHost, TestSandbox, wait_until};

use super::far_client::at_lap;

/// Time limit of operations there.
const DEADLINE: Duration = Duration::from_secs(120);

/// A node with a daemon, and another machine with its worker.
struct ControlPlane {
    sandbox: TestSandbox,
    node: SshHost,
    others: Vec<SshHost>,
    worker: String,
    runtime: Process,
}

impl ControlPlane {
    /// Prepares both, without a daemon on the node. `None` without an sshd, networks or mounts.
    fn prepare(machine: HostMachine) -> Option<Self> {
        let sandbox = TestSandbox::new();
        let node = SshHost::start_machine(&sandbox, machine)?;
        // The daemon of the node reaches only a worker behind another network.
        let others = SshHost::start_several(&sandbox, 1)?;
        fs::create_dir_all(sandbox.file("away")).unwrap();
        let config = sandbox.file("home/.config/subagent/config.yaml");
        let mut keys: Value = serde_json::from_str(&fs::read_to_string(&config).unwrap()).unwrap();
        keys["hosts"] = json!({"lap": node.entry(&sandbox)});
        fs::write(&config, keys.to_string()).unwrap();
        sandbox.init();
        let worker = sandbox.start_on("there-1");
        let runtime = sandbox.runtime(&worker);
        // From here on, each local command would start a daemon beside that of the node.
        sandbox.kill_daemon();
        Some(Self { sandbox, node, others, worker, runtime })
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

    /// Sends a prompt from afar, whose turn waits for the gate.
    fn send(&self) -> (Gate, Running) {
        let gate = self.sandbox.gate("turn");
        let over = self.sandbox.file_name("over");
        let text = format!("!say begun\n{}\n!touch {over}\n!say finished", gate.directive());
        let send = ["send", "--worker-id", &self.worker, "--text", &text, "--wait-timeout-seconds", "240"];
        let waiting = at_lap(&self.sandbox, &send).deadline(2 * DEADLINE).spawn();
        self.sandbox.wait_for_prompt(1);
        (gate, waiting)
    }

    /// Ends the node, and then the turn, which no daemon sees.
    fn lose_node(&mut self, gate: &Gate) {
        self.node.shut_down();
        gate.open();
        wait_until("the end of the turn", DEADLINE, || (self.sandbox.touches("over") == 1).then_some(()));
        assert!(self.sandbox.find_daemon().is_none() && self.runtime.lives());
    }

    /// Returns when the node last answered a command.
    fn answered(&self) -> SystemTime {
        let file = self.sandbox.file("home/.local/state/subagent/hosts/lap.json");
        fs::metadata(file).unwrap().modified().unwrap()
    }

    /// Asserts that the command gets the end of the turn from another daemon than this one.
    fn finish(mut self, waiting: Running, first: &Process) {
        let waited = waiting.output().data_of("turn.waited");
        assert_eq!(waited["matchedEvent"]["type"], "turn.completed", "{waited}");
        assert!(waited["assistantText"].as_str().unwrap().contains("finished"), "{waited}");
        assert_ne!(self.daemon().pid, first.pid);
        let shown = at_lap(&self.sandbox, &["worker", "show", &self.worker]).run().data_of("worker.shown");
        assert_eq!(shown["runtimePid"], self.runtime.pid, "{shown}");
        let count =
            |kind: &str| self.sandbox.number(&format!("SELECT count(*) FROM events WHERE type = '{kind}'"));
        assert_eq!((count("runtime.turn_dispatching"), count("turn.completed")), (1, 1));
        assert_eq!(self.sandbox.touches("over"), 1);
        let _ = at_lap(&self.sandbox, &["worker", "stop", &self.worker]).run().data_of("worker.stopped");
        // The daemon that checks what is left runs on this machine.
        self.node.shut_down();
        self.others.iter().for_each(SshHost::cut);
        self.sandbox.finish();
    }
}

#[test]
fn a_send_goes_on_waiting_while_its_daemon_moves_to_another_node() {
    let Some(mut plane) = ControlPlane::prepare(HostMachine::default()) else { return };
    let _ = at_lap(&plane.sandbox, &["ls"]).run().data_of("workers.overview");
    let first = plane.daemon();
    let (gate, mut waiting) = plane.send();
    plane.lose_node(&gate);
    assert!(waiting.runs(), "{}", waiting.stdout());
    plane.node.boot(&plane.sandbox);
    // The next attempt of the command starts a daemon there.
    plane.finish(waiting, &first);
}

#[test]
#[ignore = "the command ends with DAEMON_NOT_RUNNING when the node answers before its daemon runs"]
fn a_send_goes_on_waiting_while_an_engine_starts_its_daemon_on_another_node() {
    // Commands start no daemon there.
    let machine = HostMachine::default().variable("SUBAGENT_NO_AUTOSTART", "1");
    let Some(mut plane) = ControlPlane::prepare(machine) else { return };
    plane.start_daemon();
    let first = plane.daemon();
    let (gate, mut waiting) = plane.send();
    plane.lose_node(&gate);
    let before = plane.answered();
    plane.node.boot(&plane.sandbox);
    wait_until("an answer of the node", DEADLINE, || (plane.answered() > before).then_some(()));
    assert!(waiting.runs(), "{}", waiting.stdout());
    plane.start_daemon();
    plane.finish(waiting, &first);
}
