//! Accounts of a tree of workers: usage is charged to all above, and exhausted budgets above apply
//! below.

use proptest::prelude::*;
use serde_json::{Value, json};
use subagent_protocol::Code;
use subagent_protocol::budget::{Limits, LimitsChange, Money, OnLimit, OnUnknown, Used};
use subagent_protocol::data::EventData;
use subagent_protocol::event::EventType;
use subagent_protocol::ids::WorkerId;

use crate::accounts::{Above, Account, Accounts, may_give_work, may_open};
use crate::model::Spent;

/// Workers. Each one except the roots is below an earlier one.
struct Forest {
    parents: Vec<Option<usize>>,
    accounts: Vec<Account>,
    controller: Account,
}

fn id(worker: usize) -> WorkerId {
    WorkerId::from_random([u8::try_from(worker).unwrap(); 5])
}

impl Forest {
    fn new(workers: &[(Option<usize>, Limits)], controller: Limits) -> Self {
        Self {
            parents: workers.iter().map(|(parent, _)| *parent).collect(),
            accounts: workers.iter().map(|(_, limits)| Account::new(limits.clone(), 0)).collect(),
            controller: Account::new(controller, 0),
        }
    }

    fn above(&self, worker: usize) -> impl Iterator<Item = usize> {
        std::iter::successors(self.parents[worker], |above| self.parents[*above])
    }

    fn of(&self, worker: usize) -> Accounts {
        let above = self.above(worker).map(|above| Above {
            key: i64::try_from(above).unwrap(),
            worker_id: id(above),
            account: self.accounts[above].clone(),
        });
        Accounts {
            worker: self.accounts[worker].clone(),
            above: above.collect(),
            controller: self.controller.clone(),
        }
    }

    fn spend(&mut self, worker: usize, spent: &Spent, now: i64) -> Vec<EventData> {
        let mut accounts = self.of(worker);
        let events = accounts.spend(spent, now);
        let Accounts { worker: own, above, controller } = accounts;
        for above in above {
            self.accounts[usize::try_from(above.key).unwrap()] = above.account;
        }
        (self.accounts[worker], self.controller) = (own, controller);
        events
    }
}

fn closed(tokens: u64) -> Spent {
    Spent::Closed { tokens: Some(tokens) }
}

fn clock(runs: bool, at: i64) -> Spent {
    Spent::Clock { runs, at: Some(at) }
}

fn tokens(limit: u64) -> Limits {
    Limits { tokens: Some(limit), ..Limits::default() }
}

/// Builds a root with these limits, its task, and a task of that task.
fn chain(root: Limits) -> Forest {
    let none = Limits::default;
    Forest::new(&[(None, root), (Some(0), none()), (Some(1), none())], none())
}

#[test]
fn m6_what_a_task_uses_is_used_of_what_every_worker_above_it_has() {
    let mut tree = chain(tokens(100));
    assert_eq!(tree.spend(0, &closed(30), 0), []);
    assert_eq!(tree.spend(1, &closed(20), 0), []);
    let events = tree.spend(2, &closed(50), 0);
    let data = json!({
        "scope": "worker", "workerId": id(0), "budget": "tokens", "limit": 100, "used": 100, "unit": "tokens", "action": "refuse",
    });
    let events: Vec<_> = events.iter().map(|event| (event.event_type(), event.to_value())).collect();
    assert_eq!(events, [(EventType::BudgetExceeded, data)]);
    for (worker, named) in [(0, Value::Null), (1, json!(id(0))), (2, json!(id(0)))] {
        for refused in [may_open(&tree.of(worker), 0), may_give_work(&tree.of(worker), 0)] {
            let error = refused.unwrap_err();
            let events = error.details.get("workerId").cloned().unwrap_or_default();
            assert_eq!((error.code, events), (Code::BudgetExceeded, named.clone()), "{error}");
        }
    }
    let shown = |worker: usize| tree.accounts[worker].view(0).tokens;
    assert_eq!((shown(0).used, shown(0).own), (json!(100), Some(json!(30))));
    assert_eq!((shown(1).used, shown(1).own), (json!(70), Some(json!(20))));
    assert_eq!((shown(2).used, shown(2).own), (json!(50), None));
    assert_eq!(tree.controller.view(0).tokens.used, json!(100), "and of the controller's once");
    let raised = LimitsChange { tokens: Some(Some(101)), ..LimitsChange::default() };
    tree.accounts[0].change(&raised, 0).unwrap();
    may_open(&tree.of(2), 0).unwrap();
}

