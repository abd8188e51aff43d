//! The command line is killed at random moments, in every command. Its request takes effect once or
//! not at all, and the command can be repeated.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::time::Duration;

use serde_json::Value;
use subagent_tests::harness::process::Process;
use subagent_tests::harness::{Random, TestSandbox, say, times, wait_until};

use super::a_moment;

/// How often each command is killed while it runs.
const KILLS: usize = 1;

/// Time limit of a repeated command, which must not wait for remains of the former.
const PROMPT: Duration = Duration::from_secs(8);

/// The data on which a command is tried.
struct CommandScene<'a> {
    sandbox: &'a TestSandbox,
    worker: &'a str,
    number: usize,
}

impl CommandScene<'_> {
    /// Returns an idle worker.
    fn worker(&self) -> String {
        wait_until("the worker to be idle", Duration::from_secs(20), || {
            (self.sandbox.show(self.worker)["state"] == "idle").then(|| self.worker.to_owned())
        })
    }

    fn asked(&self) -> [String; 2] {
        let waited = self.sandbox.send(&self.worker(), "!ask execute it");
        ["workerId", "requestId"].map(|key| waited[key].as_str().unwrap().to_owned())
    }

    fn busy(&self) -> String {
        let worker = self.worker();
        let _ = self.sandbox.send_no_wait(&worker, "!sleep 3600000");
        worker
    }

    /// Returns a queued message of a separate worker.
    fn queued(&self) -> String {
        let worker = self.sandbox.start("demo");
        let _ = self.sandbox.send_no_wait(&worker, "!sleep 3600000");
        let queued = self.sandbox.sending(&worker, "later").args(["--queue", "--no-wait"]).run();
        queued.data_of("turn.queued")["turnId"].as_str().unwrap().to_owned()
    }

    /// Returns a worker with an open question of its agent, and the question.
    fn elicited(&self) -> [String; 2] {
        let question = r#"!elicit {"mode": "form", "message": "m", "requestedSchema": {"type": "object"}}"#;
        let waited = self.sandbox.send(&self.worker(), question);
        ["workerId", "requestId"].map(|key| waited[key].as_str().unwrap().to_owned())
    }

    /// Returns a task, always the same, because their number is limited.
    fn task(&self) -> String {
        let id = |task: &Value| task["taskId"].as_str().unwrap().to_owned();
        let listed = self.sandbox.run(&["task", "list", "--status", "completed"]).data();
        match listed["items"].as_array().unwrap().first() {
            Some(task) => id(task),
            None => {
                let given = self.sandbox.run(&["task", "run", "--launcher", "demo", "--text", "hello"]);
                id(&given.data_of("task.waited"))
            }
        }
    }

    /// Returns a schedule that does not fire by itself.
    fn schedule(&self) -> String {
        let name = format!("schedule-{}", self.number);
        let args = ["schedule", "add", &name, "--every", "20m", "demo", "hello"];
        self.sandbox.run(&args).data_of("schedule.added");
        name
    }

    /// Returns a trigger that only requests fire.
    fn trigger(&self) -> String {
        let name = format!("trigger-{}", self.number);
        self.sandbox.run(&["trigger", "add", &name, "demo", "hello"]).data_of("trigger.added");
        name
    }

    fn backup(&self) -> String {
        let file = self.sandbox.file_name(&format!("backup-{}", self.number));
        self.sandbox.run(&["backup", &file]).data_of("state.backed_up");
        file
    }

    fn touched(&self) -> String {
        format!("touched-{}", self.number)
    }

    /// Returns the arguments of a command, and the error codes allowed for its repetition after
    /// the first run succeeded.
    fn words(&self, command: &str) -> (Vec<String>, &'static [&'static str]) {
        // Makes sure that there is a daemon.
        let _ = self.sandbox.show(self.worker);
        let key = format!("client-{}", self.number);
        let touch = format!("!touch {}\n!stream 50", self.sandbox.file_name(&self.touched()));
        let file = self.sandbox.file_name("tmp/config.yaml");
        let (more, codes): (Vec<String>, &[&str]) = match command {
            "subagent approve" => {
                let [worker, request] = self.asked();
                let args = ["--worker-id", &worker, "--request", &request, "--decision", "allow"];
                (args.map(str::to_owned).to_vec(), &["APPROVAL_NOT_PENDING", "APPROVAL_NOT_FOUND"])
            }
            "subagent answer" => {
                let [worker, request] = self.elicited();
                let args = ["--worker-id", &worker, "--request", &request, "--decline"];
                (args.map(str::to_owned).to_vec(), &["APPROVAL_NOT_PENDING", "APPROVAL_NOT_FOUND"])
            }
            "subagent cancel" => (words(&["--worker-id", &self.busy()]), &["WORKER_NOT_RUNNING"]),
            "subagent send" => {
                let args = ["--worker-id", &self.worker(), "--turn-id", &key, "--text", &touch];
                (words(&args), &[])
            }
            "subagent turn list" => (words(&["--worker-id", &self.worker()]), &[]),
            "subagent turn show" => (vec![self.queued()], &["TURN_NOT_FOUND"]),
            "subagent turn drop" => (vec![self.queued()], &["TURN_NOT_FOUND"]),
            "subagent turn move" => (vec![self.queued(), "--first".to_owned()], &["TURN_NOT_QUEUED"]),
            "subagent turn retry" => {
                // Its failure pauses the message that the repetition has queued behind it.
                let worker = self.sandbox.start("demo");
                let failed = self.sandbox.send_fails(&worker, "!error -32603 no luck", "BACKEND_RPC_ERROR");
                (vec![failed["turnId"].as_str().unwrap().to_owned()], &["TURN_NOT_RETRYABLE"])
            }
            "subagent result" => {
                let worker = self.sandbox.start("demo");
                let _ = self.sandbox.send(&worker, "hello");
                (vec![worker], &[])
            }
            "subagent queue resume" => (words(&["--worker-id", &self.worker()]), &[]),
            "subagent watch" => (words(&["--worker-id", &self.worker()]), &[]),
            "subagent wait" => {
                (words(&["--worker-id", &self.worker(), "--include-history", "--until", "any"]), &[])
            }
            "subagent run" => (words(&["--launcher", "demo", "--text", "!stream 50"]), &[]),
            "subagent worker start" => (words(&["--launcher", "demo"]), &[]),
            "subagent worker show" | "subagent worker logs" | "subagent worker inspect" | "subagent logs" => {
                (vec![self.worker()], &[])
            }
            "subagent worker stop" | "subagent stop" => (vec![self.sandbox.start("demo")], &[]),
            "subagent worker rm" | "subagent rm" => {
                let worker = self.sandbox.start("demo");
                (vec![worker, "--force".to_owned()], &["WORKER_NOT_FOUND"])
            }
            "subagent backup" => (words(&[&self.sandbox.file_name(&key)]), &["BACKUP_ALREADY_EXISTS"]),
            "subagent restore" => (vec![self.backup()], &[]),
            "subagent daemon install" => (words(&["--print"]), &[]),
            "subagent worker set" => (words(&["--worker-id", &self.worker(), "--mode", "bold"]), &[]),
            "subagent worker restart" => (vec![self.worker()], &["WORKER_BUSY"]),
            "subagent worker resume" => (vec![self.worker()], &[]),
            "subagent worker handoff" => (words(&["--worker-id", &self.worker()]), &[]),
            "subagent worker continue" => (words(&["--from-worker", &self.worker()]), &[]),
            "subagent controller init" => (Vec::new(), &["CONTROLLER_OWNERSHIP_CONFLICT"]),
            "subagent controller attach" => (words(&["--takeover"]), &[]),
            "subagent controller release" => (words(&["--force"]), &[]),
            "subagent init" => (words(&["--yes", "--no-handshake", "--no-skill"]), &[]),
            "subagent config init" => (words(&["--path", &file, "--force"]), &[]),
            "subagent launcher show" => (words(&["demo"]), &[]),
            "subagent launcher probe" => (words(&["demo", "--handshake"]), &[]),
            "subagent launcher login" => (words(&["asks"]), &[]),
            "subagent launcher logout" => (words(&["demo"]), &["AGENT_METHOD_UNSUPPORTED"]),
            "subagent session list" => (words(&["--launcher", "demo"]), &[]),
            "subagent session delete" => {
                (words(&["--launcher", "demo", "none"]), &["AGENT_METHOD_UNSUPPORTED"])
            }
            "subagent role show" => (words(&["worker"]), &["ROLE_HINT_NOT_FOUND"]),
            "subagent approval show" => (words(&["ap_0123456789"]), &["APPROVAL_NOT_FOUND"]),
            "subagent policy rules remove" => (words(&["rule_0123456789"]), &["RULE_NOT_FOUND"]),
            "subagent policy test" => (words(&["execute", "git push"]), &[]),
            "subagent agent show" => (words(&["explore"]), &[]),
            "subagent memory show" | "subagent memory edit" => (words(&["none"]), &["MEMORY_NOT_FOUND"]),
            "subagent memory clear" => (words(&["none", "--yes"]), &["MEMORY_NOT_FOUND"]),
            "subagent placement check" | "subagent placement prepare" => {
                (words(&["none"]), &["PLACEMENT_NOT_FOUND"])
            }
            "subagent completions" => (words(&["bash"]), &[]),
            "subagent task run" => (words(&["--launcher", "demo", "--text", "!stream 50"]), &[]),
            "subagent task message" => (words(&[&self.task(), "--text", "!stream 50", "--allow-fresh"]), &[]),
            "subagent task show" | "subagent task wait" | "subagent task result" | "subagent task cancel" => {
                (vec![self.task()], &[])
            }
            "subagent schedule add" => {
                let args = [&key, "--every", "20m", "demo", "hello"];
                (words(&args), &["NAME_TAKEN"])
            }
            "subagent trigger add" => (words(&[&key, "demo", "hello"]), &["NAME_TAKEN"]),
            "subagent trigger rm" => (vec![self.trigger()], &["TRIGGER_NOT_FOUND"]),
            "subagent trigger show"
            | "subagent trigger log"
            | "subagent trigger pause"
            | "subagent trigger resume"
            | "subagent trigger run"
            | "subagent trigger fire" => (vec![self.trigger()], &[]),
            "subagent schedule rm" => (vec![self.schedule()], &["SCHEDULE_NOT_FOUND"]),
            "subagent schedule show"
            | "subagent schedule log"
            | "subagent schedule pause"
            | "subagent schedule resume"
            | "subagent schedule run" => (vec![self.schedule()], &[]),
            "subagent task merge" => (vec![self.task()], &["WORKTREE_NOT_FOUND"]),
            "subagent hook trust" => (words(&["--list"]), &[]),
            "subagent hook test" => (words(&["Stop"]), &[]),
            "subagent summary" | "subagent show" | "subagent diff" => (vec![self.worker()], &[]),
            "subagent budget set" => (words(&["--max-turns", "1000000"]), &[]),
            "subagent worktree diff"
            | "subagent worktree show"
            | "subagent worktree setup"
            | "subagent worktree remove"
            | "subagent worktree discard"
            | "subagent worktree land"
            | "subagent land" => (words(&["none"]), &["WORKTREE_NOT_FOUND"]),
            // It ends by itself when no page comes.
            "subagent panel" => (words(&["--idle-exit", "1s"]), &[]),
            "subagent worker list"
            | "subagent worktree list"
            | "subagent worktree prune"
            | "subagent ls"
            | "subagent status"
            | "subagent task list"
            | "subagent task prune"
            | "subagent tree"
            | "subagent mcp"
            | "subagent approval list"
            | "subagent hook list"
            | "subagent schedule list"
            | "subagent trigger list"
            | "subagent notify list"
            | "subagent notify test"
            | "subagent notify log"
            | "subagent policy rules list"
            | "subagent budget show"
            | "subagent usage"
            | "subagent controller status"
            | "subagent controller recover"
            | "subagent daemon start"
            | "subagent daemon stop"
            | "subagent daemon restart"
            | "subagent daemon status"
            | "subagent daemon logs"
            | "subagent daemon list"
            | "subagent config show"
            | "subagent config check"
            | "subagent launcher list"
            | "subagent role list"
            | "subagent agent list"
            | "subagent memory list"
            | "subagent placement list"
            | "subagent agent validate"
            | "subagent prompt render"
            | "subagent demo"
            | "subagent daemon uninstall"
            | "subagent doctor"
            | "subagent prune"
            | "subagentd run"
            | "subagentd status"
            | "subagentd stop" => (Vec::new(), &[]),
            command => panic!("{command} is not killed by any test: add its arguments"),
        };
        (more, codes)
    }
}

