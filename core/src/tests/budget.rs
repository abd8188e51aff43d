//! Budgets: counted usage, reported events, and consequences.

use proptest::prelude::*;
use serde_json::{Value, json};
use subagent_protocol::Code;
use subagent_protocol::budget::{Limits, LimitsChange, MAX_AMOUNT, Money, OnLimit, OnUnknown, amount};
use subagent_protocol::data::EventData;
use subagent_protocol::event::EventType;
use subagent_protocol::record::{SessionOrigin, TurnEnd};

use super::{decide, over_budget, send};
use crate::accounts::{Account, Accounts, may_open};
use crate::checker::{Checker, request};
use crate::model::{Fact, RuntimeStatus, Spent, WorkerAction, WorkerInput};

fn accounts(worker: Limits, controller: Limits) -> Accounts {
    Accounts { worker: Account::new(worker, 0), controller: Account::new(controller, 0), above: Vec::new() }
}

fn usd(micros: u64) -> Spent {
    Spent::Cost(Money { micros, currency: "USD".to_owned() })
}

fn closed(tokens: u64) -> Spent {
    Spent::Closed { tokens: Some(tokens) }
}

fn clock(runs: bool, at: i64) -> Spent {
    Spent::Clock { runs, at: Some(at) }
}

const UNKNOWN: Spent = Spent::Closed { tokens: None };

fn types(news: &[EventData]) -> Vec<EventType> {
    news.iter().map(EventData::event_type).collect()
}

#[test]
fn turns_that_are_used_up_refuse_the_next_and_say_so_once() {
    let mut accounts = accounts(Limits { turns: Some(2), ..Limits::default() }, Limits::default());
    may_open(&accounts, 0).unwrap();
    assert_eq!(accounts.spend(&Spent::Opened, 0), []);
    may_open(&accounts, 0).unwrap();
    let events = accounts.spend(&Spent::Opened, 0);
    let data = json!({"scope": "worker", "budget": "turns", "limit": 2, "used": 2, "unit": "turns", "action": "refuse"});
    assert_eq!((types(&events), events[0].to_value()), (vec![EventType::BudgetExceeded], data));
    let error = may_open(&accounts, 0).unwrap_err();
    assert_eq!(error.code, Code::BudgetExceeded);
    assert_eq!((&error.details["scope"], &error.details["used"]), (&json!("worker"), &json!(2)));
    assert_eq!(accounts.news(true, 0), [], "once");
    assert!(accounts.cancels(0).is_none());
    let raised = LimitsChange { turns: Some(Some(3)), ..LimitsChange::default() };
    accounts.worker.change(&raised, 0).unwrap();
    may_open(&accounts, 0).unwrap();
    assert_eq!(types(&accounts.spend(&Spent::Opened, 0)), [EventType::BudgetExceeded], "and again after it");
    let none = LimitsChange { turns: Some(None), ..LimitsChange::default() };
    accounts.worker.change(&none, 0).unwrap();
    may_open(&accounts, 0).unwrap();
}

#[test]
fn a_warning_refuses_nothing() {
    let limits = Limits { tokens: Some(10), on_limit: Some(OnLimit::Warn), ..Limits::default() };
    let mut accounts = accounts(limits, Limits::default());
    let events = accounts.spend(&closed(10), 0);
    assert_eq!(events[0].to_value()["action"], "warn");
    may_open(&accounts, 0).unwrap();
    assert!(accounts.cancels(0).is_none());
}

#[test]
fn two_workers_share_what_their_controller_has() {
    let shared = Limits { tokens: Some(100), on_limit: Some(OnLimit::Cancel), ..Limits::default() };
    let mut first = accounts(Limits::default(), shared);
    assert_eq!(first.spend(&closed(60), 0), []);
    let mut second = Accounts { controller: first.controller.clone(), ..Accounts::default() };
    let events = second.spend(&closed(60), 0);
    let data = events[0].to_value();
    assert_eq!((&data["scope"], &data["used"]), (&json!("controller"), &json!(120)));
    first.controller = second.controller.clone();
    for accounts in [&first, &second] {
        assert_eq!(may_open(accounts, 0).unwrap_err().details["scope"], "controller");
        assert_eq!(accounts.cancels(0).unwrap().details["budget"], "tokens");
    }
}

