//! Failing file operations: rules for the library in `tests/fault-fs`, and its counters.

use std::fs;
use std::path::PathBuf;

use super::sandbox::TestSandbox;

/// Size of one rule's counters in bytes.
const COUNTERS: usize = 16;

/// The rules of a sandbox.
#[derive(Debug)]
pub struct Faults {
    counters: PathBuf,
}

impl Faults {
    /// Applies these rules to everything that this sandbox starts from now on.
    ///
    /// # Panics
    ///
    /// If the counters cannot be created.
    #[must_use]
    pub fn arm(sandbox: &mut TestSandbox, rules: &[String]) -> Self {
        let counters = sandbox.file("counters");
        fs::write(&counters, vec![0; COUNTERS * rules.len()]).unwrap();
        let library = sandbox.executable("libsubagent_fault_fs.so");
        for (name, value) in [("LD_PRELOAD", library), ("FAULT_FS", rules.join("|"))] {
            sandbox.set_env(name, value);
        }
        sandbox.set_env("FAULT_FS_COUNTERS", &counters);
        Self { counters }
    }

    /// Removes them for later processes. Running ones keep them.
    pub fn disarm(&self, sandbox: &mut TestSandbox) {
        for name in ["LD_PRELOAD", "FAULT_FS", "FAULT_FS_COUNTERS"] {
            sandbox.remove_env(name);
        }
    }

    /// Returns how many calls a rule matched, and how many of them failed.
    ///
    /// # Panics
    ///
    /// If the counters are gone.
    #[must_use]
    pub fn counted(&self, rule: usize) -> (u64, u64) {
        let bytes = fs::read(&self.counters).unwrap();
        let number = |at: usize| u64::from_ne_bytes(bytes[at..at + 8].try_into().unwrap());
        (number(rule * COUNTERS), number(rule * COUNTERS + 8))
    }
}
