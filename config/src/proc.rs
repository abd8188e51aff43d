//! Reads processes from `/proc`: parents, start times and sessions. Linux only. Must not signal
//! processes or cache results. A result may be outdated at once; where that matters, functions read
//! again until two results agree.

use std::collections::VecDeque;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

/// More than the size of `/proc/PID/stat` up to field 22 of 52.
const STAT_BYTES: usize = 1024;

/// Maximum length of a chain of parents; a longer chain is an error, since an attacker could extend it.
const MAX_ANCESTORS: usize = 4096;

/// The name of every guard process.
const GUARD_NAME: &str = "subagent-guard";

/// Maximum number of walks that are repeated because a process exited.
const MAX_WALKS: usize = 16;

/// The state of one process at the time of reading.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProcessEntry {
    /// The id of the process.
    pub pid: i32,
    /// The parent's id; 0 for the first process, and for a parent outside of this pid namespace.
    pub parent: i32,
    /// The session id: the pid of its leader, which may have exited.
    pub session: i32,
    /// Start time in clock ticks since boot. Pid and start time identify the process.
    pub start_time: u64,
    /// The process name, at most 15 bytes; invalid UTF-8 is replaced.
    pub name: String,
    /// Whether the process is a zombie.
    pub ended: bool,
    /// Whether a signal or a debugger has stopped the process.
    pub stopped: bool,
}

/// Reads one process.
///
/// # Errors
/// [`is_gone`] holds if the process does not exist or is hidden; `InvalidData` for an unknown format.
pub fn process(pid: i32) -> io::Result<ProcessEntry> {
    read(pid, &open(pid)?)
}

fn open(pid: i32) -> io::Result<File> {
    File::open(format!("/proc/{pid}/stat"))
}

fn read(pid: i32, stat: &File) -> io::Result<ProcessEntry> {
    let mut buffer = [0; STAT_BYTES];
    let length = stat.read_at(&mut buffer, 0)?;
    parse(pid, &buffer[..length]).ok_or_else(|| {
        io::Error::new(io::ErrorKind::InvalidData, format!("unknown format of /proc/{pid}/stat"))
    })
}

/// Returns the start time of a process in clock ticks since boot.
///
/// # Errors
/// Those of [`process`].
pub fn start_time(pid: i32) -> io::Result<u64> {
    process(pid).map(|found| found.start_time)
}

/// Whether a process exists and is stopped.
#[must_use]
pub fn is_stopped(pid: i32) -> bool {
    process(pid).is_ok_and(|found| found.stopped)
}

/// Returns the process, its parent, and so on up to the first visible one.
///
/// If a parent exits during the walk, its children get another parent. The walk then starts again, so that
/// each link was true when it was read. Hidden ancestors (`hidepid`) end the chain.
///
/// # Errors
/// Those of [`process`] for `pid`; `Interrupted` if the chain changes too often.
pub fn ancestors(pid: i32) -> io::Result<Vec<ProcessEntry>> {
    ancestors_of(process(pid)?, &mut process)
}

/// Reads the ancestors of many processes. It keeps the files of recent ones open, because processes of one
/// shell share their ancestors. An open file stays bound to its process, even if the pid is reused.
#[derive(Debug)]
pub struct AncestorReader {
    /// Open files by pid, the most recent last.
    kept: VecDeque<(i32, File)>,
    max_kept: usize,
}

impl AncestorReader {
    /// Creates a reader that keeps at most `max_kept` processes open.
    #[must_use]
    pub const fn keeping(max_kept: usize) -> Self {
        Self { kept: VecDeque::new(), max_kept }
    }

    /// Returns the [`ancestors`] of a process that was read before. It is read again only if necessary. The
    /// caller must check that it is still alive.
    ///
    /// # Errors
    /// Those of [`ancestors`].
    pub fn ancestors_of(&mut self, first: ProcessEntry) -> io::Result<Vec<ProcessEntry>> {
        ancestors_of(first, &mut |pid| self.process(pid))
    }

