//! The rules, the counters, and the verdict on each call. Allocates only while the library is
//! loaded: a child between fork and exec may call anything here.

use std::ffi::{CStr, CString};
use std::os::fd::RawFd;
use std::os::unix::ffi::OsStrExt as _;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use nix::libc::{self, c_char, c_int};

/// The kind of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FileOperation {
    Open,
    /// Opening for writing, or creating.
    Change,
    Write,
    Sync,
    Truncate,
    Allocate,
    Rename,
    Unlink,
    /// Asking for the free space.
    Room,
}

/// What to do with a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    GoOn,
    /// Do half of the work.
    Short,
    Fail(c_int),
}

struct FaultRule {
    op: FileOperation,
    path: Vec<u8>,
    nth: u64,
    count: u64,
    /// The rule applies only while this file exists.
    gate: Option<CString>,
    errno: c_int,
    short: bool,
    /// Counts of matching calls and of faults, in memory shared by all processes.
    counters: &'static [AtomicU64; 2],
}

static RULES: OnceLock<Vec<FaultRule>> = OnceLock::new();

/// Runs when the library is loaded.
// SAFETY: the loader calls the functions in this section once, before `main`, when the
// C library is ready.
#[unsafe(link_section = ".init_array")]
#[used]
static LOAD: extern "C" fn() = load;

extern "C" fn load() {
    let _ = RULES.set(read().unwrap_or_default());
    super::clock::load();
}

fn read() -> Option<Vec<FaultRule>> {
    let text = std::env::var("FAULT_FS").ok()?;
    let file = std::env::var_os("FAULT_FS_COUNTERS")?;
    let rules: Vec<&str> = text.split('|').collect();
    let counters = counters(file.as_bytes(), rules.len())?;
    rules.iter().zip(counters).map(|(rule, counters)| parse(rule, counters)).collect()
}

fn parse(rule: &str, counters: &'static [AtomicU64; 2]) -> Option<FaultRule> {
    let value = |key: &str| {
        rule.split(';').filter_map(|pair| pair.split_once('=')).find(|(k, _)| *k == key).map(|(_, v)| v)
    };
    let number = |key: &str| value(key).and_then(|text| text.parse().ok());
    Some(FaultRule {
        op: match value("op")? {
            "open" => FileOperation::Open,
            "change" => FileOperation::Change,
            "write" => FileOperation::Write,
            "sync" => FileOperation::Sync,
            "truncate" => FileOperation::Truncate,
            "allocate" => FileOperation::Allocate,
            "rename" => FileOperation::Rename,
            "unlink" => FileOperation::Unlink,
            "room" => FileOperation::Room,
            _ => return None,
        },
        path: value("path")?.as_bytes().to_vec(),
        nth: number("nth").unwrap_or(1),
        count: number("count").unwrap_or(1),
        gate: value("while").and_then(|path| CString::new(path).ok()),
        errno: match value("errno")? {
            "EIO" => libc::EIO,
            "ENOSPC" => libc::ENOSPC,
            "EACCES" => libc::EACCES,
            "EROFS" => libc::EROFS,
            _ => return None,
        },
        short: value("short") == Some("1"),
        counters,
    })
}

/// Maps the file's memory, shared with every process that maps it.
fn counters(path: &[u8], rules: usize) -> Option<&'static [[AtomicU64; 2]]> {
    let path = CString::new(path).ok()?;
    let length = rules * size_of::<[AtomicU64; 2]>();
    // SAFETY: a path that ends with NUL; the descriptor is ours. The mapping has the length of the
    // file. The process that set `FAULT_FS_COUNTERS` created the file with this length. It is
    // page-aligned and never unmapped.
    unsafe {
        let fd =
            libc::syscall(libc::SYS_openat, libc::AT_FDCWD, path.as_ptr(), libc::O_RDWR | libc::O_CLOEXEC, 0);
        let fd = c_int::try_from(fd).ok().filter(|fd| *fd >= 0)?;
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let memory = libc::mmap(std::ptr::null_mut(), length, protection, libc::MAP_SHARED, fd, 0);
        libc::close(fd);
        (memory != libc::MAP_FAILED).then(|| std::slice::from_raw_parts(memory.cast(), rules))
    }
}

