//! How often the daemon allocates for an event on its way from the journal through the database to a follower, and for the
//! answer to `worker list`. A limit is a table's row: what was counted when it was set, and the most that is allowed; if
//! more is how it must be, change the row.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "all of this file is a test")]

use std::path::Path;

use subagent_testkit::counting::allocations;
use subagent_testkit::in_own_process;
use subagentd::testing::control_plane::{JournaledStateDir, KeepAliveClient};

const EVENTS: u64 = 5_000;

/// Name, what was counted, at most.
const LIMITS: &[(&str, u64, u64)] =
    &[("allocations for an event", 7, 9), ("allocations for a list of 10 workers", 382, 500)];

fn check(name: &str, found: u64) {
    let (_, then, limit) = LIMITS.iter().find(|(known, ..)| *known == name).unwrap();
    println!("{name}: {found}, at most {limit} ({then} when that was set)");
    assert!(found <= *limit, "{name}: {found}, at most {limit} ({then} when that was set)");
}

fn block_on<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap().block_on(work)
}

#[test]
fn an_event_is_taken_in_stored_and_followed_with_few_allocations() {
    in_own_process(|| {
        let place = block_on(JournaledStateDir::new(1, EVENTS));
        let (count, bytes) = allocations(1, || {
            block_on(async {
                let control_plane = place.open().await;
                control_plane.follow(EVENTS).await;
                control_plane.shutdown().await;
            });
        });
        println!("{} bytes for an event", bytes / EVENTS);
        check("allocations for an event", count / EVENTS);
    });
}

#[test]
fn a_list_of_workers_is_answered_with_few_allocations() {
    in_own_process(|| {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let place = runtime.block_on(JournaledStateDir::new(10, 1));
        let control_plane = runtime.block_on(place.open());
        runtime.block_on(control_plane.follow(1));
        let socket = runtime.block_on(async { control_plane.serve() });
        let mut client = KeepAliveClient::connect(Path::new(&socket));
        let mut ask = || assert!(client.get("/v1/workers") > 1000);
        ask();
        let (count, _) = allocations(20, ask);
        runtime.block_on(control_plane.shutdown());
        check("allocations for a list of 10 workers", count);
    });
}
