//! Everything that an agent has started, in any shape, is gone five seconds after its end was
//! reported. This holds for an ordinary stop, and if the runtime, the guard, the agent, or daemon
//! and runtime together were killed.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;
use std::{fs, thread};

use nix::sys::signal::Signal;
use subagent_tests::harness::process::Process;
use subagent_tests::harness::{
    Random, TestLauncher, TestSandbox, executables, say, times, wait_until, wait_while,
};
use subagent_tests::trees::{ProcessShape, Registry};

/// Number of shapes in an ordinary run.
const SHAPES: usize = 60;
/// Minimum number of processes of a tree.
const TREE: usize = 3;
/// Time limit after the reported end.
const GONE: Duration = Duration::from_secs(5);
/// Time in which a chain of forks has certainly continued.
const CHAIN: Duration = Duration::from_millis(200);
/// Time limit for a tree to grow.
const GROWN: Duration = Duration::from_secs(20);

#[derive(Debug, Clone, Copy)]
enum TeardownCause {
    Stop,
    Runtime,
    Guard,
    Agent,
    DaemonAndRuntime,
}

const DEATHS: [TeardownCause; 5] = [
    TeardownCause::Stop,
    TeardownCause::Runtime,
    TeardownCause::Guard,
    TeardownCause::Agent,
    TeardownCause::DaemonAndRuntime,
];

/// Returns an agent program that no other process runs, so that it identifies the whole tree.
fn own_program(folder: &Path, name: &str) -> PathBuf {
    let (original, own) = (folder.join("hostile"), folder.join(name));
    if !original.exists() {
        fs::copy(executables().path("hostile-agent"), &original).unwrap();
    }
    fs::hard_link(&original, &own).unwrap();
    own
}

fn die(death: TeardownCause, sandbox: &TestSandbox, worker: &str, registry: &Registry) {
    let runtime = sandbox.runtime(worker);
    let guard = sandbox.guard(&runtime);
    match death {
        TeardownCause::Stop => {
            sandbox.run(&["worker", "stop", worker]).data_of("worker.stopped");
        }
        TeardownCause::Runtime => runtime.signal(Signal::SIGKILL),
        TeardownCause::Guard => guard.signal(Signal::SIGKILL),
        TeardownCause::Agent => {
            let below = |process: &Process| !registry.knows(process) && process.parent == guard.pid;
            let agent = wait_until("the agent itself", GROWN, || registry.left().into_iter().find(below));
            agent.signal(Signal::SIGKILL);
        }
        TeardownCause::DaemonAndRuntime => {
            let daemon = sandbox.daemon();
            daemon.signal(Signal::SIGKILL);
            runtime.signal(Signal::SIGKILL);
            wait_until("the daemon to be gone", GROWN, || (!daemon.lives()).then_some(()));
        }
    }
}

/// A tree of this test. None survives a failed test: the sandbox cannot find processes
/// that have hidden themselves.
struct PlantedTree(Registry);

impl Drop for PlantedTree {
    fn drop(&mut self) {
        let gone = || {
            let left = self.0.left();
            left.iter().for_each(|process| process.signal(Signal::SIGKILL));
            left.is_empty().then_some(())
        };
        if thread::panicking() && wait_while(GROWN, || gone().is_none().then_some(())).is_some() {
            say(&format!("could not be killed: {:?}", self.0.left()));
        }
    }
}

