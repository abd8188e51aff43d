//! `schedules` and `triggers` of the user's config file: they come, change and go with the file,
//! and each time still fires once.

mod file;
mod moved;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};
use subagent_protocol::time::Timestamp;
use subagent_tests::harness::{TestSandbox, wait_until};

use super::{SOON, add, firings, log, show, started, tasks, wait_for, wait_for_firings, world};

fn user_file(sandbox: &TestSandbox) -> PathBuf {
    sandbox.file("home/.config/subagent/config.yaml")
}

/// Replaces the user's file, as editors do it. `WS` stands for the keys that all entries have in
/// common.
fn write(sandbox: &TestSandbox, text: &str) {
    write_to(sandbox, &sandbox.file("home/.config/subagent/config.yaml"), text);
}

fn write_to(sandbox: &TestSandbox, file: &Path, text: &str) {
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    let new = file.with_extension("new");
    let common = format!("cwd: '{}', agent: demo", sandbox.workspace().display());
    fs::write(&new, text.replace("WS", &common)).unwrap();
    fs::rename(new, file).unwrap();
}

fn list(sandbox: &TestSandbox, kind: &str) -> Value {
    sandbox.run(&[kind, "list"]).data_of(&format!("{kind}.listed"))
}

fn names(listed: &Value) -> Vec<&str> {
    listed["items"].as_array().unwrap().iter().map(|item| item["name"].as_str().unwrap()).collect()
}

/// Waits for these names: an entry is removed one second after the file.
fn wait_for_names(sandbox: &TestSandbox, kind: &str, wanted: &[&str]) {
    wait_until("the removal of an entry", SOON, || (names(&list(sandbox, kind)) == wanted).then_some(()));
}

/// Waits for longer than an entry stays that the file no longer has.
fn after_a_removal() {
    let begun = Instant::now();
    wait_until("the time of a removal", SOON, || {
        (begun.elapsed() > Duration::from_millis(1500)).then_some(())
    });
}

/// The names and messages of the entries that are not in effect.
fn problems(listed: &Value) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let of = |problem: &Value| (text(&problem["name"]), text(&problem["error"]["message"]));
    listed["problems"].as_array().into_iter().flatten().map(of).collect()
}

fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    Timestamp(i64::try_from(since.as_millis()).unwrap())
}

/// A daily time about half a day away, so that nothing fires during a test.
fn daily() -> String {
    format!("0 {} * * *", (now().0 / 3_600_000 + 12) % 24)
}