fn words(args: &[&str]) -> Vec<String> {
    args.iter().map(|word| (*word).to_owned()).collect()
}

/// Returns the names below `Commands:` in a help text.
fn sub_commands(help: &str) -> Vec<String> {
    let lines = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    // Headings are indented less, and continued descriptions are indented more.
    let is_name = |line: &&str| line.starts_with("  ") && !line.starts_with("   ");
    let lines = lines.take_while(|line| !line.is_empty()).filter(is_name);
    let names = lines.filter_map(|line| line.split_whitespace().next());
    names.filter(|name| *name != "help").map(str::to_owned).collect()
}

/// Returns all commands, found through the help texts themselves.
fn commands(sandbox: &TestSandbox) -> BTreeSet<String> {
    let mut open = vec!["subagent".to_owned(), "subagentd".to_owned()];
    let mut found = BTreeSet::new();
    while let Some(command) = open.pop() {
        let mut parts = command.split(' ');
        let help = sandbox.command(parts.next().unwrap()).args(parts).args(["--help"]).run();
        let below = sub_commands(help.text());
        if below.is_empty() {
            found.insert(command);
        } else {
            open.extend(below.iter().map(|name| format!("{command} {name}")));
        }
    }
    assert!(found.len() > 20, "{found:?}");
    found
}