#[test]
fn what_an_agent_does_not_report_is_unknown_and_not_nothing() {
    let limits = |on_unknown| Limits { tokens: Some(10), on_unknown, ..Limits::default() };
    let mut warned = accounts(limits(None), Limits::default());
    assert_eq!(warned.spend(&UNKNOWN, 0), [], "an open turn is not disturbed by it");
    let view = warned.worker.view(0);
    assert_eq!((view.tokens.used, view.tokens.unreported), (Value::Null, 1));
    assert_eq!((view.cost.used, view.cost.unreported), (Value::Null, 1));
    may_open(&warned, 0).unwrap();
    let events = warned.spend(&Spent::Opened, 0);
    let data = json!({"scope": "worker", "budget": "tokens", "unreported": 1, "action": "warn"});
    assert_eq!((types(&events), events[0].to_value()), (vec![EventType::BudgetUnknown], data));
    assert_eq!(warned.spend(&Spent::Opened, 0), [], "once");

    let mut refused = accounts(limits(Some(OnUnknown::Refuse)), Limits::default());
    may_open(&refused, 0).unwrap();
    let _ = refused.spend(&UNKNOWN, 0);
    let error = may_open(&refused, 0).unwrap_err();
    assert_eq!((error.code, &error.details["unreported"]), (Code::BudgetUnknown, &json!(1)));
    let _ = refused.spend(&closed(3), 0);
    assert_eq!(refused.worker.view(0).tokens.used, json!(3), "what is known is counted");
    assert!(may_open(&refused, 0).is_err(), "what is not stays unknown");
}

#[test]
fn a_cost_is_that_of_the_session_and_settles_what_was_before() {
    let mut account = Account::default();
    let used = |account: &Account| account.view(0).cost.used.clone();
    let _ = account.spend(&UNKNOWN, 0);
    let _ = account.spend(&usd(2_000_000), 0);
    assert_eq!((used(&account), account.view(0).cost.unreported), (json!(2.0), 0), "also what came late");
    let _ = account.spend(&Spent::Opened, 0);
    let _ = account.spend(&usd(2_500_000), 0);
    let _ = account.spend(&UNKNOWN, 0);
    assert_eq!((used(&account), account.view(0).cost.unreported), (json!(2.5), 0));
    let _ = account.spend(&usd(1_000_000), 0);
    assert_eq!(used(&account), json!(3.5), "it has begun to count anew");
    let _ = account.spend(&Spent::NewSession, 0);
    let _ = account.spend(&usd(4_000_000), 0);
    assert_eq!(used(&account), json!(7.5));
    let other = Spent::Cost(Money { micros: 9_000_000, currency: "EUR".to_owned() });
    let _ = account.spend(&Spent::Opened, 0);
    let _ = account.spend(&other, 0);
    let _ = account.spend(&UNKNOWN, 0);
    let view = account.view(0).cost;
    assert_eq!((view.used, view.unit.as_deref(), view.unreported), (json!(7.5), Some("USD"), 1));
}

#[test]
fn time_counts_while_a_turn_runs_and_is_shared() {
    let worker = Limits { wall_time_ms: Some(10_000), on_limit: Some(OnLimit::Cancel), ..Limits::default() };
    let mut one = accounts(worker, Limits { wall_time_ms: Some(12_000), ..Limits::default() });
    let _ = one.spend(&clock(true, 1_000), 1_000);
    assert_eq!(one.left(1_000), Some(10_000));
    assert_eq!(one.left(4_000), Some(7_000));
    let _ = one.spend(&clock(true, 4_000), 4_000);
    let _ = one.spend(&clock(false, 5_000), 9_000);
    assert_eq!((one.worker.view(50_000).wall_time.used, one.left(50_000)), (json!(4), None));
    let _ = one.spend(&clock(false, 6_000), 9_000);
    let mut other = Accounts { controller: one.controller.clone(), ..Accounts::default() };
    let _ = one.spend(&clock(true, 20_000), 20_000);
    other.controller = one.controller.clone();
    let _ = other.spend(&clock(true, 20_000), 20_000);
    one.controller = other.controller.clone();
    assert_eq!(one.left(20_000), Some(4_000), "two run, and 8 of 12 seconds are left");
    assert_eq!(types(&one.clone().news(false, 24_000)), [EventType::BudgetExceeded]);
    assert!(one.cancels(24_000).is_none(), "the controller's refuses");
    assert_eq!(one.cancels(26_000).unwrap().details["scope"], "worker");
    let _ = one.spend(&clock(false, 10), 30_000);
    assert_eq!(one.worker.view(30_000).wall_time.used, json!(4), "a clock that goes back takes nothing away");
}

fn session() -> WorkerInput {
    WorkerInput::Session {
        origin: SessionOrigin::New,
        context_lost: false,
        context_lost_reason: None,
        took_ms: None,
    }
}

fn spent(facts: &[Fact]) -> Vec<&Spent> {
    facts
        .iter()
        .filter_map(|fact| match fact {
            Fact::Spent(spent) => Some(spent),
            _ => None,
        })
        .collect()
}

