//! A daemon was started again and dials all places, at the pace of `adoption` and with the turns of
//! each host. All dials share its machine. One without an answer is given up, as a silent stream.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashSet, VecDeque};
use std::time::Duration;

use super::agenda::Agenda;
use super::{keepalive, micros};
use crate::supervisor::runtimes::adoption::{AT_ONCE, PATIENCE};
use crate::supervisor::runtimes::place::RuntimePlace;
use crate::supervisor::runtimes::stream::PONG_TIMEOUT;
use crate::supervisor::runtimes::stream::turns::{DIALS_AT_ONCE, LONGEST_TURN};
use crate::supervisor::{REPORT_AFTER, REPORT_WAITING_AFTER};

/// Parts of a microsecond in which the machine's work is counted.
const PARTS: u64 = 1_000_000;
/// When a simulation ends at the latest: on a machine that is too slow, each dial is given up.
const LIMIT: Duration = Duration::from_secs(3600);
/// For how long a lost host is dialed.
const LOST: Duration = Duration::from_secs(600);
const MINUTE: Duration = Duration::from_secs(60);

/// How a fleet was reached again.
#[derive(Debug)]
pub(super) struct RecoveryOutcome {
    /// When each host had answered for one worker, in seconds.
    pub(super) hosts_after: f64,
    /// When all workers were reached, in seconds, or [`LIMIT`].
    pub(super) workers_after: f64,
    pub(super) dials: u64,
    /// Dials without an answer in time.
    pub(super) given_up: u64,
    /// Workers that were reported as unreachable meanwhile.
    pub(super) reported: u64,
}

/// Something that happens to the worker with this number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum DialEvent {
    /// The next worker need not wait for this one.
    Overtaken(usize),
    /// The silence of its place is reported.
    Reported(usize),
    /// This dial of it had no answer in time.
    GivenUp(usize, u64),
    /// This dial of it has had its turn for long, and lets the next one begin.
    TurnOver(usize, u64),
    /// Its pause is over, so it is dialed.
    Due(usize),
}

struct DialedWorker {
    place: RuntimePlace,
    /// When its connection was first wanted.
    since: u64,
    /// The present dial, until it is answered or given up.
    dial: Option<u64>,
    /// Whether that has a turn of its host.
    has_turn: bool,
    /// Whether a dial was given up.
    is_refused: bool,
    /// Whether the adoption of the next one waits for it.
    is_awaited: bool,
    is_reached: bool,
}

#[derive(Default)]
struct RedialedHost {
    /// Number of dials that have a turn.
    open: usize,
    /// Workers that wait for their turn.
    waiting: VecDeque<usize>,
    is_reached: bool,
}

/// A machine that works on all open dials at once, each with the same share.
#[derive(Default)]
struct SharedMachine {
    /// Work that each dial would have got that was open since the begin.
    served: u64,
    open: HashSet<u64>,
    /// The value of `served` at which a dial is done, the dial, and its worker.
    ends: BinaryHeap<Reverse<(u64, u64, usize)>>,
}

impl SharedMachine {
    fn begin(&mut self, dial: u64, worker: usize, cost: u64) {
        self.open.insert(dial);
        self.ends.push(Reverse((self.served + cost, dial, worker)));
    }

    /// Works for this time.
    fn serve(&mut self, time: u64) {
        if !self.open.is_empty() {
            self.served += time * PARTS / self.open.len() as u64;
        }
    }

    /// Returns the dial that is done first, if none begins or ends before.
    fn first(&mut self) -> Option<(u64, u64, usize)> {
        while let Some(Reverse(first)) = self.ends.peek().copied() {
            if self.open.contains(&first.1) {
                return Some(first);
            }
            self.ends.pop();
        }
        None
    }

    /// Returns the time until a dial is done.
    fn time_to_end(&mut self) -> Option<u64> {
        let (end, ..) = self.first()?;
        Some((end.saturating_sub(self.served) * self.open.len() as u64).div_ceil(PARTS))
    }

    /// Ends a dial that is done. Returns its worker.
    fn take_done(&mut self) -> Option<usize> {
        let (end, dial, worker) = self.first()?;
        (end <= self.served).then(|| {
            self.open.remove(&dial);
            worker
        })
    }
}

struct DialingFleet {
    now: u64,
    /// Work of the whole machine for one dial.
    cost: u64,
    agenda: Agenda<DialEvent>,
    machine: SharedMachine,
    hosts: Vec<RedialedHost>,
    workers: Vec<DialedWorker>,
    /// Number of workers whose adoption has begun.
    adopted: usize,
    /// Number of those that the next one waits for.
    awaited: usize,
    reached: usize,
    hosts_after: u64,
    dials: u64,
    given_up: u64,
    reported: u64,
}

/// Dials all workers of a daemon that was started again. `cost` is the time that one dial takes if
/// the machine does nothing else. The workers are on the hosts in turns.
pub(super) fn simulate(places: Vec<RuntimePlace>, hosts: usize, cost: Duration) -> RecoveryOutcome {
    let worker = |place| DialedWorker {
        place,
        since: 0,
        dial: None,
        has_turn: false,
        is_refused: false,
        is_awaited: false,
        is_reached: false,
    };
    let mut fleet = DialingFleet {
        now: 0,
        cost: micros(cost) * PARTS,
        agenda: Agenda::default(),
        machine: SharedMachine::default(),
        hosts: (0..hosts).map(|_| RedialedHost::default()).collect(),
        workers: places.into_iter().map(worker).collect(),
        adopted: 0,
        awaited: 0,
        reached: 0,
        hosts_after: 0,
        dials: 0,
        given_up: 0,
        reported: 0,
    };
    fleet.adopt();
    while fleet.reached < fleet.workers.len() && fleet.now < micros(LIMIT) {
        fleet.go_on();
    }
    let seconds = |time: u64| Duration::from_micros(time).as_secs_f64();
    RecoveryOutcome {
        hosts_after: seconds(fleet.hosts_after),
        workers_after: seconds(fleet.now),
        dials: fleet.dials,
        given_up: fleet.given_up,
        reported: fleet.reported,
    }
}

