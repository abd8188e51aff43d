//! The runtime's side of a worker: its work is performed in steps, and it may die between any two.

use subagent_protocol::definition::Instructions;
use subagent_protocol::ids::RequestId;
use subagent_protocol::start::Timeouts;
use subagent_runtime::bare::{EventEffects, RuntimeEffect, RuntimeSetup, SimulatedRuntime};

use super::Break;
use super::agent::SimulatedAgent;
use super::site::{Live, Site};
use super::world::WorldContext;

impl Site {
    /// The daemon starts a runtime, which begins its journal and may die meanwhile.
    pub(super) fn spawn(&mut self, env: &mut WorldContext) {
        assert!(self.live.is_none() && self.left.is_none(), "two runtimes, or one beside what another left");
        let ids = std::rc::Rc::clone(&self.request_ids);
        let worker = u8::try_from(self.index).unwrap();
        let make_request_id = Box::new(move || {
            ids.set(ids.get() + 1);
            let [.., b, c, d, e] = ids.get().to_be_bytes();
            Some(RequestId::from_random([worker, b, c, d, e]))
        });
        let setup = RuntimeSetup {
            worker_id: format!("w_{:010x}", self.index).parse().unwrap(),
            incarnation: self.stored.incarnation,
            generation: env.generation,
            segment: self.stored.cursor.segment,
            first_record: self.stored.cursor.number + 1,
            last_turn: self.checker.worker.turn().map_or(self.checker.worker.last_turn, |turn| turn.no - 1),
            session: self.stored.session.clone(),
            timeouts: Timeouts {
                turn_ms: (env.random.below(4) == 0).then_some(60_000),
                ..Timeouts::default()
            },
            instructions: Some(Instructions {
                name: "a".to_owned(),
                prompt: "i".to_owned(),
                delivered: self.stored.instructed,
                replaces: false,
                model: None,
            }),
        };
        let (runtime, work) = SimulatedRuntime::begin(setup, make_request_id, env.now);
        // The guard starts the agent at once, if it can. The report of it comes later.
        let agent = (env.calm || env.random.below(20) != 0).then(|| SimulatedAgent::new(&mut env.random));
        let connections = Vec::new();
        self.live = Some(Live { runtime, agent, start_reported: false, exit_reported: false, connections });
        self.journal.insert(self.stored.cursor.segment, Vec::new());
        self.carry_out(work, env);
    }

    /// Performs the work of an event, unless the runtime dies on the way.
    pub(super) fn carry_out(&mut self, work: EventEffects, env: &mut WorldContext) {
        let EventEffects { before, records, after } = work;
        for effect in before {
            self.perform_effect(effect);
        }
        if env.broken == Some(Break::ActsBeforeItWrites) {
            for effect in after.clone() {
                self.perform_effect(effect);
            }
            // This gap is the one to be detected, so deaths are more frequent here.
            if env.kills_runtime() || !env.calm && env.random.below(50) == 0 {
                return self.die(env);
            }
        }
        let Some(segment) = self.journal.values_mut().next_back() else { return };
        if env.kills_runtime() {
            let written = usize::try_from(env.random.below(records.len() as u64 + 1)).unwrap();
            segment.extend_from_slice(&records[..written]);
            return self.die(env);
        }
        segment.extend_from_slice(&records);
        if env.broken == Some(Break::ActsBeforeItWrites) {
            return;
        }
        for effect in after {
            if env.kills_runtime() {
                return self.die(env);
            }
            self.perform_effect(effect);
        }
    }

    fn perform_effect(&mut self, effect: RuntimeEffect) {
        let Some(live) = &mut self.live else { return };
        match effect {
            RuntimeEffect::ToAgent(line) => {
                if let Some(agent) = &mut live.agent {
                    agent.inbox.push_back(line);
                }
            }
            RuntimeEffect::ToDaemon { connection, frame } => {
                if let Some(open) = live.connections.iter_mut().find(|open| open.id == connection) {
                    open.to_daemon.push_back(serde_json::to_vec(&frame).unwrap());
                }
            }
            RuntimeEffect::Close { connection } => {
                if let Some(open) = live.connections.iter_mut().find(|open| open.id == connection) {
                    open.dropped = true;
                }
            }
            RuntimeEffect::CloseInput => {
                if let Some(agent) = &mut live.agent {
                    agent.inbox.push_back(Vec::new());
                }
            }
            RuntimeEffect::Terminate => {
                if let Some(agent) = &mut live.agent {
                    agent.ask_to_end();
                }
            }
            RuntimeEffect::EndTree => {
                if let Some(agent) = &mut live.agent {
                    agent.killed();
                }
            }
            RuntimeEffect::Exit => self.live = None,
        }
    }

