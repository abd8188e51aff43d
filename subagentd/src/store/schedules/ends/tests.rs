//! Failures in a row count in the order of the firings, and not in that of their ends.

use serde_json::json;
use subagent_protocol::api::{ScheduledMessage, ScheduledWork};
use subagent_protocol::schedule::{Missed, Overlap, When};

use super::*;
use crate::store::schedules::firings::NewFiring;
use crate::store::schedules::{self, FiringSource, StoredTimes, all, firings};

/// The store with one schedule, which three failures pause.
struct ScheduleFixture {
    connection: Connection,
    now: i64,
}

impl ScheduleFixture {
    fn new() -> Self {
        let mut connection = Connection::open_in_memory().unwrap();
        crate::store::database::schema::migrate(&mut connection).unwrap();
        let times = StoredTimes {
            starter: FiringSource::Times {
                when: When::EverySeconds(60),
                timezone: "UTC".to_owned(),
                missed: Missed::Once,
            },
            overlap: Overlap::Parallel,
            max_failures: 3,
            declared: None,
        };
        let work = ScheduledWork::Send(ScheduledMessage { worker: "w_1".to_owned(), text: "x".to_owned() });
        let controller = serde_json::from_value(json!("ctl_0123456789")).unwrap();
        let world = Self { connection, now: 1_000 };
        world.tx(|tx| schedules::insert(tx, "x", &controller, &times, &work, Timestamp(0)));
        world
    }

    fn tx<T>(&self, work: impl FnOnce(&mut Tx<'_>) -> Result<T>) -> T {
        let mut seq = 0;
        work(&mut Tx::new(&self.connection, &mut seq)).unwrap()
    }

    fn schedule(&self) -> (RowId, u32, Option<SchedulePause>) {
        let row = all(&self.connection).unwrap().remove(0);
        (row.id, row.failures, row.paused)
    }

    fn fire(&mut self) -> RowId {
        self.now += 1;
        let (now, id) = (Timestamp(self.now), self.schedule().0);
        // A pause leaves it.
        let firing = NewFiring { manual: true, ..NewFiring::default() };
        self.tx(|tx| firings::insert_now(tx, id, &firing, now))
    }

    /// Ends a firing, and returns the failures in a row. Each end is earlier than the one before: a
    /// clock that is set back changes nothing.
    fn end(&mut self, firing: RowId, status: FiringStatus) -> u32 {
        self.now -= 10;
        let error =
            (status == FiringStatus::Failed).then(|| Error::new(Code::BackendRuntimeError, "no luck"));
        let end = FiringEnd { firing, started: false, status, error, pause: None };
        let now = Timestamp(self.now);
        self.tx(|tx| end_firing(tx, &end, now));
        self.schedule().1
    }
}

use FiringStatus::{Completed, Failed};

#[test]
fn failures_count_in_the_order_of_the_firings() {
    let mut world = ScheduleFixture::new();
    let [first, second, third] = std::array::from_fn(|_| world.fire());
    assert_eq!(world.end(second, Completed), 0);
    assert_eq!(world.end(first, Failed), 0, "a later one has completed");
    assert_eq!(world.end(third, Failed), 1);
    let [late, fourth, fifth] = std::array::from_fn(|_| world.fire());
    assert_eq!(world.end(fourth, Failed), 2);
    assert_eq!(world.end(late, Completed), 1, "only the newest one has failed since");
    assert_eq!(world.end(fifth, Failed), 2);
    let sixth = world.fire();
    assert_eq!((world.end(sixth, Failed), world.schedule().2), (3, Some(SchedulePause::Failures)));
}

#[test]
fn only_failures_since_a_resume_count() {
    let mut world = ScheduleFixture::new();
    let [first, second, late] = std::array::from_fn(|_| world.fire());
    assert_eq!((world.end(first, Failed), world.end(second, Failed)), (1, 2));
    let id = world.schedule().0;
    world.tx(|tx| pause(tx, id, SchedulePause::SourceGone, None, Timestamp(5_000)));
    let row = all(&world.connection).unwrap().remove(0);
    world.tx(|tx| schedules::resume(tx, &row, Timestamp(6_000)));
    assert_eq!(world.end(late, Failed), 0, "it was fired before");
    let new = world.fire();
    assert_eq!(world.end(new, Failed), 1);
}
