//! More workers than the user's inotify instances: none is required for work.

use std::time::Duration;

use serde_json::Value;
use subagent_tests::harness::{TestSandbox, say};

/// In a user namespace with its own limits. The daemon and two of the runtimes may have an
/// instance; the restarted daemon finds none. `$1` is the next output line.
const FEW: &str = r#"
echo 3 > /proc/sys/user/max_inotify_instances || { echo "SKIPPED: the limit cannot be set"; exit 0; }
say() { echo "== $1"; }
"$SUBAGENT" controller init --json > /dev/null
for i in 1 2 3 4 5; do
    say "start $i"; "$SUBAGENT" worker start --launcher demo --json | tee "$OUT"
done
worker=$(sed 's/.*"workerId": "\([^"]*\)".*/\1/' "$OUT")
say send; "$SUBAGENT" send --worker-id "$worker" --text hello --json
say stop; "$SUBAGENTD" stop --json
say list; "$SUBAGENT" worker list --json
say again; "$SUBAGENT" send --worker-id "$worker" --text hello --json
say end; "$SUBAGENTD" stop --workers --json
"#;

#[test]
fn workers_beyond_the_inotify_instances_of_a_user_work_and_are_found_by_the_next_daemon() {
    let mut sandbox = TestSandbox::new();
    sandbox.set_env("OUT", sandbox.file("out"));
    sandbox.set_env("SUBAGENT", sandbox.executable("subagent"));
    sandbox.set_env("SUBAGENTD", sandbox.executable("subagentd"));
    let script = ["--user", "--map-root-user", "/bin/sh", "-c", FEW];
    let output = sandbox.command("unshare").args(script).deadline(Duration::from_secs(120)).run();
    let skipped = output.stdout.lines().find(|line| line.starts_with("SKIP"));
    if let Some(why) = skipped.or((!output.stdout.contains("== ")).then_some("unshare failed")) {
        say(&format!("SKIPPED, NOTHING WAS TESTED: {why}\n{output}"));
        return;
    }
    let part = |name: &str| {
        let mut parts = output.stdout.split("== ").filter_map(|part| part.split_once('\n'));
        let (_, text) = parts.find(|(title, _)| *title == name).unwrap_or_else(|| panic!("{name}: {output}"));
        serde_json::from_str::<Value>(text.trim()).unwrap_or_else(|error| panic!("{name}: {error}\n{output}"))
    };
    for start in 1..=5 {
        assert_eq!(part(&format!("start {start}"))["data"]["state"], "idle", "{output}");
    }
    assert_eq!(part("send")["data"]["assistantText"], "hello", "{output}");
    let listed = part("list");
    let live = listed["data"]["items"].as_array().unwrap().iter();
    assert_eq!(live.filter(|worker| worker["runtimePid"].is_i64()).count(), 5, "{output}");
    assert_eq!(part("again")["data"]["assistantText"], "hello", "{output}");
    assert_eq!(part("end")["ok"], true, "{output}");
    sandbox.finish();
}
