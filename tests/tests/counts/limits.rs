//! All limits, in one table. A test fails with every count above its limit.

// To change one, run `cargo test --workspace --test counts -- --nocapture`, which prints each
// count beside its limit. Write down the new count, with a limit about a quarter above it, or
// above the results of several runs.

use std::fmt::Write as _;

/// The name of a count, its value when the limit was set, and the limit.
type CountLimit = (&'static str, f64, f64);

/// Measured in the test profile, where the standard library checks each
/// descriptor before closing it.
const LIMITS: &[CountLimit] = &[
    // The command `worker list --json` with three workers.
    ("list: system calls of the command", 109.0, 120.0),
    ("list: files opened by the command", 4.0, 5.0),
    ("list: connections", 1.0, 1.0),
    ("list: threads", 0.0, 0.0),
    // Once per second the daemon checks its own files, with 14 calls and one file: on a slow
    // machine for each list.
    ("list: system calls of the daemon, without /proc", 20.0, 38.0),
    ("list: files opened by the daemon, without /proc", 0.0, 1.1),
    ("list: files opened in /proc by the daemon", 1.0, 1.9),
    // The test profile compiles most crates without optimization. With `opt-level = 1` for
    // all it is 1.7.
    ("list: million instructions of the command", 2.0, 2.2),
    ("list: allocations of the command", 546.0, 700.0),
    // The command `send --json` until the end of the turn, with an agent that answers at once.
    ("send: system calls of the command", 116.0, 130.0),
    ("send: connections", 1.0, 1.0),
    ("send: system calls of the daemon, without /proc", 118.0, 160.0),
    ("send: full commits", 2.4, 3.2),
    ("send: system calls of the runtime", 11.0, 14.0),
    // An agent that writes 20 pieces, each after the previous one was printed: the cost
    // of one journal write.
    ("pieces: system calls of the runtime for each append", 3.4, 3.9),
    ("pieces: looks at the journal for each transaction", 1.8, 2.8),
    // An agent that writes 20,000 pieces at once.
    ("stream: bytes that the runtime reads for each event", 187.4, 200.0),
    ("stream: bytes of journal for each event", 222.9, 240.0),
    ("stream: bytes that the daemon reads for each event", 590.0, 1200.0),
    ("stream: bytes that the daemon writes for each event", 359.5, 700.0),
    ("stream: bytes of database for each event", 183.1, 190.0),
    ("stream: writes of the runtime for 1,000 events", 3.1, 12.0),
    ("stream: full commits for 1,000 events", 0.3, 1.0),
    // A line of 32 MiB, without the executables.
    ("line: lengths of it that the runtime holds at most", 3.0, 3.2),
    ("line: lengths of it that the daemon holds at most", 3.3, 3.6),
    ("line: lengths of it that the follower holds at most", 3.0, 3.2),
    ("line: lengths of it that the send holds at most", 3.0, 3.2),
    // Two idle seconds, with a follower.
];

/// The counts of a test.
#[derive(Default)]
pub(crate) struct MeasuredCounts {
    report: String,
    above: String,
}

impl MeasuredCounts {
    /// Compares one count with its limit.
    #[track_caller]
    pub(crate) fn add(&mut self, name: &str, found: f64) {
        let limit = LIMITS.iter().find(|(known, ..)| *known == name);
        let (_, then, limit) = limit.unwrap_or_else(|| panic!("there is no limit named {name:?}"));
        let line = format!("{name}: {found:.1}, at most {limit:.1} ({then:.1} when that was set)\n");
        let list = if found > *limit { &mut self.above } else { &mut self.report };
        let _ = write!(list, "{line}");
    }

    /// Ends the test. `evidence` describes the counted events.
    #[track_caller]
    pub(crate) fn check(self, evidence: &str) {
        eprint!("{}", self.report);
        assert!(
            self.above.is_empty(),
            "more than before:\n{}\nwithin their limits:\n{}\n{evidence}\n\
             If that is how it must be, change the limit in tests/tests/counts/limits.rs.",
            self.above,
            self.report
        );
    }
}
