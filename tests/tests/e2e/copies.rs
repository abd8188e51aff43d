//! A copied workspace and its original: commands in the copy have their own daemon and do not
//! affect the original. One folder with two paths is one state directory.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sched::{CloneFlags, unshare};
use serde_json::{Value, json};
use subagent_tests::harness::process::Process;
use subagent_tests::harness::{Output, TestSandbox, request};
use subagent_tests::invariants::{self, Evidence, Recorder};

/// A workspace with a worker during a turn, and a copy of the workspace.
struct CopiedWorkspace {
    sandbox: TestSandbox,
    worker: String,
    copy: PathBuf,
    /// The turn that is open.
    accepted: Value,
    /// What commands in the copy acknowledge.
    recorder: Recorder,
    daemon: Process,
    runtime: Process,
    agent: Process,
}

impl CopiedWorkspace {
    fn by(copying: impl FnOnce(&Path, &Path)) -> Self {
        let (sandbox, worker) = TestSandbox::with_worker();
        assert_eq!(sandbox.send(&worker, "before")["assistantText"], "before");
        let accepted =
            sandbox.send_no_wait(&worker, &format!("!say begun\n{}", sandbox.gate("go").directive()));
        let _ = sandbox.wait_after(&worker, &accepted["acceptedEventId"], "progress.message");
        let runtime = sandbox.runtime(&worker);
        let agent = sandbox.agent(&sandbox.guard(&runtime));
        let copy = sandbox.file("copy");
        copying(&sandbox.workspace(), &copy);
        Self {
            daemon: sandbox.daemon(),
            recorder: Recorder::default(),
            accepted,
            worker,
            copy,
            runtime,
            agent,
            sandbox,
        }
    }

    /// Runs a command in the copy.
    fn here(&self, args: &[&str]) -> Output {
        self.sandbox.subagent(args).cwd(&self.copy).recorded_by(&self.recorder).run()
    }

    /// Checks every invariant of the copy, after its end.
    fn check_copy(&self) {
        let evidence = Evidence {
            state_dir: self.copy.join(".subagent/state"),
            there: Vec::new(),
            // They contain the original's files.
            socket_folders: Vec::new(),
            acknowledged: self.recorder.acknowledged(),
            ended: true,
        };
        assert_eq!(invariants::check(&evidence), Vec::<String>::new());
    }

    fn identity(&self) -> Value {
        let path = self.copy.join(".subagent/state/state-id");
        serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
    }

    /// The copy's commands affect only the copy, and the original continues.
    fn check(self) {
        let runtimes = files(&self.sandbox.state_dir().join("runtimes"));
        let sockets = files(&self.sandbox.file("run/subagent"));
        let warned = self.here(&["doctor"]);
        assert!(warned.document().to_string().contains("was copied from"), "{warned}");

        // Nothing runs here, so nothing is ended.
        let stopped = self.sandbox.command("subagentd").args(["stop", "--json"]).cwd(&self.copy).run();
        assert!(self.daemon.lives(), "{stopped}");

        let shown = self.here(&["worker", "show", &self.worker]).data_of("worker.shown");
        assert_eq!(shown["state"], "stopped", "{shown}");
        assert!(
            shown["lastError"].as_str().is_some_and(|error| error.starts_with("WORKER_COPIED")),
            "{shown}"
        );
        let sent = self.here(&["send", "--worker-id", &self.worker, "--text", "hello"]);
        let original = self.sandbox.state_dir().display().to_string();
        assert!(!sent.status.success(), "{sent}");
        let refused = sent.document()["error"].to_string();
        for part in ["WORKER_COPIED", "is a copy", "in the original workspace", &original, &self.worker] {
            assert!(refused.contains(part), "{part}: {refused}");
        }
        assert_eq!(self.identity()["copiedFrom"], json!(self.sandbox.state_dir()));
        let own = self.here(&["worker", "start", "--launcher", "demo"]).data();
        let own = own["workerId"].as_str().unwrap_or_else(|| panic!("{own}")).to_owned();
        let removed = self.here(&["worker", "rm", "--force", &self.worker]);
        assert!(removed.status.success(), "{removed}");
        let said = self.here(&["doctor"]);
        assert!(said.document().to_string().contains("is a copy of"), "{said}");

        // The original does not know the copy's worker, and keeps its own with
        // every process and file.
        let listed = self.sandbox.run(&["worker", "list"]).data_of("worker.listed").to_string();
        assert!(listed.contains(&self.worker) && !listed.contains(&own), "{listed}");
        for process in [&self.daemon, &self.runtime, &self.agent] {
            assert!(process.lives(), "{process:?}");
        }
        assert_eq!(files(&self.sandbox.state_dir().join("runtimes")), runtimes);
        let now = files(&self.sandbox.file("run/subagent"));
        assert!(sockets.iter().all(|file| now.contains(file)), "{sockets:?} {now:?}");

        let ended =
            self.sandbox.command("subagentd").args(["stop", "--workers", "--json"]).cwd(&self.copy).run();
        assert!(ended.status.success(), "{ended}");
        assert!(self.daemon.lives() && self.runtime.lives());
        self.check_copy();
        self.sandbox.gate("go").open();
        assert_eq!(self.sandbox.turn_end(&self.accepted)["type"], "turn.completed");
        self.sandbox.finish();
    }
}

/// Returns each route of the API as `METHOD PATH`.
fn routes() -> Vec<String> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/openapi.json");
    let api: Value = serde_json::from_slice(&fs::read(file).unwrap()).unwrap();
    let paths = api["paths"].as_object().unwrap().iter();
    let methods = paths.flat_map(|(path, item)| {
        item.as_object().unwrap().keys().map(move |method| format!("{} {path}", method.to_uppercase()))
    });
    methods.collect()
}