/// Makes all of these shapes die in this way, one after the other, in their own world.
fn all_die(death: TeardownCause, shapes: &[ProcessShape]) {
    let mut sandbox = TestSandbox::new();
    let programs: Vec<PathBuf> =
        (0..shapes.len()).map(|index| own_program(sandbox.path(), &format!("agent-{index}"))).collect();
    for (index, program) in programs.iter().enumerate() {
        sandbox.launcher(&format!("tree-{index}"), TestLauncher::new(program.to_str().unwrap(), [""; 0]));
    }
    sandbox.init();
    let mut ends = Vec::new();
    for (index, shape) in shapes.iter().enumerate() {
        let file = sandbox.file(&format!("registry-{index}"));
        let planted = PlantedTree(Registry::new(&file, &programs[index]));
        let registry = &planted.0;
        let worker = sandbox.start(&format!("tree-{index}"));
        let accepted =
            sandbox.send_no_wait(&worker, &format!("hostile: tree {} {shape}", file.to_str().unwrap()));
        let grown = || (registry.joined() >= shape.processes()).then_some(());
        wait_until(&format!("the tree `{shape}`"), GROWN, grown);
        die(death, &sandbox, &worker, registry);
        let end = sandbox.turn_end(&accepted);
        let left = wait_while(GONE, || Some(registry.left()).filter(|left| !left.is_empty()));
        assert!(left.is_none(), "{death:?}, {end}: of `{shape}` there is left: {left:?}\n{}", sandbox.logs());
        ends.push((planted, shape));
    }
    // A single check can miss a process that keeps forking, but live processes join repeatedly.
    let joined: Vec<usize> = ends.iter().map(|(planted, _)| planted.0.joined()).collect();
    let _ = wait_while(CHAIN, || Some(()));
    for ((PlantedTree(registry), shape), joined) in ends.iter().zip(joined) {
        assert_eq!((registry.joined(), registry.left()), (joined, vec![]), "{death:?}: `{shape}` lives on");
    }
    sandbox.finish();
}

#[test]
fn nothing_is_left_of_any_tree() {
    let mut random = Random::announced();
    let shapes = shapes(&mut random);
    thread::scope(|scope| {
        for death in DEATHS {
            let shapes = &shapes;
            scope.spawn(move || all_die(death, shapes));
        }
    });
    let processes: usize = shapes.iter().map(ProcessShape::processes).sum();
    let (shapes, deaths) = (shapes.len(), DEATHS.len());
    say(&format!("faults: {shapes} trees of {processes} processes or more, each ended in {deaths} ways"));
}

/// Returns shapes that contain every word of the grammar; at least half of them are trees.
fn shapes(random: &mut Random) -> Vec<ProcessShape> {
    let words = |shapes: &BTreeSet<ProcessShape>| -> BTreeSet<String> {
        let texts = shapes.iter().map(ProcessShape::to_string);
        texts.flat_map(|text| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>()).collect()
    };
    let (mut shapes, mut small) = (BTreeSet::new(), 0);
    while shapes.len() < times(SHAPES) || ProcessShape::words().any(|word| !words(&shapes).contains(word)) {
        let shape = ProcessShape::random(random);
        let is_small = shape.processes() < TREE;
        if is_small && small >= times(SHAPES) / 2 {
            continue;
        }
        small += usize::from(shapes.insert(shape) && is_small);
    }
    assert!(shapes.iter().filter(|shape| shape.processes() >= TREE).count() * 2 >= shapes.len());
    let mut shapes: Vec<ProcessShape> = shapes.into_iter().collect();
    random.shuffle(&mut shapes);
    shapes
}

/// Tests the check itself: it finds remaining processes in spite of their changes to themselves.
#[test]
fn a_tree_that_does_not_end_is_found() {
    let folder = tempfile::tempdir().unwrap();
    let program = own_program(folder.path(), "unmanaged");
    let texts = [
        "daemonise wipe name close chain",
        "orphan( setsid undumpable block stay ) stop",
        "fork( exec ignore respawn ) stay",
    ];
    for (index, text) in texts.iter().enumerate() {
        let file = folder.path().join(format!("registry-{index}"));
        let planted = PlantedTree(Registry::new(&file, &program));
        let registry = &planted.0;
        let mut command = Command::new(&program);
        command.args(["--tree", file.to_str().unwrap(), text]);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        // It was copied just now: a forked process of another test may hold it open
        // until its own `exec`.
        let mut child = wait_until("the executable to be closed", GROWN, || match command.spawn() {
            Err(error) if error.kind() == std::io::ErrorKind::ExecutableFileBusy => None,
            started => Some(started.unwrap()),
        });
        let shape = ProcessShape::parse(text).unwrap();
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
