//! The machine of a host of a test: boots, a clock and small file systems of its own, in a namespace of
//! mounts. Dropping the host ends them.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::thread;
use std::time::Duration;

use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};
use nix::sys::signal::Signal;

use super::process::{self, Process};
use super::sandbox::TestSandbox;
use super::ssh_host::SshHost;
use super::{say, wait_until};

const DEADLINE: Duration = Duration::from_secs(30);
/// The file with the id of the present boot.
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";
/// Size of a write that fills a file system.
const BLOCK_BYTES: usize = 4096;

/// What a host does not share with this machine.
#[derive(Debug, Default)]
pub struct HostMachine {
    /// Further variables of its processes, as `NAME=VALUE`.
    variables: Vec<String>,
    /// Folders that are file systems of their own, with their sizes. Below its home until the start.
    file_systems: Vec<(PathBuf, String)>,
    /// The file with the id of its present boot. Without one it is that of this machine.
    boot_id: Option<PathBuf>,
    /// Number of its boots.
    boots: u32,
}

impl HostMachine {
    /// Sets a variable of all processes there. The value has no blanks.
    #[must_use]
    pub fn variable(mut self, name: &str, value: &str) -> Self {
        self.variables.push(format!("{name}={value}"));
        self
    }

    /// Makes a folder below the home there a file system of this size, such as `1m`. It is empty
    /// after each boot.
    #[must_use]
    pub fn file_system(mut self, folder: &str, size: &str) -> Self {
        self.file_systems.push((folder.into(), size.to_owned()));
        self
    }

    /// Sets the clock there to another time. Negative seconds are in the past.
    ///
    /// # Panics
    ///
    /// If a file of the sandbox cannot be written.
    #[must_use]
    pub fn clock(self, sandbox: &TestSandbox, seconds: i64) -> Self {
        let gate = sandbox.file_name("clock-there");
        fs::write(&gate, "").unwrap();
        self.variable("LD_PRELOAD", &sandbox.executable("libsubagent_fault_fs.so"))
            .variable("FAULT_CLOCK", &gate)
            .variable("FAULT_CLOCK_SECONDS", &seconds.to_string())
    }

    /// Returns the variables for the config of the server, each after a blank.
    pub(super) fn variables(&self) -> String {
        self.variables.iter().map(|pair| format!(" {pair}")).collect()
    }

    /// Starts a process of the machine, whose child processes are also on it.
    ///
    /// # Errors
    ///
    /// The system's error of the start or of a mount.
    pub(super) fn spawn(&self, command: &mut Command) -> io::Result<Child> {
        if self.boots == 0 {
            return command.spawn();
        }
        // A thread has its own namespace, which its child processes inherit.
        thread::scope(|scope| {
            let spawned = scope.spawn(|| -> io::Result<Child> {
                self.enter()?;
                command.spawn()
            });
            spawned.join().unwrap()
        })
    }

    /// Moves this thread to the machine.
    fn enter(&self) -> nix::Result<()> {
        let none = None::<&str>;
        unshare(CloneFlags::CLONE_NEWNS)?;
        mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_PRIVATE, none)?;
        if let Some(boot_id) = &self.boot_id {
            mount(Some(boot_id), BOOT_ID, none, MsFlags::MS_BIND, none)?;
        }
        for (folder, size) in &self.file_systems {
            let options = format!("size={size},mode=700");
            mount(Some("none"), folder, Some("tmpfs"), MsFlags::empty(), Some(options.as_str()))?;
        }
        Ok(())
    }

    /// Prepares the next boot, whose id no other one has.
    fn begin_boot(&mut self, home: &Path) {
        self.boots += 1;
        let boot_id = home.join(format!(".boot-id-{}", self.boots));
        fs::write(&boot_id, format!("0b5e55ed-0000-4000-8000-{:012}\n", self.boots)).unwrap();
        self.boot_id = Some(boot_id);
    }
}

/// Whether this thread may have mounts of its own.
fn may_mount() -> nix::Result<()> {
    thread::spawn(|| HostMachine::default().enter()).join().unwrap()
}