/// Commands without `--json`, or with other output.
const PLAIN: [&str; 6] = [
    "subagent watch",
    "subagent completions",
    "subagent demo",
    "subagent prompt render",
    "subagent mcp",
    "subagent panel",
];
/// Needs a terminal, and changes something only through other commands.
const BOARD: &str = "subagent top";
/// Runs until it is ended, and is not repeated.
const ENDLESS: &str = "subagentd run";
/// Creates its own world, which it cannot clean up when killed.
const DEMO: &str = "subagent demo";

/// These have their own database, which is excused from checks of their effects. The others
/// are checked in full.
const APART: [&str; 2] = ["subagent restore", "subagent prune"];
/// Maximum number of further attempts to kill one command while it runs.
const ATTEMPTS: usize = 20;

#[test]
fn every_command_can_be_killed_at_any_moment_and_given_again() {
    let mut random = Random::announced();
    let mut all = commands(&TestSandbox::new());
    assert!(all.remove(BOARD), "{all:?}");
    for command in APART {
        assert!(all.contains(command), "{command} is gone");
    }
    let (apart, others): (Vec<&String>, Vec<&String>) =
        all.iter().partition(|command| APART.contains(&command.as_str()));
    let kills = kill_each(&others, &mut random) + kill_each(&apart, &mut random);
    say(&format!(
        "faults: the command line killed {kills} times while it ran, in each of {} commands, and given again",
        all.len()
    ));
}