    fn process(&mut self, pid: i32) -> io::Result<ProcessEntry> {
        let kept = self.kept.iter().position(|(kept, _)| *kept == pid).and_then(|at| self.kept.remove(at));
        let again = kept.and_then(|(_, stat)| Some((read(pid, &stat).ok()?, stat)));
        let (found, stat) = match again {
            Some(again) => again,
            // The process exited, and its pid may be reused.
            None => {
                let stat = open(pid)?;
                (read(pid, &stat)?, stat)
            }
        };
        self.kept.push_back((pid, stat));
        if self.kept.len() > self.max_kept {
            self.kept.pop_front();
        }
        Ok(found)
    }
}

fn ancestors_of(
    mut first: ProcessEntry,
    process: &mut impl FnMut(i32) -> io::Result<ProcessEntry>,
) -> io::Result<Vec<ProcessEntry>> {
    let pid = first.pid;
    for _ in 0..MAX_WALKS {
        if let Some(chain) = walk(first, process)? {
            return Ok(chain);
        }
        first = process(pid)?;
    }
    Err(io::Error::new(
        io::ErrorKind::Interrupted,
        format!("the ancestors of process {pid} changed each time they were read"),
    ))
}

/// Walks once; `None` if a process changed.
fn walk(
    first: ProcessEntry,
    process: &mut impl FnMut(i32) -> io::Result<ProcessEntry>,
) -> io::Result<Option<Vec<ProcessEntry>>> {
    let pid = first.pid;
    let mut chain = vec![first];
    while let Some(child) = chain.last().filter(|child| child.parent > 0) {
        let parent = match process(child.parent) {
            Ok(parent) => Some(parent),
            Err(error) if is_gone(&error) || error.kind() == io::ErrorKind::PermissionDenied => None,
            Err(error) => return Err(error),
        };
        // The pid may be reused between the two reads. A child with the same parent afterwards, and a
        // parent that is alive and older than the child, prove that the right process was read.
        let older =
            parent.as_ref().is_some_and(|parent| !parent.ended && parent.start_time < child.start_time);
        let unchanged = older
            || process(child.pid)
                .is_ok_and(|again| (again.start_time, again.parent) == (child.start_time, child.parent));
        match parent {
            _ if !unchanged => return Ok(None),
            Some(parent) if chain.len() < MAX_ANCESTORS => chain.push(parent),
            Some(_) => {
                return Err(io::Error::new(
                    io::ErrorKind::InvalidData,
                    format!("process {pid} has more than {MAX_ANCESTORS} ancestors"),
                ));
            }
            None => break,
        }
    }
    Ok(Some(chain))
}

/// Returns the leader of this process's session, or this process if the leader exited.
///
/// # Errors
/// Those of [`process`].
pub fn session_leader() -> io::Result<ProcessEntry> {
    let own = process(pid_of_this_process())?;
    match process(own.session) {
        Ok(leader) if !leader.ended => Ok(leader),
        Err(error) if !is_gone(&error) && error.kind() != io::ErrorKind::PermissionDenied => Err(error),
        _ => Ok(own),
    }
}

/// Whether this process is an agent or a descendant of one: a guard is among its ancestors. Also true if
/// this cannot be determined, so that restrictions apply.
#[must_use]
pub fn is_below_guard() -> bool {
    is_below_guard_of(pid_of_this_process())
}

/// Same as [`is_below_guard`] for another process.
#[must_use]
pub fn is_below_guard_of(pid: i32) -> bool {
    let chain = ancestors(pid);
    !chain.is_ok_and(|chain| chain.iter().skip(1).all(|ancestor| ancestor.name != GUARD_NAME))
}

/// Advice for a failure of [`is_of_this_namespace`].
pub const FOREIGN_ADVICE: &str = "Mount the /proc of this pid namespace, as `unshare --mount-proc` does, \
    or do without a pid namespace of its own (`--pid=host`, no `--unshare-pid`).";