#[test]
fn m6_turns_are_a_workers_own() {
    let mut tree = chain(Limits { turns: Some(1), ..Limits::default() });
    assert_eq!(tree.spend(0, &Spent::Opened, 0).len(), 1);
    assert_eq!(tree.spend(1, &Spent::Opened, 0), []);
    may_open(&tree.of(1), 0).unwrap();
    may_give_work(&tree.of(0), 0).unwrap();
    assert_eq!(may_open(&tree.of(0), 0).unwrap_err().details["used"], 1);
    assert_eq!(tree.controller.view(0).turns.used, json!(2));
    assert!(!tree.accounts[0].is_shared());
}

#[test]
fn m6_what_is_unknown_below_is_unknown_above() {
    let limits = Limits { on_unknown: Some(OnUnknown::Refuse), ..tokens(100) };
    let mut tree = chain(limits);
    assert_eq!(tree.spend(2, &Spent::Closed { tokens: None }, 0), []);
    let error = may_open(&tree.of(1), 0).unwrap_err();
    assert_eq!(
        (error.code, &error.details["workerId"], &error.details["unreported"]),
        (Code::BudgetUnknown, &json!(id(0)), &json!(1))
    );
    let Used { used, own, unreported, .. } = tree.accounts[0].view(0).tokens;
    assert_eq!((used, own, unreported), (Value::Null, Some(json!(0)), 1), "its own is none");
}

#[test]
fn m6_what_uses_up_a_budget_above_cancels_the_turns_of_all_whose_it_is() {
    let mut tree = chain(Limits { on_limit: Some(OnLimit::Cancel), ..tokens(10) });
    let _ = tree.spend(1, &clock(true, 0), 0);
    assert!(tree.of(0).cancels_others(0).is_empty());
    let _ = tree.spend(0, &closed(10), 0);
    for worker in 0..3 {
        let accounts = tree.of(worker);
        assert!(!accounts.cancels_others(0).is_empty() && accounts.cancels(0).is_some(), "{worker}");
    }
    let mut alone = chain(Limits { on_limit: Some(OnLimit::Cancel), ..tokens(10) });
    let _ = alone.spend(0, &closed(10), 0);
    assert!(
        alone.of(0).cancels(0).is_some() && alone.of(0).cancels_others(0).is_empty(),
        "there is no other worker"
    );
}

#[test]
fn m6_the_time_of_a_tree_is_the_sum_of_the_times_of_its_workers() {
    let mut tree = chain(Limits { wall_time_ms: Some(10_000), ..Limits::default() });
    let _ = tree.spend(0, &clock(true, 0), 0);
    assert_eq!(tree.of(2).left(0), Some(10_000));
    let _ = tree.spend(2, &clock(true, 2_000), 2_000);
    assert_eq!(tree.of(2).left(2_000), Some(4_000), "two run, and 8 seconds are left");
    let _ = tree.spend(0, &clock(false, 3_000), 3_000);
    assert_eq!(tree.accounts[0].view(9_000).wall_time.used, json!(10));
    assert_eq!(tree.accounts[0].view(9_000).wall_time.own, Some(json!(3)));
    assert_eq!(tree.accounts[0].ran_ms(9_000), 3_000, "a limit of its own task counts its own");
    assert!(!tree.accounts[0].runs() && tree.accounts[2].runs());
    assert_eq!(may_open(&tree.of(1), 9_000).unwrap_err().details["budget"], "wallTime");
}

fn spent() -> impl Strategy<Value = Spent> {
    let usd = |micros| Spent::Cost(Money { micros, currency: "USD".to_owned() });
    prop_oneof![
        Just(Spent::Opened),
        prop::option::of(0u64..50).prop_map(|tokens| Spent::Closed { tokens }),
        (0u64..5_000_000).prop_map(usd),
        Just(Spent::NewSession),
        any::<bool>().prop_map(|runs| Spent::Clock { runs, at: None }),
    ]
}

