//! Learns acknowledged facts from the output of every command, so that tests need not record them.

use std::sync::{Arc, Mutex};

use serde_json::Value;
use subagent_protocol::ids::EventId;

use super::acknowledged::{Acknowledged, Decision, GrantedHandle, Seen, WatchedEvents};

/// Stands for all workers in `watch --all`.
pub(super) const ALL: &str = "*";

/// Collects acknowledged facts; cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct Recorder(Arc<Mutex<Acknowledged>>);

impl Recorder {
    /// Returns the facts so far.
    ///
    /// # Panics
    ///
    /// If a thread panicked while it recorded.
    #[must_use]
    pub fn acknowledged(&self) -> Acknowledged {
        self.0.lock().unwrap().clone()
    }

    /// A backup was restored: later facts are legitimately gone, except the secrets.
    ///
    /// # Panics
    ///
    /// If a thread panicked while it recorded.
    pub fn go_back_to(&self, earlier: Acknowledged) {
        let mut known = self.0.lock().unwrap();
        let secrets = std::mem::take(&mut known.secrets);
        *known = earlier;
        known.secrets.extend(secrets);
    }

    /// Registers a text that must not be in any log or file. Ignores an empty text.
    ///
    /// # Panics
    ///
    /// If a thread panicked while it recorded.
    pub fn keep_secret(&self, text: &str) {
        if !text.is_empty() {
            self.0.lock().unwrap().secrets.insert(text.to_owned());
        }
    }

    /// From now on only commands of this sandbox decide permission requests, all in one state
    /// directory. Other decisions, and owners of absent controllers, are violations.
    ///
    /// # Panics
    ///
    /// If a thread panicked while it recorded.
    pub fn knows_all_decisions(&self) {
        self.0.lock().unwrap().all_attempted = true;
    }

    /// Takes the arguments of a command before its start: its possible effects even
    /// if it is killed.
    ///
    /// # Panics
    ///
    /// If a thread panicked while it recorded.
    pub fn attempt(&self, args: &[String]) {
        let mut known = self.0.lock().unwrap();
        if args.first().is_some_and(|command| command == "approve" || command == "answer") {
            known.attempted.extend(args.iter().filter(|arg| arg.starts_with("ap_")).cloned());
        }
        known.learn_wish(args);
    }

    /// Takes the output of a command.
    ///
    /// # Panics
    ///
    /// If a thread panicked while it recorded.
    pub fn learn(&self, args: &[String], stdout: &str) {
        let mut known = self.0.lock().unwrap();
        if args.first().is_some_and(|command| command == "watch") {
            known.learn_watch(args, stdout);
        } else if let Ok(document) = serde_json::from_str::<Value>(stdout) {
            known.learn_document(&document);
        }
    }
}

impl Acknowledged {
    /// Records possible effects from now on, confirmed or not.
    fn learn_wish(&mut self, args: &[String]) {
        let flag = |name: &str| args.iter().any(|arg| arg == name);
        match args {
            [command, verb, rest @ ..] if command == "worker" && verb == "rm" => self.wish_removal(rest),
            [command, rest @ ..] if command == "rm" => self.wish_removal(rest),
            [command, ..] if command == "prune" => self.pruned |= !flag("--dry-run"),
            _ => {}
        }
    }

    fn wish_removal(&mut self, args: &[String]) {
        let addresses = args.iter().filter(|arg| !arg.starts_with('-'));
        let workers = addresses.map(|address| self.names.get(address).unwrap_or(address).clone());
        self.asked_removals.extend(workers.collect::<Vec<_>>());
    }

    /// Takes the lines of a watch. The last one may be incomplete if the watch was killed.
    fn learn_watch(&mut self, args: &[String], stdout: &str) {
        let flag = |name: &str| args.iter().skip_while(|arg| *arg != name).nth(1);
        let mut watched = WatchedEvents {
            worker: match args.iter().any(|arg| arg == "--all") {
                true => ALL.to_owned(),
                false => flag("--worker-id").cloned().unwrap_or_default(),
            },
            tree: args.iter().any(|arg| arg == "--tree"),
            from: flag("--from-event-id").and_then(|id| id.parse().ok()),
            events: Vec::new(),
        };
        for line in stdout.split_inclusive('\n').filter(|line| line.ends_with('\n')) {
            let Ok(line) = serde_json::from_str::<Value>(line) else { continue };
            let items = line["data"]["items"].as_array().cloned().unwrap_or_else(|| vec![line]);
            for event in &items {
                watched.events.extend(self.learn_event(event));
            }
        }
        // For other selections, the watched workers are unknown here.
        if !watched.worker.is_empty() {
            self.watched.push(watched);
        }
    }