/// Checks that `/proc` belongs to the pid namespace of this process. It does not in a container with the
/// host's `/proc`, or after `unshare --pid` without `--mount-proc`.
///
/// # Errors
/// `/proc` is foreign or unreadable.
pub fn is_of_this_namespace() -> io::Result<()> {
    // The kernel provides no such link for a process outside of the namespace.
    let unread = |error: io::Error| {
        let message =
            format!("/proc/self cannot be read; no /proc, or one of another pid namespace? {error}");
        io::Error::new(error.kind(), message)
    };
    let shown = fs::read_link("/proc/self").map_err(unread)?;
    if shown == Path::new(&pid_of_this_process().to_string()) {
        return Ok(());
    }
    let message = format!("/proc is of another pid namespace: it calls this process {}", shown.display());
    Err(io::Error::new(io::ErrorKind::InvalidData, message))
}

/// Returns the id of this boot. Pids and start times of another boot have no meaning.
///
/// # Errors
/// `/proc` is unreadable.
pub fn boot_id() -> io::Result<String> {
    fs::read_to_string("/proc/sys/kernel/random/boot_id").map(|text| text.trim().to_owned())
}

/// Whether an error of `/proc` means that the process does not exist.
#[must_use]
pub fn is_gone(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound || error.raw_os_error() == Some(nix::errno::Errno::ESRCH as i32)
}

fn pid_of_this_process() -> i32 {
    nix::unistd::getpid().as_raw()
}