#[test]
fn they_come_change_and_go_with_the_file() {
    let (sandbox, daily) = (world(), daily());
    let _ = add(&sandbox, &["mine", "--every", "20m", "demo", "!say mine"]);
    write(
        &sandbox,
        &format!(
            "schedules:\n  nightly: {{cron: {daily}, timezone: UTC, WS, text: '!say one'}}\n\
             triggers:\n  asked: {{WS, text: '!say {{{{payload}}}}'}}\n"
        ),
    );
    let listed = list(&sandbox, "schedule");
    assert_eq!((names(&listed), problems(&listed)), (vec!["mine", "nightly"], vec![]), "{listed}");
    assert!(listed["items"][0].get("declaredIn").is_none(), "{listed}");
    let shown = show(&sandbox, "nightly");
    assert_eq!(shown["declaredIn"], json!(user_file(&sandbox)), "{shown}");
    // It is there although the daemon in the background will not be: `doctor` warns.
    assert_eq!(shown["attendant"], "unattended", "{shown}");
    assert_eq!(names(&list(&sandbox, "trigger")), ["asked"]);
    let output = sandbox.command("subagent").args(["schedule", "list"]).run();
    assert!(output.text().contains("home/.config/subagent/config.yaml"), "{output}");
    // Only the file removes it.
    for (kind, name) in [("schedule", "nightly"), ("trigger", "asked")] {
        let refused = sandbox.run(&[kind, "rm", name]).error("INVALID_ARGUMENT");
        assert_eq!(refused["details"]["configPath"], json!(user_file(&sandbox)), "{refused}");
        let advice = refused["details"]["recommendedAction"].as_str().unwrap();
        assert!(advice.contains("remove its entry") && advice.contains(&format!("{kind} pause")), "{advice}");
    }
    let fired = sandbox.run(&["schedule", "run", "nightly"]).data_of("schedule.fired");
    assert!(fired["workerId"].is_string(), "{fired}");
    let _ = wait_for(&sandbox, "nightly", "completed", 1);
    sandbox.run(&["schedule", "pause", "nightly"]).data_of("schedule.paused");
    sandbox.run(&["daemon", "stop"]).data_of("daemon.stopped");
    // Another text, while no daemon is there: the pause and the log stay.
    write(
        &sandbox,
        &format!(
            "schedules:\n  nightly: {{cron: {daily}, timezone: UTC, WS, text: '!say two', maxFailures: 7}}\n"
        ),
    );
    let shown = show(&sandbox, "nightly");
    assert_eq!((&shown["paused"], &shown["maxFailures"]), (&json!("user"), &json!(7)), "{shown}");
    assert_eq!(shown["work"]["task"]["prompt"], "!say two", "{shown}");
    assert_eq!(log(&sandbox, "nightly").len(), 1);
    wait_for_names(&sandbox, "trigger", &[]);
    let resumed = sandbox.run(&["schedule", "resume", "nightly"]).data_of("schedule.resumed");
    assert!(resumed["nextAt"].is_string(), "{resumed}");
    write(&sandbox, "schedules: {}\n");
    wait_for_names(&sandbox, "schedule", &["mine"]);
    sandbox.run(&["schedule", "show", "nightly"]).error("SCHEDULE_NOT_FOUND");
    sandbox.finish();
}

#[test]
fn a_running_daemon_notices_the_file_by_itself() {
    let sandbox = world();
    write(&sandbox, "schedules: {}\n");
    assert_eq!(list(&sandbox, "schedule")["count"], 0);
    write(&sandbox, "schedules:\n  tick: {every: 1s, WS, text: '!say done'}\n");
    wait_until("a task of the schedule", SOON, || {
        let all = sandbox.run(&["task", "list", "--all"]).data();
        all["items"].as_array().unwrap().iter().any(|task| task["status"] == "completed").then_some(())
    });
    // A file that is written in place is incomplete for a moment: nothing is lost.
    let file = user_file(&sandbox);
    let text = fs::read_to_string(&file).unwrap();
    sandbox.run(&["schedule", "pause", "tick"]).data_of("schedule.paused");
    fs::write(&file, "").unwrap();
    assert_eq!(list(&sandbox, "schedule")["count"], 1);
    fs::write(&file, &text).unwrap();
    assert_eq!(show(&sandbox, "tick")["paused"], "user");
    let before = log(&sandbox, "tick").len();
    fs::write(&file, "schedules: {}\n").unwrap();
    assert_eq!(list(&sandbox, "schedule")["count"], 1);
    fs::write(&file, &text).unwrap();
    after_a_removal();
    assert_eq!(
        (show(&sandbox, "tick")["paused"].as_str(), log(&sandbox, "tick").len()),
        (Some("user"), before)
    );
    sandbox.finish();
}

#[test]
fn an_entry_of_a_workspace_that_appears_later_fires_only_there() {
    let sandbox = world();
    let nested = sandbox.workspace().join("nested");
    fs::create_dir(&nested).unwrap();
    let entry = format!("every: 2s, cwd: '{}', agent: demo, text: '!say done'", nested.display());
    write(&sandbox, &format!("schedules:\n  tick: {{{entry}}}\n"));
    assert_eq!(names(&list(&sandbox, "schedule")), ["tick"]);
    let tasks = || sandbox.run(&["task", "list", "--all"]).data()["count"].as_u64().unwrap();
    wait_until("a firing", SOON, || (tasks() > 0).then_some(()));
    fs::create_dir_all(nested.join(".subagent/state")).unwrap();
    wait_for_names(&sandbox, "schedule", &[]);
    let before = tasks();
    let begun = Instant::now();
    wait_until("the time of a firing", SOON, || (begun.elapsed() > Duration::from_secs(3)).then_some(()));
    assert_eq!(tasks(), before);
    sandbox.finish();
}

