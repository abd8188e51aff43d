//! The simulated world: clock, network, daemon, and the choice of the next event.

use std::collections::VecDeque;

use subagent_core::model::LifecycleState;
use subagent_protocol::state::TurnStatus;
use subagent_testkit::Random;

use super::Break;
use super::daemon::ReadUntil;
use super::site::{SimulatedPlace, Site};
use super::task::SimulatedTask;

/// Number of workers in a world.
const WORKERS: usize = 3;
/// Maximum rounds of half a second until the world is at rest.
const ROUNDS: usize = 600;

/// Event counts of one history, or of many.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(super) struct Tally {
    pub(super) turns: u64,
    pub(super) prompts: u64,
    pub(super) completed: u64,
    pub(super) failed: u64,
    pub(super) canceled: u64,
    pub(super) decisions: u64,
    pub(super) answers: u64,
    pub(super) daemon_deaths: u64,
    pub(super) runtime_deaths: u64,
    pub(super) reboots: u64,
    pub(super) dropped: u64,
    pub(super) doubled: u64,
    pub(super) overtaken: u64,
    pub(super) hibernations: u64,
    pub(super) queued: u64,
    pub(super) over_budget: u64,
    pub(super) task_ends: u64,
    pub(super) cuts: u64,
    pub(super) unknown_ends: u64,
}

impl Tally {
    fn fields(&mut self) -> [&mut u64; 19] {
        [
            &mut self.turns,
            &mut self.prompts,
            &mut self.completed,
            &mut self.failed,
            &mut self.canceled,
            &mut self.decisions,
            &mut self.answers,
            &mut self.daemon_deaths,
            &mut self.runtime_deaths,
            &mut self.reboots,
            &mut self.dropped,
            &mut self.doubled,
            &mut self.overtaken,
            &mut self.hibernations,
            &mut self.queued,
            &mut self.over_budget,
            &mut self.task_ends,
            &mut self.cuts,
            &mut self.unknown_ends,
        ]
    }

    pub(super) fn add(&mut self, other: &Self) {
        let mut other = other.clone();
        for (sum, more) in self.fields().into_iter().zip(other.fields()) {
            *sum += *more;
        }
    }

    /// Checks that the histories exercise every kind of event.
    pub(super) fn assert_lively(&self, histories: usize) {
        let mut all = self.clone();
        // A missing end in a readable journal must never occur.
        let [seen @ .., unknown_ends] = all.fields();
        // The rarest, hibernations, are about 5 % of the histories, and now and then fewer.
        let lively = seen.iter().all(|count| **count > histories as u64 / 25) && *unknown_ends == 0;
        assert!(lively, "hardly anything happened in {histories} histories: {self:?}");
    }
}

/// Whether the workers of this history run at places that can be cut off.
pub(super) fn is_placed(seed: u64) -> bool {
    matches!(seed % 4, 1 | 2)
}

/// State shared by all workers of a world.
pub(super) struct WorldContext {
    pub(super) random: Random,
    pub(super) broken: Option<Break>,
    /// Whether messages are queued in this history. With queues, workers are rarely idle.
    pub(super) queues: bool,
    /// Whether faults have stopped.
    pub(super) calm: bool,
    /// A process dies at one in this many opportunities.
    pub(super) temper: u64,
    /// Monotonic clock and wall clock, in milliseconds.
    pub(super) now: u64,
    pub(super) wall: i64,
    pub(super) boot: u64,
    pub(super) generation: u64,
    pub(super) connections: u64,
    pub(super) daemon_up: bool,
    /// Whether the daemon was killed during the current event.
    pub(super) daemon_dies: bool,
    pub(super) tally: Tally,
}

impl WorldContext {
    /// A commit is done; its actions are not performed yet.
    pub(super) fn after_commit(&mut self) {
        if !self.calm && self.random.below(self.temper) == 0 {
            self.daemon_dies = true;
        }
    }

    pub(super) fn kills_runtime(&mut self) -> bool {
        !self.calm && self.random.below(self.temper * 2) == 0
    }

