//! Limits of a task's prompt (M6), for any deaths of the counting daemon.

use proptest::prelude::*;

use crate::accounts::Account;
use crate::model::{Spent, TaskEnding};
use crate::task::limits::{MAX_STEPS, PromptLimits, PromptTime};

fn clock(runs: bool, at: i64) -> Spent {
    Spent::Clock { runs, at: Some(at) }
}

/// Returns the time of a prompt whose worker has not run before.
fn ran(account: &Account, now: i64) -> PromptTime {
    PromptTime::of(account, 0, now)
}

#[test]
fn a_call_is_one_step_however_often_it_is_spoken_of() {
    let mut meter = PromptLimits::new(2, 0, false);
    let none = ran(&Account::default(), 0);
    assert!(meter.steps.see("1") && !meter.steps.see("1") && meter.steps.see("2"));
    assert_eq!((meter.steps.count(), meter.look(none)), (2, None), "as many as it may");
    assert!(meter.steps.see(&"3".repeat(5000)), "however long its id is");
    assert_eq!(meter.look(none), Some(TaskEnding::MaxIterationsReached));
    assert_eq!(meter.look(none), None, "once");
}

#[test]
fn what_an_agent_makes_up_is_bounded() {
    let mut meter = PromptLimits::new(u64::MAX, 0, false);
    for id in 0..2 * MAX_STEPS {
        meter.steps.see(&id.to_string());
    }
    assert_eq!(meter.steps.count(), MAX_STEPS + 1);
    assert_eq!(meter.look(ran(&Account::default(), 0)), Some(TaskEnding::MaxIterationsReached));
}

#[test]
fn a_prompt_without_a_limit_runs_on() {
    let (mut meter, mut account) = (PromptLimits::new(1, 0, false), Account::default());
    let _ = account.spend(&clock(true, 0), 0);
    assert_eq!((meter.look(ran(&account, i64::MAX)), meter.left(ran(&account, 0))), (None, None));
}

#[test]
fn time_is_that_of_the_prompt_and_not_of_the_one_before() {
    let mut account = Account::default();
    let _ = account.spend(&clock(true, 0), 0);
    let _ = account.spend(&clock(false, 700), 700);
    let mut meter = PromptLimits::new(1, 1000, false);
    let before_ms = account.ran_ms(900);
    assert_eq!(meter.left(PromptTime::of(&account, before_ms, 900)), None, "it waits for its place");
    let _ = account.spend(&clock(true, 1000), 1000);
    let ran = |now| PromptTime::of(&account, before_ms, now);
    assert_eq!((meter.left(ran(1400)), meter.look(ran(1999))), (Some(600), None));
    assert_eq!((meter.look(ran(2000)), meter.left(ran(2000))), (Some(TaskEnding::TimedOut), None));
}

/// An event while a prompt is open.
#[derive(Debug, Clone)]
enum OpenPromptEvent {
    Step(u8),
    Pass(u16),
    Asks,
    IsAnswered,
    /// The daemon dies, and another one reads the store.
    Dies,
}

fn op() -> impl Strategy<Value = OpenPromptEvent> {
    prop_oneof![
        4 => any::<u8>().prop_map(OpenPromptEvent::Step),
        4 => any::<u16>().prop_map(OpenPromptEvent::Pass),
        1 => Just(OpenPromptEvent::Asks),
        1 => Just(OpenPromptEvent::IsAnswered),
        2 => Just(OpenPromptEvent::Dies),
    ]
}

proptest! {
    /// Compares with a counter and a stopwatch that are never interrupted.
    #[test]
    fn a_prompt_ends_once_and_when_it_should(
        max_steps in 0u64..40,
        timeout_ms in prop_oneof![Just(0u64), 1u64..400_000],
        earlier_ms in 0i64..100_000,
        ops in prop::collection::vec(op(), 0..120),
    ) {
        let mut account = Account::default();
        let _ = account.spend(&clock(true, 0), 0);
        let mut now = earlier_ms;
        let _ = account.spend(&clock(false, now), now);
        let before_ms = account.ran_ms(now);
        let _ = account.spend(&clock(true, now), now);
        let (mut seen, mut ran, mut runs) = (Vec::new(), 0u64, true);
        let mut ended = None;
        let mut meter = PromptLimits::new(max_steps, timeout_ms, false);
        for op in ops {
            match op {
                OpenPromptEvent::Step(id) => {
                    let is_new = !seen.contains(&id);
                    seen.push(id);
                    prop_assert_eq!(meter.steps.see(&id.to_string()), is_new);
                }
                OpenPromptEvent::Pass(ms) => {
                    now += i64::from(ms);
                    ran += if runs { u64::from(ms) } else { 0 };
                }
                OpenPromptEvent::Asks | OpenPromptEvent::IsAnswered => {
                    runs = matches!(op, OpenPromptEvent::IsAnswered);
                    let _ = account.spend(&clock(runs, now), now);
                }
                OpenPromptEvent::Dies => {
                    account = serde_json::from_str(&serde_json::to_string(&account).unwrap()).unwrap();
                    meter = PromptLimits::new(max_steps, timeout_ms, ended.is_some());
                    for id in seen.iter().rev() {
                        meter.steps.see(&id.to_string());
                    }
                }
            }
            let steps = seen.iter().collect::<std::collections::HashSet<_>>().len() as u64;
            prop_assert_eq!(meter.steps.count(), steps);
            let by_steps = steps > max_steps;
            let by_time = timeout_ms > 0 && ran >= timeout_ms;
            let expected = match (ended, by_steps, by_time) {
                (None, true, _) => Some(TaskEnding::MaxIterationsReached),
                (None, false, true) => Some(TaskEnding::TimedOut),
                _ => None,
            };
            let so_far = PromptTime::of(&account, before_ms, now);
            let left = meter.left(so_far);
            prop_assert_eq!(left.is_some(), ended.is_none() && runs && timeout_ms > 0);
            prop_assert!(left.is_none_or(|left| left == timeout_ms.saturating_sub(ran)));
            prop_assert_eq!(meter.look(so_far), expected);
            prop_assert_eq!(meter.look(so_far), None, "it ends once");
            ended = ended.or(expected);
        }
    }
}