#[test]
fn a_turn_that_waits_for_an_answer_takes_no_time() {
    let mut checker = Checker::new();
    checker.worker.link = RuntimeStatus::Starting;
    for input in [session(), send(1), WorkerInput::Dispatching { turn: 1 }] {
        checker.step(&input).unwrap();
    }
    let step = checker.worker.step(WorkerInput::ApprovalRequested { request_id: request(1) }).unwrap();
    assert_eq!(spent(&step.facts), [&Spent::Clock { runs: false, at: None }]);
    checker.step(&WorkerInput::ApprovalRequested { request_id: request(1) }).unwrap();
    let step = checker.worker.step(decide(request(1), Some("allow"))).unwrap();
    assert_eq!(spent(&step.facts), [&Spent::Clock { runs: true, at: None }]);
    let usage = Some(json!({"totalTokens": 7}));
    let end = TurnEnd::Answered { stop_reason: None, usage, meta: None };
    let step = checker.worker.step(WorkerInput::TurnEnd { turn: 1, end }).unwrap();
    assert_eq!(spent(&step.facts), [&closed(7)], "it waited to its end");
}

#[test]
fn a_budget_that_is_used_up_cancels_the_open_turn_as_a_person_would() {
    let mut checker = Checker::new();
    checker.worker.link = RuntimeStatus::Starting;
    checker.step(&session()).unwrap();
    assert_eq!(checker.worker.step(over_budget()).unwrap().facts, [], "nothing is open");
    for input in [send(1), WorkerInput::Dispatching { turn: 1 }] {
        checker.step(&input).unwrap();
    }
    let actions = checker.step(&over_budget()).unwrap();
    let [WorkerAction::Cancel { turn: 1, reason }] = &actions[..] else { panic!("{actions:?}") };
    assert!(reason.starts_with("BUDGET_EXCEEDED: "), "{reason}");
    assert_eq!(checker.step(&over_budget()).unwrap(), [], "once");
}

fn anything() -> impl Strategy<Value = Spent> {
    let number = || prop_oneof![0u64..50, Just(MAX_AMOUNT), Just(u64::MAX)];
    let time = prop_oneof![Just(None), any::<i64>().prop_map(Some), (0i64..100_000).prop_map(Some)];
    let currency = prop::sample::select(vec!["USD", "EUR"]);
    prop_oneof![
        Just(Spent::Opened),
        prop::option::of(number()).prop_map(|tokens| Spent::Closed { tokens }),
        (number(), currency)
            .prop_map(|(micros, currency)| Spent::Cost(Money { micros, currency: currency.to_owned() })),
        Just(Spent::NewSession),
        (any::<bool>(), time).prop_map(|(runs, at)| Spent::Clock { runs, at }),
    ]
}

fn limits() -> impl Strategy<Value = Limits> {
    let number = || prop::option::of(prop_oneof![1u64..100, Just(MAX_AMOUNT)]);
    let on_limit = prop::option::of(prop::sample::select(OnLimit::ALL));
    let on_unknown = prop::option::of(prop::sample::select(OnUnknown::ALL));
    (
        number(),
        number(),
        number(),
        prop::option::of((1u64..10_000_000).prop_map(amount)),
        on_limit,
        on_unknown,
    )
        .prop_map(|(turns, wall_time_ms, tokens, cost, on_limit, on_unknown)| Limits {
            turns,
            wall_time_ms,
            tokens,
            cost,
            on_limit,
            on_unknown,
        })
}

proptest! {
    /// For two workers of a controller, one limited and one not, with any usage at any time.
    #[test]
    fn any_spent_limit_is_reported_once_and_refused_for_good(
        own in limits(),
        shared in limits(),
        history in prop::collection::vec((any::<bool>(), anything(), 0i64..1_000_000), 0..60),
    ) {
        let mut workers = [Account::new(own, 0), Account::default()];
        let mut controller = Account::new(shared, 0);
        let mut events = Vec::new();
        let mut now = 0;
        for (which, spent, later) in history {
            now += later;
            let which = usize::from(which);
            let mut accounts = Accounts { worker: workers[which].clone(), controller, above: Vec::new() };
            let before = may_open(&accounts, now);
            for event in accounts.spend(&spent, now) {
                let (event_type, data) = (event.event_type(), event.to_value());
                let what = (event_type, data["scope"].clone(), data["budget"].clone());
                prop_assert!(!events.contains(&what), "told twice: {what:?}");
                events.push(what);
            }
            let refused = |result: &subagent_protocol::Result<()>| matches!(result, Err(error) if error.code == Code::BudgetExceeded);
            let time_only = before.as_ref().is_err_and(|error| error.details["budget"] == "wallTime");
            prop_assert!(!refused(&before) || may_open(&accounts, now).is_err() || time_only, "nothing gives back what was used");
            let text = serde_json::to_string(&accounts.worker).unwrap();
            prop_assert_eq!(&serde_json::from_str::<Account>(&text).unwrap(), &accounts.worker);
            let _ = (accounts.worker.view(now), accounts.left(now), accounts.cancels(now));
            prop_assert!(accounts.worker.running() <= 1);
            workers[which] = accounts.worker;
            controller = accounts.controller;
            prop_assert_eq!(controller.turns(), workers[0].turns() + workers[1].turns());
            prop_assert_eq!(controller.running(), workers[0].running() + workers[1].running());
            prop_assert_eq!(controller.reported(), workers[0].reported() + workers[1].reported());
        }
    }
}