#[test]
fn a_folder_that_does_not_answer_holds_up_nothing_else() {
    let mut sandbox = TestSandbox::new();
    let once = sandbox.file("once");
    sandbox.set_env("SUBAGENT_FAILPOINTS", "folder.before_look=wait@1");
    sandbox.set_env("SUBAGENT_FAILPOINTS_ONCE", &once);
    let sandbox = started(sandbox);
    let entry = |folder: &str| {
        let folder = sandbox.workspace().join(folder);
        fs::create_dir(&folder).unwrap();
        format!("{{every: 20m, cwd: '{}', agent: demo, text: '!say done'}}", folder.display())
    };
    write(&sandbox, &format!("schedules:\n  one: {}\n  two: {}\n", entry("a"), entry("b")));
    let listed = list(&sandbox, "schedule");
    let (taken, late) = (names(&listed), problems(&listed));
    assert!(taken.len() == 1 && late.len() == 1, "{listed}");
    assert!(late[0].0 != taken[0] && late[0].1.contains("did not answer within 2 s"), "{late:?}");
    sandbox.run(&["schedule", "run", taken[0]]).data_of("schedule.fired");
    let _ = wait_for(&sandbox, taken[0], "completed", 1);
    // The folder answers.
    fs::remove_file(once).unwrap();
    wait_for_names(&sandbox, "schedule", &["one", "two"]);
    assert_eq!(problems(&list(&sandbox, "schedule")), []);
    sandbox.finish();
}

#[test]
fn a_single_time_that_has_passed_when_it_is_read_is_left_out_and_shown() {
    let sandbox = world();
    let at = |time: &str, text: &str| {
        write(
            &sandbox,
            &format!("schedules:\n  once: {{at: '{time}', timezone: UTC, WS, text: '{text}'}}\n"),
        );
        show(&sandbox, "once")
    };
    assert!(at("2030-01-01T00:00", "!say one")["nextAt"].is_string());
    let shown = at("2020-01-01T00:00", "!say one");
    assert_eq!(
        (&shown["when"], &shown["nextAt"]),
        (&json!({"at": "2020-01-01T00:00"}), &Value::Null),
        "{shown}"
    );
    assert!(shown["error"]["message"].as_str().unwrap().contains("had passed"), "{shown}");
    let all = log(&sandbox, "once");
    assert_eq!((all.len(), &all[0]["status"]), (1, &json!("skipped")), "{all:?}");
    let found = sandbox.run(&["doctor"]).document()["data"]["findings"].take();
    assert!(found.to_string().contains("the schedule once cannot fire: this time had passed"), "{found}");
    // Another text is in effect, and the time is left out once.
    let shown = at("2020-01-01T00:00", "!say two");
    assert_eq!(shown["work"]["task"]["prompt"], "!say two", "{shown}");
    assert_eq!(log(&sandbox, "once").len(), 1);
    assert_eq!(problems(&list(&sandbox, "schedule")), []);
    // A time that was missed after it was declared fires, with the text of now.
    let soon = Timestamp(now().0 + 2_000);
    let _ = at(&soon.to_string(), "!say three");
    sandbox.run(&["daemon", "stop"]).data_of("daemon.stopped");
    wait_until("the time", SOON, || (now() > soon).then_some(()));
    let shown = at(&soon.to_string(), "!say four");
    assert!(shown["nextAt"].is_null(), "{shown}");
    let fired: Vec<Value> = wait_for(&sandbox, "once", "completed", 1)
        .into_iter()
        .filter(|one| one["workerId"].is_string())
        .collect();
    assert_eq!(fired.len(), 1, "{fired:?}");
    sandbox.finish();
}

