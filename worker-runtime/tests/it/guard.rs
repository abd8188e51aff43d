//! The guard as the runtime uses it: a real process with real, stubborn process trees.

// The proof that no process is left is independent of the guard. Every process of a tree holds the
// write end of the stderr pipe, so the kernel's end of file shows that all are gone.
//
// Deliberate damage makes these tests fail: 8 without the subreaper (all with a detached process),
// 4 if the agent inherits the guard's signal mask, 2 if the guard keeps the agent's pipes open.
#![cfg(target_os = "linux")]
// The lints' exception for tests does not cover helper functions and modules.
#![allow(clippy::unwrap_used, clippy::panic, clippy::cast_possible_wrap)]

use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::guard_harness::{Guarded, await_state, example, read_to_end};
use nix::sys::signal::Signal;
use subagent_runtime::guard::GuardStatus;
use subagent_runtime::guard::ancestry::guards_above;

/// Maximum time until no process is left. Measured: milliseconds.
const BOUND: Duration = Duration::from_secs(5);

/// Each hostile mode, with the number of its processes that announce themselves.
const SHAPES: [(&[&str], usize); 12] = [
    (&["ignore-term"], 1),
    (&["double-fork-setsid"], 3),
    (&["forker"], 2),
    (&["fast-forker"], 2),
    (&["wipe-env"], 2),
    (&["non-dumpable"], 3),
    (&["own-subreaper"], 3),
    (&["respawn"], 2),
    (&["stopped"], 2),
    (&["threads"], 3),
    (&["many", "200"], 201),
    (&["mix"], 22),
];

fn hostile(shape: &[&str]) -> Vec<String> {
    std::iter::once(example("hostile")).chain(shape.iter().map(|arg| (*arg).to_owned())).collect()
}

#[test]
fn every_shape_is_gone_after_the_end_of_the_life_pipe() {
    for (shape, processes) in SHAPES {
        let mut guarded = Guarded::start(&hostile(shape));
        guarded.await_lines(processes);
        guarded.close_life();
        let took = guarded.assert_gone(BOUND);
        let (killed, _) = guarded.assert_clean();
        assert!(killed as usize >= processes.min(2) - 1, "{shape:?}: {killed} killed in {took:?}");
    }
}

#[test]
fn three_thousand_processes_are_gone_too() {
    let mut guarded = Guarded::start(&hostile(&["many", "3000"]));
    guarded.await_lines(3001);
    guarded.say(b'K');
    let took = guarded.assert_gone(BOUND);
    let (killed, millis) = guarded.assert_clean();
    assert_eq!(killed, 3001, "took {took:?}, the guard says {millis} ms");
    println!("3001 processes: {took:?}, the guard says {millis} ms");
}

#[test]
fn a_signal_to_the_guard_ends_the_tree() {
    for signal in [Signal::SIGTERM, Signal::SIGINT] {
        let mut guarded = Guarded::start(&hostile(&["mix"]));
        guarded.await_lines(22);
        guarded.signal_guard(signal);
        guarded.assert_gone(BOUND);
        guarded.assert_clean();
    }
}

#[test]
fn a_signal_that_means_nothing_to_the_guard_does_not_end_it() {
    let mut guarded = Guarded::start(&["cat"]);
    for signal in [Signal::SIGHUP, Signal::SIGUSR1, Signal::SIGPIPE, Signal::SIGALRM, Signal::SIGTSTP] {
        guarded.signal_guard(signal);
    }
    guarded.assert_echoes();
    drop(guarded.stdin.take());
    assert_eq!(guarded.next_status(), exited(guarded.agent, Some(0), None));
    guarded.assert_gone(BOUND);
}

#[test]
fn a_runtime_that_is_killed_takes_the_tree_along() {
    let mut arguments = vec![example("hostile"), "runtime".to_owned(), example("guard")];
    arguments.extend(hostile(&["mix"]));
    let mut guarded = Guarded::start_with(&arguments);
    guarded.await_lines(22);
    assert!(!guarded.lock_is_free());
    guarded.signal_guard(Signal::SIGKILL); // Here the direct child is the stand-in for a runtime.
    guarded.assert_gone(BOUND);
    let statuses = guarded.rest_of_status();
    assert!(matches!(statuses.last(), Some(GuardStatus::Clean { .. })), "{statuses:?}");
    assert!(guarded.lock_gets_free(BOUND));
}

#[test]
fn processes_left_by_an_exited_agent_are_ended() {
    let mut guarded = Guarded::start(&hostile(&["leave-daemon"]));
    assert_eq!(guarded.next_status(), exited(guarded.agent, Some(0), None));
    guarded.assert_gone(BOUND);
    let (killed, _) = guarded.assert_clean();
    assert_eq!(killed, 1);
}

#[test]
fn the_agents_end_is_reported() {
    for (script, code, signal) in
        [("exit 7", Some(7), None), ("kill -9 $$", None, Some(9)), ("kill -40 $$", None, Some(40))]
    {
        let mut guarded = Guarded::start(&["sh", "-c", script]);
        let expected = [exited(guarded.agent, code, signal), GuardStatus::Ending];
        let mut statuses = guarded.rest_of_status();
        let last = statuses.pop();
        assert_eq!(statuses, expected, "{script}");
        assert!(matches!(last, Some(GuardStatus::Clean { killed: 0 | 1, .. })), "{script}: {last:?}");
    }
}