impl FaultRule {
    fn judge(&self, op: FileOperation, path: &[u8]) -> Verdict {
        if self.op != op || !matches(&self.path, path) {
            return Verdict::GoOn;
        }
        if let Some(gate) = &self.gate {
            // SAFETY: a path that ends with NUL.
            if unsafe { libc::access(gate.as_ptr(), libc::F_OK) } != 0 {
                return Verdict::GoOn;
            }
            self.counters[1].fetch_add(1, Ordering::Relaxed);
            return Verdict::Fail(self.errno);
        }
        let number = self.counters[0].fetch_add(1, Ordering::Relaxed) + 1;
        let begins_to_fail = self.nth + u64::from(self.short);
        if self.short && number == self.nth {
            return Verdict::Short;
        }
        if (begins_to_fail..begins_to_fail + self.count).contains(&number) {
            self.counters[1].fetch_add(1, Ordering::Relaxed);
            return Verdict::Fail(self.errno);
        }
        Verdict::GoOn
    }
}

/// Whether the whole text matches the pattern, where `*` matches anything.
fn matches(pattern: &[u8], text: &[u8]) -> bool {
    match pattern.split_first() {
        None => text.is_empty(),
        Some((b'*', rest)) => (0..=text.len()).any(|skipped| matches(rest, &text[skipped..])),
        Some((first, rest)) => text.split_first().is_some_and(|(t, text)| t == first && matches(rest, text)),
    }
}

fn judge(op: FileOperation, path: impl FnOnce(&mut [u8]) -> usize) -> Verdict {
    let Some(rules) = RULES.get().filter(|rules| rules.iter().any(|rule| rule.op == op)) else {
        return Verdict::GoOn;
    };
    let mut buffer = [0; 4096];
    let length = path(&mut buffer);
    let verdicts = rules.iter().map(|rule| rule.judge(op, &buffer[..length]));
    // Every rule counts; the first one with a verdict decides.
    verdicts.fold(Verdict::GoOn, |first, next| if first == Verdict::GoOn { next } else { first })
}

/// Decides about a call on a descriptor.
pub(crate) fn on_descriptor(op: FileOperation, fd: RawFd) -> Verdict {
    judge(op, |buffer| path_of(fd, buffer))
}

/// Decides about a call on a path below a folder. `AT_FDCWD` is for absolute paths; relative ones
/// are used as they are.
pub(crate) fn on_path(op: FileOperation, folder: RawFd, path: *const c_char) -> Verdict {
    judge(op, |buffer| {
        // SAFETY: the caller's path, which it guarantees to end with NUL.
        let path = unsafe { CStr::from_ptr(path) }.to_bytes();
        let mut length = 0;
        if folder != libc::AT_FDCWD && !path.starts_with(b"/") {
            length = path_of(folder, buffer);
            if let Some(slash) = buffer.get_mut(length) {
                *slash = b'/';
                length += 1;
            }
        }
        let fits = path.len().min(buffer.len() - length);
        buffer[length..length + fits].copy_from_slice(&path[..fits]);
        length + fits
    })
}

/// Resolves `/proc/self/fd/N` without an allocation.
fn path_of(fd: RawFd, buffer: &mut [u8]) -> usize {
    let mut name = *b"/proc/self/fd/\0\0\0\0\0\0\0\0\0\0\0\0";
    let mut digits = [0; 10];
    let (mut left, mut count) = (fd.unsigned_abs(), 0);
    loop {
        digits[count] = b'0' + u8::try_from(left % 10).unwrap_or(0);
        left /= 10;
        count += 1;
        if left == 0 {
            break;
        }
    }
    for (place, digit) in name[14..].iter_mut().zip(digits[..count].iter().rev()) {
        *place = *digit;
    }
    // SAFETY: a name that ends with NUL, and a buffer with its length.
    let length = unsafe { libc::readlink(name.as_ptr().cast(), buffer.as_mut_ptr().cast(), buffer.len()) };
    usize::try_from(length).unwrap_or(0)
}