    /// Returns the next frame that arrives, if any. Frames may be reordered or duplicated.
    pub(super) fn network(&mut self, waiting: &mut VecDeque<Vec<u8>>, only_first: bool) -> Option<Vec<u8>> {
        if self.calm || only_first {
            return waiting.pop_front();
        }
        match self.random.below(20) {
            0 => {
                self.tally.dropped += 1;
                waiting.pop_front();
                None
            }
            1 | 2 => {
                self.tally.doubled += 1;
                waiting.front().cloned()
            }
            3..=5 if waiting.len() > 1 => {
                self.tally.overtaken += 1;
                waiting.remove(usize::try_from(self.random.below(waiting.len() as u64)).unwrap())
            }
            _ => waiting.pop_front(),
        }
    }
}

pub(super) struct SimulatedWorld {
    env: WorldContext,
    sites: Vec<Site>,
}

impl SimulatedWorld {
    pub(super) fn new(seed: u64, broken: Option<Break>) -> Self {
        let mut random = Random::new(seed);
        let env = WorldContext {
            temper: *random.pick(&[30, 120, 500]),
            queues: seed.is_multiple_of(5),
            random,
            broken,
            calm: false,
            now: 0,
            wall: 1_700_000_000_000,
            boot: 0,
            generation: 0,
            connections: 0,
            daemon_up: false,
            daemon_dies: false,
            tally: Tally::default(),
        };
        // The last worker of a world with queues has a task.
        let task = |index| (env.queues && index + 1 == WORKERS).then(SimulatedTask::default);
        // In half of the histories, the workers are on machines of their own.
        let place = || is_placed(seed).then(SimulatedPlace::default);
        let sites = (0..WORKERS).map(|index| Site::new(index, task(index), place())).collect();
        Self { env, sites }
    }

    /// Runs random events with faults.
    pub(super) fn trouble(&mut self) {
        for _ in 0..150 + self.env.random.below(300) {
            let index = usize::try_from(self.env.random.below(WORKERS as u64)).unwrap();
            let what = self.env.random.below(100);
            self.env.now += self.env.random.below(200);
            self.happen(index, what);
            self.after();
        }
    }

    fn happen(&mut self, index: usize, what: u64) {
        let (site, env) = (&mut self.sites[index], &mut self.env);
        if env.daemon_up && what % 3 == 1 {
            site.idles(env);
        }
        match what {
            6 | 7 if env.queues => site.enqueue(env),
            99 if env.queues => site.manage_queue(env),
            0..=7 if site.task.is_some() => site.enqueue(env),
            0..=7 => site.send(env),
            8 if site.task.is_some() && env.random.below(2) == 0 => site.end_task(env),
            8 => site.cancel(env),
            9 if env.random.below(6) == 0 => site.stop(env),
            10 if env.random.below(3) == 0 => site.restart(env),
            11..=17 => site.decide(env),
            18..=23 => site.agent_starts(env),
            24..=35 => while site.agent_reads(env) && env.random.below(4) != 0 {},
            36..=43 => site.agent_acts(env),
            44..=55 => site.output(env),
            56..=58 => site.agent_ended(env),
            59..=61 => site.guard_is_done(env),
            62..=73 => while site.frame_to_runtime(env) && env.random.below(4) != 0 {},
            74..=85 if env.daemon_up => while site.frame_to_daemon(env) && env.random.below(4) != 0 {},
            86..=88 if env.daemon_up => site.see_death(env),
            89 if env.daemon_up && site.memory.runtime => site.connect(env),
            90 if env.temper < 500 => site.die(env),
            91 if site.place.is_some() && env.random.below(2) == 0 => {
                site.set_cut(!site.is_cut(), env);
            }
            91 => site.timer(env),
            92 => {
                let full = env.random.below(3) == 0;
                site.disk(full, env);
            }
            93 => {
                let agent = site.live.as_mut().and_then(|live| live.agent.as_mut());
                if let Some(agent) = agent {
                    agent.killed();
                }
            }
            94 if env.daemon_up && env.temper < 500 => env.daemon_dies = true,
            95 if site.place.is_some() => site.reboot_alone(env),
            95 => self.reboot(),
            96 if env.random.below(8) == 0 => env.now += env.random.below(3_600_000),
            97 => env.wall += i64::try_from(env.random.below(1 << 42)).unwrap() - (1 << 41),
            98 if env.daemon_up && site.memory.settled && site.memory.runtime => {
                site.ingest(ReadUntil::Some, env)
            }
            _ => {}
        }
        if !self.env.daemon_up && self.env.random.below(12) == 0 {
            self.start_daemon();
        }
    }