#[test]
fn the_time_zone_of_the_system_is_recorded_once() {
    let mut sandbox = world();
    sandbox.run(&["daemon", "stop"]).data_of("daemon.stopped");
    let entry = |sandbox: &TestSandbox, text: &str| {
        write(sandbox, &format!("schedules:\n  nightly: {{cron: 0 2 * * *, WS, text: {text}}}\n"));
        show(sandbox, "nightly")
    };
    sandbox.set_env("TZ", "Asia/Tokyo");
    let shown = entry(&sandbox, "one");
    assert_eq!(shown["timezone"], "Asia/Tokyo", "{shown}");
    sandbox.run(&["daemon", "stop"]).data_of("daemon.stopped");
    sandbox.set_env("TZ", "Europe/Berlin");
    let again = show(&sandbox, "nightly");
    assert_eq!((&again["timezone"], &again["nextAt"]), (&json!("Asia/Tokyo"), &shown["nextAt"]), "{again}");
    let edited = entry(&sandbox, "two");
    assert_eq!(
        (&edited["timezone"], &edited["nextAt"]),
        (&json!("Asia/Tokyo"), &shown["nextAt"]),
        "{edited}"
    );
    let output = sandbox.command("subagent").args(["schedule", "list"]).run();
    assert!(output.text().contains("Asia/Tokyo"), "{output}");
    sandbox.finish();
}

#[test]
fn a_name_means_the_worker_that_has_it_at_each_firing() {
    let sandbox = world();
    let helper = || {
        let args = ["worker", "start", "--launcher", "demo", "--name", "helper"];
        let started = sandbox.run(&args).data_of("worker.started");
        started["workerId"].as_str().unwrap().to_owned()
    };
    let first = helper();
    let cwd = sandbox.workspace().display().to_string();
    write(
        &sandbox,
        &format!(
            "schedules:\n  remind: {{every: 20m, cwd: '{cwd}', send: helper, text: '!say reminded'}}\n\
             triggers:\n  after: {{after: helper, WS, text: '!say after'}}\n"
        ),
    );
    let run = || sandbox.run(&["schedule", "run", "remind"]).data_of("schedule.fired")["workerId"].take();
    assert_eq!(run(), json!(first));
    let count = |wanted: usize| {
        wait_until("firings", SOON, || (firings(&sandbox, "trigger", "after").len() >= wanted).then_some(()));
    };
    count(1);
    sandbox.run(&["worker", "stop", &first]).data_of("worker.stopped");
    assert_eq!(show(&sandbox, "remind")["error"]["code"], "WORKER_STOPPED");
    sandbox.run(&["worker", "rm", &first]).data_of("worker.removed");
    let second = helper();
    let shown = show(&sandbox, "remind");
    assert_eq!((&shown["work"]["send"]["worker"], shown.get("error")), (&json!("helper"), None), "{shown}");
    assert_eq!(run(), json!(second));
    count(2);
    let open = "SELECT count(*) FROM turns WHERE status NOT IN ('completed', 'failed', 'canceled')";
    wait_until("the fired turns", SOON, || (sandbox.number(open) == 0).then_some(()));
    sandbox.finish();
}