/// Returns the files below a folder, each with its inode.
fn files(folder: &Path) -> Vec<(PathBuf, u64)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap().flatten() {
        let meta = entry.metadata().unwrap();
        if meta.is_dir() {
            found.extend(files(&entry.path()));
        } else {
            found.push((entry.path(), meta.ino()));
        }
    }
    found.sort();
    found
}

fn run(program: &str, args: &[&str], paths: [&Path; 2]) {
    assert!(Command::new(program).args(args).args(paths).status().unwrap().success());
}

#[test]
fn a_copied_workspace_has_a_daemon_of_its_own() {
    CopiedWorkspace::by(|original, copy| run("cp", &["-a"], [original, copy])).check();
}

#[test]
fn a_hard_linked_workspace_is_separated_from_its_original() {
    let copied = CopiedWorkspace::by(|original, copy| run("cp", &["-al"], [original, copy]));
    let state = copied.copy.join(".subagent/state");
    let _ = copied.here(&["worker", "list"]).data_of("worker.listed");
    assert!(files(&state).iter().all(|(path, _)| path.metadata().unwrap().nlink() == 1));
    // From here on it is an ordinary copy.
    fs::copy(copied.sandbox.state_dir().join("daemon.json"), copied.sandbox.file("kept")).unwrap();
    let stopped = copied.sandbox.command("subagentd").args(["stop", "--json"]).cwd(&copied.copy).run();
    assert!(stopped.status.success() && copied.daemon.lives(), "{stopped}");
    fs::copy(copied.sandbox.file("kept"), state.join("daemon.json")).unwrap();
    copied.check();
}

#[test]
fn a_workspace_from_an_archive_is_a_copy() {
    CopiedWorkspace::by(|original, copy| {
        let archive = original.with_extension("tar");
        let name = archive.to_str().unwrap();
        run("tar", &["-cf", name, "-C"], [original, Path::new(".")]);
        fs::create_dir(copy).unwrap();
        run("tar", &["-xf", name], [Path::new("-C"), copy]);
    })
    .check();
}

#[test]
fn a_request_from_a_copy_is_refused_before_anything_is_done() {
    let copied = CopiedWorkspace::by(|original, copy| run("cp", &["-a"], [original, copy]));
    let meta = copied.copy.join(".subagent/state").metadata().unwrap();
    let id = copied.identity()["id"].as_str().unwrap().to_owned();
    let meant = format!("subagent-state-dir: {}:{}:{id}", meta.dev(), meta.ino());
    let socket = copied.sandbox.daemon_info().unwrap().socket;
    let state = copied.sandbox.state_dir();
    let (stored, events) = (files(state), copied.sandbox.events(&copied.worker).len());
    let routes = routes();
    assert!(routes.contains(&"POST /v1/daemon/stop".to_owned()) && routes.len() > 60, "{routes:?}");
    for route in routes {
        let (method, path) = route.split_once(' ').unwrap();
        let path = path.replace("{worker}", &copied.worker).replace(['{', '}'], "");
        let head = [format!("{method} {path} HTTP/1.1"), meant.clone()];
        let refused = request(&socket, &head.each_ref().map(String::as_str), "{}").json();
        assert_eq!(refused["error"]["code"], "STATE_DIR_MISMATCH", "{route}: {refused}");
    }
    assert!(copied.daemon.lives() && copied.runtime.lives() && copied.agent.lives());
    assert_eq!((files(state), copied.sandbox.events(&copied.worker).len()), (stored, events));
    copied.sandbox.gate("go").open();
    copied.sandbox.finish();
}

#[test]
fn one_folder_behind_two_paths_is_one_state_dir() {
    let (sandbox, worker) = TestSandbox::with_worker();
    let (daemon, link) = (sandbox.daemon(), sandbox.file("link"));
    symlink(sandbox.workspace(), &link).unwrap();
    let shown = sandbox.subagent(&["worker", "show", &worker]).cwd(&link).run().data_of("worker.shown");
    assert_eq!(shown["state"], "idle");
    assert_eq!(sandbox.daemon().pid, daemon.pid);
    sandbox.finish();
}

#[test]
fn a_bind_mount_leads_to_the_same_daemon() {
    let (sandbox, worker) = TestSandbox::with_worker();
    let (daemon, other) = (sandbox.daemon(), sandbox.file("other"));
    fs::create_dir(&other).unwrap();
    let (workspace, place) = (sandbox.workspace(), &sandbox);
    let seen = std::thread::scope(|scope| {
        let looking = scope.spawn(|| {
            // Visible only to this thread and its child processes.
            unshare(CloneFlags::CLONE_NEWNS).ok()?;
            let none = None::<&str>;
            mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_PRIVATE, none).ok()?;
            mount(Some(&workspace), &other, none, MsFlags::MS_BIND, none).ok()?;
            let shown = place.subagent(&["worker", "show", &worker]).cwd(&other).run();
            let sent = place.subagent(&["send", "--worker-id", &worker, "--text", "hello"]).cwd(&other).run();
            umount2(&other, MntFlags::MNT_DETACH).unwrap();
            Some((shown.data_of("worker.shown"), sent.data()))
        });
        looking.join().unwrap()
    });
    match seen {
        Some((shown, sent)) => {
            assert_eq!((&shown["state"], &sent["assistantText"]), (&json!("idle"), &json!("hello")));
            assert_eq!(sandbox.daemon().pid, daemon.pid);
        }
        None => eprintln!("skipped: this user may not mount"),
    }
    sandbox.finish();
}
