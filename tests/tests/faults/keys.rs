//! The same idempotency key gives the same result and one effect, for every request with an effect:
//! at once, later, with many concurrent requests, and with a daemon killed in between.

use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;
use subagent_tests::harness::{Random, TestSandbox, say, times};

use super::a_moment;
use super::requests::{Post, posts, prepare};

/// Number of concurrent identical requests.
const CROWD: usize = 8;
/// Time limit for several restarts of the daemon.
const DEADLINE: Duration = Duration::from_secs(60);

/// Returns differing results, and effects that did not occur exactly once. The
/// first requests are concurrent.
pub(crate) fn repeated(sandbox: &TestSandbox, post: &Post, key: &str) -> Vec<String> {
    let before = post.count(sandbox);
    let headers = [format!("Idempotency-Key: {key}")];
    let ask = || post.send(sandbox, &headers).unwrap().json();
    let mut answers: Vec<Value> = thread::scope(|scope| {
        let asked: Vec<_> = (0..CROWD).map(|_| scope.spawn(ask)).collect();
        asked.into_iter().map(|asked| asked.join().unwrap()).collect()
    });
    let file = post.file();
    // A change that only a second execution would make.
    post.tempt(sandbox);
    sandbox.kill_daemon();
    let _ = sandbox.run(&["daemon", "start"]).data_of("daemon.started");
    answers.push(ask());
    let mut wrong = Vec::new();
    let (first, others) = answers.split_first().unwrap();
    if first["ok"] != true {
        return vec![format!("{}: {first}", post.path)];
    }
    for answer in others {
        if answer["ok"] != true || post.essence(answer) != post.essence(first) {
            wrong.push(format!("{}: first {first}, then {answer}", post.path));
        }
    }
    let happened = post.count(sandbox) - before;
    if happened != 1 {
        wrong.push(format!("{} happened {happened} times", post.path));
    }
    if post.file() != file {
        wrong.push(format!("{} has written its file again", post.path));
    }
    wrong
}

#[test]
fn the_same_key_has_the_same_result_for_every_request() {
    let sandbox = TestSandbox::new();
    sandbox.init();
    let posts = posts();
    for (number, path) in posts.iter().enumerate() {
        let post = prepare(&sandbox, path, number);
        assert_eq!(repeated(&sandbox, &post, &format!("same-{number}")), Vec::<String>::new());
    }
    sandbox.finish();
    say(&format!(
        "faults: {} requests repeated with their key, {CROWD} at once and across the daemon's death",
        posts.len()
    ));
}

#[test]
fn the_same_key_has_one_effect_whenever_the_daemon_is_killed() {
    let mut random = Random::announced();
    let sandbox = TestSandbox::new();
    sandbox.init();
    let (mut kills, mut answered) = (0, 0);
    for round in 0..times(1) {
        for (index, path) in posts().iter().enumerate() {
            let number = 1000 * (round + 1) + index;
            let post = prepare(&sandbox, path, number);
            let before = post.count(&sandbox);
            let headers = [format!("Idempotency-Key: killed-{number}")];
            let daemon = sandbox.daemon();
            let first = thread::scope(|scope| {
                let asked = scope.spawn(|| post.send(&sandbox, &headers));
                a_moment(&mut random, 40);
                sandbox.kill(&daemon);
                kills += 1;
                asked.join().unwrap()
            });
            let begun = Instant::now();
            let again = loop {
                assert!(begun.elapsed() < DEADLINE, "{path} does not end");
                let _ = sandbox.run(&["daemon", "start"]).data_of("daemon.started");
                match post.send(&sandbox, &headers).map(|answer| answer.json()) {
                    Some(answer) if answer["error"]["retryable"] == true => {}
                    Some(answer) => break answer,
                    None => {}
                }
            };
            let essence = post.essence(&again);
            if let Some(first) = first {
                assert_eq!(post.essence(&first.json()), essence, "{path}");
                answered += 1;
            }
            let happened = post.count(&sandbox) - before;
            assert_eq!(happened, 1, "{path} happened {happened} times");
        }
    }
    sandbox.finish();
    say(&format!(
        "faults: daemon killed {kills} times under a request with a key, which was then repeated ({answered} had been answered)"
    ));
}
