//! Every view for people, at a real pseudo terminal of 60, 80 and 200 columns, compared with stored
//! snapshots. `UPDATE_VIEWS=1` rewrites them. Times, ids and pids are replaced. Runs of spaces
//! count as two, so that the width of a time does not matter.

mod changes;
mod normal;
mod snapshot;

use std::fs;
use std::time::Duration;

use serde_json::{Value, json};
use subagent_tests::harness::{On, Screen, TestSandbox, wait_until};

pub(super) use normal::normal;
use normal::width;
use snapshot::fits;

const WIDTHS: [u16; 3] = [60, 80, 200];

/// The world of all views: a worker that has worked, one that asks, a stopped one, a task.
struct ViewsFixture {
    sandbox: TestSandbox,
    turn: String,
    request: String,
    form: String,
    task: String,
}

const ROLES: &str =
    "roleHints: {tester: {delegationHint: Runs the tests and says which of them fail and why}}\n";
const HOOKS: &str =
    "hooks: {Stop: [{hooks: [{type: command, command: make check-everything-that-can-be-checked}]}]}\n";
const NOTIFY: &str = "notify: [{name: desk, to: command, command: 'true', on: [question, done]}]\n";
const BUDGETS: &str = "budgets: {controller: {turns: 40}}\n";

const FORM: &str = r#"!elicit {"mode": "form", "message": "On which port should the server of the tests listen, and for which of the hosts?", "requestedSchema": {"type": "object", "properties": {"port": {"type": "integer", "title": "Port", "description": "A number that no other program on this machine has taken so far", "minimum": 1024, "maximum": 65535}, "hosts": {"type": "array", "items": {"enum": ["localhost", "example.org", "example.com"]}}}, "required": ["port"]}}"#;

fn world() -> ViewsFixture {
    let mut sandbox = TestSandbox::new();
    sandbox.set_env("SHELL", "/bin/zsh");
    let config = sandbox.config_file();
    let text = fs::read_to_string(&config).unwrap();
    fs::write(&config, format!("{text}{ROLES}{HOOKS}{BUDGETS}")).unwrap();
    let own = sandbox.file("home/.config/subagent");
    fs::create_dir_all(&own).unwrap();
    fs::write(own.join("config.yaml"), NOTIFY).unwrap();
    sandbox.init();
    let done = sandbox.start("demo");
    let accepted = sandbox.send(&done, "!tool read src/lib.rs\nI have read the file.\n\nIt is 漢字 all the way down, and this is a line that is much wider than a narrow terminal.");
    let asks =
        ["worker", "start", "--name", "login", "--label", "Fix the login of 漢字 users who have no key"];
    sandbox.run(&asks).data_of("worker.started");
    let script = "!plan Read it|Mend it\n!ask execute rm -rf build && make --jobs 8 everything";
    let asked = sandbox.send(sandbox.show("login")["workerId"].as_str().unwrap(), script);
    sandbox.run(&["worker", "start", "--name", "old", "--debug-mode"]).data_of("worker.started");
    sandbox.run(&["stop", "old"]).data_of("worker.stopped");
    let task = ["task", "run", "--agent", "explore", "--text", "Found it.", "--name", "Find the config"];
    let given = sandbox.run(&task).document();
    sandbox.run(&["stop", "Find-the-config"]).data_of("worker.stopped");
    let word = |data: &Value, key: &str| data[key].as_str().unwrap().to_owned();
    let cron = ["schedule", "add", "nightly", "--every", "5m", "--timezone", "UTC"];
    let work = ["--send", "demo-1", "--text", "Look at the tests"];
    sandbox.run(&[&cron[..], &work].concat()).data_of("schedule.added");
    sandbox.run(&["schedule", "pause", "nightly"]).data_of("schedule.paused");
    // Its first run fails and pauses it.
    let broken = ["trigger", "add", "broken", "--on-command", "exit 1", "--changed", "--max-failures", "1"];
    sandbox.run(&[&broken[..], &work].concat()).data_of("trigger.added");
    wait_until("the trigger to be paused", Duration::from_secs(30), || {
        let shown = sandbox.run(&["trigger", "show", "broken"]).data_of("trigger.shown");
        (shown["paused"] == "failures").then_some(())
    });
    sandbox.run(&["worker", "start", "--name", "port"]).data_of("worker.started");
    let form = sandbox.send(sandbox.show("port")["workerId"].as_str().unwrap(), FORM);
    wait_until("the ends and the questions to be notified", Duration::from_secs(30), || {
        let log = sandbox.run(&["notify", "log"]).data_of("notify.log");
        let items = log["items"].as_array().unwrap();
        (items.len() == 4 && items.iter().all(|item| item["status"] == "delivered")).then_some(())
    });
    ViewsFixture {
        turn: word(&accepted, "turnId"),
        request: word(&asked, "requestId"),
        form: word(&form, "requestId"),
        task: word(&given["data"], "taskId"),
        sandbox,
    }
}