fn parse(pid: i32, text: &[u8]) -> Option<ProcessEntry> {
    let open = text.iter().position(|byte| *byte == b'(')?;
    // The name may contain any character, so the other fields follow the last parenthesis.
    let close = text.iter().rposition(|byte| *byte == b')')?;
    let name = String::from_utf8_lossy(text.get(open + 1..close)?).into_owned();
    let mut fields = std::str::from_utf8(text.get(close + 1..)?).ok()?.split_ascii_whitespace();
    let state = fields.next()?;
    let (ended, stopped) = (matches!(state, "Z" | "X"), matches!(state, "T" | "t"));
    let parent = fields.next()?.parse().ok()?;
    let session = fields.nth(1)?.parse().ok()?;
    // Session is field 6, so field 22 is the 16th from here.
    let start_time = fields.nth(15)?.parse().ok()?;
    Some(ProcessEntry { pid, parent, session, start_time, name, ended, stopped })
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use proptest::prelude::*;

    use super::*;

    const KEPT: usize = 32;

    const TAIL: &str = "S 42 7 9 0 -1 4194304 1 2 3 4 5 6 7 8 20 0 1 0 987654 1000 200 184467";

    #[test]
    fn a_name_cannot_pose_as_fields() {
        let found = parse(7, format!("7 (x) Z 1 (\n) {TAIL}").as_bytes()).unwrap();
        assert_eq!((found.parent, found.session, found.start_time), (42, 9, 987_654));
        assert_eq!((found.name.as_str(), found.ended), ("x) Z 1 (\n", false));
    }

    #[test]
    fn a_cut_line_is_no_process() {
        for text in ["7 (x) S 42 7", "", ") ("] {
            assert_eq!(parse(7, text.as_bytes()), None, "{text:?}");
        }
    }

    #[test]
    fn a_child_is_below_us_and_we_are_below_our_parent() {
        // `cat` waits for the end of its input.
        let mut child = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
        let pid = i32::try_from(child.id()).unwrap();
        let chain = ancestors(pid).unwrap();
        assert_eq!((chain[0].pid, chain[0].parent), (pid, pid_of_this_process()));
        assert_eq!(chain[1], process(pid_of_this_process()).unwrap());
        assert!(chain.len() < 3 || chain[2].pid == std::os::unix::process::parent_id().cast_signed());
        assert!(chain[1].start_time <= chain[0].start_time);
        drop(child.stdin.take());
        child.wait().unwrap();
        assert!(is_gone(&ancestors(pid).unwrap_err()));
    }

    #[test]
    fn a_reader_keeps_ancestors_open_and_finds_the_same_as_without_it() {
        let mut reader = AncestorReader::keeping(KEPT);
        for _ in 0..3 {
            let mut child = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
            let first = process(i32::try_from(child.id()).unwrap()).unwrap();
            let (found, fresh) = (reader.ancestors_of(first.clone()).unwrap(), ancestors(first.pid).unwrap());
            let id = |process: &ProcessEntry| {
                (process.pid, process.start_time, process.parent, process.name.clone())
            };
            assert_eq!(found.iter().map(id).collect::<Vec<_>>(), fresh.iter().map(id).collect::<Vec<_>>());
            let kept = |above: &ProcessEntry| reader.kept.iter().any(|(pid, _)| *pid == above.pid);
            assert!(fresh[1..].iter().rev().take(KEPT - 3).all(kept), "{fresh:?}");
            drop(child.stdin.take());
            child.wait().unwrap();
        }
    }

    #[test]
    fn an_open_process_that_has_ended_is_not_taken_for_the_one_that_has_its_number_now() {
        let mut reader = AncestorReader::keeping(KEPT);
        let mut child = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
        let pid = i32::try_from(child.id()).unwrap();
        assert_eq!(reader.process(pid).unwrap().pid, pid);
        drop(child.stdin.take());
        child.wait().unwrap();
        assert!(is_gone(&reader.process(pid).unwrap_err()));
        assert!(reader.kept.is_empty());
        // An open file of an exited process under the pid of this one.
        let own = pid_of_this_process();
        let mut child = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
        reader.kept.push_back((own, open(i32::try_from(child.id()).unwrap()).unwrap()));
        drop(child.stdin.take());
        child.wait().unwrap();
        assert_eq!(reader.process(own).unwrap().start_time, process(own).unwrap().start_time);
    }

    #[test]
    fn a_reader_limits_its_open_files() {
        let mut reader = AncestorReader::keeping(KEPT);
        let mut children: Vec<_> = (0..=KEPT)
            .map(|_| Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap())
            .collect();
        for child in &children {
            reader.process(i32::try_from(child.id()).unwrap()).unwrap();
        }
        assert_eq!(reader.kept.len(), KEPT);
        assert!(!reader.kept.iter().any(|(pid, _)| pid.cast_unsigned() == children[0].id()));
        for child in &mut children {
            drop(child.stdin.take());
            child.wait().unwrap();
        }
    }

    #[test]
    fn an_ended_child_is_seen_as_ended_until_it_is_reaped() {
        let mut child = Command::new("true").spawn().unwrap();
        let pid = i32::try_from(child.id()).unwrap();
        let id = nix::sys::wait::Id::Pid(nix::unistd::Pid::from_raw(pid));
        let flags = nix::sys::wait::WaitPidFlag::WEXITED | nix::sys::wait::WaitPidFlag::WNOWAIT;
        nix::sys::wait::waitid(id, flags).unwrap();
        assert!(process(pid).unwrap().ended);
        child.wait().unwrap();
        assert!(is_gone(&process(pid).unwrap_err()));
    }

    #[test]
    fn the_session_leader_is_the_one_of_this_session() {
        let leader = session_leader().unwrap();
        assert_eq!(leader.session, process(pid_of_this_process()).unwrap().session);
        assert!(!leader.ended);
    }

    #[test]
    fn the_boot_has_an_id() {
        assert_eq!(boot_id().unwrap().len(), 36);
        assert_eq!(boot_id().unwrap(), boot_id().unwrap());
    }

    proptest! {
        #[test]
        fn any_name_is_read(name in proptest::collection::vec(any::<u8>(), 0..64)) {
            let mut text = b"7 (".to_vec();
            text.extend(&name);
            text.extend(format!(") {TAIL}").bytes());
            let found = parse(7, &text).unwrap();
            prop_assert_eq!((found.parent, found.session, found.start_time), (42, 9, 987_654));
        }

        #[test]
        fn no_text_makes_it_panic(text in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = parse(7, &text);
        }
    }
}
