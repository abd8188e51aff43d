//! Measures the floors of `docs/performance.md` once, on the executables of a folder:
//! `cargo run -p subagent-tests --example floors -- ~/.cargo/bin`.
//!
//! Whole commands from outside, as a user has them. It judges nothing.

#![allow(clippy::expect_used, clippy::print_stdout)] // A tool for whoever measures: it may fail loudly.
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};
use std::{env, fs};

use serde_json::Value;

struct Place {
    root: tempfile::TempDir,
    programs: PathBuf,
}

impl Place {
    /// Runs one of our commands; gives how long it took and its data.
    fn run(&self, args: &[&str]) -> (Duration, Value) {
        let begun = Instant::now();
        let output = Command::new(self.programs.join("subagent"))
            .args(args)
            .arg("--json")
            .env_clear()
            .env("PATH", "/usr/bin:/bin")
            .env("HOME", self.root.path().join("home"))
            .env("XDG_RUNTIME_DIR", self.root.path().join("run"))
            .current_dir(self.root.path().join("ws"))
            .output()
            .expect("the executables are in the folder that was given");
        let took = begun.elapsed();
        assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stdout));
        (took, serde_json::from_slice::<Value>(&output.stdout).expect("one JSON document")["data"].take())
    }

    fn start(&self) -> (Duration, String) {
        let (took, data) = self.run(&["worker", "start"]);
        (took, data["workerId"].as_str().expect("an id").to_owned())
    }
}

fn main() {
    let programs = PathBuf::from(env::args_os().nth(1).expect("the folder of the executables"));
    let root = tempfile::Builder::new().prefix("floors-").tempdir_in("/tmp").expect("a temporary folder");
    for folder in ["ws/.subagent", "home", "run"] {
        fs::create_dir_all(root.path().join(folder)).expect("a folder");
    }
    let config = format!(
        "launchers:\n  demo:\n    command: '{}'\n    args: [demo-agent]\ndefaults:\n  launcher: demo\n",
        programs.join("subagent").display()
    );
    fs::write(root.path().join("ws/.subagent/config.yaml"), config).expect("the config");
    let place = Place { root, programs };
    place.run(&["controller", "init"]);
    let workers: Vec<String> = (0..10).map(|_| place.start().1).collect();

    let nothing = || {
        let begun = Instant::now();
        Command::new("/bin/true").status().expect("true");
        begun.elapsed()
    };
    report("/bin/true", 50, nothing);
    report("worker list, 10 workers", 50, || place.run(&["worker", "list"]).0);
    report("send round trip", 50, || place.run(&["send", "--worker-id", &workers[0], "--text", "hi"]).0);
    report("worker start", 20, || place.start().0);
    let stream =
        ["send", "--worker-id", &workers[0], "--text", "!stream 100000", "--wait-timeout-seconds", "0"];
    let took = place.run(&stream).0;
    println!("{:32} {:.0} events/s", "100,000 chunks, committed", 100_000.0 / took.as_secs_f64());
    let shown = place.run(&["worker", "show", &workers[1]]).1;
    let runtime = shown["runtimePid"].as_i64().expect("a live runtime").to_string();
    let guard = fs::read_to_string(format!("/proc/{runtime}/task/{runtime}/children")).expect("its guard");
    println!("{:32} {} kB", "idle runtime, private dirty", private_dirty(&runtime));
    println!("{:32} {} kB", "idle guard, private dirty", private_dirty(guard.trim()));
    let stop = Command::new(place.programs.join("subagentd"))
        .args(["stop", "--workers"])
        .env_clear()
        .env("XDG_RUNTIME_DIR", place.root.path().join("run"))
        .current_dir(place.root.path().join("ws"))
        .status();
    assert!(stop.expect("subagentd").success());
}

fn report(what: &str, runs: usize, mut once: impl FnMut() -> Duration) {
    let mut times: Vec<f64> = (0..runs).map(|_| once().as_secs_f64() * 1000.0).collect();
    times.sort_by(f64::total_cmp);
    println!("{what:32} {:.2} ms (min {:.2}, max {:.2})", times[runs / 2], times[0], times[runs - 1]);
}

fn private_dirty(pid: &str) -> String {
    let path = Path::new("/proc").join(pid).join("smaps_rollup");
    let text = fs::read_to_string(path).expect("a live process of ours");
    let line = text.lines().find_map(|line| line.strip_prefix("Private_Dirty:"));
    line.unwrap_or_default().trim_end_matches("kB").trim().to_owned()
}
