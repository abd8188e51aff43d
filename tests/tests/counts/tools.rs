//! The counting programs, which may be missing, and the counters in `/proc`.

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::process::{Command, Stdio};

/// `1` makes it a failure if nothing can be counted.
const REQUIRE: &str = "SUBAGENT_REQUIRE_COUNTS";

/// Whether this program is installed. Prints a clear message if not.
pub(crate) fn has(program: &str) -> bool {
    let run = Command::new(program).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    run.is_ok_and(|status| status.success()) || skipped(&format!("{program} is not installed"))
}

/// Reports clearly that nothing was counted.
pub(crate) fn skipped(why: &str) -> bool {
    assert!(
        env::var_os(REQUIRE).is_none_or(|value| value != "1"),
        "{REQUIRE}=1, and nothing is counted: {why}"
    );
    eprintln!("\n*** SKIPPED, NOTHING WAS COUNTED: {why} ***\n");
    false
}

/// Parses `/proc/PID/io`: `rchar`, `wchar`, `syscr`, `syscw`.
pub(crate) fn io(pid: i32) -> BTreeMap<String, f64> {
    let text = fs::read_to_string(format!("/proc/{pid}/io")).unwrap();
    let pair =
        |line: &str| line.split_once(": ").map(|(name, count)| (name.to_owned(), count.parse().unwrap()));
    text.lines().filter_map(pair).collect()
}

/// Returns the number of context switches of a process's threads.
pub(crate) fn context_switches(pid: i32) -> u64 {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).unwrap().flatten();
    let texts = tasks.filter_map(|task| fs::read_to_string(task.path().join("status")).ok());
    let of = |text: String| -> u64 {
        let counts = text.lines().filter(|line| line.contains("ctxt_switches"));
        counts.filter_map(|line| line.split_whitespace().nth(1)?.parse::<u64>().ok()).sum()
    };
    texts.map(of).sum()
}
