//! Generated requests to stop the daemon: it refuses one, or it ends and the next command starts another.

use std::time::Instant;

use subagent_tests::harness::{Random, say, times, wait_until};

use super::values::Values;
use super::{ANSWERED, OpenApiFixture, REQUESTS, STOP, address, body, document, operations, send, wrong};

#[test]
fn no_generated_stop_finds_a_fault() {
    let document = document();
    let stop = operations(&document).into_iter().find(|operation| operation.name() == STOP).unwrap();
    let mut world = OpenApiFixture::new();
    let mut values =
        Values { random: Random::announced(), document: &document, known: world.known(), optional: 2 };
    let mut ended = 0;
    for _ in 0..times(REQUESTS) {
        let daemon = world.sandbox.daemon();
        let head = format!("{} {} HTTP/1.1", stop.method, address(&mut values, &stop));
        let body = body(&mut values, &stop);
        let asked = Instant::now();
        let response = send(&world, &mut values, &head, &body).unwrap_or_else(|| panic!("no answer: {body}"));
        let found = wrong(&stop, &response, asked.elapsed());
        assert_eq!(found, None, "{body}: {} {}", response.status, response.body);
        if response.status == 200 {
            ended += 1;
            wait_until("the end of the daemon", ANSWERED, || (!daemon.lives()).then_some(()));
            world.refresh();
            world.socket = world.sandbox.daemon_info().unwrap().socket;
        } else {
            assert!(daemon.lives(), "{body}: {} {}", response.status, response.body);
        }
    }
    say(&format!("{ended} of {} requests have ended a daemon", times(REQUESTS)));
    assert!(ended > 0 && ended >= times(REQUESTS) / 4, "only {ended} have ended a daemon");
    world.sandbox.finish();
}