/// Kills each of these while it runs, and repeats it. Returns the number of kills.
fn kill_each(commands: &[&String], random: &mut Random) -> usize {
    let mut sandbox = TestSandbox::new();
    let asks = sandbox.demo_agent(&["--needs-auth"]);
    sandbox.launcher("asks", asks);
    sandbox.recorder().knows_all_decisions();
    sandbox.init();
    let worker = sandbox.start("demo");
    let lookout = sandbox.lookout();
    let (mut kills, mut number) = (0, 0);
    for command in commands {
        let wanted = times(if *command == DEMO { 1 } else { KILLS });
        let mut longest = if *command == DEMO { 3000 } else { 120 };
        let mut killed_running = 0;
        for attempt in 0.. {
            if killed_running == wanted {
                break;
            }
            assert!(attempt < wanted + ATTEMPTS, "{command} was killed {killed_running} times while it ran");
            number += 1;
            let scene = CommandScene { sandbox: &sandbox, worker: &worker, number };
            let (more, codes) = scene.words(command);
            let mut parts = command.split(' ');
            let mut whole = sandbox.command(parts.next().unwrap()).args(parts).args(more);
            if !PLAIN.contains(&command.as_str()) {
                whole = whole.args(["--json"]);
            }
            let mut killed = whole.clone().deadline(Duration::from_secs(60)).spawn();
            a_moment(random, longest);
            if killed.runs() {
                killed_running += 1;
            } else {
                // It was too fast; the repetition is checked anyway.
                longest = (longest / 2).max(1);
            }
            let _ = killed.kill();
            if *command == ENDLESS || *command == DEMO {
                clean(&sandbox);
                continue;
            }
            let again = whole.run();
            assert!(again.elapsed < PROMPT, "{command} after it was killed was slow: {again}");
            if !again.status.success() {
                let code = again.any_error()["code"].clone();
                assert!(codes.iter().any(|known| code == *known), "{command} after it was killed: {again}");
            }
            let times = sandbox.touches(&scene.touched());
            assert!(times == usize::from(*command == "subagent send"), "{command} was done {times} times");
        }
        kills += killed_running;
    }
    sandbox.check();
    let _ = lookout.all_well();
    sandbox.finish();
    kills
}

/// Ends the remains of a killed demo in its own world. A daemon that it had
/// just requested starts later.
fn clean(sandbox: &TestSandbox) {
    for entry in fs::read_dir(sandbox.file("tmp")).unwrap().flatten() {
        let state = entry.path().join(".subagent/state");
        if !state.exists() {
            continue;
        }
        wait_until("what a demo has left to be gone", Duration::from_secs(20), || {
            // A worker may have been left without a daemon.
            let run = |program, args: &[&str]| {
                let command = sandbox.command(program).args(args).env("SUBAGENT_STATE_DIR", &state);
                command.cwd(entry.path()).without_env("SUBAGENT_CTL_TOKEN").run().status.success()
            };
            let stopped = run("subagent", &["daemon", "start", "--json"])
                && run("subagentd", &["stop", "--workers", "--json"]);
            // A surviving command of the demo may be about to start a daemon, and a starting daemon
            // is not stopped yet.
            let comes = sandbox.processes().iter().any(|process| is_in(process, &entry.path()));
            (stopped && !comes && fs::remove_dir_all(entry.path()).is_ok()).then_some(())
        });
    }
}

/// Whether a process works in this folder, or on its content.
fn is_in(process: &Process, folder: &Path) -> bool {
    let cwd = fs::read_link(format!("/proc/{}/cwd", process.pid));
    cwd.is_ok_and(|cwd| cwd.starts_with(folder)) || process.command_line().contains(folder.to_str().unwrap())
}