impl DialingFleet {
    /// Goes to the next moment at which something happens.
    fn go_on(&mut self) {
        let done = self.machine.time_to_end().map(|time| self.now + time);
        let next = [done, self.agenda.next_time()].into_iter().flatten().min();
        let next = next.expect("a worker that is not reached is dialed again");
        self.machine.serve(next - self.now);
        self.now = next;
        while let Some(worker) = self.machine.take_done() {
            self.reach(worker);
        }
        while self.agenda.next_time() == Some(self.now)
            && let Some(event) = self.agenda.take()
        {
            self.happen(event);
        }
    }

    /// Begins the next workers, as `adoption::run` does.
    fn adopt(&mut self) {
        while self.awaited < AT_ONCE && self.adopted < self.workers.len() {
            let worker = self.adopted;
            self.adopted += 1;
            self.awaited += 1;
            self.workers[worker].is_awaited = true;
            self.workers[worker].since = self.now;
            self.agenda.plan(self.now + micros(PATIENCE), DialEvent::Overtaken(worker));
            self.agenda.plan(self.now + micros(REPORT_AFTER), DialEvent::Reported(worker));
            self.dial(worker);
        }
    }

    fn host(&mut self, worker: usize) -> &mut RedialedHost {
        let host = worker % self.hosts.len();
        &mut self.hosts[host]
    }

    /// Dials, or waits for the turn.
    fn dial(&mut self, worker: usize) {
        let host = self.host(worker);
        if host.open >= DIALS_AT_ONCE {
            return host.waiting.push_back(worker);
        }
        host.open += 1;
        self.dials += 1;
        let limit = micros(keepalive(self.dials) + PONG_TIMEOUT);
        self.workers[worker].dial = Some(self.dials);
        self.workers[worker].has_turn = true;
        self.machine.begin(self.dials, worker, self.cost);
        self.agenda.plan(self.now + limit, DialEvent::GivenUp(worker, self.dials));
        self.agenda.plan(self.now + micros(LONGEST_TURN), DialEvent::TurnOver(worker, self.dials));
    }

    /// A dial has ended. Its turn is that of the next worker of the host.
    fn end_dial(&mut self, worker: usize) {
        self.workers[worker].dial = None;
        self.end_turn(worker);
    }

    fn end_turn(&mut self, worker: usize) {
        if !std::mem::take(&mut self.workers[worker].has_turn) {
            return;
        }
        let host = self.host(worker);
        host.open -= 1;
        if let Some(next) = host.waiting.pop_front() {
            self.dial(next);
        }
    }

    fn reach(&mut self, worker: usize) {
        self.workers[worker].is_reached = true;
        self.reached += 1;
        let now = self.now;
        let host = self.host(worker);
        if !std::mem::replace(&mut host.is_reached, true) {
            self.hosts_after = now;
        }
        self.end_dial(worker);
        self.overtake(worker);
    }

    fn overtake(&mut self, worker: usize) {
        if std::mem::take(&mut self.workers[worker].is_awaited) {
            self.awaited -= 1;
            self.adopt();
        }
    }

    /// Reports a worker that is not reached. One that waits for its first turn is reported later.
    fn report(&mut self, worker: usize) {
        let DialedWorker { since, dial, is_refused, is_reached, .. } = self.workers[worker];
        let waits = dial.is_none() && !is_refused && !is_reached;
        if waits && self.now - since < micros(REPORT_WAITING_AFTER) {
            self.agenda.plan(self.now + micros(REPORT_AFTER), DialEvent::Reported(worker));
        } else {
            self.reported += u64::from(!is_reached);
        }
    }

    fn happen(&mut self, event: DialEvent) {
        match event {
            DialEvent::Overtaken(worker) => self.overtake(worker),
            DialEvent::Reported(worker) => self.report(worker),
            DialEvent::TurnOver(worker, dial) => {
                if self.workers[worker].dial == Some(dial) {
                    self.end_turn(worker);
                }
            }
            DialEvent::GivenUp(worker, dial) => {
                if self.workers[worker].dial == Some(dial) {
                    self.given_up += 1;
                    self.workers[worker].is_refused = true;
                    self.machine.open.remove(&dial);
                    self.end_dial(worker);
                    let pause = micros(self.workers[worker].place.next_pause());
                    self.agenda.plan(self.now + pause, DialEvent::Due(worker));
                }
            }
            DialEvent::Due(worker) => self.dial(worker),
        }
    }
}

/// Dials a host that refuses at once. Returns how often in the first minute, and in the last one.
pub(super) fn dial_lost(places: Vec<RuntimePlace>) -> (u64, u64) {
    let (mut first, mut last) = (0, 0);
    for mut place in places {
        let mut at = Duration::ZERO;
        while at < LOST {
            first += u64::from(at < MINUTE);
            last += u64::from(at >= LOST - MINUTE);
            at += place.next_pause();
        }
    }
    (first, last)
}
