//! The worst that agents leave behind, for the tests of the guard: `hostile MODE [ARGS...]`. Every
//! process keeps its stderr open and writes its pid to stdout once it is set up. End of file on
//! stderr proves that no process is left. Outside a test these programs do not end.
// The zombies are deliberate: the guard has to reap them.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout, clippy::zombie_processes)]

#[cfg(target_os = "linux")]
fn main() {
    linux::main();
}

#[cfg(not(target_os = "linux"))]
fn main() {}

#[cfg(target_os = "linux")]
mod linux {
    use std::io::{self, BufRead, Write};
    use std::os::unix::process::CommandExt;
    use std::process::{Command, Stdio};
    use std::thread::sleep;
    use std::time::Duration;

    use command_fds::{CommandFdExt, FdMapping};
    use nix::sys::prctl;
    use nix::sys::signal::{SigSet, Signal, raise};
    use nix::sys::wait::wait;
    use nix::unistd::{ForkResult, fork, pause, setsid};
    use subagent_runtime::guard;

    pub(super) fn main() {
        let args: Vec<String> = std::env::args().skip(1).collect();
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        match args.as_slice() {
            ["stay"] => stay(),
            ["ignore-term"] => ignore_term(),
            ["await-term"] => await_term(),
            ["double-fork-setsid"] => double_fork_setsid(),
            ["forker"] => forker(Duration::from_millis(2)),
            ["fast-forker"] => forker(Duration::ZERO),
            ["wipe-env"] => wipe_env(),
            ["non-dumpable"] => non_dumpable(),
            ["own-subreaper"] => own_subreaper(),
            ["respawn"] => respawn(),
            ["stopped"] => stopped(),
            ["threads"] => threads(),
            ["many", count] => many(count.parse().unwrap()),
            ["mix"] => mix(),
            ["leave-daemon"] => double_fork(|| {
                setsid().unwrap();
                stay();
            }),
            ["guards-above"] => guards_above(),
            ["runtime", guard, command @ ..] => runtime(guard, command),
            ["end-descendants"] => end_descendants(),
            other => panic!("unknown mode {other:?}"),
        }
    }

    /// Runs `job` in a forked child.
    #[allow(unsafe_code)]
    fn child(job: impl FnOnce()) {
        // SAFETY: this program has one thread where it forks.
        match unsafe { fork() }.unwrap() {
            ForkResult::Child => {
                job();
                std::process::exit(0);
            }
            ForkResult::Parent { .. } => {}
        }
    }

    /// Runs `job` in a grandchild whose parent has ended; returns after that.
    fn double_fork(job: impl FnOnce()) {
        child(|| child(job));
        wait().unwrap();
    }

    fn stay() {
        announce();
        loop {
            pause();
        }
    }

    /// Writes once, so that lines of different processes do not mix.
    fn announce() {
        let line = format!("{}\n", std::process::id());
        nix::unistd::write(io::stdout(), line.as_bytes()).unwrap();
    }

    fn ignore_term() {
        SigSet::all().thread_block().unwrap();
        stay();
    }

    /// The well-behaved case: reports SIGTERM and ends, however early it comes.
    fn await_term() {
        let mut term = SigSet::empty();
        term.add(Signal::SIGTERM);
        term.thread_block().unwrap();
        announce();
        term.wait().unwrap();
        println!("got it");
    }

    fn double_fork_setsid() {
        double_fork(|| {
            setsid().unwrap();
            double_fork(stay);
            stay();
        });
        stay();
    }

    /// A chain of short-lived processes: each one forks and ends.
    fn forker(life: Duration) {
        child(move || {
            announce();
            loop {
                sleep(life);
                step_on();
            }
        });
        stay();
    }

    /// Continues in a child and ends this process.
    #[allow(unsafe_code)]
    fn step_on() {
        // SAFETY: as in `child`.
        match unsafe { fork() } {
            Ok(ForkResult::Parent { .. }) => std::process::exit(0),
            Ok(ForkResult::Child) | Err(_) => {}
        }
    }

    fn wipe_env() {
        child(|| {
            let error = Command::new("/proc/self/exe").arg0("-").arg("stay").env_clear().exec();
            panic!("{error}");
        });
        stay();
    }

