//! The files of the product, and their operations that can fail.

/// One kind of call on one kind of file.
pub(crate) struct FaultTarget {
    /// Pattern of the paths.
    pub(crate) path: &'static str,
    /// The kind of call.
    pub(crate) op: &'static str,
    /// The ways in which it fails.
    pub(crate) errnos: &'static [&'static str],
    /// The minimum number of such calls in every run.
    pub(crate) calls: u64,
}

const fn target(
    path: &'static str,
    op: &'static str,
    errnos: &'static [&'static str],
    calls: u64,
) -> FaultTarget {
    FaultTarget { path, op, errnos, calls }
}

/// Faults that occur together, or repeatedly.
pub(crate) const TOGETHER: &[(&str, &[&str])] = &[
    // The remains of a failed write cannot be removed: the segment is broken,
    // and another one begins.
    (
        "a torn record that stays",
        &[
            "op=write;path=*/runtimes/*.journal;errno=ENOSPC;short=1;nth=5;count=1",
            "op=truncate;path=*/runtimes/*.journal;errno=EIO;nth=1;count=1",
        ],
    ),
    (
        "a torn record that stays, and no other segment at first",
        &[
            "op=write;path=*/runtimes/*.journal;errno=EIO;short=1;nth=4;count=1",
            "op=truncate;path=*/runtimes/*.journal;errno=EIO;nth=1;count=1",
            "op=open;path=*/runtimes/*/2.journal;errno=ENOSPC;nth=1;count=2",
        ],
    ),
    ("a journal that fails five times", &["op=write;path=*/runtimes/*.journal;errno=EIO;nth=4;count=5"]),
    ("a WAL that is full six times", &["op=write;path=*/state.db-wal;errno=ENOSPC;nth=20;count=6"]),
    ("a WAL that cannot be synced five times", &["op=sync;path=*/state.db-wal;errno=EIO;nth=5;count=5"]),
    (
        "a checkpoint that fails, and the next start's",
        &[
            "op=write;path=*/state.db;errno=EIO;nth=3;count=8",
            "op=sync;path=*/state.db;errno=EIO;nth=2;count=2",
        ],
    ),
    (
        "an announcement that cannot be taken away, nor the socket",
        &[
            "op=unlink;path=*/daemon.json;errno=EACCES;nth=1;count=3",
            "op=unlink;path=*.sock;errno=EACCES;nth=1;count=3",
        ],
    ),
    ("a log that never can be written", &["op=write;path=*/logs/*;errno=EIO;nth=1;count=1000000"]),
];

/// `ENOSPC` after half of the bytes.
pub(crate) const SHORT: &str = "ENOSPC;short=1";

/// All kinds of files and calls.
pub(crate) const TARGETS: &[FaultTarget] = &[
    // The journal, written by the runtime.
    target("*/runtimes/*.journal", "write", &["EIO", "ENOSPC", SHORT], 8),
    target("*/runtimes/*.journal", "open", &["EACCES", "ENOSPC"], 2),
    target("*/runtimes/*.journal", "allocate", &["EIO", "ENOSPC"], 2),
    target("*/runtimes/*.journal", "unlink", &["EACCES"], 1),
    // The database, written by the daemon.
    target("*/state.db", "write", &["EIO", "ENOSPC", SHORT], 2),
    target("*/state.db", "open", &["EACCES", "EIO"], 2),
    target("*/state.db", "sync", &["EIO"], 2),
    target("*/state.db-wal", "write", &["EIO", "ENOSPC", SHORT], 20),
    target("*/state.db-wal", "open", &["EACCES", "EIO"], 1),
    target("*/state.db-wal", "sync", &["EIO"], 10),
    target("*/state.db-shm", "open", &["EACCES", "EIO"], 1),
    target("*/state.db-shm", "truncate", &["EIO", "ENOSPC"], 1),
    // The small files.
    target("*/.state-id.new", "open", &["EACCES", "ENOSPC"], 1),
    target("*/.state-id.new", "write", &["EIO", SHORT], 1),
    target("*/state-id", "rename", &["EIO"], 1),
    target("*/.daemon.json.new", "open", &["EACCES", "ENOSPC"], 1),
    target("*/.daemon.json.new", "write", &["EIO", SHORT], 1),
    target("*/daemon.json", "rename", &["EIO"], 1),
    target("*/daemon.json", "unlink", &["EACCES"], 1),
    target("*/.socket-folder.new", "open", &["EACCES", "ENOSPC"], 1),
    target("*/.socket-folder.new", "write", &["EIO", SHORT], 1),
    target("*/socket-folder", "rename", &["EIO"], 1),
    target("*/start.lock", "open", &["EACCES", "EIO"], 1),
    target("*/daemon.lock", "open", &["EACCES", "EIO"], 1),
    target("*/daemon.lock", "write", &["EIO", "ENOSPC"], 1),
    target("*/runtimes/w_*/lock", "open", &["EACCES", "EIO"], 2),
    target("*/runtimes/w_*/guard.lock", "open", &["EACCES", "EIO"], 2),
    target("*.env", "open", &["EACCES", "ENOSPC"], 1),
    target("*.env", "write", &["EIO", SHORT], 1),
    target("*.env", "unlink", &["EACCES"], 1),
    target("*.sock", "unlink", &["EACCES"], 1),
    target("*/handoff.md", "open", &["EACCES", "ENOSPC"], 1),
    target("*/handoff.md", "write", &["EIO", SHORT], 1),
    target("*/handoff.md", "sync", &["EIO"], 1),
    target("*/handoffs/w_*/hs_*", "rename", &["EIO"], 1),
    target("*/ws/.subagent/.subagent-new-*", "write", &["EIO", SHORT], 1),
    target("*/ws/.subagent/.subagent-new-*", "sync", &["EIO"], 1),
    target("*/logs/subagentd.log", "open", &["EACCES", "ENOSPC"], 1),
    target("*/logs/subagentd.log", "write", &["EIO", SHORT], 2),
    target("*/runtimes/w_*.log", "open", &["EACCES"], 1),
];
