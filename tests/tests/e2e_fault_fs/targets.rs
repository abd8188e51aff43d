//! The files of the product and what can fail with them.

/// One kind of call on one kind of file.
pub(crate) struct Target {
    /// Their paths.
    pub(crate) path: &'static str,
    /// The call.
    pub(crate) op: &'static str,
    /// How it fails.
    pub(crate) errnos: &'static [&'static str],
    /// How many calls of this kind every run has at the least.
    pub(crate) calls: u64,
}

const fn target(path: &'static str, op: &'static str, errnos: &'static [&'static str], calls: u64) -> Target {
    Target { path, op, errnos, calls }
}

/// `ENOSPC` with half of the bytes before it.
pub(crate) const SHORT: &str = "ENOSPC;short=1";

/// All of them.
pub(crate) const TARGETS: &[Target] = &[
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
    target("*/.daemon.json.new", "open", &["EACCES", "ENOSPC"], 1),
    target("*/.daemon.json.new", "write", &["EIO", SHORT], 1),
    target("*/daemon.json", "rename", &["EIO"], 1),
    target("*/daemon.json", "unlink", &["EACCES"], 1),
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
