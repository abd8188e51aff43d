//! Workers at places of several kinds at once, while networks, engines, clients, daemons and agents
//! fail. Managers go on, nothing is lost, and no prompt is sent twice.

use std::collections::BTreeMap;
use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, ScopedJoinHandle};
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use serde_json::json;
use subagent_tests::harness::process::Process;
use subagent_tests::harness::{Random, SshHost, TestSandbox, say, times, wait_until, wait_while};

use super::kubernetes::cluster::Kubernetes;
use super::podman::engine::Podman;
use super::slurm::cluster::Slurm;

/// Time limit for a process or place to kill, and for its death. A daemon asks for a pod again only
/// 60 s after a request without an answer.
const DEADLINE: Duration = Duration::from_secs(120);
/// The time until a worker is reported as unreachable, twice as long as promised.
const REPORTED: Duration = Duration::from_secs(10);
/// The longest outage of a network, server or engine, in milliseconds.
const OUTAGE: u64 = 1500;
/// The time that a deleted pod has for its end, in seconds: none, or the default of Kubernetes.
const GRACE_SECONDS: [u64; 2] = [0, 30];
/// The rates of a slow network.
const RATES: [&str; 3] = ["2mbit", "20mbit", "200mbit"];
/// The part of the packets of a host that are always lost.
const PERCENTAGE_LOST: u32 = 5;
/// The placements, each with a worker that has a manager.
const PLACEMENTS: [&str; 5] = ["there-1", "there-2", "box", "cluster", "pods"];

/// What is made to fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum PlaceFault {
    /// The cable of a host is out for a moment.
    Cable,
    /// All packets to a host are lost for a moment, and no side is told.
    Packets,
    /// The network of a host gets another rate, and loses what is too much.
    Rate,
    /// All connections of a host end.
    Connections,
    /// The ssh server of a host is down for a moment.
    Server,
    /// The connections of a host end and its server is down, until a worker is reported as unreachable.
    Outage,
    /// The connections of a host stand still for a moment.
    Stall,
    /// The connection that all commands to a host share is killed.
    SharedConnection,
    /// A client here is killed: of ssh, podman, Slurm or Kubernetes.
    Client,
    /// The end of a stream there is killed.
    Stream,
    /// A runtime is killed.
    Runtime,
    /// An agent is killed.
    Agent,
    /// The daemon is killed.
    Daemon,
    /// A container is killed from outside.
    Container,
    /// The controller of the cluster ends, and starts again after a moment.
    Controller,
    /// The daemon of the node is killed, and starts again.
    Node,
    /// The node takes no job for a moment.
    Drain,
    /// A job is canceled from outside.
    Job,
    /// The API server of the pods is down for a moment, and its connections end.
    ApiServer,
    /// A pod is deleted from outside, with or without time for its end.
    Pod,
}

const FAULTS: [(PlaceFault, usize); 20] = [
    (PlaceFault::Cable, 18),
    (PlaceFault::Packets, 18),
    (PlaceFault::Rate, 6),
    (PlaceFault::Connections, 18),
    (PlaceFault::Server, 12),
    (PlaceFault::Outage, 4),
    (PlaceFault::Stall, 6),
    (PlaceFault::SharedConnection, 6),
    (PlaceFault::Client, 28),
    (PlaceFault::Stream, 24),
    (PlaceFault::Runtime, 12),
    (PlaceFault::Agent, 12),
    (PlaceFault::Daemon, 8),
    (PlaceFault::Container, 4),
    (PlaceFault::Controller, 4),
    (PlaceFault::Node, 4),
    (PlaceFault::Drain, 4),
    (PlaceFault::Job, 4),
    (PlaceFault::ApiServer, 4),
    (PlaceFault::Pod, 4),
];
/// Those that end a runtime or its agent, and so a turn.
const ENDS_OF_TURNS: [PlaceFault; 5] =
    [PlaceFault::Runtime, PlaceFault::Agent, PlaceFault::Container, PlaceFault::Job, PlaceFault::Pod];

