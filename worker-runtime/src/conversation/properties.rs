//! Properties that hold for every journal, for any inputs in any order.

use std::collections::BTreeMap;

use proptest::prelude::*;
use serde_json::{Value, json};
use subagent_protocol::frame::RuntimeCommand;
use subagent_protocol::ids::RequestId;
use subagent_protocol::options::Options;
use subagent_protocol::record::RecordType as T;
use subagent_protocol::start::ClientRules;

use super::tests::Talk;
use super::*;
use crate::acp::client_operation;
use crate::acp::lines::AgentLine;
use crate::journal::batch::reading::OwnedRecord;

#[derive(Debug, Clone)]
enum ConversationStep {
    Started,
    Answer {
        rpc: u64,
        error: bool,
    },
    WantsLogin {
        rpc: u64,
    },
    Update,
    Ask,
    /// The agent asks to write a file.
    Write,
    /// The driver resolves this request, carries it out, or fails.
    Carry {
        call: u64,
        fails: bool,
    },
    Withdraw(u64),
    Text(String),
    Prompt {
        skip: u64,
    },
    Cancel {
        back: u64,
    },
    Decide {
        request: u8,
        option: bool,
    },
    Terminate,
    Timer(u8),
    PipeClosed,
    Exited,
    TreeEnded,
    SpawnFailed,
    Storage(bool),
    SetOptions,
    Hibernate {
        back: u64,
    },
}

/// A conversation whose launcher names a login method.
fn talk(session: Option<&str>, turn_ms: Option<u64>) -> Talk {
    let mut talk = Talk::new(session, turn_ms);
    talk.conversation.config.login.method = Some("key".to_owned());
    talk.conversation.config.client_rules =
        Some(ClientRules { read: true, edit: true, execute: true, guarded: Vec::new() });
    talk
}

fn any_step() -> impl Strategy<Value = ConversationStep> {
    prop_oneof![
        2 => Just(ConversationStep::Started),
        12 => (0_u64..9, prop::bool::weighted(0.2)).prop_map(|(rpc, error)| ConversationStep::Answer { rpc, error }),
        2 => (1_u64..9).prop_map(|rpc| ConversationStep::WantsLogin { rpc }),
        6 => Just(ConversationStep::Update),
        5 => Just(ConversationStep::Ask),
        4 => Just(ConversationStep::Write),
        6 => (1_u64..6, prop::bool::weighted(0.2)).prop_map(|(call, fails)| ConversationStep::Carry { call, fails }),
        2 => (0_u64..5).prop_map(ConversationStep::Withdraw),
        2 => r#"[{}\[\]":,a-z0-9]{0,30}"#.prop_map(ConversationStep::Text),
        8 => (0_u64..3).prop_map(|skip| ConversationStep::Prompt { skip }),
        4 => (0_u64..2).prop_map(|back| ConversationStep::Cancel { back }),
        5 => (1_u8..6, any::<bool>()).prop_map(|(request, option)| ConversationStep::Decide { request, option }),
        1 => Just(ConversationStep::Terminate),
        3 => (0_u8..7).prop_map(ConversationStep::Timer),
        1 => Just(ConversationStep::PipeClosed),
        1 => Just(ConversationStep::Exited),
        2 => Just(ConversationStep::TreeEnded),
        1 => Just(ConversationStep::SpawnFailed),
        2 => any::<bool>().prop_map(ConversationStep::Storage),
        3 => Just(ConversationStep::SetOptions),
        1 => (0u64..2).prop_map(|back| ConversationStep::Hibernate { back }),
    ]
}

/// Generates only what a driver can report: lines while the agent runs, its end once,
/// the proof after it.
struct DriverModel {
    talk: Talk,
    started: bool,
    exited: bool,
    asked: u64,
    /// Accepted commands that set options.
    set: Vec<String>,
}

