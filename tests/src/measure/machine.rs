//! Describes the machine of a run: processors, memory, kernel, disk, and the build tools.

use std::fs;
use std::path::Path;
use std::process::Command;

use nix::sys::statfs::statfs;
use nix::sys::utsname::uname;

/// The reported facts about a machine.
#[derive(Debug, Clone)]
pub struct Machine {
    /// The processor's name and number.
    pub processors: String,
    /// Total memory in GiB.
    pub memory: String,
    /// Kernel name and release.
    pub kernel: String,
    /// The file system of the run's files.
    pub file_system: String,
    /// The version of the compiler.
    pub rustc: String,
    /// Load by other processes: the average of the last minute.
    pub load: String,
}

impl Machine {
    /// Describes this machine; `folder` is where the run keeps its files.
    #[must_use]
    pub fn look(folder: &Path) -> Self {
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let cores = std::thread::available_parallelism().map_or(0, std::num::NonZero::get);
        let system = uname();
        let kernel = system.map_or_else(
            |_| String::new(),
            |system| format!("{} {}", system.sysname().display(), system.release().display()),
        );
        let rustc = Command::new("rustc").arg("--version").output();
        let rustc = rustc.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned());
        Self {
            processors: format!("{cores} × {}", processor(&read("/proc/cpuinfo"))),
            memory: memory(&read("/proc/meminfo")),
            kernel,
            file_system: statfs(folder)
                .map_or_else(|_| String::new(), |found| name_of(found.filesystem_type().0)),
            rustc: rustc.unwrap_or_default(),
            load: read("/proc/loadavg").split(' ').next().unwrap_or_default().to_owned(),
        }
    }
}

fn processor(cpuinfo: &str) -> String {
    let named = |name: &str| {
        let line = cpuinfo.lines().find(|line| line.starts_with(name))?;
        Some(line.split_once(':')?.1.trim().to_owned())
    };
    named("model name").or_else(|| named("CPU part")).unwrap_or_else(|| "unknown".to_owned())
}

fn memory(meminfo: &str) -> String {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:")).unwrap_or_default();
    let kilobytes: f64 = line.split_whitespace().next().and_then(|word| word.parse().ok()).unwrap_or(0.0);
    format!("{:.1} GiB", kilobytes / 1024.0 / 1024.0)
}

/// Returns the name of a common file system (`statfs(2)`).
fn name_of(kind: i64) -> String {
    let known = [
        (0xEF53, "ext4"),
        (0x5846_5342, "xfs"),
        (0x9123_683E, "btrfs"),
        (0x0102_1994, "tmpfs"),
        (0x794C_7630, "overlayfs"),
        (0x2FC1_2FC1, "zfs"),
    ];
    let found = known.iter().find(|(number, _)| *number == kind);
    found.map_or_else(|| format!("file system {kind:#x}"), |(_, name)| (*name).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_is_described() {
        assert_eq!(processor("processor\t: 0\nmodel name\t: Fast CPU\n"), "Fast CPU");
        assert_eq!(processor(""), "unknown");
        assert_eq!(memory("MemTotal:       16777216 kB\nMemFree: 1 kB\n"), "16.0 GiB");
        assert_eq!(name_of(0xEF53), "ext4");
        assert_eq!(name_of(1), "file system 0x1");
    }

    #[test]
    fn this_machine_has_a_kernel() {
        assert!(Machine::look(Path::new("/")).kernel.starts_with("Linux "));
    }
}