/// The engines and the hosts of a test.
struct Fleet {
    hosts: Vec<SshHost>,
    podman: Podman,
    slurm: Slurm,
    pods: Kubernetes,
}

impl Fleet {
    fn start(sandbox: &mut TestSandbox) -> Option<Self> {
        let hosts = SshHost::start_several(sandbox, 2)?;
        hosts[0].lose_some_packets(PERCENTAGE_LOST);
        hosts[1].share_connections();
        let podman = Podman::prepare(sandbox)?;
        let slurm = Slurm::start(sandbox)?;
        let pods = Kubernetes::start(sandbox)?;
        Some(Self { hosts, podman, slurm, pods })
    }

    /// Lets this fail once.
    fn strike(
        &mut self,
        fault: PlaceFault,
        sandbox: &TestSandbox,
        random: &mut Random,
        broken: &dyn Fn() -> bool,
    ) {
        let host = usize::try_from(random.below(self.hosts.len() as u64)).unwrap();
        let host = &mut self.hosts[host];
        match fault {
            PlaceFault::Cable => {
                host.cut_network();
                a_moment(random, OUTAGE);
                host.restore_network();
            }
            PlaceFault::Packets => {
                host.lose_packets();
                a_moment(random, OUTAGE);
                host.find_packets();
            }
            PlaceFault::Rate => {
                let rate: &&str = random.pick(&RATES);
                host.slow_down_network(rate);
            }
            PlaceFault::Connections => host.cut(),
            PlaceFault::Server => {
                host.end_server();
                a_moment(random, OUTAGE);
                host.restart_server(sandbox);
            }
            PlaceFault::Outage => {
                let reported =
                    || sandbox.number("SELECT count(*) FROM events WHERE type = 'worker.unreachable'");
                let before = reported();
                host.end_server();
                // One without a runtime just now is not reported.
                let _ = wait_while(REPORTED, || (reported() == before && !broken()).then_some(()));
                host.restart_server(sandbox);
            }
            PlaceFault::Stall => {
                host.hang();
                a_moment(random, OUTAGE);
                host.go_on();
            }
            PlaceFault::SharedConnection => {
                let shared = &self.hosts[1];
                let found = awaited("a shared connection", broken, || shared.shared_connections().pop());
                if let Some(found) = found {
                    found.signal(Signal::SIGKILL);
                }
            }
            PlaceFault::Client => killed(sandbox, random, broken, |one, _| {
                // The name of `kubectl` may end with its version.
                ["ssh", "podman", "srun"].contains(&one.name.as_str()) || one.name.starts_with("kubectl")
            }),
            PlaceFault::Stream => killed(sandbox, random, broken, |one, _| one.name == "subagent-dial"),
            PlaceFault::Runtime => killed(sandbox, random, broken, |one, _| one.name == "subagent-runtim"),
            PlaceFault::Agent => killed(sandbox, random, broken, |one, all| {
                all.iter().any(|guard| guard.pid == one.parent && guard.name == "subagent-guard")
            }),
            PlaceFault::Daemon => killed(sandbox, random, broken, |one, _| one.name == "subagentd"),
            PlaceFault::Container => {
                let container = awaited("a container", broken, || self.podman.running());
                if let Some(name) = container {
                    self.podman.kill(&name);
                }
            }
            PlaceFault::Controller => {
                // One that is killed may have forgotten the end of a job, see `slurm/`.
                self.slurm.end_controller();
                a_moment(random, OUTAGE);
                self.slurm.start_controller();
            }
            PlaceFault::Node => self.slurm.restart_node(),
            PlaceFault::Drain => {
                self.slurm.update_node("drain");
                a_moment(random, OUTAGE);
                self.slurm.update_node("resume");
            }
            PlaceFault::Job => {
                let job = awaited("a job", broken, || self.slurm.jobs().into_iter().next());
                if let Some((name, _)) = job {
                    let _ = self.slurm.try_run(&["scancel", "--signal=KILL", "--full", "--name", &name]);
                }
            }
            PlaceFault::ApiServer => {
                self.pods.cut();
                a_moment(random, OUTAGE);
                self.pods.mend();
            }
            PlaceFault::Pod => {
                let grace_seconds = *random.pick(&GRACE_SECONDS);
                let pod = awaited("a pod", broken, || self.pods.running());
                if let Some(name) = pod {
                    self.pods.delete(&name, grace_seconds);
                }
            }
        }
    }
}

