//! The path of an event: the agent's line, the journal, the daemon, the database.

use std::fs;
use std::path::Path;

use subagent_tests::harness::{Gate, TestSandbox};

use crate::limits::MeasuredCounts;
use crate::strace::AttachedStrace;
use crate::tools::{has, io, skipped};

const PIECES: usize = 20;
const STREAM: u32 = 20_000;

#[test]
fn pieces_that_come_one_by_one_cost_no_more_calls_than_before() {
    if !has("strace") {
        return;
    }
    let (sandbox, worker) = TestSandbox::with_worker();
    let _ = sandbox.send(&worker, "the first");
    let mut counts = MeasuredCounts::default();
    let (daemon, runtime) = (sandbox.daemon().pid, sandbox.runtime(&worker).pid);
    let daemon = AttachedStrace::to(&sandbox, "daemon", daemon);
    let runtime = AttachedStrace::to(&sandbox, "runtime", runtime);
    let follower = sandbox.follow(&worker);
    let (Some(daemon), Some(runtime)) = (daemon, runtime) else {
        skipped("the kernel does not allow tracing a running process");
        sandbox.finish();
        return;
    };
    // The follower prints each piece before the agent writes the next one.
    let gates: Vec<_> = (0..PIECES).map(|number| sandbox.gate(&format!("gate{number}"))).collect();
    let script = |(number, gate): (usize, &Gate)| format!("piece {number}\n{}\n", gate.directive());
    let prompt: String = gates.iter().enumerate().map(script).collect();
    let accepted = sandbox.send_no_wait(&worker, &prompt);
    for (number, gate) in gates.iter().enumerate() {
        let piece = format!("\"piece {number}");
        follower.wait_line(&piece, |line| {
            (line.contains(&piece) && line.contains("progress.message")).then_some(())
        });
        gate.open();
    }
    let _ = sandbox.turn_end(&accepted);
    let (daemon, runtime) = (daemon.end(), runtime.end());
    let _ = follower.kill();
    let appends = runtime.about("write", ".journal>");
    counts.add("pieces: system calls of the runtime for each append", runtime.steady() / appends);
    // The WAL's lock for writers.
    let transactions = daemon.about("fcntl", "F_WRLCK, l_whence=SEEK_SET, l_start=120");
    counts.add(
        "pieces: looks at the journal for each transaction",
        daemon.about("", "/runtimes/") / transactions,
    );
    sandbox.finish();
    counts.check(&format!(
        "{appends} appends: {}\n{transactions} transactions: {}",
        runtime.histogram(),
        daemon.histogram()
    ));
}

fn bytes_below(folder: &Path, ending: &str) -> f64 {
    let files = fs::read_dir(folder).unwrap().flatten();
    let wanted = files.filter(|file| file.file_name().to_string_lossy().ends_with(ending));
    wanted.map(|file| f64::from(u32::try_from(file.metadata().unwrap().len()).unwrap())).sum()
}

#[test]
fn a_stream_reads_and_writes_no_more_bytes_than_before() {
    let (sandbox, worker) = TestSandbox::with_worker();
    let _ = sandbox.send(&worker, "the first");
    let mut counts = MeasuredCounts::default();
    let (daemon, runtime) = (sandbox.daemon().pid, sandbox.runtime(&worker).pid);
    let journal = sandbox.state_dir().join("runtimes").join(&worker);
    let at = || (io(daemon), io(runtime), bytes_below(&journal, ".journal"));
    let before = at();
    let traced = if has("strace") { AttachedStrace::to(&sandbox, "daemon", daemon) } else { None };
    let prompt = format!("!stream {STREAM}");
    let command = sandbox.sending(&worker, &prompt).args(["--wait-timeout-seconds", "0"]);
    let _ = command.run().data_of("turn.waited");
    let after = at();
    let syncs = traced.map(|daemon| daemon.end().of(&["fsync", "fdatasync"]));
    let each = f64::from(STREAM);
    let daemon = |name: &str| (after.0[name] - before.0[name]) / each;
    let runtime = |name: &str| (after.1[name] - before.1[name]) / each;
    counts.add("stream: bytes that the runtime reads for each event", runtime("rchar"));
    counts.add("stream: bytes of journal for each event", (after.2 - before.2) / each);
    counts.add("stream: bytes that the daemon reads for each event", daemon("rchar"));
    counts.add("stream: bytes that the daemon writes for each event", daemon("wchar"));
    counts.add("stream: writes of the runtime for 1,000 events", runtime("syscw") * 1000.0);
    match syncs {
        Some(syncs) => counts.add("stream: full commits for 1,000 events", syncs / each * 1000.0),
        None => drop(skipped("full commits of a stream")),
    }
    let finished = sandbox.finish();
    // The end of the daemon moves the WAL into the database.
    let database = bytes_below(&finished.root.path().join("ws/.subagent/state"), "state.db");
    counts.add("stream: bytes of database for each event", database / each);
    counts.check("from /proc/PID/io, and lengths of files");
}