#[test]
fn a_t_on_the_life_pipe_is_sigterm_for_the_group_and_not_the_end() {
    // The second process is in the agent's group too; the agent itself ignores the signal.
    let script = "trap : TERM; \"$0\" await-term & wait; exec cat";
    let mut guarded = Guarded::start(&["sh", "-c", script, &example("hostile")]);
    guarded.await_lines(1);
    guarded.say(b'T');
    assert_eq!(guarded.next_line(), "got it\n");
    guarded.assert_echoes();
    guarded.close_life();
    guarded.assert_gone(BOUND);
    guarded.assert_clean();
}

#[test]
fn a_t_ends_an_agent_in_order_also_when_it_is_stopped() {
    let script = "trap 'exit 3' TERM; echo ready; kill -STOP $$; while :; do read _; done";
    let mut guarded = Guarded::start(&["sh", "-c", script]);
    guarded.await_lines(1);
    await_state(guarded.agent, "T");
    guarded.say(b'T');
    assert_eq!(guarded.next_status(), exited(guarded.agent, Some(3), None));
    guarded.assert_gone(BOUND);
}

#[test]
fn a_failed_start_is_reported_and_is_no_failure_of_the_guard() {
    let folder = tempfile::tempdir().unwrap();
    let script = folder.path().join("not-executable");
    std::fs::write(&script, "#!/bin/sh\n").unwrap();
    std::fs::set_permissions(&script, PermissionsExt::from_mode(0o644)).unwrap();
    let missing = folder.path().join("no-such-agent");
    for (program, expected) in [(&missing, 2), (&script, 13)] {
        let program = program.to_str().unwrap();
        let mut guarded = Guarded::start_with(&[&example("guard"), "--", program]);
        let statuses = guarded.rest_of_status();
        let [GuardStatus::SpawnFailed { errno, message }] = statuses.as_slice() else {
            panic!("{statuses:?}")
        };
        assert_eq!(*errno, expected);
        assert!(message.contains(program), "{message}");
        guarded.assert_exit(0);
        assert!(guarded.lock_is_free());
    }
}

#[test]
fn a_wrong_call_starts_nothing() {
    for arguments in [&["--"][..], &["true"], &["--umask", "8", "--", "true"]] {
        let mut guarded = Guarded::start_with(&[&[example("guard").as_str()], arguments].concat());
        assert_eq!(guarded.rest_of_status(), []);
        guarded.assert_exit(2);
    }
    let alone =
        Command::new(example("guard")).args(["--", "echo", "started"]).stdin(Stdio::null()).output().unwrap();
    assert_eq!((alone.status.code(), alone.stdout.as_slice()), (Some(2), b"".as_slice()));
    assert!(String::from_utf8_lossy(&alone.stderr).contains("life pipe"), "{alone:?}");
}

#[test]
fn nothing_is_started_for_a_runtime_that_is_gone_already() {
    let mut guarded = Guarded::start_abandoned(&[&example("guard"), "--", "echo", "started"]);
    assert_eq!(guarded.rest_of_status(), [GuardStatus::Clean { killed: 0, millis: 0 }]);
    assert_eq!(read_to_end(&mut guarded.stdout), "");
    guarded.assert_exit(0);
}