/// Waits for something to break; `None` if a manager has failed meanwhile.
fn awaited<T>(what: &str, broken: &dyn Fn() -> bool, look: impl Fn() -> Option<T>) -> Option<T> {
    wait_until(what, DEADLINE, || if broken() { Some(None) } else { look().map(Some) })
}

/// Kills a process of this kind and waits for its death.
fn killed(
    sandbox: &TestSandbox,
    random: &mut Random,
    broken: &dyn Fn() -> bool,
    is_one: impl Fn(&Process, &[Process]) -> bool,
) {
    let found = || {
        let all = sandbox.processes();
        all.iter().filter(|one| is_one(one, &all)).cloned().collect::<Vec<Process>>()
    };
    let found = awaited("a process to kill", broken, || Some(found()).filter(|found| !found.is_empty()));
    let Some(found) = found else { return };
    let one = random.pick(&found);
    one.signal(Signal::SIGKILL);
    wait_until("the death of a process", DEADLINE, || (!one.lives()).then_some(()));
}

fn a_moment(random: &mut Random, millis: u64) {
    let _ = wait_while(Duration::from_millis(random.below(millis)), || Some(()));
}

/// The turns of a manager: the file that each touches, and why it was not completed.
fn manage(sandbox: &TestSandbox, worker: &str, index: usize, over: &AtomicBool) -> Turns {
    let mut turns = BTreeMap::new();
    for number in 0.. {
        if over.load(Ordering::Relaxed) {
            break;
        }
        let (key, file) = (format!("manager-{index}-{number}"), format!("touched-{index}-{number}"));
        let touched = sandbox.file_name(&file);
        let ask = if number % 3 == 2 { "!ask execute it" } else { "" };
        let prompt = format!("!chunks 10 text\n!touch {touched}\n{ask}\n!sleep 20\n!stream 100\n!say done");
        let end = sandbox.manage(worker, &key, &prompt);
        let code = end["data"]["error"]["code"].as_str().unwrap_or_default();
        let failure = (end["type"] != "turn.completed").then(|| code.to_owned());
        if let Some(code) = &failure {
            assert!(LOST.contains(&code.as_str()) || code == NOT_STARTED, "{end}");
        }
        turns.insert(file, failure);
    }
    turns
}

/// The file of each turn, and why it was not completed.
type Turns = BTreeMap<String, Option<String>>;

/// Codes of turns that ended with their runtime or agent.
const LOST: [&str; 3] = ["RUNTIME_LOST", "BACKEND_UNAVAILABLE", "BACKEND_RUNTIME_ERROR"];
/// The code of turns whose runtime was not started again, because the place did not answer.
const NOT_STARTED: &str = "PLACEMENT_UNREACHABLE";

/// Ends the managers, also if a fault could not be brought about.
struct EndOfFaults<'a>(&'a AtomicBool);

