//! `placement prepare`, `check` and `list`: the runtime is put there once, whole or not at all.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::sys::signal::Signal;
use serde_json::{Value, json};
use subagent_tests::harness::{HostMachine, SshHost, TestSandbox, wait_until};

/// Time limit of the start of a daemon.
const DEADLINE: Duration = Duration::from_secs(30);
/// How often a check is interrupted until that hits its worker.
const ATTEMPTS: usize = 5;

/// Folder of our programs below the home there.
const PROGRAMS: &str = ".local/share/subagent";

/// Returns the files in the folders of prepared runtimes below the home there.
fn prepared(home: &Path) -> Vec<PathBuf> {
    let versions = fs::read_dir(home.join(PROGRAMS).join("runtime"));
    let folders = versions.into_iter().flatten().flatten().map(|entry| entry.path());
    let files = folders.flat_map(|folder| fs::read_dir(folder).unwrap().flatten().map(|file| file.path()));
    files.collect()
}

#[test]
fn a_host_is_prepared_once_and_then_runs_workers() {
    let sandbox = TestSandbox::new();
    let Some(host) = SshHost::start(&sandbox) else { return };
    host.place(&sandbox, json!({}));
    let listed = sandbox.run(&["placement", "list"]).data_of("placement.listed");
    assert_eq!((&listed["count"], &listed["items"][0]["host"]), (&json!(1), &json!("there")), "{listed}");
    let error = sandbox.run(&["placement", "check", "there"]).error("PLACEMENT_NOT_PREPARED");
    assert_eq!(error["details"]["steps"][0]["step"], "host", "{error}");
    let prepare = || sandbox.run(&["placement", "prepare", "there"]).data_of("placement.prepared");
    let first = prepare();
    assert_eq!(first["uploaded"], true, "{first}");
    let mut files = prepared(host.home());
    files.sort();
    let [_, file] = &files[..] else { panic!("{files:?}") };
    for (file, program) in files.iter().zip(["subagent", "subagent-runtime"]) {
        let here = fs::read(sandbox.executable(program)).unwrap();
        assert!(file.ends_with(program) && fs::read(file).unwrap() == here, "it was changed on its way");
    }
    let again = prepare();
    assert_eq!((&again["uploaded"], &again["program"]), (&json!(false), &first["program"]), "{again}");
    let checked = sandbox.run(&["placement", "check", "there"]).data_of("placement.checked");
    let steps: Vec<&Value> = checked["items"].as_array().unwrap().iter().map(|one| &one["step"]).collect();
    assert_eq!(steps, ["host", "runtime", "folder", "stream", "agent", "log", "stop"], "{checked}");
    let placed = host.home().join(".local/state/subagent/placed");
    assert_eq!(fs::read_dir(&placed).unwrap().count(), 0, "the worker of the check has left files");
    sandbox.init();
    let worker = sandbox.start_on("there");
    assert_eq!(sandbox.send(&worker, "hello")["assistantText"], "hello");
    let _ = sandbox.run(&["worker", "stop", &worker]).data_of("worker.stopped");
    // A damaged file is replaced.
    fs::remove_file(file).unwrap();
    fs::write(file, "#!/bin/sh\n").unwrap();
    assert_eq!(prepare()["uploaded"], true);
    let mut again = prepared(host.home());
    again.sort();
    assert_eq!(again, files);
    sandbox.finish();
}

#[test]
fn an_upload_to_a_full_disk_leaves_nothing_and_works_once_there_is_room() {
    const SPARE: u64 = 1 << 20;
    let sandbox = TestSandbox::new();
    let bytes = |program: &str| fs::metadata(sandbox.executable(program)).unwrap().len();
    let (first, second) = (bytes("subagent"), bytes("subagent-runtime"));
    let machine = HostMachine::default().file_system(PROGRAMS, &(first + second + 4 * SPARE).to_string());
    let Some(host) = SshHost::start_machine(&sandbox, machine) else { return };
    host.place(&sandbox, json!({}));
    let names = || {
        let files = prepared(&host.seen_from_here(host.home()));
        let names = files.iter().map(|file| file.file_name().unwrap().to_str().unwrap().to_owned());
        names.collect::<BTreeSet<_>>()
    };
    let prepare = || sandbox.run(&["placement", "prepare", "there"]);
    // No room for a program, and room for the first one only: the runtime is put there last.
    for (room, left) in [(SPARE, BTreeSet::new()), (first + SPARE, BTreeSet::from(["subagent".to_owned()]))] {
        let filler = host.fill(PROGRAMS, room);
        let error = prepare().error("PLACEMENT_NOT_PREPARED");
        let details = &error["details"];
        assert!(details["stderr"].as_str().unwrap().contains("No space left on device"), "{error}");
        assert!(details["recommendedAction"].as_str().unwrap().contains("free space on there"), "{error}");
        assert_eq!(names(), left, "{error}");
        let _ = sandbox.run(&["placement", "check", "there"]).error("PLACEMENT_NOT_PREPARED");
        fs::remove_file(filler).unwrap();
    }
    assert_eq!(prepare().data_of("placement.prepared")["uploaded"], true);
    assert_eq!(names(), ["subagent", "subagent-runtime"].map(str::to_owned).into());
    sandbox.init();
    let worker = sandbox.start_on("there");
    assert_eq!(sandbox.send(&worker, "hello")["assistantText"], "hello");
    let _ = sandbox.run(&["worker", "stop", &worker]).data_of("worker.stopped");
    sandbox.finish();
}

/// Returns the folders of placed workers there.
fn placed(host: &SshHost) -> Vec<PathBuf> {
    let placed = fs::read_dir(host.home().join(".local/state/subagent/placed"));
    let folders = placed.into_iter().flatten().flatten().map(|entry| entry.path());
    folders.filter(|path| path.is_dir()).collect()
}

