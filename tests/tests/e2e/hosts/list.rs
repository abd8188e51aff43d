//! `ls --all-hosts`: one list, in which a host that does not answer is a row.

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use subagent_tests::harness::{SshHost, TestSandbox};

use super::far_client::{away, host};

fn of<'a>(listed: &'a Value, host: &str) -> &'a Value {
    let hosts = listed["hosts"].as_array().unwrap();
    hosts.iter().find(|one| one["host"] == host).unwrap_or_else(|| panic!("{host}: {listed}"))
}

#[test]
fn a_dead_and_a_hanging_host_are_rows_beside_the_workers_of_the_living() {
    let sandbox = TestSandbox::new();
    let Some(host) = host(&sandbox) else { return };
    sandbox.init();
    let started = sandbox.run(&["worker", "start", "--launcher", "demo", "--name", "one"]);
    let id = started.data_of("worker.started")["workerId"].clone();
    // The system accepts the connection, and no server reads from it.
    let silent = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let port = silent.local_addr().unwrap().port().to_string();
    let nowhere = |port: &str| json!({"host": "127.0.0.1", "args": ["-F", "/dev/null", "-p", port]});
    // Lets us in, and says nothing.
    let script = host.home().join("mute");
    fs::write(&script, "#!/bin/sh\nexec cat >/dev/null\n").unwrap();
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    let mut mute = host.entry(&sandbox);
    mute["program"] = json!(script);
    let hosts = |lap: Value| json!({"lap": lap, "dead": nowhere("1"), "hangs": nowhere(&port), "mute": mute});
    SshHost::offer(&sandbox, &hosts(host.entry(&sandbox)));
    let begun = Instant::now();
    let listed = away(&sandbox, &["ls", "--all-hosts"]).run().data_of("workers.overview");
    assert!(begun.elapsed() < Duration::from_secs(15), "{:?}", begun.elapsed());
    assert_eq!((&listed["count"], &listed["items"][0]["workerId"]), (&json!(1), &id), "{listed}");
    assert_eq!(listed["items"][0]["host"], "lap", "{listed}");
    assert!(of(&listed, "lap")["lastAnswered"].is_string(), "{listed}");
    for (name, reason) in [("dead", "network"), ("hangs", "timeout"), ("mute", "timeout")] {
        let row = of(&listed, name);
        assert_eq!(row["error"]["details"]["reason"], reason, "{row}");
        assert_eq!(row["lastAnswered"], Value::Null, "{row}");
    }
    // In the workspace, the workers of this machine have no host.
    let both = sandbox.run(&["ls", "--all-hosts"]).data_of("workers.overview");
    assert_eq!((&both["count"], &both["items"][0]["host"]), (&json!(2), &Value::Null), "{both}");
    let names = sandbox.command("subagent").args(["ls", "--all-hosts", "-q"]).run();
    assert_eq!(names.stdout, "one\nlap/one\n", "{names}");
    assert!(names.stderr.contains("hangs is left out"), "{names}");
    // A host that answered before has an age.
    let mut gone = host.entry(&sandbox);
    gone["args"] = json!(["-F", "/dev/null", "-p", "1", "-o", "HostName=127.0.0.1"]);
    SshHost::offer(&sandbox, &json!({"lap": gone}));
    let listed = away(&sandbox, &["ls", "--all-hosts"]).run().data_of("workers.overview");
    let row = of(&listed, "lap");
    assert!(row["lastAnswered"].is_string() && row["error"]["code"] == "HOST_UNREACHABLE", "{row}");
    let both = away(&sandbox, &["ls", "--all-hosts", "--host", "lap"]).run();
    assert_eq!(both.status.code(), Some(2), "{both}");
    let _ = sandbox.run(&["worker", "stop", "one"]).data();
    sandbox.finish();
}
