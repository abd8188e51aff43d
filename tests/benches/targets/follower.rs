//! `watch --follow`, with a thread that reads its lines.

use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::world::BenchWorld;

/// Time limit for the next value.
const DEADLINE: Duration = Duration::from_secs(600);

/// A follower, which is killed on drop.
pub(crate) struct Follower<T> {
    child: Child,
    seen: Receiver<T>,
}

impl<T: Send + 'static> Follower<T> {
    /// Follows a worker from its first event. `look` extracts the wanted value from each line. The
    /// follower runs when this returns.
    pub(crate) fn start(
        world: &BenchWorld,
        worker: &str,
        mut look: impl FnMut(&[u8]) -> Option<T> + Send + 'static,
    ) -> Self {
        let args = ["watch", "--worker-id", worker, "--follow", "--timeout-seconds", "0"];
        let mut command = world.sandbox.command("subagent").args(args).process();
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
        let output = child.stdout.take().unwrap();
        let (sender, seen) = mpsc::channel();
        let (begun, has_begun) = mpsc::channel();
        thread::spawn(move || {
            let mut lines = BufReader::with_capacity(64 * 1024, output);
            let mut line = Vec::new();
            while lines.read_until(b'\n', &mut line).is_ok_and(|read| read > 0) {
                // The receiver may be gone.
                let _ = begun.send(());
                if let Some(found) = look(&line) {
                    let _ = sender.send(found);
                }
                line.clear();
            }
        });
        has_begun.recv_timeout(DEADLINE).expect("the follower's first line");
        Self { child, seen }
    }

    /// Returns the next extracted value.
    pub(crate) fn next(&self) -> T {
        self.seen.recv_timeout(DEADLINE).expect("what is followed")
    }

    pub(crate) fn pid(&self) -> i32 {
        i32::try_from(self.child.id()).unwrap()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.pid()), signal).unwrap();
    }
}

impl<T> Drop for Follower<T> {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Whether a line is an event of this type.
pub(crate) fn is(line: &[u8], event_type: &str) -> bool {
    contains(line, format!("\"type\": \"{event_type}\"").as_bytes())
        || contains(line, format!("\"type\":\"{event_type}\"").as_bytes())
}

fn contains(line: &[u8], part: &[u8]) -> bool {
    line.windows(part.len()).any(|window| window == part)
}

/// Returns the number after this mark in a line.
pub(crate) fn number_after(line: &[u8], mark: &str) -> Option<u64> {
    let text = std::str::from_utf8(line).ok()?;
    let digits = text.split_once(mark)?.1;
    let end = digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len());
    digits.get(..end)?.parse().ok()
}