impl ViewsFixture {
    fn with_ids(&self, text: &str) -> String {
        let ids =
            [("TURN", &self.turn), ("REQUEST", &self.request), ("FORM", &self.form), ("TASK", &self.task)];
        ids.iter().fold(text.to_owned(), |text, (word, id)| text.replace(word, id))
    }

    fn at(&self, view: &str, columns: u16) -> Screen {
        let line = self.with_ids(view);
        let words = line.split_whitespace().map(|word| match word {
            "BACKUP" => self.sandbox.file_name("backup.db"),
            word => word.to_owned(),
        });
        let command = self.sandbox.command("subagent").args(words);
        let Some((_, keys)) = ASKED.iter().find(|(known, _)| *known == view) else {
            return command.at_terminal(columns, On::Both).screen();
        };
        let terminal = command.at_terminal(columns, On::All);
        terminal.wait_for("[s] skip ");
        terminal.types(keys);
        terminal.screen()
    }
}

/// Commands that ask in place, and the typed keys.
const ASKED: &[(&str, &str)] = &[("wait login", "ds"), ("wait port", "s")];

/// A view, and the parts that must be complete in it at 80 columns.
type View = (&'static str, &'static [&'static str]);

const VIEWS: &[View] = &[
    ("ls", &["demo-1", "login", "idle", "waiting approval", "rm -rf build"]),
    ("ls -a", &["old", "stopped"]),
    ("worker list", &["demo-1", "login", "waiting approval"]),
    ("show demo-1", &["demo-1", "idle", "I have read the file."]),
    ("show demo-1 login", &["I have read the file.", "rm -rf build && make --jobs 8 everything"]),
    ("worker show demo-1 login", &["demo-1", "rm -rf build && make --jobs 8 everything"]),
    ("worker inspect demo-1 port --tail 1", &["demo-1", "Port"]),
    ("show login", &["login", "waiting approval", "rm -rf build && make --jobs 8 everything", "REQUEST"]),
    ("worker show login", &["login", "waiting approval", "rm -rf build && make --jobs 8 everything"]),
    ("worker inspect login --tail 4", &["login", "waiting approval"]),
    ("result demo-1", &["I have read the file."]),
    ("turn list --worker-id demo-1", &["TURN", "completed"]),
    ("turn show TURN", &["TURN", "completed", "I have read the file."]),
    ("task list", &["Find", "completed"]),
    ("approval list", &["REQUEST", "login", "rm -rf build && make"]),
    ("approval show REQUEST", &["REQUEST", "rm -rf build && make --jobs 8 everything"]),
    ("tree", &["Find the config", "completed", "explore"]),
    ("budget show", &["of 40", "demo-1", "login"]),
    ("budget show --worker-id demo-1", &["demo-1", "unknown"]),
    ("usage", &["demo-1", "unknown", "total"]),
    ("usage --by agent --since 7d", &["demo", "unreported"]),
    ("budget set --max-turns 40", &["of 40"]),
    ("daemon list", &[]),
    ("daemon status", &["running"]),
    ("status", &["running"]),
    ("launcher list", &["demo", "available"]),
    ("launcher show demo", &["demo"]),
    ("agent list", &["explore"]),
    ("agent show explore", &["explore"]),
    ("role list", &["tester"]),
    ("role show tester", &["tester"]),
    ("policy test execute ls", &[]),
    ("policy rules list", &[]),
    ("hook list", &["Stop", "untrusted", "subagent hook trust"]),
    ("notify list", &["desk", "question, done"]),
    ("notify log", &[]),
    ("controller status", &["active"]),
    ("worker list --all-workspaces", &["demo-1", "login"]),
    ("worker set login --idle-timeout never", &["idle timeout never"]),
    ("worker set login --max-turns 40", &["1 of 40"]),
    ("worker set login demo-1 --max-turns 50", &["demo-1", "of 50"]),
    ("worker handoff demo-1", &["handoff.md"]),
    ("worker handoff demo-1 login", &["demo-1", "login", "handoff.md"]),
    ("wait demo-1", &["demo-1", "completed", "wider than a narrow terminal."]),
    ("wait login", &["rm -rf build && make --jobs 8 everything", "[s] skip", "subagent approve REQUEST"]),
    ("wait port", &["[y] fill in and accept", "subagent answer FORM"]),
    ("show port", &["port", "waiting approval", "FORM"]),
    ("approval show FORM", &["Port", "for which of the hosts?"]),
    ("worker inspect port --tail 1", &["Port"]),
    ("wait login --no-ask", &["needs answer", "rm -rf build && make --jobs 8 everything"]),
    ("watch demo-1", &["I have read the file."]),
    ("send absent hello", &["WORKER_NOT_FOUND"]),
    ("task show TASK", &["Find the config", "completed", "explore"]),
    ("daemon start", &["ran already"]),
    ("worktree list", &["No worktrees."]),
    ("worktree prune", &["Nothing to remove."]),
    ("schedule list", &["nightly", "paused (user)", "every 300s"]),
    ("schedule show nightly", &["Look at the tests", "subagent schedule resume nightly"]),
    ("schedule pause nightly", &["paused (user)"]),
    ("schedule log nightly", &["no firings"]),
    ("trigger list", &["broken", "paused (failures)"]),
    ("trigger show broken", &["every 300s, if changed: exit 1", "subagent trigger resume broken"]),
    ("trigger log broken", &["failed", "exit status 1"]),
    ("queue resume --worker-id demo-1", &["idle"]),
    ("worker resume demo-1", &["demo-1", "idle"]),
    ("worker logs demo-1", &["nothing on standard error"]),
    ("stop old", &["old", "stopped"]),
    ("controller recover", &["active"]),
    ("task prune --dry-run", &["Nothing would be removed."]),
    ("hook trust --list", &["no file is trusted"]),
    ("diff demo-1 login", &["no file was changed by more than one of them"]),
    ("notify test desk", &["desk"]),
    ("session list --launcher demo", &[]),
    ("placement list", &[]),
    ("placement check absent", &["PLACEMENT_NOT_FOUND"]),
    ("placement prepare absent", &["PLACEMENT_NOT_FOUND"]),
    ("memory list", &[]),
    ("agent validate", &["valid"]),
    ("config check", &["ok"]),
    ("policy test reed src --allow read", &["did you mean `read`?"]),
    ("policy test execute ls --allow execute(ls*)", &["allow", "execute(ls*): allow"]),
    ("backup --force BACKUP", &["backup.db"]),
    ("config show", &["demo"]),
    ("doctor", &["problem"]),
    ("completions --install bash", &["bash-completion/completions/subagent", "start a new shell"]),
    ("init", &["AGENT", "LOGIN", "codex", "would do: completions for zsh"]),
];

/// Views of whole documents, which only the terminal wraps.
const DOCUMENTS: &[&str] = &["config show", "result demo-1"];

/// Views that depend on the machine or on the folder of the executables; they have no snapshot.
const OF_THE_MACHINE: &[&str] =
    &["status", "doctor", "launcher list", "launcher show demo", "watch demo-1", "init"];

#[test]
fn every_view_fits_the_terminal_and_looks_as_it_did() {
    let world = world();
    let mut wrong = Vec::new();
    let mut texts = WIDTHS.map(|_| String::new());
    for (view, whole) in VIEWS {
        for (columns, text) in WIDTHS.iter().zip(&mut texts) {
            let screen = world.at(view, *columns);
            let lines = screen.lines();
            if let Some(wide) =
                lines.iter().find(|line| !fits(line, *columns)).filter(|_| !DOCUMENTS.contains(view))
            {
                wrong.push(format!("{view} at {columns}: {} columns: {wide}", width(wide)));
            }
            if *columns == 80 {
                let shown = lines.join(" ").split_whitespace().collect::<Vec<_>>().join(" ");
                for part in *whole {
                    let part = world.with_ids(part);
                    if !shown.contains(&part) {
                        wrong.push(format!("{view}: {part:?} is not whole in {shown}"));
                    }
                }
            }
            if !OF_THE_MACHINE.contains(view) {
                text.push_str(&format!("$ subagent {view}\n{}\n\n", normal(&world.sandbox, &lines)));
            }
        }
    }
    for (columns, text) in WIDTHS.iter().zip(&texts) {
        wrong.extend(snapshot::differences(&columns.to_string(), text));
    }
    let _ = world.sandbox.approve("login", &json!(world.request), "allow");
    world.sandbox.run(&["answer", "port", "--decline"]).data_of("elicitation.answered");
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
    world.sandbox.finish();
}

#[test]
fn an_owner_is_shown_and_released_in_a_view() {
    for columns in WIDTHS {
        let mut sandbox = TestSandbox::new();
        let owner = sandbox.init()["owner"].clone();
        for (name, key) in [("ID", "controllerId"), ("EPOCH", "epoch"), ("TOKEN", "token")] {
            let value = owner[key].as_str().map_or_else(|| owner[key].to_string(), str::to_owned);
            sandbox.set_env(format!("SUBAGENT_CTL_{name}"), value);
        }
        let released = sandbox.command("subagent").args(["controller", "release"]).on_screen();
        assert!(released.text().contains("released") && !released.text().contains('{'), "{released:?}");
        for name in ["ID", "EPOCH", "TOKEN"] {
            sandbox.remove_env(&format!("SUBAGENT_CTL_{name}"));
        }
        let screen = sandbox.command("subagent").args(["controller", "init"]).at_terminal(columns, On::Both);
        let screen = screen.screen();
        let text = screen.text();
        assert!(text.contains("  owned") && text.contains("subagent worker start"), "{text}");
        assert!(!text.contains(owner["token"].as_str().unwrap()) && !text.contains('{'), "{text}");
        assert!(screen.lines().iter().all(|line| fits(line, columns)), "{text}");
        sandbox.finish();
    }
}

#[test]
fn a_terminal_without_colours_gets_none_in_any_view() {
    let (sandbox, worker) = TestSandbox::with_worker();
    let _ = sandbox.send(&worker, "hi");
    for view in ["ls", "show demo-1", "status", "budget show", "controller status", "launcher list"] {
        for (name, value) in [("TERM", "dumb"), ("NO_COLOR", "1")] {
            let command = sandbox.command("subagent").args(view.split(' ')).env(name, value);
            let screen = command.at_terminal(80, On::Both).screen();
            assert!(
                !screen.bytes.contains('\u{1b}') && !screen.bytes.contains('\r'),
                "{view}: {:?}",
                screen.bytes
            );
        }
        let coloured = sandbox.command("subagent").args(view.split(' ')).on_screen();
        assert!(coloured.bytes.contains('\u{1b}'), "{view}: {:?}", coloured.bytes);
    }
    sandbox.finish();
}
