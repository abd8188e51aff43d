//! The processes of a tree: recorded by themselves, for the search for remaining ones.

use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};

use crate::harness::process::{self, Process};

/// The file of one tree, and the program that only its processes run.
#[derive(Debug, Clone)]
pub struct Registry {
    file: PathBuf,
    program: PathBuf,
}

impl Registry {
    /// Creates the registry of a tree whose processes run `program`.
    #[must_use]
    pub fn new(file: &Path, program: &Path) -> Self {
        Self { file: file.to_owned(), program: program.to_owned() }
    }

    /// Registers this process as part of the tree.
    pub fn join(file: &Path) {
        let me = i32::try_from(std::process::id()).unwrap();
        // One write, so that lines of different processes do not mix.
        let line = format!("{me} {}\n", Process::find(me).unwrap().start_time);
        let mut registry = OpenOptions::new().append(true).create(true).open(file).unwrap();
        registry.write_all(line.as_bytes()).unwrap();
    }

    /// Returns how many processes have joined so far.
    #[must_use]
    pub fn joined(&self) -> usize {
        self.lines().count()
    }

    /// Returns the living processes of the tree: those that joined, and those that run the program.
    #[must_use]
    pub fn left(&self) -> Vec<Process> {
        let of_program = |process: &Process| {
            fs::read_link(format!("/proc/{}/exe", process.pid)).is_ok_and(|program| program == self.program)
        };
        let mut left: Vec<Process> = process::all().into_iter().filter(of_program).collect();
        for (pid, start_time) in self.lines() {
            let found = Process::find(pid).filter(|process| process.start_time == start_time);
            left.extend(found.filter(|process| !left.contains(process)));
        }
        left
    }

    /// Whether this process has joined.
    #[must_use]
    pub fn knows(&self, process: &Process) -> bool {
        self.lines().any(|line| line == (process.pid, process.start_time))
    }

    fn lines(&self) -> impl Iterator<Item = (i32, u64)> {
        let text = fs::read_to_string(&self.file).unwrap_or_default();
        let line = |line: &str| {
            let (pid, start_time) = line.split_once(' ')?;
            Some((pid.parse().ok()?, start_time.parse().ok()?))
        };
        text.lines().filter_map(line).collect::<Vec<_>>().into_iter()
    }
}
