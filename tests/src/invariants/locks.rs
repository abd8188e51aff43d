//! The locks of workers and their holders, read without touching them: a lock that a check takes
//! briefly could disturb the product. A lock proves that its holder lives; a pid alone does not.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use crate::harness::process;

/// The workers whose locks are held.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct HeldLocks {
    /// Workers whose runtime holds a lock.
    pub runtime: BTreeSet<String>,
    /// Workers whose guard holds a lock, or a runtime that has not passed it on.
    pub guard: BTreeSet<String>,
}

impl HeldLocks {
    /// Finds all runtimes and guards of workers in this state directory, and those that are placed in
    /// other folders.
    #[must_use]
    pub fn look(state_dir: &Path, there: &[PathBuf]) -> Self {
        let own = ["runtimes", "placed"].map(|name| state_dir.join(name));
        let folders: Vec<_> = own.into_iter().chain(there.iter().cloned()).collect();
        let mut held = Self::default();
        for process in process::all() {
            if process.name != "subagent-runtim" && process.name != "subagent-guard" {
                continue;
            }
            let descriptors = format!("/proc/{}/fd", process.pid);
            for entry in fs::read_dir(descriptors).into_iter().flatten().flatten() {
                let Ok(path) = fs::read_link(entry.path()) else { continue };
                let Some(name) = folders.iter().find_map(|folder| path.strip_prefix(folder).ok()) else {
                    continue;
                };
                let mut parts = name.iter().filter_map(|part| part.to_str());
                let (Some(worker), Some(file)) = (parts.next(), parts.next()) else { continue };
                let workers = match file {
                    "lock" if process.name == "subagent-runtim" => &mut held.runtime,
                    "guard.lock" => &mut held.guard,
                    _ => continue,
                };
                let number = entry.file_name().to_string_lossy().into_owned();
                let info = format!("/proc/{}/fdinfo/{number}", process.pid);
                if fs::read_to_string(info).is_ok_and(|info| info.contains("FLOCK")) {
                    workers.insert(worker.to_owned());
                }
            }
        }
        held
    }
}
