//! The command `subagent demo` works from end to end and leaves nothing behind.

use std::os::unix::process::ExitStatusExt as _;
use std::time::Duration;

use nix::sys::signal::Signal;
use subagent_tests::harness::TestSandbox;

#[test]
fn the_demo_shows_what_it_promises() {
    let sandbox = TestSandbox::new();
    let output = sandbox.command("subagent").args(["demo"]).deadline(Duration::from_secs(60)).run();
    assert!(output.status.success(), "{output}");
    let said = output.to_string();
    for promise in [
        "upon",
        "+world.",
        "kill -9",
        "Finished without a daemon.",
        "state: stopped",
        "Nothing is left.",
        "Next, with an agent",
    ] {
        assert!(said.contains(promise), "{promise} is missing:\n{said}");
    }
    // Its temporary folder and all of its processes are gone; `finish` looks for the processes.
    assert_eq!(std::fs::read_dir(sandbox.file("tmp")).unwrap().count(), 0, "{said}");
    sandbox.finish();
}

#[test]
fn a_signal_in_the_middle_of_the_demo_leaves_nothing_either() {
    // During the start of the daemon, during a turn, and while a worker but no daemon exists.
    for (signal, line) in [
        (Signal::SIGINT, "$ subagent controller init"),
        (Signal::SIGTERM, "Once"),
        (Signal::SIGHUP, "  The next command starts another daemon"),
    ] {
        let sandbox = TestSandbox::new();
        let demo = sandbox.command("subagent").args(["demo"]).spawn();
        demo.wait_line(line, |said| said.contains(line).then_some(()));
        demo.signal(signal);
        let output = demo.output();
        assert_eq!(output.status.signal(), Some(signal as i32), "{output}");
        assert!(output.stderr.ends_with("Nothing is left.\n"), "{output}");
        assert_eq!(std::fs::read_dir(sandbox.file("tmp")).unwrap().count(), 0, "{output}");
        sandbox.finish();
    }
}
