//! A control plane that an engine starts on another node, with the same volume: workers of other
//! machines go on, and those of the node that died are lost.

use std::time::Duration;
use std::{fs, thread};

use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};
use nix::sys::signal::Signal;
use subagent_tests::harness::process::Process;
use subagent_tests::harness::{SshHost, TestSandbox, say, wait_until};

/// Time limit of operations there.
const DEADLINE: Duration = Duration::from_secs(60);
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

/// Gives this thread and its child processes the boot id and the folder of sockets of another node.
pub(crate) fn move_to_another_node(sandbox: &mut TestSandbox) -> nix::Result<()> {
    let none = None::<&str>;
    let boot_id = sandbox.file("boot-id-of-the-other-node");
    fs::write(&boot_id, "0b5e55ed-0000-4000-8000-000000000001\n").unwrap();
    unshare(CloneFlags::CLONE_NEWNS)?;
    mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_PRIVATE, none)?;
    mount(Some(&boot_id), BOOT_ID, none, MsFlags::MS_BIND, none)?;
    let sockets = sandbox.file("run-of-the-other-node");
    fs::create_dir(&sockets).unwrap();
    sandbox.set_env("XDG_RUNTIME_DIR", sockets);
    Ok(())
}

pub(crate) fn with_descendants(process: Process) -> Vec<Process> {
    let below: Vec<Process> = process.children().into_iter().flat_map(with_descendants).collect();
    std::iter::once(process).chain(below).collect()
}

fn turns_of_other_machines_go_on() {
    let mut sandbox = TestSandbox::new();
    let Some(_host) = SshHost::start(&sandbox) else { return };
    sandbox.init();
    let (there, here) = (sandbox.start_on("there"), sandbox.start("demo"));
    let gate = sandbox.gate("work");
    let going = sandbox.send_no_wait(&there, &format!("{}\n!say finished", gate.directive()));
    let lost = sandbox.send_no_wait(&here, "!say begun\n!sleep 600000");
    let dispatched = "SELECT count(*) FROM events WHERE type = 'runtime.turn_dispatching'";
    wait_until("both prompts", DEADLINE, || (sandbox.number(dispatched) > 1).then_some(()));
    let (runtime, agent) = (sandbox.runtime(&there), sandbox.runtime(&here));
    // The node dies: the daemon, and the worker beside it, which starts no other daemon before.
    let dead = with_descendants(agent);
    dead[0].signal(Signal::SIGSTOP);
    sandbox.kill_daemon();
    dead[0].signal(Signal::SIGKILL);
    wait_until("the end of the node", DEADLINE, || dead.iter().all(|one| !one.lives()).then_some(()));
    if let Err(error) = move_to_another_node(&mut sandbox) {
        runtime.signal(Signal::SIGKILL);
        let missing = format!("this user may not mount ({error}), so no control plane is moved");
        assert!(std::env::var_os("SUBAGENT_REQUIRE_NETWORKS").is_none(), "{missing}");
        return say(&format!("SKIPPED, NOTHING WAS TESTED: {missing}"));
    }
    let shown = sandbox.show(&there);
    assert_eq!((&shown["state"], shown.get("unreachable")), (&"running".into(), None), "{shown}");
    gate.open();
    let end = sandbox.turn_end(&going);
    assert_eq!(end["type"], "turn.completed", "{end}");
    assert!(runtime.lives());
    let end = sandbox.turn_end(&lost);
    assert_eq!(
        (&end["type"], &end["data"]["error"]["code"]),
        (&"turn.failed".into(), &"RUNTIME_LOST".into()),
        "{end}"
    );
    for worker in [&there, &here] {
        let said = sandbox.send(worker, "!say on the other node");
        assert!(said["assistantText"].as_str().unwrap().contains("on the other node"), "{said}");
    }
    sandbox.finish();
}

#[test]
fn a_control_plane_on_another_node_goes_on_with_the_workers_of_other_machines() {
    thread::spawn(turns_of_other_machines_go_on).join().unwrap();
}
