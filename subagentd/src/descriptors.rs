//! The limit of open files: what it leaves for workers and queries, and the error when it is reached.
//!
//! Must not open anything that stays open.

use std::fs::File;
use std::io;

use nix::errno::Errno;
use nix::sys::resource::{Resource, getrlimit};
use subagent_protocol::{Code, Error};
use tokio::sync::Semaphore;

/// What the daemon itself and the requests that it answers need.
const RESERVED: u64 = 48;
/// What a live runtime costs: its connection, its process, its journal.
pub(crate) const PER_RUNTIME: u32 = 3;
/// What a live placed runtime costs: the pipes of the client that carries its stream, and its mirror.
pub(crate) const PER_PLACED_RUNTIME: u32 = 6;
/// The share of one query: its files, and those of the request behind it.
const PER_READER: u64 = 16;

/// The share of one process whose `/proc` entry is kept open between requests.
const PER_KEPT: u64 = 64;
/// Enough for the ancestors of the peers of several shells.
const MAX_KEPT: usize = 32;

/// The limit of this process. The daemon raises it as far as it may when it starts.
pub(crate) fn limit() -> u64 {
    getrlimit(Resource::RLIMIT_NOFILE).map_or(u64::MAX, |(soft, _)| soft)
}

/// The number of open files for the runtimes that the daemon is connected to.
pub(crate) fn for_runtimes(limit: u64) -> usize {
    usize::try_from(limit.saturating_sub(RESERVED)).unwrap_or(usize::MAX).min(Semaphore::MAX_PERMITS)
}

/// The maximum number of runtimes on this machine that the daemon is connected to.
#[must_use]
pub fn max_runtimes(limit: u64) -> usize {
    for_runtimes(limit) / PER_RUNTIME as usize
}

/// The number of queries that run at the same time, at most `max`.
pub(crate) fn max_readers(limit: u64, max: usize) -> usize {
    usize::try_from(limit / PER_READER).unwrap_or(max).clamp(2, max)
}

/// The number of processes whose `/proc` entries are kept open between requests.
pub(crate) fn max_kept(limit: u64) -> usize {
    usize::try_from(limit / PER_KEPT).unwrap_or(MAX_KEPT).min(MAX_KEPT)
}

/// Whether a call failed because too many files are open.
pub(crate) fn is_reached(error: &io::Error) -> bool {
    [Errno::EMFILE, Errno::ENFILE].iter().any(|errno| error.raw_os_error() == Some(*errno as i32))
}

/// Whether no file can be opened now. For libraries that do not say why they could not.
pub(crate) fn are_used_up() -> bool {
    File::open("/dev/null").is_err_and(|error| is_reached(&error))
}

/// The error of a call that failed so.
pub(crate) fn too_many(what: &str) -> Error {
    Error::new(Code::TooManyOpenFiles, format!("{what}: the daemon has too many open files"))
        .retryable()
        .with("limit", limit())
        .recommend(
            "stop workers, or raise the hard limit of open files (ulimit -Hn, LimitNOFILE) and run `subagentd stop`: \
             the next command starts a daemon with the new limit",
        )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_descriptors_are_kept_for_requests() {
        for (limit, runtimes, readers) in [(0, 0, 2), (32, 0, 2), (52, 1, 3), (256, 69, 16), (1024, 325, 32)]
        {
            assert_eq!(max_readers(limit, 32), readers, "{limit}");
            assert_eq!(max_runtimes(limit), runtimes, "{limit}");
        }
        assert!(max_runtimes(u64::MAX) > 1_000_000);
        assert_eq!([36, 64, 1024, u64::MAX].map(max_kept), [0, 1, 16, 32]);
    }

    #[test]
    fn only_a_limit_is_a_limit() {
        for (errno, expected) in [(Errno::EMFILE, true), (Errno::ENFILE, true), (Errno::EACCES, false)] {
            assert_eq!(is_reached(&errno.into()), expected, "{errno}");
        }
        let error = too_many("cannot look");
        assert_eq!((error.code, error.retryable), (Code::TooManyOpenFiles, true));
        assert!(error.details.contains_key("recommendedAction"), "{error:?}");
    }
}