#[test]
fn the_agent_inherits_nothing_of_the_guards() {
    let files = ["/proc/self/status", "/proc/self/limits", "/proc/self/oom_score_adj", "/proc/self/stat"];
    let guard = example("guard");
    let options = ["--umask", "027", "--nofile", "321", "--", "cat"];
    // Starts it like a shell that ignores some signals. The agent must not ignore them.
    let ignoring = ["sh", "-c", "trap '' HUP INT CHLD; exec \"$@\"", "sh", &guard];
    let mut guarded = Guarded::start_with(&[&ignoring[..], &options, &files].concat());
    let statuses = guarded.rest_of_status();
    let [GuardStatus::Spawned { pid }, GuardStatus::Exited { code: Some(0), .. }, ..] = statuses.as_slice()
    else {
        panic!("{statuses:?}")
    };
    let text = read_to_end(&mut guarded.stdout);
    let field = |name: &str| {
        let line =
            text.lines().find(|line| line.starts_with(name)).unwrap_or_else(|| panic!("{name}: {text}"));
        line[name.len()..].split_whitespace().map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(field("SigBlk:"), ["0000000000000000"]);
    // 32 and 33 belong to the C library: its posix_spawn() leaves them ignored, and
    // programs cannot set them.
    let ignored = u64::from_str_radix(&field("SigIgn:")[0], 16).unwrap();
    assert_eq!(ignored & !(0b11 << 31), 0, "{ignored:x}");
    assert_eq!(field("Umask:"), ["0027"]);
    assert_eq!(field("Max open files")[0], "321");
    let own: i32 = std::fs::read_to_string("/proc/self/oom_score_adj").unwrap().trim().parse().unwrap();
    let (score, stat) = text.trim_end().rsplit_once('\n').unwrap();
    assert!(score.ends_with(&format!("\n{}", (own + 300).min(1000))), "{text}");
    // Fields 5 and 6: leads its own group, in the guard's session.
    let stat: Vec<&str> = stat.split(' ').collect();
    assert_eq!(stat[4..6], [pid.to_string(), guarded.child.id().to_string()]);
}

#[test]
fn the_agent_has_no_other_descriptor_than_its_three() {
    let guard = example("guard");
    // Descriptor 7 simulates a leak of the runtime.
    let leaking = ["sh", "-c", "exec 7</dev/null; exec \"$@\"", "sh", &guard, "--", "ls", "/proc/self/fd"];
    let mut guarded = Guarded::start_with(&leaking);
    // Descriptor 3 is the folder that `ls` reads.
    assert_eq!(read_to_end(&mut guarded.stdout).lines().collect::<Vec<_>>(), ["0", "1", "2", "3"]);
}

#[test]
fn the_guard_does_not_hold_the_agents_pipes_open() {
    let mut guarded = Guarded::start(&["sh", "-c", "exec >&- 2>&- <&-; kill -STOP $$"]);
    assert_eq!(read_to_end(&mut guarded.stdout), "");
    assert_eq!(read_to_end(&mut guarded.stderr), "");
    let written = guarded.stdin.as_mut().unwrap().write_all(b"x");
    assert_eq!(written.unwrap_err().kind(), std::io::ErrorKind::BrokenPipe);
    guarded.close_life();
    guarded.assert_clean();
}

#[test]
fn the_lock_is_free_only_when_all_are_gone() {
    let mut guarded = Guarded::start(&hostile(&["mix"]));
    guarded.await_lines(22);
    assert!(!guarded.lock_is_free());
    guarded.signal_guard(Signal::SIGSTOP);
    guarded.close_life();
    assert!(!guarded.lock_is_free());
    guarded.signal_guard(Signal::SIGCONT);
    // When the lock is free, no process is left: stderr is at its end without waiting.
    assert!(guarded.lock_gets_free(BOUND));
    guarded.assert_gone(Duration::ZERO);
}

#[test]
fn others_are_left_alone() {
    let mut bystander = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut guarded = Guarded::start(&hostile(&["mix"]));
    guarded.await_lines(22);
    guarded.say(b'K');
    guarded.assert_gone(BOUND);
    bystander.stdin.take().unwrap().write_all(b"still here").unwrap();
    let mut answer = String::new();
    bystander.stdout.take().unwrap().read_to_string(&mut answer).unwrap();
    assert_eq!(answer, "still here");
    assert!(bystander.wait().unwrap().success());
}

#[test]
fn a_status_pipe_without_reader_does_not_disturb() {
    let mut guarded = Guarded::start(&hostile(&["mix"]));
    guarded.await_lines(22);
    guarded.drop_status();
    guarded.close_life();
    guarded.assert_gone(BOUND);
    guarded.assert_exit(0);
}

#[test]
fn a_guard_that_waits_costs_no_time() {
    let mut guarded = Guarded::start(&["cat"]);
    guarded.assert_echoes();
    let before = guarded.guard_wakeups();
    guarded.assert_echoes();
    assert_eq!(guarded.guard_wakeups(), before);
}

#[test]
fn below_a_guard_a_process_knows_it() {
    // The tests themselves may run below a guard.
    let above = guards_above(std::process::id() as i32).unwrap().len();
    let mut guarded = Guarded::start(&hostile(&["guards-above"]));
    let text = guarded.next_line();
    let pids: Vec<&str> = text.split_whitespace().collect();
    assert_eq!(pids.first().copied(), Some(guarded.child.id().to_string().as_str()));
    assert_eq!(pids.len(), above + 1, "{text}");
}

#[test]
fn a_runtime_can_end_its_descendants_without_a_guard() {
    let started = Instant::now();
    let mut runtime = Command::new(example("hostile"));
    runtime.arg("end-descendants").stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut runtime = runtime.spawn().unwrap();
    let mut stdout = std::io::BufReader::new(runtime.stdout.take().unwrap());
    crate::guard_harness::take_lines(&mut stdout, 22);
    runtime.stdin.take().unwrap().write_all(b"go\n").unwrap();
    let statuses = read_to_end(&mut stdout);
    let lines: Vec<_> = statuses.lines().collect();
    assert!(lines[0].starts_with("spared clean=true remaining=[] killed="), "{statuses}");
    assert_eq!(lines[1..], ["still here", "all clean=true remaining=[] killed=1"]);
    assert_eq!(read_to_end(runtime.stderr.as_mut().unwrap()), "");
    assert!(runtime.wait().unwrap().success());
    assert!(started.elapsed() < BOUND * 2, "{:?}", started.elapsed());
}

fn exited(pid: i32, code: Option<i32>, signal: Option<i32>) -> GuardStatus {
    GuardStatus::Exited { pid, code, signal }
}