/// Returns the folders of checks on this machine.
fn checks(sandbox: &TestSandbox) -> Vec<PathBuf> {
    let all = fs::read_dir(sandbox.file("tmp")).unwrap().flatten().map(|entry| entry.path());
    all.filter(|path| path.to_string_lossy().contains("subagent-check-")).collect()
}

#[test]
fn an_interrupted_check_leaves_nothing() {
    let sandbox = TestSandbox::new();
    let Some(host) = SshHost::start(&sandbox) else { return };
    let check = sandbox.subagent(&["placement", "check", "there"]).spawn();
    wait_until("the worker of the check", DEADLINE, || (!placed(&host).is_empty()).then_some(()));
    check.signal(Signal::SIGINT);
    let output = check.output();
    assert_eq!(output.status.signal(), Some(Signal::SIGINT as i32), "{output}");
    assert!(placed(&host).is_empty() && checks(&sandbox).is_empty(), "{output}");
    sandbox.finish();
}

#[test]
fn a_check_that_cannot_end_its_worker_says_what_is_left() {
    let sandbox = TestSandbox::new();
    let Some(mut host) = SshHost::start(&sandbox) else { return };
    let mut interrupted = None;
    for _ in 0..ATTEMPTS {
        let check = sandbox.subagent(&["placement", "check", "there"]).deadline(4 * DEADLINE).spawn();
        wait_until("the worker of the check", DEADLINE, || (!placed(&host).is_empty()).then_some(()));
        host.end_server();
        check.signal(Signal::SIGINT);
        let output = check.output();
        assert_eq!(output.status.signal(), Some(Signal::SIGINT as i32), "{output}");
        // On a busy machine, the worker may have ended before.
        if checks(&sandbox).is_empty() {
            host.restart_server(&sandbox);
            // Its files are left there, as the host was off.
            placed(&host).iter().for_each(|folder| fs::remove_dir_all(folder).unwrap());
        } else {
            interrupted = Some(output);
            break;
        }
    }
    let output = interrupted.expect("a check that could not end its worker");
    let [folder] = &checks(&sandbox)[..] else { panic!("{output}") };
    let state_dir = folder.join("state");
    let advice = format!("SUBAGENT_STATE_DIR={} subagentd stop --workers", state_dir.display());
    assert!(output.stderr.contains(&advice), "{output}");
    // Its daemon goes on.
    host.restart_server(&sandbox);
    let stop = sandbox.command("subagentd").args(["stop", "--workers", "--json"]);
    let stopped = stop.env("SUBAGENT_STATE_DIR", state_dir.to_str().unwrap()).run().data();
    assert_eq!(stopped["stopped"], true, "{stopped}");
    sandbox.finish();
}

#[test]
fn a_host_that_cannot_be_prepared_says_why() {
    let sandbox = TestSandbox::new();
    let Some(host) = SshHost::start(&sandbox) else { return };
    let prepare = || sandbox.run(&["placement", "prepare", "there"]);
    let error = prepare().error("INVALID_ARGUMENT");
    assert!(error["message"].as_str().unwrap().contains("`program`"), "{error}");
    host.place(&sandbox, json!({}));
    // Its folder is a file.
    fs::create_dir_all(host.home().join(".local/share")).unwrap();
    fs::write(host.home().join(".local/share/subagent"), "").unwrap();
    let error = prepare().error("PLACEMENT_NOT_PREPARED");
    assert!(error["details"]["stderr"].as_str().unwrap().contains("mkdir"), "{error}");
    host.configure_client("other", "host");
    let _ = prepare().error("PLACEMENT_UNREACHABLE");
    let _ = sandbox.run(&["placement", "check", "there"]).error("PLACEMENT_UNREACHABLE");
    let error = sandbox.run(&["placement", "check", "nowhere"]).error("PLACEMENT_NOT_FOUND");
    assert_eq!(error["details"]["available"], json!(["there"]), "{error}");
    host.configure_client("user", "host");
    let program = sandbox.executable("subagent-runtime");
    host.place(&sandbox, json!({"program": program, "cwd": "~/absent"}));
    let error = sandbox.run(&["placement", "check", "there"]).error("PLACEMENT_FOLDER_MISSING");
    assert_eq!(error["details"]["steps"].as_array().unwrap().len(), 2, "{error}");
    sandbox.finish();
}

#[test]
fn a_task_and_a_run_go_there_too() {
    let sandbox = TestSandbox::new();
    let Some(host) = SshHost::start(&sandbox) else { return };
    sandbox.init();
    let args = ["task", "run", "--launcher", "demo", "--on", "there", "--text", "!shell pwd"];
    let task = sandbox.run(&args).document();
    assert!(task.to_string().contains(host.work().to_str().unwrap()), "{task}");
    let run = sandbox.run(&["run", "--on", "there", "demo", "!shell pwd"]).document();
    assert!(run.to_string().contains(host.work().to_str().unwrap()), "{run}");
    let definitions = sandbox.workspace().join(".agents/agents");
    fs::create_dir_all(&definitions).unwrap();
    let definition = "---\ndescription: works there\nplacement: there\n---\nWork there.\n";
    fs::write(definitions.join("remote.md"), definition).unwrap();
    let start = |args: &[&str]| {
        let all = ["worker", "start", "--launcher", "demo", "--agent", "remote"];
        sandbox.run(&[&all, args].concat()).data_of("worker.started")["placement"]["name"].clone()
    };
    assert_eq!((start(&[]), start(&["--on", "local"])), (json!("there"), Value::Null));
    let _ = sandbox.command("subagentd").args(["stop", "--workers", "--json"]).run();
    sandbox.finish();
}
