//! A read command and a message, from the command's start to its end, in both processes.

use subagent_tests::harness::{Output, TestSandbox};

use crate::limits::MeasuredCounts;
use crate::strace::{AttachedStrace, command};
use crate::tools::{has, skipped};

/// Number of commands over which effects at the edges of the measurement are spread.
const REPEATED: u32 = 10;

const OPENS: &[&str] = &["open", "openat", "openat2"];
const SYNCS: &[&str] = &["fsync", "fdatasync"];

fn with_three_workers() -> (TestSandbox, String) {
    let (sandbox, worker) = TestSandbox::with_worker();
    for _ in 0..2 {
        let _ = sandbox.start("demo");
    }
    (sandbox, worker)
}

#[test]
fn a_read_command_calls_the_system_no_more_often_than_before() {
    if !has("strace") {
        return;
    }
    let (sandbox, _) = with_three_workers();
    let mut counts = MeasuredCounts::default();
    // The daemon reads its own ancestors once, and keeps those of a caller open.
    let _ = sandbox.run(&["worker", "list"]).data();
    let (output, calls) = command(&sandbox, &["worker", "list"]);
    assert_eq!(output.data_of("worker.listed")["count"], 3);
    counts.add("list: system calls of the command", calls.all());
    counts.add("list: files opened by the command", calls.of(OPENS));
    counts.add("list: connections", calls.of(&["connect"]));
    counts.add("list: threads", calls.of(&["clone", "clone3", "fork", "vfork"]));
    let mut evidence = format!("the command: {}", calls.histogram());
    match AttachedStrace::to(&sandbox, "daemon", sandbox.daemon().pid) {
        None => drop(skipped("the kernel does not allow tracing a running process")),
        Some(daemon) => {
            for _ in 0..REPEATED {
                let _ = sandbox.run(&["worker", "list"]).data();
            }
            let calls = daemon.end();
            let each = f64::from(REPEATED);
            let in_proc = calls.about("openat", "/proc/");
            counts.add("list: system calls of the daemon, without /proc", calls.steady_but_proc() / each);
            counts.add("list: files opened by the daemon, without /proc", (calls.of(OPENS) - in_proc) / each);
            // Only the caller itself: its ancestors are known and kept open.
            counts.add("list: files opened in /proc by the daemon", in_proc / each);
            evidence.push_str(&format!("\n{REPEATED} times in the daemon: {}", calls.histogram()));
        }
    }
    sandbox.finish();
    counts.check(&evidence);
}

#[test]
fn a_message_takes_no_more_system_calls_connections_and_commits_than_before() {
    if !has("strace") {
        return;
    }
    let (sandbox, worker) = TestSandbox::with_worker();
    let mut counts = MeasuredCounts::default();
    let _ = sandbox.send(&worker, "the first");
    let (output, calls) = command(&sandbox, &["send", "--worker-id", &worker, "--text", "the second"]);
    let _ = output.data_of("turn.waited");
    counts.add("send: system calls of the command", calls.all());
    counts.add("send: connections", calls.of(&["connect"]));
    let mut evidence = format!("the command: {}", calls.histogram());
    let runtime = sandbox.runtime(&worker).pid;
    let daemon = AttachedStrace::to(&sandbox, "daemon", sandbox.daemon().pid);
    let runtime = AttachedStrace::to(&sandbox, "runtime", runtime);
    match (daemon, runtime) {
        (Some(daemon), Some(runtime)) => {
            for _ in 0..REPEATED {
                let _ = sandbox.send(&worker, "once more");
            }
            let (daemon, runtime) = (daemon.end(), runtime.end());
            let each = f64::from(REPEATED);
            counts.add("send: system calls of the daemon, without /proc", daemon.steady_but_proc() / each);
            counts.add("send: full commits", daemon.of(SYNCS) / each);
            counts.add("send: system calls of the runtime", runtime.steady() / each);
            evidence.push_str(&format!(
                "\n{REPEATED} times in the daemon: {}\nand in the runtime: {}",
                daemon.histogram(),
                runtime.histogram()
            ));
        }
        _ => drop(skipped("the kernel does not allow tracing a running process")),
    }
    sandbox.finish();
    counts.check(&evidence);
}

/// Returns the number before `unit` in valgrind's output.
fn number(output: &Output, unit: &str) -> f64 {
    let line = output.stderr.lines().find(|line| line.contains(unit));
    let line = line.unwrap_or_else(|| panic!("no line with {unit:?}\n{output}"));
    let words: Vec<String> = line.split_whitespace().map(|word| word.replace(',', "")).collect();
    let number = |word: &String| word.parse::<f64>().ok();
    // Such as `I   refs:  5,711,000` or `total heap usage: 2,349 allocs, ...`
    words.iter().find_map(number).unwrap_or_else(|| panic!("no number in {line:?}"))
}

#[test]
fn a_read_command_takes_no_more_instructions_and_allocations_than_before() {
    if !has("valgrind") {
        return;
    }
    let (sandbox, _) = with_three_workers();
    let mut counts = MeasuredCounts::default();
    let subagent = sandbox.executable("subagent");
    let run = |tool: &[&str]| {
        let command =
            sandbox.command("valgrind").args(tool).args([subagent.as_str(), "worker", "list", "--json"]);
        let output = command.run();
        assert_eq!(output.data_of("worker.listed")["count"], 3);
        output
    };
    let instructions = run(&["--tool=callgrind", "--callgrind-out-file=/dev/null"]);
    counts.add("list: million instructions of the command", number(&instructions, "refs:") / 1e6);
    let allocations = run(&["--tool=memcheck", "--leak-check=no"]);
    counts.add("list: allocations of the command", number(&allocations, "total heap usage:"));
    sandbox.finish();
    counts.check("callgrind_annotate --inclusive=yes tells where they are");
}