impl Drop for EndOfFaults<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn nothing_is_lost_or_done_twice_when_places_of_all_kinds_fail() {
    let mut sandbox = TestSandbox::new();
    let Some(mut fleet) = Fleet::start(&mut sandbox) else { return };
    let mut random = Random::announced();
    sandbox.recorder().knows_all_decisions();
    sandbox.init();
    let workers = PLACEMENTS.map(|placement| sandbox.start_on(placement));
    let mut faults: Vec<PlaceFault> =
        FAULTS.iter().flat_map(|(fault, count)| std::iter::repeat_n(*fault, times(*count))).collect();
    random.shuffle(&mut faults);
    let (over, begun) = (AtomicBool::new(false), Instant::now());
    let mut struck = 0;
    let mut turns = BTreeMap::new();
    thread::scope(|scope| {
        let (sandbox, over) = (&sandbox, &over);
        let faults_are_over = EndOfFaults(over);
        let managers: Vec<_> = workers
            .iter()
            .enumerate()
            .map(|(index, worker)| scope.spawn(move || manage(sandbox, worker, index, over)))
            .collect();
        let broken = || managers.iter().any(ScopedJoinHandle::is_finished);
        for fault in &faults {
            // A manager that has panicked prints the reason.
            if broken() {
                break;
            }
            fleet.strike(*fault, sandbox, &mut random, &broken);
            struck += 1;
            a_moment(&mut random, 100);
        }
        drop(faults_are_over);
        for manager in managers {
            turns.extend(manager.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        }
    });
    let took = begun.elapsed();
    assert_eq!(struck, faults.len());
    for (file, failure) in &turns {
        let done = fs::read_to_string(sandbox.file(file)).unwrap_or_default().lines().count();
        assert!(if failure.is_none() { done == 1 } else { done <= 1 }, "{file}: {done} times, {failure:?}");
    }
    let reported = sandbox.number("SELECT count(*) FROM events WHERE type = 'worker.unreachable'");
    assert!(reported > 0, "no worker was reported as unreachable");
    let lost = turns.values().flatten().filter(|code| *code != NOT_STARTED).count();
    let ends = faults.iter().filter(|fault| ENDS_OF_TURNS.contains(fault)).count();
    assert!(lost <= ends, "{lost} turns were lost, and {ends} faults can do that: {turns:?}");
    for (worker, placement) in workers.iter().zip(PLACEMENTS) {
        assert_eq!(sandbox.send(worker, "at last")["assistantText"], "at last", "{placement}");
    }
    sandbox.check();
    for worker in &workers {
        let _ = sandbox.run(&["worker", "stop", worker]).data_of("worker.stopped");
    }
    // Also one that podman made for a daemon that was killed meanwhile.
    fleet.podman.ends_with_its_workers();
    fleet.podman.end_monitors();
    fleet.hosts.iter().for_each(SshHost::cut);
    sandbox.finish();
    let completed = turns.values().filter(|failure| failure.is_none()).count();
    for (index, placement) in PLACEMENTS.iter().enumerate() {
        let begin = format!("touched-{index}-");
        let is_done =
            |(file, failure): (&String, &Option<String>)| failure.is_none() && file.starts_with(&begin);
        assert!(turns.iter().any(is_done), "no turn was completed: {placement}");
    }
    say(&format!(
        "faults at places: {struck}, each kind at least {}; {} turns, {completed} completed, {lost} lost, {reported} times \
         unreachable; {took:?}",
        times(4),
        turns.len()
    ));
}

#[test]
fn without_a_daemon_a_lease_ends_a_container_and_a_job() {
    let mut sandbox = TestSandbox::new();
    let Some(slurm) = Slurm::start(&mut sandbox) else { return };
    let lease = json!({"lease": "10s"});
    slurm.place(&sandbox, lease.clone());
    let Some(podman) = Podman::prepare(&mut sandbox) else { return };
    podman.place(&sandbox, lease);
    sandbox.init();
    let workers = ["box", "cluster"].map(|placement| sandbox.start_on(placement));
    let turns = workers.each_ref().map(|worker| sandbox.send_no_wait(worker, "!say begun\n!sleep 600000"));
    sandbox.wait_for_prompt(2);
    sandbox.kill_daemon();
    wait_until("the end of container and job", DEADLINE, || {
        (podman.running().is_none() && slurm.jobs().is_empty()).then_some(())
    });
    for (worker, turn) in workers.iter().zip(&turns) {
        assert_eq!(sandbox.turn_end(turn)["type"], "turn.canceled");
        let said = json!(sandbox.events(worker)).to_string();
        assert!(said.contains("no daemon for 10 s, the lease of its placement"), "{said}");
        let _ = sandbox.run(&["worker", "stop", worker]).data_of("worker.stopped");
    }
    sandbox.finish();
}