impl SshHost {
    /// Starts a host as [`Self::start`] does, on a machine of its own. Says loudly if this machine does
    /// not let us.
    ///
    /// # Panics
    ///
    /// If it does not with `SUBAGENT_REQUIRE_NETWORKS`.
    pub fn start_machine(sandbox: &TestSandbox, mut machine: HostMachine) -> Option<Self> {
        if let Err(error) = may_mount() {
            let missing = format!("this user may not mount ({error}), so no host has a machine of its own");
            assert!(std::env::var_os("SUBAGENT_REQUIRE_NETWORKS").is_none(), "{missing}");
            say(&format!("SKIPPED, NOTHING WAS TESTED: {missing}"));
            return None;
        }
        let mut host = Self::start(sandbox)?;
        for (folder, _) in &mut machine.file_systems {
            *folder = host.home().join(&*folder);
            fs::create_dir_all(&*folder).unwrap();
        }
        host.machine = machine;
        host.reboot(sandbox);
        Some(host)
    }

    /// Restarts the machine: all its processes are killed, and it has another boot.
    pub fn reboot(&mut self, sandbox: &TestSandbox) {
        self.shut_down();
        self.boot(sandbox);
    }

    /// Kills all processes of the host at once, as if it was switched off.
    ///
    /// # Panics
    ///
    /// If a process does not end.
    pub fn shut_down(&mut self) {
        let pids = |running: &[Process]| running.iter().map(|one| one.pid).collect::<Vec<_>>();
        // A stopped process starts nothing more. The next check finds what it started just before.
        let running = wait_until("everything there to stand still", DEADLINE, || {
            let running = self.processes();
            running.iter().for_each(|one| one.signal(Signal::SIGSTOP));
            (pids(&running) == pids(&self.processes())).then_some(running)
        });
        running.iter().for_each(|one| one.signal(Signal::SIGKILL));
        self.end_server();
        wait_until("the end of everything there", DEADLINE, || self.processes().is_empty().then_some(()));
    }

    /// Switches the host on after [`Self::shut_down`].
    ///
    /// # Panics
    ///
    /// If its port is not free any more.
    pub fn boot(&mut self, sandbox: &TestSandbox) {
        let home = self.home().to_owned();
        self.machine.begin_boot(&home);
        self.restart_server(sandbox);
    }

    /// Returns all processes of the host: its server, those with its home, and their descendants.
    ///
    /// # Panics
    ///
    /// If the pid of the server is impossible.
    #[must_use]
    pub fn processes(&self) -> Vec<Process> {
        let home = format!("HOME={}", self.home().display());
        let server = i32::try_from(self.server.id()).unwrap();
        let is_root = |one: &Process| {
            let environ = fs::read(format!("/proc/{}/environ", one.pid)).unwrap_or_default();
            let has_home = environ.split(|byte| *byte == 0).any(|pair| pair == home.as_bytes());
            has_home || (one.pid == server && one.name == "sshd")
        };
        let all = process::all();
        let mut found: BTreeSet<i32> = all.iter().filter(|one| is_root(one)).map(|one| one.pid).collect();
        loop {
            let below = all.iter().filter(|one| found.contains(&one.parent) && !found.contains(&one.pid));
            let below: Vec<i32> = below.map(|one| one.pid).collect();
            if below.is_empty() {
                return all.into_iter().filter(|one| found.contains(&one.pid)).collect();
            }
            found.extend(below);
        }
    }

    /// Returns the path here of a file there, which may be in a file system of the host.
    ///
    /// # Panics
    ///
    /// If the path is not absolute.
    #[must_use]
    pub fn seen_from_here(&self, path: &Path) -> PathBuf {
        let root = Path::new("/proc").join(self.server.id().to_string()).join("root");
        root.join(path.strip_prefix("/").unwrap())
    }

    /// Fills the file system of a folder below the home there, and leaves this number of bytes. Returns
    /// the file that fills it.
    ///
    /// # Panics
    ///
    /// If a write fails for another reason than a full file system.
    #[must_use]
    pub fn fill(&self, folder: &str, room: u64) -> PathBuf {
        let path = self.seen_from_here(&self.home().join(folder).join("filler"));
        let mut file = File::create(&path).unwrap();
        let full = loop {
            if let Err(error) = file.write_all(&[0; BLOCK_BYTES]) {
                break error;
            }
        };
        assert_eq!(full.kind(), io::ErrorKind::StorageFull, "{full}");
        let length = file.metadata().unwrap().len();
        file.set_len(length.saturating_sub(room)).unwrap();
        path
    }
}
