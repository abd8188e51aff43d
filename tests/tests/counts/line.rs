//! The memory for one very long line of an agent, in multiples of its length: in the daemon with a
//! wait and a follower, and in the commands.

use subagent_tests::harness::TestSandbox;
use subagent_tests::harness::process::Process;
use subagent_tests::measure::peak_of;

use crate::limits::MeasuredCounts;

const LINE: u32 = 32 * 1024 * 1024;
/// Number of measurements. On a busy machine pieces of the work overlap by chance, so the smallest
/// peak counts.
const ROUNDS: usize = 3;

#[test]
fn a_long_line_is_held_no_more_often_at_once_than_before() {
    let mut smallest = peaks();
    for _ in 1..ROUNDS {
        for (least, peak) in smallest.iter_mut().zip(peaks()) {
            least.1 = least.1.min(peak.1);
        }
    }
    let mut counts = MeasuredCounts::default();
    for (who, lengths) in smallest {
        counts.add(&format!("line: lengths of it that the {who} holds at most"), lengths);
    }
    counts.check("VmHWM in /proc/PID/status");
}

/// Returns the peak memory of each process without its executable, in lengths of the line.
fn peaks() -> [(&'static str, f64); 4] {
    let (sandbox, worker) = TestSandbox::with_worker();
    let _ = sandbox.send(&worker, "the first");
    let (daemon, runtime) = (sandbox.daemon(), sandbox.runtime(&worker));
    let follower = sandbox.follow(&worker);
    let prompt = format!("!line {LINE}");
    let args = ["send", "--worker-id", &worker, "--text", &prompt, "--wait-timeout-seconds", "0", "--json"];
    let send = peak_of(&mut sandbox.command("subagent").args(args).process(), Process::peak_of_its_own_kib);
    follower.wait_line("the end of the turn", |line| {
        (line.contains("\"turn.completed\"") && line.contains("\"ev_")).then_some(())
    });
    let followed = Process::find(follower.pid()).unwrap().peak_of_its_own_kib();
    let _ = follower.kill();
    let found = [
        ("runtime", runtime.peak_of_its_own_kib()),
        ("daemon", daemon.peak_of_its_own_kib()),
        ("follower", followed),
        ("send", send),
    ];
    sandbox.finish();
    found.map(|(who, peak)| (who, f64::from(u32::try_from(peak).unwrap()) * 1024.0 / f64::from(LINE)))
}
