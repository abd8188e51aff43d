//! Histories of a trigger in the store: runs of its command, requests, pauses and kills.
//! `SUBAGENT_SCHEDULE_HISTORIES` sets how many are run.

use std::cell::RefCell;
use std::collections::BTreeMap;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestCaseError, TestRunner};
use serde_json::json;
use subagent_protocol::api::{ScheduledMessage, ScheduledWork};
use subagent_protocol::schedule::{Overlap, SchedulePause};
use subagent_protocol::trigger::TriggerSource;

use super::*;
use crate::store::schedules::{self, FiringSource, StoredTimes, all, ends};

const MAX_FAILURES: u32 = 3;

#[derive(Debug, Clone)]
enum Op {
    /// The command has written this output.
    Run(u8),
    Fail,
    /// A request for this occurrence.
    Request(u8),
    Pause,
    Resume,
}

/// An operation, and whether the daemon is killed before it is stored. Then the next one does it
/// again.
fn ops() -> impl Strategy<Value = (Op, bool)> {
    let op = prop_oneof![
        5 => (0..3u8).prop_map(Op::Run),
        2 => Just(Op::Fail),
        3 => (0..6u8).prop_map(Op::Request),
        1 => Just(Op::Pause),
        1 => Just(Op::Resume),
    ];
    (op, prop::bool::weighted(0.3))
}

/// What is stored of a trigger, by its rules.
#[derive(Debug, Default)]
struct Model {
    observed: Option<u8>,
    /// The payloads of firings that wait, and how many there are of each.
    waiting: BTreeMap<String, usize>,
    occurrences: Vec<u8>,
    failed: usize,
    in_a_row: u32,
    paused: bool,
}

impl Model {
    fn apply(&mut self, op: &Op) {
        match op {
            Op::Pause => self.pause(),
            Op::Resume if self.paused => {
                (self.paused, self.observed, self.in_a_row) = (false, None, 0);
            }
            _ if self.paused => {}
            Op::Resume => {}
            Op::Fail => {
                self.failed += 1;
                self.in_a_row += 1;
                if self.in_a_row >= MAX_FAILURES {
                    self.pause();
                }
            }
            Op::Run(output) => {
                self.in_a_row = 0;
                if self.observed.replace(*output).is_some_and(|before| before != *output) {
                    self.fire(format!("output {output}"));
                }
            }
            Op::Request(id) if self.occurrences.contains(id) => {}
            Op::Request(id) => {
                self.occurrences.push(*id);
                self.fire(format!("request {id}"));
            }
        }
    }

    fn fire(&mut self, payload: String) {
        *self.waiting.entry(payload).or_default() += 1;
    }

    /// Firings that wait are left out.
    fn pause(&mut self) {
        if !std::mem::replace(&mut self.paused, true) {
            self.waiting.clear();
        }
    }
}

/// The store with one trigger.
struct TriggerFixture<'a> {
    connection: &'a mut Connection,
    id: RowId,
    now: i64,
}

impl TriggerFixture<'_> {
    fn row(&self) -> ScheduleRow {
        all(self.connection).unwrap().into_iter().find(|row| row.id == self.id).unwrap()
    }

    /// Stores the operation, or not if the daemon is killed before.
    fn store(&mut self, op: &Op, is_killed: bool) {
        // Several at the same time, and a clock that is set back.
        self.now += i64::from(!is_killed) - i64::from(matches!(op, Op::Request(2)));
        let (row, now, id) = (self.row(), Timestamp(self.now), self.id);
        let savepoint = self.connection.savepoint().unwrap();
        let mut seq = 0;
        let mut tx = Tx::new(&savepoint, &mut seq);
        match op {
            Op::Run(output) => {
                let found =
                    Observation::Output { text: format!("output {output}"), sha256: output.to_string() };
                store_observation(&mut tx, &row, &found, now).unwrap();
            }
            Op::Fail => {
                let found = Observation::Failed(Error::new(Code::CommandFailed, "no"));
                store_observation(&mut tx, &row, &found, now).unwrap();
            }
            Op::Request(number) => {
                let (occurrence, payload) = (number.to_string(), format!("request {number}"));
                let firing =
                    NewFiring { manual: false, occurrence: Some(occurrence), payload: Some(payload) };
                store_occurrence(&tx, id, &firing, now).unwrap();
            }
            Op::Pause => {
                ends::pause(&mut tx, id, SchedulePause::User, None, now).unwrap();
            }
            Op::Resume => schedules::resume(&tx, &row, now).unwrap(),
        }
        drop(tx);
        if !is_killed {
            savepoint.commit().unwrap();
        }
    }

    /// Stores the output of a run that began with this row.
    fn store_run(&mut self, row: &ScheduleRow, text: &str) {
        self.now += 1;
        let mut seq = 0;
        let now = Timestamp(self.now);
        store_observation(&mut Tx::new(self.connection, &mut seq), row, &output(text), now).unwrap();
    }

    fn count(&self, sql: &str) -> usize {
        let sql = format!("SELECT count(*) FROM firings WHERE schedule = ?1 AND {sql}");
        let count: i64 = rows::one(self.connection, &sql, [self.id.0], |row| row.get(0)).unwrap();
        usize::try_from(count).unwrap()
    }

    fn compare(&self, model: &Model) -> Result<(), TestCaseError> {
        let row = self.row();
        prop_assert_eq!(row.paused.is_some(), model.paused);
        prop_assert_eq!(row.failures, model.in_a_row);
        prop_assert_eq!(self.count("status = 'failed'"), model.failed);
        prop_assert_eq!(self.count("occurrence IS NOT NULL"), model.occurrences.len());
        prop_assert_eq!(self.count("status = 'waiting'"), model.waiting.values().sum::<usize>());
        for (payload, count) in &model.waiting {
            let of_it = self.count(&format!("status = 'waiting' AND payload = '{payload}'"));
            prop_assert_eq!(of_it, *count, "{}", payload);
        }
        Ok(())
    }
}