    fn learn_event(&mut self, event: &Value) -> Option<EventId> {
        let event = if event["type"] == "subagent.event" { &event["data"]["event"] } else { event };
        let id = event["eventId"].as_str()?.parse().ok()?;
        self.events.insert(Seen {
            worker: event["workerId"].as_str()?.to_owned(),
            event: id,
            event_type: event["type"].as_str()?.to_owned(),
            turn: event["turnId"].as_str().map(str::to_owned),
        });
        Some(id)
    }

    fn learn_name(&mut self, data: &Value) {
        if let (Some(name), Some(worker)) = (data["name"].as_str(), data["workerId"].as_str()) {
            self.names.insert(name.to_owned(), worker.to_owned());
        }
    }

    fn learn_document(&mut self, document: &Value) -> Option<()> {
        if document["ok"] != true {
            return None;
        }
        let data = &document["data"];
        let text = |key: &str| data[key].as_str().map(str::to_owned);
        match document["type"].as_str()? {
            kind @ ("turn.queued" | "turn.waited") if data.get("position").is_some() => {
                self.queued.insert(text("turnId")?, text("workerId")?);
                if kind == "turn.waited" {
                    self.learn_event(&data["matchedEvent"]);
                }
            }
            kind @ ("turn.accepted" | "turn.waited") => {
                let accepted = text("acceptedEventId")?.parse().ok()?;
                self.turns.insert(text("turnId")?, (text("workerId")?, accepted));
                if kind == "turn.waited" {
                    self.learn_event(&data["matchedEvent"]);
                }
            }
            "event.matched" => drop(self.learn_event(data)),
            "approval.decided" => {
                let decision = Decision {
                    worker: text("workerId")?,
                    option: text("optionId")?,
                    delivery: text("delivery")?,
                    event: text("eventId")?.parse().ok()?,
                };
                self.decisions.insert(text("requestId")?, decision);
            }
            "elicitation.answered" => {
                let decision = Decision {
                    worker: text("workerId")?,
                    option: text("action").map(|action| match action.as_str() {
                        "cancel" => "cancelled".to_owned(),
                        _ => action,
                    })?,
                    delivery: text("delivery")?,
                    event: text("eventId")?.parse().ok()?,
                };
                self.decisions.insert(text("requestId")?, decision);
            }
            "turn.canceled" if data["alreadyTerminal"] != true => drop(self.canceled.insert(text("turnId")?)),
            "controller.initialized" | "controller.attached" => {
                let owner = &data["owner"];
                self.secrets.insert(owner["token"].as_str()?.to_owned());
                self.granted.insert(GrantedHandle {
                    controller: owner["controllerId"].as_str()?.to_owned(),
                    epoch: owner["epoch"].as_i64()?,
                    instance: owner["instanceId"].as_str()?.to_owned(),
                });
            }
            "worker.started" => {
                self.learn_name(data);
                self.started.insert(text("workerId")?);
            }
            "run.detached" | "worker.set" => self.learn_name(data),
            "worker.removed" => drop(self.removed.insert(text("workerId")?)),
            "workers.removed" => {
                let items = data["items"].as_array()?;
                self.removed
                    .extend(items.iter().filter_map(|item| Some(item["workerId"].as_str()?.to_owned())));
            }
            "state.pruned" if data["dryRun"] != true => {
                let items = data["items"].as_array()?;
                self.removed
                    .extend(items.iter().filter_map(|item| Some(item["workerId"].as_str()?.to_owned())));
            }
            "worker.stopped" | "run.finished" => drop(self.stopped.insert(text("workerId")?)),
            "workers.stopped" => {
                let items = data["items"].as_array()?;
                self.stopped
                    .extend(items.iter().filter_map(|item| Some(item["workerId"].as_str()?.to_owned())));
            }
            _ => {}
        }
        Some(())
    }
}