#[test]
fn a_controller_that_requires_a_handle_takes_no_entries_and_says_so() {
    let mut sandbox = TestSandbox::new();
    let demo = sandbox.demo_agent(&[]);
    sandbox.launcher("demo", demo);
    sandbox.run(&["controller", "init", "--require-handle"]).data();
    write(&sandbox, "schedules:\n  one: {every: 20m, WS, text: x}\ntriggers:\n  two: {WS, text: x}\n");
    for kind in ["schedule", "trigger"] {
        let listed = list(&sandbox, kind);
        let error = &listed["problems"][0]["error"];
        assert_eq!(
            (names(&listed).len(), &error["code"]),
            (0, &json!("INVALID_CONTROLLER_HANDLE")),
            "{listed}"
        );
        assert!(
            error["message"].as_str().unwrap().contains("an entry of a config file has none"),
            "{listed}"
        );
        let advice = error["details"]["recommendedAction"].as_str().unwrap();
        assert!(advice.contains(&format!("subagent {kind} add")), "{listed}");
    }
    let found = sandbox.run(&["doctor"]).document()["data"]["findings"].take().to_string();
    for name in ["one", "two"] {
        assert!(found.contains(&format!("{name} is not in effect")), "{found}");
    }
    sandbox.finish();
}

#[test]
fn a_name_that_a_command_took_first_stays_its_own() {
    let sandbox = world();
    let _ = add(&sandbox, &["mine", "--every", "20m", "demo", "!say mine"]);
    write(&sandbox, "schedules:\n  mine: {every: 5m, WS, text: '!say declared'}\n");
    let listed = list(&sandbox, "schedule");
    assert_eq!(listed["items"][0]["when"], json!({"everySeconds": 1200}), "{listed}");
    let problem = &listed["problems"][0];
    assert_eq!((&problem["name"], &problem["line"]), (&json!("mine"), &json!(2)), "{listed}");
    assert_eq!(problem["error"]["code"], "NAME_TAKEN", "{listed}");
    let found = sandbox.run(&["doctor"]).document()["data"]["findings"].take();
    let said: Vec<&Value> =
        found.as_array().unwrap().iter().filter(|one| one["id"] == "config.schedules").collect();
    assert!(
        matches!(said.as_slice(), [one] if one["seen"].as_str().unwrap().contains("mine is not in effect")),
        "{said:?}"
    );
    let output = sandbox.command("subagent").args(["schedule", "list"]).run();
    assert!(output.stderr.contains("config.yaml:2: mine is not in effect"), "{output}");
    sandbox.run(&["schedule", "rm", "mine"]).data_of("schedule.removed");
    let shown = show(&sandbox, "mine");
    assert_eq!((&shown["when"], shown["declaredIn"].is_string()), (&json!({"everySeconds": 300}), true));
    assert_eq!(problems(&list(&sandbox, "schedule")), []);
    // The other way round it is taken too.
    sandbox.run(&["schedule", "add", "mine", "--every", "20m", "demo", "x"]).error("NAME_TAKEN");
    sandbox.finish();
}