    /// Runs the daemon's follow-up work and checks the invariants.
    fn after(&mut self) {
        for site in &mut self.sites {
            if self.env.daemon_up {
                site.carry_on(&mut self.env);
            }
        }
        if self.env.daemon_dies {
            self.env.daemon_dies = false;
            self.env.daemon_up = false;
            self.env.tally.daemon_deaths += 1;
            for site in &mut self.sites {
                site.memory = super::site::DaemonMemory::default();
                if self.env.broken == Some(Break::QueueIsForgotten) {
                    site.checker.rows.queue = subagent_core::model::Queue::default();
                }
                site.checker.reload();
                // Frames to a runtime may still arrive.
                site.disconnect();
                if self.env.broken == Some(Break::KeysAreForgotten) {
                    site.stored.keys.clear();
                }
            }
        }
        for site in &mut self.sites {
            site.check();
        }
    }

    fn start_daemon(&mut self) {
        if std::mem::replace(&mut self.env.daemon_up, true) {
            return;
        }
        self.env.generation += 1;
        for site in &mut self.sites {
            if !self.env.daemon_dies {
                site.recover(&mut self.env);
            }
        }
    }

    /// Reboots the one machine that has everything.
    fn reboot(&mut self) {
        if self.env.random.below(10) != 0 {
            return;
        }
        self.env.tally.reboots += 1;
        self.env.boot += 1;
        self.env.daemon_dies |= self.env.daemon_up;
        for site in &mut self.sites {
            site.lose_power(&mut self.env);
        }
    }

    /// Stops all faults, waits until the world is at rest, stops the workers, and checks the final
    /// state.
    pub(super) fn settle(mut self) -> Tally {
        self.env.calm = true;
        for site in &mut self.sites {
            site.set_cut(false, &mut self.env);
            site.disconnect();
            site.disk(false, &mut self.env);
        }
        self.until("an end of all turns and requests", Site::resume_queue, Site::rests);
        self.until("the end of all workers", Site::stop, |site| {
            site.checker.worker.state == LifecycleState::Stopped
        });
        for site in &self.sites {
            assert!(site.live.is_none() && site.left.is_none(), "stopped, and something is left");
            let tally = &mut self.env.tally;
            tally.task_ends += site.task.as_ref().map_or(0, |task| task.ends);
            tally.prompts += site.deeds.prompts.len() as u64;
            tally.answers += site.deeds.answers.values().flatten().count() as u64;
            for row in site.checker.rows.turns.values() {
                *match row.status {
                    TurnStatus::Completed => &mut tally.completed,
                    TurnStatus::Failed => &mut tally.failed,
                    TurnStatus::Canceled => &mut tally.canceled,
                    TurnStatus::Accepted => panic!("a turn without an end"),
                } += 1;
            }
            let open = site.checker.rows.approvals().find(|(_, status)| {
                use subagent_protocol::state::ApprovalStatus as A;
                matches!(status, A::Pending | A::Decided)
            });
            assert!(open.is_none(), "a permission request without an end");
        }
        self.env.tally
    }

    fn until(&mut self, what: &str, order: fn(&mut Site, &mut WorldContext), reached: fn(&Site) -> bool) {
        for _ in 0..ROUNDS {
            if self.sites.iter().all(reached) {
                return;
            }
            self.env.now += 500;
            self.start_daemon();
            for site in &mut self.sites {
                let env = &mut self.env;
                if site.memory.runtime && site.memory.connection.is_none() {
                    site.connect(env);
                }
                site.agent_starts(env);
                while site.agent_reads(env) {}
                if let Some(agent) = site.live.as_mut().and_then(|live| live.agent.as_mut()) {
                    agent.finish(&mut site.deeds);
                }
                site.output(env);
                site.agent_ended(env);
                site.guard_is_done(env);
                site.timer(env);
                while site.frame_to_runtime(env) {}
                while site.frame_to_daemon(env) {}
                site.see_death(env);
                site.decide(env);
                order(site, env);
                if !site.unanswered_keys.is_empty() {
                    site.send(env);
                }
                if !site.queue.unanswered.is_empty() {
                    site.enqueue(env);
                }
            }
            self.after();
        }
        let stuck: Vec<_> = self.sites.iter().filter(|site| !reached(site)).collect();
        let states: Vec<_> = stuck.iter().map(|site| site.describe()).collect();
        panic!("{what} does not come:\n{}", states.join("\n"));
    }
}
