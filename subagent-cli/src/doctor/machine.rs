//! Checks the capabilities and limits of this system. Linux only.

use std::fs;
use std::os::unix::net::UnixStream;
use std::path::Path;

use nix::sys::prctl;
use nix::sys::resource::{Resource, getrlimit};
use nix::sys::socket::{getsockopt, sockopt};
use nix::unistd::{AccessFlags, access};
use rustix::process::{PidfdFlags, getpid, pidfd_open};
use subagent_config::proc;
use subagent_sandbox::SandboxSupport;
use subagentd::max_runtimes;

use super::facts::DoctorFacts;
use super::finding::{CheckedPart, Finding};

const GROUP: CheckedPart = CheckedPart::Machine;

/// A lower limit of descriptors is a warning for a daemon with many workers.
const FEW_DESCRIPTORS: u64 = 4096;
/// Limits of inotify; daemon and runtimes watch a few files each.
const FEW_WATCHES: u64 = 1024;
const FEW_INSTANCES: u64 = 64;

pub(super) fn look(facts: &DoctorFacts) -> Vec<Finding> {
    let mut found = vec![
        boot(),
        process_list(),
        pidfd(),
        peer_pidfd(),
        subreaper(),
        inotify(),
        descriptors(),
        user_manager(facts),
        cgroup(),
    ];
    found.extend(sandbox(facts));
    found
}

fn text(path: &str) -> Option<String> {
    fs::read_to_string(path).ok().map(|text| text.trim().to_owned())
}

fn boot() -> Finding {
    const ID: &str = "machine.boot";
    let kernel = text("/proc/sys/kernel/osrelease").unwrap_or_else(|| "unknown".to_owned());
    match proc::boot_id() {
        Ok(boot) => {
            Finding::ok(GROUP, ID, format!("kernel {kernel}, boot {boot}; no user namespaces are needed"))
        }
        Err(error) => Finding::problem(GROUP, ID, format!("the id of this boot cannot be read: {error}"))
            .advise("mount /proc: without it no daemon starts"),
    }
}

fn process_list() -> Finding {
    const ID: &str = "machine.processes";
    let pid = nix::unistd::getpid().as_raw();
    let ancestors = proc::is_of_this_namespace().and_then(|()| proc::ancestors(pid));
    match (ancestors, fs::read_link(format!("/proc/{pid}/exe"))) {
        (Ok(_), Ok(_)) => Finding::ok(GROUP, ID, "/proc shows our own processes"),
        (Err(error), _) | (_, Err(error)) => {
            Finding::problem(GROUP, ID, format!("/proc does not show our own processes: {error}"))
                .advise(proc::FOREIGN_ADVICE)
        }
    }
}

fn pidfd() -> Finding {
    const ID: &str = "machine.pidfd";
    match pidfd_open(getpid(), PidfdFlags::empty()) {
        Ok(_) => Finding::ok(GROUP, ID, "the end of a process is reported through a descriptor"),
        Err(error) => Finding::problem(GROUP, ID, format!("there is no pidfd_open: {error}"))
            .advise("use Linux 5.3 or newer, or allow the call: without it no worker can be watched"),
    }
}

fn peer_pidfd() -> Finding {
    const ID: &str = "machine.peerPidfd";
    let asked = UnixStream::pair().map_err(|error| error.to_string()).and_then(|(socket, _peer)| {
        getsockopt(&socket, sockopt::PeerPidfd).map_err(|error| error.to_string())
    });
    match asked {
        Ok(_) => Finding::ok(GROUP, ID, "the kernel identifies connected processes"),
        Err(error) => Finding::ok(
            GROUP,
            ID,
            format!(
                "no SO_PEERPIDFD ({error}, before Linux 6.5): pid and start time are compared twice instead"
            ),
        ),
    }
}

fn subreaper() -> Finding {
    const ID: &str = "machine.subreaper";
    match prctl::get_child_subreaper() {
        Ok(_) => Finding::ok(GROUP, ID, "a guard inherits what its agent leaves behind"),
        Err(error) => Finding::problem(GROUP, ID, format!("there are no subreapers: {error}"))
            .advise("use Linux 3.4 or newer: without them processes of a stopped worker could stay"),
    }
}

