//! Reads `/proc` data about one process. Linux only. Signals nothing and caches nothing: every
//! result may be outdated at once, and the callers handle that.

use std::fs::{self, File};
use std::io::{self, Read};

/// Longer than `/proc/<pid>/stat` up to the last field needed (22 of 52).
pub(super) const STAT_BYTES: usize = 1024;

/// The fields of `/proc/<pid>/stat` that are used here.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Stat<'a> {
    /// The process name: any bytes, including parentheses and newlines.
    pub(super) comm: &'a [u8],
    /// The state letter: `R`, `S`, `Z`, ...
    pub(super) state: u8,
    /// The parent's pid. 0 for the first process, and if the parent is outside this pid namespace.
    pub(super) ppid: i32,
    /// Clock ticks since boot.
    pub(super) start_time: u64,
}

impl Stat<'_> {
    /// True for a process that has ended and waits to be reaped.
    pub(super) fn ended(&self) -> bool {
        matches!(self.state, b'Z' | b'X')
    }
}

/// Reads `/proc/<pid>/stat` into `buffer`.
///
/// # Errors
///
/// `NotFound` (or ESRCH) if the process does not exist or is hidden from us; `InvalidData`
/// for an unknown format.
pub(super) fn stat(pid: i32, buffer: &mut [u8; STAT_BYTES]) -> io::Result<Stat<'_>> {
    let length = File::open(format!("/proc/{pid}/stat"))?.read(buffer)?;
    parse_stat(&buffer[..length]).ok_or_else(|| {
        io::Error::new(io::ErrorKind::InvalidData, format!("unknown format of /proc/{pid}/stat"))
    })
}

fn parse_stat(text: &[u8]) -> Option<Stat<'_>> {
    let open = text.iter().position(|byte| *byte == b'(')?;
    // The name can contain anything; the fields after it contain only numbers and the state letter.
    let close = text.iter().rposition(|byte| *byte == b')')?;
    let comm = text.get(open + 1..close)?;
    let mut fields = std::str::from_utf8(text.get(close + 1..)?).ok()?.split_ascii_whitespace();
    let state = *fields.next()?.as_bytes().first()?;
    let ppid = fields.next()?.parse().ok()?;
    // Relative to the fields after state (3) and ppid (4), field 22 is the 18th.
    let start_time = fields.nth(17)?.parse().ok()?;
    Some(Stat { comm, state, ppid, start_time })
}

/// Appends the children of all threads of `pid` to `children`, including ended ones.
///
/// The list is complete only for a stopped process: read it again until nothing new appears.
///
/// # Errors
///
/// `NotFound` if the process does not exist, or if the kernel does not offer these files.
pub(super) fn children(pid: i32, children: &mut Vec<i32>) -> io::Result<()> {
    let mut text = Vec::new();
    for thread in fs::read_dir(format!("/proc/{pid}/task"))? {
        text.clear();
        match File::open(thread?.path().join("children")).and_then(|mut file| file.read_to_end(&mut text)) {
            Ok(_) => children.extend(numbers(&text)),
            // The thread has ended meanwhile; another thread has its children now.
            Err(error) if gone(&error) && offers_children() => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Whether this kernel lists children (`CONFIG_PROC_CHILDREN`).
pub(super) fn offers_children() -> bool {
    fs::metadata("/proc/thread-self/children").is_ok()
}

/// Returns all visible processes, each with its parent.
///
/// # Errors
///
/// `/proc` cannot be read.
pub(super) fn parents() -> io::Result<Vec<(i32, i32)>> {
    let mut buffer = [0; STAT_BYTES];
    let mut parents = Vec::new();
    for entry in fs::read_dir("/proc")? {
        let name = entry?.file_name();
        let Some(pid) = name.to_str().and_then(|name| name.parse().ok()) else { continue };
        // A process that cannot be read has ended meanwhile.
        if let Ok(stat) = stat(pid, &mut buffer) {
            parents.push((pid, stat.ppid));
        }
    }
    Ok(parents)
}

/// True for both errors that `/proc` returns for an ended process.
pub(super) fn gone(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound || error.raw_os_error() == Some(nix::libc::ESRCH)
}

fn numbers(text: &[u8]) -> impl Iterator<Item = i32> {
    text.split(u8::is_ascii_whitespace).filter_map(|word| std::str::from_utf8(word).ok()?.parse().ok())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const TAIL: &str = "S 42 7 7 0 -1 4194304 1 2 3 4 5 6 7 8 20 0 1 0 987654 1000 200 184467";

    #[test]
    fn a_name_cannot_pose_as_fields() {
        let text = format!("7 (x) Z 1 (\n) {TAIL}");
        let stat = parse_stat(text.as_bytes()).unwrap();
        assert_eq!((stat.comm, stat.ppid, stat.start_time), (b"x) Z 1 (\n".as_slice(), 42, 987_654));
        assert!(!stat.ended());
    }

    #[test]
    fn a_cut_line_is_an_error() {
        assert_eq!(parse_stat(b"7 (x) S 42 7"), None);
        assert_eq!(parse_stat(b""), None);
        assert_eq!(parse_stat(b") ("), None);
    }

    proptest! {
        #[test]
        fn any_name_is_read(name in proptest::collection::vec(any::<u8>(), 0..64)) {
            let mut text = b"7 (".to_vec();
            text.extend(&name);
            text.extend(format!(") {TAIL}").bytes());
            prop_assert_eq!(parse_stat(&text), Some(Stat { comm: &name, state: b'S', ppid: 42, start_time: 987_654 }));
        }
    }
}