#[test]
fn a_wrong_entry_holds_up_no_other_and_a_wrong_file_changes_nothing() {
    let sandbox = world();
    fs::create_dir(sandbox.file("other")).unwrap();
    let other = format!("cwd: '{}', agent: demo", sandbox.file("other").display());
    let text = format!(
        "schedules:\n  good: {{every: 5m, WS, text: '!say good'}}\n  \
         never: {{cron: 0 0 30 2 *, timezone: UTC, WS, text: x}}\n  \
         zone: {{every: 5m, timezone: Mars/Olympus, WS, text: x}}\n  \
         twice: {{at: '2030-10-27T02:30', timezone: Europe/Berlin, WS, text: x}}\n  \
         agent: {{every: 5m, cwd: '{0}', agent: gone, text: x}}\n  \
         worker: {{every: 5m, cwd: '{0}', send: gone-1, text: x}}\n  \
         elsewhere: {{every: 5m, {other}, text: x}}\n  \
         nowhere: {{every: 5m, cwd: /no/such/folder, agent: demo, text: x}}\n\
         triggers:\n  field: {{WS, text: '{{{{event}}}}'}}\n  glob: {{watch: ../x, WS, text: x}}\n",
        sandbox.workspace().display()
    );
    write(&sandbox, &text);
    let schedules = list(&sandbox, "schedule");
    assert_eq!(names(&schedules), ["good"], "{schedules}");
    let found = problems(&schedules);
    for (name, says) in [
        ("never", "never comes"),
        ("zone", "Mars/Olympus is not known"),
        ("twice", "exists twice"),
        ("agent", "there is no agent `gone`"),
        ("worker", "gone-1"),
    ] {
        assert!(found.iter().any(|(of, message)| of == name && message.contains(says)), "{name}: {found:?}");
    }
    assert_eq!(found.len(), 5, "an entry of another workspace is no problem here: {found:?}");
    let triggers = list(&sandbox, "trigger");
    assert_eq!((&triggers["count"], problems(&triggers).len()), (&json!(0), 2), "{triggers}");
    // What needs no daemon is found without one.
    let checked = sandbox.run(&["config", "check"]);
    assert_eq!(checked.status.code(), Some(1), "{checked}");
    let data = checked.document()["data"].take();
    let lines: Vec<&Value> = data["problems"].as_array().unwrap().iter().map(|one| &one["line"]).collect();
    assert_eq!(lines, [3, 4, 5, 9, 11, 12].map(|line| json!(line)).iter().collect::<Vec<_>>(), "{data}");
    let shown = sandbox.command("subagent").args(["config", "show", "--origin"]).run();
    let line = shown.text().lines().find(|line| line.contains("schedules.good.every")).unwrap_or_default();
    assert!(line.contains("config.yaml"), "{shown}");
    // The previous entries stay.
    write(&sandbox, "schedules: [\n");
    let listed = list(&sandbox, "schedule");
    assert_eq!((names(&listed), problems(&listed).len()), (vec!["good"], 1), "{listed}");
    write(&sandbox, "schedules:\n  good: {every: soon, WS, text: x}\n");
    let listed = list(&sandbox, "schedule");
    assert_eq!(names(&listed), ["good"], "{listed}");
    assert!(problems(&listed)[0].1.contains("`schedules.good.every` must be a time"), "{listed}");
    write(&sandbox, "schedules:\n  good: {every: 6m, WS, text: x}\n");
    let listed = list(&sandbox, "schedule");
    assert_eq!((names(&listed), problems(&listed)), (vec!["good"], vec![]), "{listed}");
    sandbox.finish();
}

#[test]
fn a_projects_file_with_a_schedule_is_refused() {
    let sandbox = world();
    let project = sandbox.workspace().join(".subagent/config.yaml");
    let before = fs::read_to_string(&project).unwrap();
    fs::write(&project, format!("{before}\nschedules: {{a: {{every: 1s, cwd: /, agent: demo, text: x}}}}\n"))
        .unwrap();
    let error = sandbox.run(&["worker", "start", "--launcher", "demo"]).error("CONFIG_PARSE_ERROR");
    assert!(error["message"].as_str().unwrap().contains("counts only in your own file"), "{error}");
    assert_eq!(list(&sandbox, "schedule")["count"], 0);
    fs::write(&project, before).unwrap();
    sandbox.finish();
}

#[test]
fn a_workspace_without_a_controller_gets_one() {
    let sandbox = TestSandbox::new();
    write(&sandbox, "schedules:\n  once: {every: 20m, WS, text: '!say done'}\n");
    let _ = sandbox.run(&["daemon", "start"]);
    let shown = show(&sandbox, "once");
    assert!(shown["controllerId"].as_str().unwrap().starts_with("ctl_"), "{shown}");
    sandbox.run(&["schedule", "run", "once"]).data_of("schedule.fired");
    let _ = wait_for(&sandbox, "once", "completed", 1);
    sandbox.finish();
}

