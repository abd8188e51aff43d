//! Whatever an agent has started, in whatever shape, is gone five seconds after its end was reported: with an ordinary
//! stop, and when the runtime, the guard, the agent, or the daemon and the runtime together were killed.

#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stderr, reason = "all of this file is a test")]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;
use std::{fs, thread};

use nix::sys::signal::Signal;
use subagent_tests::harness::process::Process;
use subagent_tests::harness::{Launcher, Random, Sandbox, executables, times, wait_until, wait_while};
use subagent_tests::trees::{Registry, Shape};

/// Shapes of an ordinary run.
const SHAPES: usize = 60;
/// After the reported end.
const GONE: Duration = Duration::from_secs(5);
/// A chain of forks has gone on in this time.
const CHAIN: Duration = Duration::from_millis(200);
/// For a tree to have grown.
const GROWN: Duration = Duration::from_secs(20);

#[derive(Debug, Clone, Copy)]
enum Death {
    Stop,
    Runtime,
    Guard,
    Agent,
    DaemonAndRuntime,
}

const DEATHS: [Death; 5] = [Death::Stop, Death::Runtime, Death::Guard, Death::Agent, Death::DaemonAndRuntime];

/// An agent that no other process of the machine runs, so that its whole tree is known by its program.
fn own_program(folder: &Path, name: &str) -> PathBuf {
    let (original, own) = (folder.join("hostile"), folder.join(name));
    if !original.exists() {
        fs::copy(executables().path("hostile-agent"), &original).unwrap();
    }
    fs::hard_link(&original, &own).unwrap();
    own
}

fn die(death: Death, sandbox: &Sandbox, worker: &str, registry: &Registry) {
    let runtime = sandbox.runtime(worker);
    let guard = sandbox.guard(&runtime);
    match death {
        Death::Stop => {
            sandbox.run(&["worker", "stop", worker]).data_of("worker.stopped");
        }
        Death::Runtime => runtime.signal(Signal::SIGKILL),
        Death::Guard => guard.signal(Signal::SIGKILL),
        Death::Agent => {
            let below = |process: &Process| !registry.knows(process) && process.parent == guard.pid;
            let agent = wait_until("the agent itself", GROWN, || registry.left().into_iter().find(below));
            agent.signal(Signal::SIGKILL);
        }
        Death::DaemonAndRuntime => {
            let daemon = sandbox.daemon();
            daemon.signal(Signal::SIGKILL);
            runtime.signal(Signal::SIGKILL);
            wait_until("the daemon to be gone", GROWN, || (!daemon.lives()).then_some(()));
        }
    }
}

/// All of these shapes die in this way, one after the other, in a world of their own.
fn all_die(death: Death, shapes: &[Shape]) {
    let mut sandbox = Sandbox::new();
    let programs: Vec<PathBuf> =
        (0..shapes.len()).map(|index| own_program(sandbox.path(), &format!("agent-{index}"))).collect();
    for (index, program) in programs.iter().enumerate() {
        sandbox.launcher(&format!("tree-{index}"), Launcher::new(program.to_str().unwrap(), [""; 0]));
    }
    sandbox.init();
    let mut ends = Vec::new();
    for (index, shape) in shapes.iter().enumerate() {
        let file = sandbox.file(&format!("registry-{index}"));
        let registry = Registry::new(&file, &programs[index]);
        let worker = sandbox.start(&format!("tree-{index}"));
        let accepted =
            sandbox.send_no_wait(&worker, &format!("hostile: tree {} {shape}", file.to_str().unwrap()));
        let grown = || (registry.joined() >= shape.processes()).then_some(());
        wait_until(&format!("the tree `{shape}`"), GROWN, grown);
        die(death, &sandbox, &worker, &registry);
        let end = sandbox.turn_end(&accepted);
        let left = wait_while(GONE, || Some(registry.left()).filter(|left| !left.is_empty()));
        assert!(left.is_none(), "{death:?}, {end}: of `{shape}` there is left: {left:?}\n{}", sandbox.logs());
        ends.push((registry, shape));
    }
    // One look may miss what forks all the time; but whoever lives joins again and again.
    let joined: Vec<usize> = ends.iter().map(|(registry, _)| registry.joined()).collect();
    let _ = wait_while(CHAIN, || Some(()));
    for ((registry, shape), joined) in ends.iter().zip(joined) {
        assert_eq!((registry.joined(), registry.left()), (joined, vec![]), "{death:?}: `{shape}` lives on");
    }
    sandbox.finish();
}

#[test]
fn nothing_is_left_of_any_tree() {
    let mut random = Random::announced();
    let mut shapes = BTreeSet::new();
    while shapes.len() < times(SHAPES) {
        shapes.insert(Shape::random(&mut random));
    }
    let mut shapes: Vec<Shape> = shapes.into_iter().collect();
    random.shuffle(&mut shapes);
    thread::scope(|scope| {
        let parts = shapes.chunks(shapes.len().div_ceil(DEATHS.len()));
        for (death, part) in DEATHS.into_iter().zip(parts) {
            scope.spawn(move || all_die(death, part));
        }
    });
}

/// The check itself: what nobody ends is found, whatever it has done to itself.
#[test]
fn a_tree_that_nobody_ends_is_found() {
    let folder = tempfile::tempdir().unwrap();
    let program = own_program(folder.path(), "nobody");
    let texts = [
        "daemonise wipe name close chain",
        "orphan( setsid undumpable block stay ) stop",
        "fork( exec ignore respawn ) stay",
    ];
    for (index, text) in texts.iter().enumerate() {
        let file = folder.path().join(format!("registry-{index}"));
        let registry = Registry::new(&file, &program);
        let mut child = Command::new(&program)
            .args(["--tree", file.to_str().unwrap(), text])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let shape = Shape::parse(text).unwrap();
        wait_until("the tree", GROWN, || (registry.joined() >= shape.processes()).then_some(()));
        let joined = registry.joined();
        let seen = || (!registry.left().is_empty() || registry.joined() > joined).then_some(());
        wait_until("a process of the tree to be seen", GROWN, seen);
        let gone = || {
            let left = registry.left();
            left.iter().for_each(|process| process.signal(Signal::SIGKILL));
            let _ = child.try_wait();
            left.is_empty().then_some(())
        };
        wait_until("the test's own tree to be gone", GROWN, gone);
    }
}
