//! Ctrl-C during a run: kills the processes of all sandboxes, which would outlive this one.

use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::{fs, process, thread};

use nix::sys::signal::{SigSet, Signal};
use subagent_tests::harness::{executables, process::of_sandbox, wait_while};

/// The folders of all sandboxes so far.
static FOLDERS: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// Registers the folder of a sandbox.
pub(crate) fn remember(folder: PathBuf) {
    FOLDERS.lock().unwrap_or_else(PoisonError::into_inner).push(folder);
}

/// Makes SIGINT and SIGTERM kill everything. Call this before any thread exists; started programs
/// inherit no blocked signal.
pub(crate) fn handle() {
    let signals: SigSet = [Signal::SIGINT, Signal::SIGTERM].into_iter().collect();
    signals.thread_block().unwrap();
    thread::spawn(move || {
        let signal = signals.wait().unwrap();
        eprintln!("{signal}: everything is ended");
        let folders = FOLDERS.lock().unwrap_or_else(PoisonError::into_inner);
        for folder in folders.iter().filter(|folder| folder.exists()) {
            let id = folder.file_name().unwrap_or_default().to_string_lossy();
            let left =
                || Some(of_sandbox(&id, 0, folder, executables().folder())).filter(|left| !left.is_empty());
            wait_while(std::time::Duration::from_secs(10), || {
                left().inspect(|left| {
                    // Stops all first, so that none starts another one meanwhile.
                    left.iter().for_each(|process| process.signal(Signal::SIGSTOP));
                    left.iter().for_each(|process| process.signal(Signal::SIGKILL));
                })
            });
            let _ = fs::remove_dir_all(folder);
        }
        process::exit(130);
    });
}