#[test]
fn a_declared_trigger_fires_and_a_changed_source_begins_anew() {
    let sandbox = world();
    let command = |file: &str, text: &str| {
        let keys =
            format!("onCommand: cat {file}; echo >> runs, every: 1, WS, text: '!say {text} {{{{payload}}}}'");
        write(&sandbox, &format!("triggers:\n  head: {{{keys}}}\n"));
        sandbox.run(&["trigger", "show", "head"]).data_of("trigger.shown")
    };
    let runs = || fs::read_to_string(sandbox.workspace().join("runs")).unwrap_or_default().lines().count();
    let wait_for_runs = |count: usize| {
        let until = runs() + count;
        wait_until("runs of the command", SOON, || (runs() >= until).then_some(()));
    };
    fs::write(sandbox.workspace().join("a"), "one").unwrap();
    fs::write(sandbox.workspace().join("b"), "other").unwrap();
    let shown = command("a", "x");
    assert_eq!(
        shown["source"]["command"]["cwd"],
        json!(sandbox.workspace().canonicalize().unwrap()),
        "{shown}"
    );
    wait_for_runs(2);
    fs::write(sandbox.workspace().join("a"), "two").unwrap();
    let count = |wanted: usize| {
        wait_until("firings", SOON, || (firings(&sandbox, "trigger", "head").len() >= wanted).then_some(()));
    };
    count(1);
    // Another text alone changes nothing about what is compared.
    let _ = command("a", "y");
    wait_for_runs(2);
    fs::write(sandbox.workspace().join("a"), "three").unwrap();
    count(2);
    // The first output of another command is the base.
    let shown = command("b", "y");
    assert!(shown["source"]["command"]["command"].as_str().unwrap().starts_with("cat b"), "{shown}");
    wait_for_runs(3);
    assert_eq!(firings(&sandbox, "trigger", "head").len(), 2);
    fs::write(sandbox.workspace().join("b"), "new").unwrap();
    count(3);
    sandbox.run(&["trigger", "pause", "head"]).data_of("trigger.paused");
    sandbox.finish();
}

/// Each time fires once although the declaration changes again and again, and the daemon dies at
/// this point.
fn fires_once_although_the_declaration_changes(point: &str) {
    let mut sandbox = TestSandbox::new();
    let once = sandbox.file("once");
    sandbox.set_env("SUBAGENT_FAILPOINTS", format!("{point}=abort@2"));
    sandbox.set_env("SUBAGENT_FAILPOINTS_ONCE", &once);
    let sandbox = started(sandbox);
    let mut number = 0u32;
    let begun = Instant::now();
    wait_until("the point, and firings before and after it", SOON, || {
        number += 1;
        // Its text changes each time, its interval every five seconds, so that it fires in between.
        let (every, text) = (1 + begun.elapsed().as_secs() / 5 % 2, format!("!say {number}"));
        write(
            &sandbox,
            &format!("schedules:\n  tick: {{every: {every}, missed: all, WS, text: '{text}'}}\n"),
        );
        let _ = sandbox.subagent(&["schedule", "list"]).run();
        let log = sandbox.subagent(&["schedule", "log", "tick"]).run();
        let fired = log.status.success() && log.data()["count"].as_u64().unwrap() > 4;
        (fired && begun.elapsed().as_secs() > 5 && once.exists()).then_some(())
    });
    sandbox.run(&["schedule", "pause", "tick"]).data_of("schedule.paused");
    let all = wait_until("the last task to end", SOON, || {
        let all = log(&sandbox, "tick");
        all.iter().all(|firing| firing["status"] != "running").then_some(all)
    });
    let started: Vec<&Value> = all.iter().filter(|firing| firing["workerId"].is_string()).collect();
    let tasks = tasks(&sandbox, "tick");
    assert_eq!(tasks.len(), started.len(), "{point}: {all:?} {tasks:?}");
    assert!(tasks.values().all(|count| *count == 1), "{point}: {tasks:?}");
    sandbox.finish();
}

#[test]
fn each_time_fires_once_although_the_declaration_changes() {
    for point in ["declared.before_store", "declared.after_store"] {
        fires_once_although_the_declaration_changes(point);
    }
}