impl DriverModel {
    fn take(&mut self, step: ConversationStep) {
        let lives = self.started && !self.exited;
        let result = |rpc: u64| json!({"id": rpc, "result": {"protocolVersion": 1, "sessionId": "s", "authMethods": [{"id": "key"}], "stopReason": "end_turn", "modes": {"availableModes": [{"id": "m"}]}, "models": {"availableModels": [{"modelId": "l"}]}}});
        match step {
            ConversationStep::Started if !self.started => {
                self.started = true;
                self.talk.started();
            }
            ConversationStep::Answer { rpc, error: false } if lives => self.talk.line(result(rpc)),
            ConversationStep::Answer { rpc, error: true } if lives => {
                self.talk.line(json!({"id": rpc, "error": {"code": -32603, "message": "no"}}));
            }
            ConversationStep::WantsLogin { rpc } if lives => {
                self.talk.line(json!({"id": rpc, "error": {"code": -32000, "message": "login"}}));
            }
            ConversationStep::Update if lives => self.talk.update("agent_message_chunk"),
            ConversationStep::Ask if lives => {
                self.asked += 1;
                let kinds = ["session/request_permission", "elicitation/create"];
                let method = kinds[usize::from(self.asked.is_multiple_of(2))];
                self.talk.line(json!({"id": self.asked - 1, "method": method, "params": {}}));
            }
            ConversationStep::Write if lives => {
                self.asked += 1;
                let params = json!({"path": "/w/a", "content": "x"});
                self.talk
                    .line(json!({"id": self.asked - 1, "method": "fs/write_text_file", "params": params}));
            }
            ConversationStep::Carry { call, fails } => match self.talk.conversation.take_call(call) {
                Some(client_operation::ClientOperationStep::Find(_)) => {
                    let found = ResolvedRequest { path: "/w/a".to_owned(), text: None };
                    let found = if fails { Err(ClientOperationError::internal("m")) } else { Ok(found) };
                    self.talk.input(ConversationInput::CallFound { call, found });
                }
                Some(client_operation::ClientOperationStep::Do(_, allowed)) => {
                    assert_eq!(allowed.as_deref(), Some("/w/a"), "no client or rule has allowed it");
                    let outcome = if fails {
                        Err(ClientOperationError::internal("m"))
                    } else {
                        Ok(ClientOperationResult::Written)
                    };
                    self.talk.input(ConversationInput::CallDone { call, outcome });
                }
                None => {}
            },
            ConversationStep::Withdraw(id) if lives => {
                self.talk.line(json!({"method": "$/cancel_request", "params": {"requestId": id}}));
            }
            ConversationStep::Text(text) if lives => {
                self.talk.input(ConversationInput::Line(AgentLine::Whole(text.as_bytes())))
            }
            ConversationStep::Prompt { skip } => {
                let _ = self.talk.prompt(self.talk.conversation.last_turn() + skip);
            }
            ConversationStep::Cancel { back } => {
                let turn = self.talk.conversation.last_turn() - back;
                let _ = self.talk.command(RuntimeCommand::Cancel { turn, reason: "r".to_owned() });
            }
            ConversationStep::Decide { request, option } => {
                let request_id = RequestId::from_random([request; 5]);
                let option_id = option.then(|| "allow-once".to_owned());
                let _ = self.talk.command(RuntimeCommand::Answer { request_id, option_id, rule: None });
            }
            ConversationStep::SetOptions => {
                let request = format!("set-{}", self.set.len());
                let options =
                    Options { mode: Some("m".to_owned()), model: Some("l".to_owned()), ..Options::default() };
                if self.talk.command(RuntimeCommand::SetOptions { request: request.clone(), options }).is_ok()
                {
                    self.set.push(request);
                }
            }
            ConversationStep::Hibernate { back } => {
                let works = self.talk.conversation.has_work();
                let last_turn = self.talk.conversation.last_turn() - back;
                let ending = self.talk.conversation.is_ending();
                let command = RuntimeCommand::Hibernate { last_turn, reason: "r".to_owned() };
                let taken = self.talk.command(command).is_ok();
                assert!(!taken || (!works && !ending && back == 0), "something is open");
            }
            ConversationStep::Terminate => self.talk.input(ConversationInput::End { reason: "r".to_owned() }),
            ConversationStep::Timer(number) => {
                let timers = [
                    Timer::Startup,
                    Timer::Turn,
                    Timer::CancelGrace,
                    Timer::StopGrace,
                    Timer::StorageFull,
                    Timer::Option,
                    Timer::Phase,
                ];
                self.talk.input(ConversationInput::Timer(timers[usize::from(number)]));
            }
            ConversationStep::PipeClosed if lives => self.talk.input(ConversationInput::PipeClosed),
            ConversationStep::Exited if lives => {
                self.exited = true;
                self.talk.input(ConversationInput::AgentExited(Exit { code: Some(1), signal: None }));
            }
            ConversationStep::TreeEnded if self.exited => {
                self.talk.input(ConversationInput::TreeEnded { killed: 0, millis: 0 })
            }
            ConversationStep::SpawnFailed if !self.started => {
                self.talk.input(ConversationInput::SpawnFailed { errno: 2, message: "m".to_owned() });
            }
            ConversationStep::Storage(full) => {
                self.talk.input(ConversationInput::Storage(if full { Storage::Full } else { Storage::Ok }));
            }
            _ => {}
        }
    }
}

#[derive(Default)]
struct ModelTurn {
    dispatched: bool,
    ended: bool,
}

