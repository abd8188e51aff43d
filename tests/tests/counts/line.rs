//! The memory for one very long line of an agent, in multiples of its length: in the daemon with a
//! wait and a follower, and in the commands.

use subagent_tests::harness::Sandbox;
use subagent_tests::harness::process::Process;
use subagent_tests::measure::peak_of;

use crate::limits::Counts;

const LINE: u32 = 32 * 1024 * 1024;

#[test]
fn a_long_line_is_held_no_more_often_at_once_than_before() {
    let (sandbox, worker) = Sandbox::with_worker();
    let _ = sandbox.send(&worker, "the first");
    let mut counts = Counts::default();
    let (daemon, runtime) = (sandbox.daemon(), sandbox.runtime(&worker));
    let follower = sandbox.follow(&worker);
    let prompt = format!("!line {LINE}");
    let args = ["send", "--worker-id", &worker, "--text", &prompt, "--wait-timeout-seconds", "0", "--json"];
    let send = peak_of(&mut sandbox.command("subagent").args(args).process());
    follower.wait_line("the end of the turn", |line| {
        (line.contains("\"turn.completed\"") && line.contains("\"ev_")).then_some(())
    });
    let followed = Process::find(follower.pid()).unwrap().peak_memory_kib();
    let _ = follower.kill();
    for (who, peak) in [
        ("runtime", runtime.peak_memory_kib()),
        ("daemon", daemon.peak_memory_kib()),
        ("follower", followed),
        ("send", send),
    ] {
        let lengths = f64::from(u32::try_from(peak).unwrap()) * 1024.0 / f64::from(LINE);
        counts.add(&format!("line: lengths of it that the {who} holds at most"), lengths);
    }
    sandbox.finish();
    counts.check("VmHWM in /proc/PID/status");
}