/// Adds a trigger. Returns its key.
fn planted(connection: &mut Connection) -> RowId {
    let source = TriggerSource::Command {
        command: "true".to_owned(),
        cwd: "/".into(),
        every_seconds: 1,
        timeout_seconds: 1,
    };
    let times = StoredTimes {
        starter: FiringSource::Trigger { source },
        overlap: Overlap::Queue,
        max_failures: MAX_FAILURES,
        declared: None,
    };
    let work = ScheduledWork::Send(ScheduledMessage { worker: "w_1".to_owned(), text: "x".to_owned() });
    let controller = serde_json::from_value(json!("ctl_0123456789")).unwrap();
    let mut seq = 0;
    let tx = Tx::new(connection, &mut seq);
    schedules::insert(&tx, "x", &controller, &times, &work, Timestamp(0)).unwrap();
    all(connection).unwrap()[0].id
}

fn history(connection: &mut Connection, ops: &[(Op, bool)]) -> Result<(), TestCaseError> {
    let id = planted(connection);
    let mut world = TriggerFixture { connection, id, now: 1_000 };
    let mut model = Model::default();
    for (op, is_killed) in ops {
        if *is_killed {
            world.store(op, true);
            world.compare(&model)?;
        }
        world.store(op, false);
        model.apply(op);
        world.compare(&model)?;
    }
    let mut seq = 0;
    schedules::delete(&Tx::new(connection, &mut seq), id).unwrap();
    Ok(())
}

#[test]
fn each_change_and_each_occurrence_fires_once_across_kills() {
    let cases = std::env::var("SUBAGENT_SCHEDULE_HISTORIES").ok();
    let cases = cases.and_then(|text| text.parse().ok()).unwrap_or(1000);
    let mut connection = Connection::open_in_memory().unwrap();
    crate::store::database::schema::migrate(&mut connection).unwrap();
    let connection = RefCell::new(connection);
    let mut runner = TestRunner::new(Config { cases, ..Config::default() });
    let run = runner.run(&prop::collection::vec(ops(), 0..24), |ops| {
        // What a failed history has left.
        connection.borrow().execute_batch("DELETE FROM firings; DELETE FROM schedules").unwrap();
        history(&mut connection.borrow_mut(), &ops)
    });
    run.unwrap();
}

fn output(text: &str) -> Observation {
    Observation::Output { text: text.to_owned(), sha256: text.to_owned() }
}

#[test]
fn a_run_that_began_before_a_pause_or_a_removal_stores_nothing() {
    let mut connection = Connection::open_in_memory().unwrap();
    crate::store::database::schema::migrate(&mut connection).unwrap();
    let id = planted(&mut connection);
    let mut world = TriggerFixture { connection: &mut connection, id, now: 1_000 };
    let before = world.row();
    world.store(&Op::Pause, false);
    world.store(&Op::Resume, false);
    world.store_run(&before, "stale");
    world.store(&Op::Run(1), false);
    assert_eq!(world.count("status = 'waiting'"), 0);
    // Another trigger with the same key.
    let first = ScheduleRow { created_at: Timestamp(5), ..world.row() };
    world.store_run(&first, "of another one");
    assert_eq!(world.count("status = 'waiting'"), 0);
    world.store(&Op::Run(2), false);
    assert_eq!(world.count("status = 'waiting'"), 1);
}

#[test]
fn a_run_that_succeeds_ends_failed_runs_and_not_failures_of_the_work() {
    let mut connection = Connection::open_in_memory().unwrap();
    crate::store::database::schema::migrate(&mut connection).unwrap();
    let id = planted(&mut connection);
    let mut world = TriggerFixture { connection: &mut connection, id, now: 1_000 };
    world.store(&Op::Fail, false);
    assert_eq!(world.row().failures, 1);
    world.store(&Op::Run(1), false);
    assert_eq!(world.row().failures, 0);
    world.store(&Op::Run(2), false);
    let mut seq = 0;
    let firing: i64 = rows::one(
        world.connection,
        "SELECT id FROM firings WHERE schedule = ?1 AND status = 'waiting'",
        [id.0],
        |row| row.get(0),
    )
    .unwrap();
    let (status, error) = (FiringStatus::Failed, Some(Error::new(Code::InvalidArgument, "no")));
    let end = FiringEnd { firing: RowId(firing), started: false, status, error, pause: None };
    ends::end_firing(&mut Tx::new(world.connection, &mut seq), &end, Timestamp(2_000)).unwrap();
    world.store(&Op::Run(2), false);
    assert_eq!(world.row().failures, 1);
    // A failed run between the two makes no difference.
    world.now = 3_000;
    world.store(&Op::Fail, false);
    assert_eq!(world.row().failures, 2);
    world.store(&Op::Run(2), false);
    assert_eq!(world.row().failures, 1);
    world.store(&Op::Run(2), false);
    assert_eq!(world.row().failures, 1, "a failed run is taken back once");
}