fn check(world: &DriverModel) -> Result<(), TestCaseError> {
    let mut turns: BTreeMap<u64, ModelTurn> = BTreeMap::new();
    let mut requests: BTreeMap<String, u32> = BTreeMap::new();
    let mut calls: BTreeMap<u64, u32> = BTreeMap::new();
    for (record, n) in world.talk.records.iter().zip(1..) {
        prop_assert_eq!(record.n, n);
        let turn = turns.entry(record.turn.unwrap_or(0)).or_default();
        match record.t {
            T::Dispatching => {
                prop_assert!(!std::mem::replace(&mut turn.dispatched, true));
                prop_assert!(turns.last_key_value().map(|(n, _)| *n) == record.turn, "a lower number");
            }
            T::TurnEnd => prop_assert!(turn.dispatched && !std::mem::replace(&mut turn.ended, true)),
            T::CancelRequested => prop_assert!(turn.dispatched && !turn.ended),
            // Only progress may arrive after the end.
            T::Update
            | T::Noise
            | T::Notification
            | T::ClientRequest
            | T::ClientResponse
            | T::TerminalExited => prop_assert!(record.turn.is_none() || turn.dispatched),
            _ if record.turn.is_some() => prop_assert!(turn.dispatched && !turn.ended, "{:?}", record),
            _ => {}
        }
        let request = || record.body["requestId"].as_str().unwrap_or_default().to_owned();
        match record.t {
            T::ApprovalRequested | T::ElicitationRequested => {
                prop_assert!(requests.insert(request(), 0).is_none())
            }
            T::AnswerWritten | T::ApprovalClosed => {
                let ends = requests.get_mut(&request());
                prop_assert_eq!(ends.map(|ends| std::mem::replace(ends, 1)), Some(0), "{:?}", record);
            }
            // A request whose record was dropped on a full disk has no response.
            T::ClientResponse => {
                let responses = calls.entry(record.body["call"].as_u64().unwrap_or_default()).or_default();
                *responses += 1;
                prop_assert_eq!(*responses, 1, "{:?}", record);
            }
            T::Ended => prop_assert_eq!(usize::try_from(n).unwrap(), world.talk.records.len()),
            _ => {}
        }
    }
    // Each command that sets options has exactly one final record, at the latest when
    // the agent is ended.
    for request in &world.set {
        let of = |record: &&OwnedRecord| record.t == T::OptionSet && record.body["request"] == **request;
        let all: Vec<bool> =
            world.talk.records.iter().filter(of).map(|record| record.body["last"] == true).collect();
        let last = all.iter().filter(|last| **last).count();
        prop_assert!(last <= 1 && all.iter().rev().skip(1).all(|last| !last), "{}: {:?}", request, all);
        prop_assert!(last == 1 || !world.talk.conversation.is_ending(), "{} has no end", request);
    }
    let open = requests.values().filter(|ends| **ends == 0).count();
    prop_assert_eq!(open, world.talk.conversation.open_approvals().len());
    let open: Vec<u64> =
        turns.iter().filter(|(_, turn)| turn.dispatched && !turn.ended).map(|(n, _)| *n).collect();
    prop_assert_eq!(open, world.talk.conversation.open_turn().into_iter().collect::<Vec<_>>());
    // The agent gets at most one answer per request.
    let mut answered: BTreeMap<u64, u32> = BTreeMap::new();
    for answer in world.talk.sent().iter().filter(|message| message.get("method").is_none()) {
        if let Some(id) = answer["id"].as_u64() {
            *answered.entry(id).or_default() += 1;
        }
    }
    prop_assert!(answered.values().all(|answers| *answers == 1), "{:?}", answered);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, ..ProptestConfig::default() })]

    #[test]
    fn every_journal_is_well_ordered(ready in any::<bool>(), steps in prop::collection::vec(any_step(), 0..60)) {
        let mut world = DriverModel { talk: talk(None, Some(1000)), started: false, exited: false, asked: 0, set: Vec::new() };
        if ready {
            for step in [ConversationStep::Started, ConversationStep::Answer { rpc: 1, error: false }, ConversationStep::Answer { rpc: 2, error: false }] {
                world.take(step);
            }
        }
        for step in steps {
            world.take(step);
            if world.talk.actions.contains(&ConversationAction::Exit) {
                break;
            }
        }
        check(&world)?;
        if world.talk.actions.contains(&ConversationAction::Exit) {
            prop_assert_eq!(world.talk.records.last().map(|record| record.t), Some(T::Ended));
            prop_assert!(!world.talk.conversation.has_work());
        }
    }

    #[test]
    fn an_end_always_comes(ready in any::<bool>(), steps in prop::collection::vec(any_step(), 0..30)) {
        let mut world = DriverModel { talk: talk(None, None), started: false, exited: false, asked: 0, set: Vec::new() };
        world.take(ConversationStep::Started);
        if ready {
            world.take(ConversationStep::Answer { rpc: 1, error: false });
            world.take(ConversationStep::Answer { rpc: 2, error: false });
        }
        for step in steps.into_iter().filter(|step| !matches!(step, ConversationStep::TreeEnded | ConversationStep::Exited)) {
            world.take(step);
        }
        world.take(ConversationStep::Terminate);
        // The agent does nothing more; only the clock advances.
        for _ in 0..8 {
            world.take(ConversationStep::Timer(3));
        }
        prop_assert!(world.talk.actions.contains(&ConversationAction::EndTree));
        world.take(ConversationStep::Exited);
        world.take(ConversationStep::TreeEnded);
        check(&world)?;
        prop_assert!(world.talk.actions.contains(&ConversationAction::Exit));
        let _: Vec<Value> = world.talk.sent();
    }
}