fn inotify() -> Finding {
    const ID: &str = "machine.inotify";
    let number = |name: &str| text(&format!("/proc/sys/fs/inotify/{name}"))?.parse::<u64>().ok();
    match (number("max_user_instances"), number("max_user_watches")) {
        (Some(instances), Some(watches)) => {
            let seen = format!("{instances} instances and {watches} watches for each user");
            if instances < FEW_INSTANCES || watches < FEW_WATCHES {
                return Finding::warning(GROUP, ID, format!("{seen}; a lost socket or lock is noticed late without"))
                    .advise("raise them: `sudo sysctl fs.inotify.max_user_instances=512 fs.inotify.max_user_watches=65536`");
            }
            Finding::ok(GROUP, ID, seen)
        }
        _ => Finding::warning(GROUP, ID, "there is no inotify: a lost socket or lock is noticed late"),
    }
}

fn descriptors() -> Finding {
    const ID: &str = "machine.descriptors";
    match getrlimit(Resource::RLIMIT_NOFILE) {
        Ok((soft, hard)) => {
            let seen = format!("{soft} open files, up to {hard} for the daemon");
            if hard < FEW_DESCRIPTORS {
                let workers = max_runtimes(hard);
                return Finding::warning(GROUP, ID, format!("{seen}: enough for {workers} workers that run"))
                    .advise("raise the hard limit of RLIMIT_NOFILE where your session is set up (limits.conf, systemd)");
            }
            Finding::ok(GROUP, ID, seen)
        }
        Err(error) => Finding::warning(GROUP, ID, format!("their limit cannot be read: {error}")),
    }
}

fn user_manager(facts: &DoctorFacts) -> Finding {
    const ID: &str = "machine.userManager";
    let folder = facts.env.var("XDG_RUNTIME_DIR").map(Path::new);
    let seen = if folder.is_some_and(|folder| folder.join("systemd/private").exists()) {
        "systemd manages services of this user"
    } else {
        "no systemd for this user: the daemon is started by commands, not by a service"
    };
    Finding::ok(GROUP, ID, seen)
}

fn cgroup() -> Finding {
    const ID: &str = "machine.cgroup";
    let own = text("/proc/self/cgroup").unwrap_or_default();
    let path = own.lines().find_map(|line| line.strip_prefix("0::/"));
    let folder = path.map(|path| Path::new("/sys/fs/cgroup").join(path));
    let seen = match folder {
        Some(folder)
            if access(&folder, AccessFlags::W_OK).is_ok() && folder.join("cgroup.procs").exists() =>
        {
            "cgroup v2, and this user may make groups; guards do without"
        }
        Some(_) => "cgroup v2, and this user may not make groups; guards do without",
        None => "no cgroup v2; guards do without",
    };
    Finding::ok(GROUP, ID, seen)
}

/// Checks what the sandbox of agents needs.
fn sandbox(facts: &DoctorFacts) -> [Finding; 2] {
    let path = facts.env.var("PATH").unwrap_or_default();
    let machine = SandboxSupport::look(subagent_sandbox::find(path, &[]).as_deref());
    let landlock = match (&machine.landlock, landlock_version()) {
        (Ok(used), Some(kernel)) => {
            format!("Landlock, version {kernel} of its interface; sandboxes use version {used}")
        }
        (Ok(used), None) => format!("Landlock; sandboxes use version {used} of its interface"),
        (Err(why), _) => format!("no Landlock: {why}"),
    };
    let bubblewrap = match &machine.bubblewrap {
        Ok(program) => format!("bubblewrap, {}", program.display()),
        Err(why) => format!("no bubblewrap: {why}"),
    };
    let [landlock_id, bubblewrap_id] = ["machine.landlock", "machine.bubblewrap"];
    let bubblewrap = if machine.landlock.is_err() && machine.bubblewrap.is_err() {
        Finding::warning(GROUP, bubblewrap_id, format!("{bubblewrap}; no worker can be started in a sandbox, and `explore` and `plan` run without one"))
            .advise("install bubblewrap, or use a kernel with Landlock")
    } else {
        Finding::ok(GROUP, bubblewrap_id, bubblewrap)
    };
    [Finding::ok(GROUP, landlock_id, landlock), bubblewrap]
}

#[allow(unsafe_code)]
fn landlock_version() -> Option<nix::libc::c_long> {
    const VERSION: nix::libc::c_uint = 1;
    let nothing: *const nix::libc::c_void = std::ptr::null();
    // SAFETY: with this flag and without attributes the call reads no memory and creates no ruleset; it
    // only returns the version.
    let answer =
        unsafe { nix::libc::syscall(nix::libc::SYS_landlock_create_ruleset, nothing, 0_usize, VERSION) };
    (answer > 0).then_some(answer)
}