    /// SIGKILL of the runtime. The guard ends the processes below it.
    pub(super) fn die(&mut self, env: &mut WorldContext) {
        let Some(live) = self.live.take() else { return };
        env.tally.runtime_deaths += 1;
        self.left = live.agent;
        if env.broken == Some(Break::AppendedIsLost)
            && let Some(segment) = self.journal.values_mut().next_back()
        {
            segment.truncate(usize::try_from(env.random.below(segment.len() as u64 + 1)).unwrap());
        }
    }

    /// The guard reports that it started the agent, or that it failed.
    pub(super) fn agent_starts(&mut self, env: &mut WorldContext) {
        let Some(live) = self.live.as_mut().filter(|live| !live.start_reported) else { return };
        live.start_reported = true;
        let work = match live.agent {
            Some(_) => live.runtime.agent_started(),
            None => live.runtime.spawn_failed(),
        };
        self.carry_out(work, env);
    }

    pub(super) fn agent_reads(&mut self, env: &mut WorldContext) -> bool {
        // Data in the pipe is read even after the runtime's death.
        let agent = self.live.as_mut().and_then(|live| live.agent.as_mut()).or(self.left.as_mut());
        agent.is_some_and(|agent| agent.read(&mut self.deeds, &mut env.random, env.calm))
    }

    pub(super) fn agent_acts(&mut self, env: &mut WorldContext) {
        let agent = self.live.as_mut().and_then(|live| live.agent.as_mut()).or(self.left.as_mut());
        if let Some(agent) = agent {
            agent.act(&mut self.deeds, &mut env.random);
        }
    }

    /// The runtime reads a part of the agent's output, cut at any byte.
    pub(super) fn output(&mut self, env: &mut WorldContext) {
        let Some(live) = &mut self.live else { return };
        let Some(agent) = live.agent.as_mut().filter(|_| live.runtime.reads_output()) else { return };
        let all = agent.output.len();
        let most = if env.calm { all } else { usize::try_from(env.random.below(all as u64 + 1)).unwrap() };
        if most == 0 {
            return;
        }
        let bytes: Vec<u8> = agent.output.drain(..most).collect();
        live.runtime.set_wall_clock(env.wall);
        let work = live.runtime.output(&bytes);
        self.carry_out(work, env);
    }

    /// The runtime notices the agent's end after reading all its output.
    pub(super) fn agent_ended(&mut self, env: &mut WorldContext) {
        let Some(live) = self.live.as_mut().filter(|live| live.start_reported && !live.exit_reported) else {
            return;
        };
        let Some(agent) = live.agent.as_mut() else { return };
        let Some((code, signal)) = agent.exit else { return };
        let rest = std::mem::take(&mut agent.output);
        live.exit_reported = true;
        for step in 0..3 {
            let Some(live) = &mut self.live else { return };
            let work = match step {
                0 => live.runtime.output(&rest),
                1 => live.runtime.output_ended(),
                _ => live.runtime.agent_exited(code, signal),
            };
            self.carry_out(work, env);
        }
    }

    /// The guard has ended all processes that the agent left.
    pub(super) fn guard_is_done(&mut self, env: &mut WorldContext) {
        if self.left.take().is_some() {
            return;
        }
        let Some(live) = self.live.as_mut().filter(|live| live.exit_reported) else { return };
        let work = live.runtime.tree_ended();
        self.carry_out(work, env);
    }

    /// Fires a timer of the runtime, if one is due.
    pub(super) fn timer(&mut self, env: &mut WorldContext) {
        if let Some(work) = self.live.as_mut().and_then(|live| live.runtime.elapse(env.now)) {
            self.carry_out(work, env);
        }
    }

    pub(super) fn disk(&mut self, full: bool, env: &mut WorldContext) {
        if let Some(live) = &mut self.live {
            let work = live.runtime.disk(full);
            self.carry_out(work, env);
        }
    }

    /// Delivers a frame to the runtime: in order while calm, else maybe late, twice or never.
    pub(super) fn frame_to_runtime(&mut self, env: &mut WorldContext) -> bool {
        let Some(live) = &mut self.live else { return false };
        let waiting = live.connections.iter().filter(|open| !open.to_runtime.is_empty()).count();
        if waiting == 0 {
            // A closed connection is noticed after its last frame.
            live.connections.retain(|open| {
                if !open.held {
                    live.runtime.closed(open.id);
                }
                open.held
            });
            return false;
        }
        let which = usize::try_from(env.random.below(waiting as u64)).unwrap();
        let mut open = live.connections.iter_mut().filter(|open| !open.to_runtime.is_empty());
        let Some(open) = open.nth(which) else { return false };
        let id = open.id;
        let Some(line) = env.network(&mut open.to_runtime, !open.greeted) else { return true };
        open.greeted = true;
        live.runtime.set_wall_clock(env.wall);
        match live.runtime.frame(id, &line) {
            Some(work) => self.carry_out(work, env),
            None => panic!("the runtime does not understand {}", String::from_utf8_lossy(&line)),
        }
        true
    }
}