fn limits() -> impl Strategy<Value = Limits> {
    let number = |most| prop::option::of(1..most);
    (number(6u64), number(5_000u64), number(100u64), number(9u64)).prop_map(
        |(turns, wall_time_ms, tokens, cost)| {
            let cost = cost.map(|cost| cost as f64);
            Limits { turns, wall_time_ms, tokens, cost, on_limit: None, on_unknown: None }
        },
    )
}

fn forest() -> impl Strategy<Value = Vec<(Option<usize>, Limits)>> {
    let above = |(index, (any, limits)): (usize, (prop::sample::Index, Limits))| {
        let above = any.index(index + 1);
        ((above < index).then_some(above), limits)
    };
    prop::collection::vec((any::<prop::sample::Index>(), limits()), 1..8)
        .prop_map(move |workers| workers.into_iter().enumerate().map(above).collect())
}

/// Sums up shown amounts.
fn sum<'a>(all: impl Iterator<Item = &'a Account>, of: impl Fn(&Account) -> Used) -> (f64, u64) {
    all.map(of).fold((0.0, 0), |(sum, unreported), used| {
        (sum + used.used.as_f64().unwrap_or(0.0), unreported + used.unreported)
    })
}

fn near(one: (f64, u64), other: (f64, u64)) -> bool {
    (one.0 - other.0).abs() < 1e-6 && one.1 == other.1
}

proptest! {
    /// Each account is the sum of what is below it, and workers below an exhausted one are refused.
    #[test]
    fn m3_a_task_may_use_no_more_than_what_every_worker_above_it_has_left(
        workers in forest(),
        controller in limits(),
        history in prop::collection::vec((any::<prop::sample::Index>(), spent(), 0i64..1_000), 0..60),
    ) {
        let mut forest = Forest::new(&workers, controller);
        // The usage of each worker without the others.
        let mut alone = vec![Account::default(); workers.len()];
        let mut events = Vec::new();
        let mut now = 0;
        for (which, spent, later) in history {
            now += later;
            let which = which.index(workers.len());
            let _ = alone[which].spend(&spent, now);
            for event in forest.spend(which, &spent, now) {
                let (event_type, data) = (event.event_type(), event.to_value());
                let whose = match data["scope"].as_str() {
                    Some("worker") => data.get("workerId").cloned().unwrap_or_else(|| json!(id(which))),
                    _ => Value::Null,
                };
                let what = (event_type, whose, data["budget"].clone());
                prop_assert!(!events.contains(&what), "told twice: {what:?}");
                events.push(what);
            }
        }
        type Of = fn(&Account, i64) -> Used;
        let all: [Of; 3] = [|a, now| a.view(now).wall_time, |a, now| a.view(now).tokens, |a, now| a.view(now).cost];
        for of in all {
            let of = |account: &Account| of(account, now);
            for (index, account) in forest.accounts.iter().enumerate() {
                let below = (0..workers.len()).filter(|other| *other == index || forest.above(*other).any(|above| above == index));
                let below = sum(below.map(|other| &alone[other]), of);
                prop_assert!(near(sum(std::iter::once(account), of), below), "worker {index}: {account:?}, {below:?}");
                let own = of(account).own.unwrap_or_else(|| of(account).used);
                prop_assert_eq!(own, of(&alone[index]).used);
            }
            prop_assert!(near(sum(std::iter::once(&forest.controller), of), sum(alone.iter(), of)));
        }
        let is_over = |account: &Account, with_turns: bool| {
            let view = account.view(now);
            let over = |used: &Used| used.limit.as_f64().is_some_and(|limit| used.used.as_f64().unwrap_or(0.0) >= limit);
            [&view.wall_time, &view.tokens, &view.cost].into_iter().any(over) || (with_turns && over(&view.turns))
        };
        for index in 0..workers.len() {
            let over = is_over(&forest.accounts[index], true)
                || forest.above(index).any(|above| is_over(&forest.accounts[above], false))
                || is_over(&forest.controller, true);
            prop_assert_eq!(may_open(&forest.of(index), now).is_err(), over, "worker {}", index);
            let text = serde_json::to_string(&forest.accounts[index]).unwrap();
            prop_assert_eq!(&serde_json::from_str::<Account>(&text).unwrap(), &forest.accounts[index]);
        }
    }
}
