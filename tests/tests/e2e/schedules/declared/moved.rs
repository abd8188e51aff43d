//! An entry that moves to another workspace takes its log and its pause along, wherever a daemon dies.

use std::os::unix::fs::DirBuilderExt as _;

use super::*;

fn moves_with_its_log_and_pause(point: Option<&str>) {
    let mut sandbox = TestSandbox::new();
    let once = sandbox.file("once");
    if let Some(point) = point {
        sandbox.set_env("SUBAGENT_FAILPOINTS", format!("{point}=abort"));
        sandbox.set_env("SUBAGENT_FAILPOINTS_ONCE", &once);
    }
    let sandbox = started(sandbox);
    let nested = sandbox.workspace().join("nested");
    fs::create_dir(&nested).unwrap();
    let common = format!("cwd: '{}', agent: demo", nested.display());
    let text = format!(
        "schedules:\n  tick: {{every: 20m, {common}, text: '!say done'}}\n\
         triggers:\n  asked: {{{common}, text: '!say {{{{payload}}}}'}}\n"
    );
    write(&sandbox, &text);
    sandbox.run(&["schedule", "run", "tick"]).data_of("schedule.fired");
    let fire = ["trigger", "fire", "asked", "--occurrence", "7"];
    sandbox.subagent(&fire).stdin("data").run().data_of("trigger.fired");
    let fired = wait_for(&sandbox, "tick", "completed", 1);
    let asked = wait_for_firings(&sandbox, "trigger", "asked", "completed", 1);
    sandbox.run(&["schedule", "pause", "tick"]).data_of("schedule.paused");
    // The folder becomes a workspace of its own.
    let state_dir = nested.join(".subagent/state");
    fs::DirBuilder::new().recursive(true).mode(0o700).create(&state_dir).unwrap();
    fs::copy(sandbox.workspace().join(".subagent/config.yaml"), nested.join(".subagent/config.yaml"))
        .unwrap();
    write(&sandbox, &text);
    // A command may meet the daemon that dies.
    let ask = |args: &[&str]| {
        let output = sandbox.subagent(args).run();
        output.status.success().then(|| output.data())
    };
    for kind in ["schedule", "trigger"] {
        wait_until("the handover", SOON, || {
            ask(&[kind, "list"]).filter(|listed| listed["count"] == 0).map(drop)
        });
    }
    let cwd = nested.to_str().unwrap();
    let there = |args: &[&str]| ask(&[args, &["--cwd", cwd]].concat());
    let shown = wait_until("the pause", SOON, || {
        there(&["schedule", "show", "tick"]).filter(|shown| shown["paused"] == "user")
    });
    assert_eq!(shown["declaredIn"], json!(user_file(&sandbox)), "{point:?}: {shown}");
    let logged = |kind: &str, name: &str| {
        let log = there(&[kind, "log", name])?;
        (log["count"] == 1).then(|| log["items"][0].clone())
    };
    let log = wait_until("the log", SOON, || logged("schedule", "tick"));
    assert_eq!(log, fired[0], "{point:?}");
    let log = wait_until("the log of the trigger", SOON, || logged("trigger", "asked"));
    assert_eq!(log, asked[0], "{point:?}");
    // The occurrence has fired.
    let again = sandbox.subagent(&[&fire[..], &["--cwd", cwd]].concat()).stdin("data").run();
    assert_eq!(again.data_of("trigger.fired"), asked[0], "{point:?}");
    assert_eq!(point.is_some(), once.exists(), "{point:?}");
    assert!(!state_dir.join("moved-schedules").exists(), "{point:?}");
    let _ = there(&["daemon", "stop"]).unwrap();
    sandbox.finish();
}

#[test]
fn an_entry_that_moves_to_another_workspace_keeps_its_log_and_its_pause() {
    moves_with_its_log_and_pause(None);
}

#[test]
fn a_daemon_that_dies_while_an_entry_moves_loses_nothing() {
    let points =
        ["handover.before_write", "handover.after_write", "handover.before_adopt", "handover.after_adopt"];
    for point in points {
        moves_with_its_log_and_pause(Some(point));
    }
}
