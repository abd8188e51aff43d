//! `subagent demo` works from end to end and leaves nothing behind.

use std::time::Duration;

use subagent_tests::harness::Sandbox;

#[test]
fn the_demo_shows_what_it_promises() {
    let sandbox = Sandbox::new();
    let output = sandbox.command("subagent").args(["demo"]).deadline(Duration::from_secs(60)).run();
    assert!(output.status.success(), "{output}");
    let said = output.to_string();
    for promise in ["upon", "kill -9", "Finished without a daemon.", "state: stopped", "Nothing is left."] {
        assert!(said.contains(promise), "{promise} is missing:\n{said}");
    }
    // Its temporary folder and all of its processes are gone; `finish` looks for the processes.
    assert_eq!(std::fs::read_dir(sandbox.file("tmp")).unwrap().count(), 0, "{said}");
    sandbox.finish();
}