    fn non_dumpable() {
        child(|| {
            prctl::set_dumpable(false).unwrap();
            child(|| {
                setsid().unwrap();
                stay();
            });
            stay();
        });
        prctl::set_dumpable(false).unwrap();
        stay();
    }

    fn own_subreaper() {
        child(|| {
            prctl::set_child_subreaper(true).unwrap();
            double_fork(stay);
            stay();
        });
        stay();
    }

    /// A supervisor that replaces each of its four children when it ends.
    fn respawn() {
        child(|| {
            for _ in 0..4 {
                child(|| {
                    loop {
                        pause();
                    }
                });
            }
            announce();
            loop {
                wait().unwrap();
                child(|| {
                    loop {
                        pause();
                    }
                });
            }
        });
        stay();
    }

    fn stopped() {
        child(|| {
            announce();
            raise(Signal::SIGSTOP).unwrap();
            stay();
        });
        stay();
    }

    /// Children of secondary threads, below a first thread that has ended.
    fn threads() {
        child(|| {
            std::thread::spawn(|| {
                child(stay);
                stay();
            });
            // Ends this thread alone. The process stays as a "zombie" with a living thread.
            end_thread();
        });
        stay();
    }

    #[allow(unsafe_code)]
    fn end_thread() {
        // SAFETY: leaves the thread for good; nothing on its stack is borrowed by the other one.
        unsafe { nix::libc::syscall(nix::libc::SYS_exit, 0) };
    }

    /// `count` processes in families of ten.
    fn many(count: usize) {
        for _ in 0..count / 10 {
            child(|| {
                for _ in 0..9 {
                    child(stay);
                }
                stay();
            });
        }
        stay();
    }

    fn mix() {
        let shapes: [fn(); 8] = [
            ignore_term,
            double_fork_setsid,
            wipe_env,
            non_dumpable,
            own_subreaper,
            respawn,
            stopped,
            threads,
        ];
        for shape in shapes {
            child(shape);
        }
        child(|| forker(Duration::from_millis(2)));
        stay();
    }

    fn guards_above() {
        let me = i32::try_from(std::process::id()).unwrap();
        let guards = guard::ancestry::guards_above(me).unwrap();
        assert_eq!(guard::ancestry::guard_above(me), !guards.is_empty());
        let pids: Vec<_> = guards.iter().map(|guard| guard.pid.to_string()).collect();
        println!("{}", pids.join(" "));
    }

    /// Plays a runtime: holds the life pipe of a guard and waits to be killed. Passes on
    /// descriptors 4 and 5.
    fn runtime(guard: &str, command: &[&str]) {
        let (read, write) = io::pipe().unwrap();
        let mut process = Command::new(guard);
        process
            .arg("--")
            .args(command)
            .fd_mappings(vec![FdMapping { parent_fd: read.into(), child_fd: 3 }])
            .unwrap();
        let _guard = process.spawn().unwrap();
        drop(process);
        pause();
        drop(write);
    }

    /// A runtime whose guard died: for each line on stdin it ends its descendants, except an
    /// echo that must survive.
    fn end_descendants() {
        prctl::set_child_subreaper(true).unwrap();
        let mut lines = io::stdin().lines();
        let mut echo = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let _tree = Command::new("/proc/self/exe").arg("mix").stdin(Stdio::null()).spawn().unwrap();
        lines.next().unwrap().unwrap();
        let spared = i32::try_from(echo.id()).unwrap();
        let report = guard::end_descendants(Duration::from_secs(5), &[spared]);
        println!("spared clean={} remaining={:?} killed={}", report.clean, report.remaining, report.killed);
        echo.stdin.as_ref().unwrap().write_all(b"still here\n").unwrap();
        let mut answer = String::new();
        io::BufReader::new(echo.stdout.as_mut().unwrap()).read_line(&mut answer).unwrap();
        print!("{answer}");
        let report = guard::end_descendants(Duration::from_secs(5), &[]);
        println!("all clean={} remaining={:?} killed={}", report.clean, report.remaining, report.killed);
    }
}
