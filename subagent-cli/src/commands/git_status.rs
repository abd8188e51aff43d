//! What git says of a folder: asked with the caller's PATH, without hooks, and never for long.
//!
//! Must not fail: a folder without git, or a git that hangs, is a sentence in the handoff.

use std::ffi::OsString;
use std::io::Read as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use subagent_config::Environment;
use subagent_protocol::api::{WorkspaceChange, WorkspaceStatus};

/// For all questions together.
const DEADLINE: Duration = Duration::from_secs(5);
/// More is not read of an answer, and more changes are not told.
const MOST_BYTES: u64 = 1024 * 1024;
const MOST_CHANGES: usize = 2_000;
/// Left out of the caller's environment: they would make git speak of another folder.
const ELSEWHERE: [&str; 6] =
    ["GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_COMMON_DIR", "GIT_PREFIX", "GIT_NAMESPACE"];

/// What git says of this folder.
pub(super) fn of(cwd: &Path, env: &Environment) -> WorkspaceStatus {
    let git = Git { cwd, env, until: Instant::now() + DEADLINE };
    ask(&git).unwrap_or_else(|unknown| WorkspaceStatus::Unknown { unknown })
}

struct Git<'a> {
    cwd: &'a Path,
    env: &'a Environment,
    until: Instant,
}

fn ask(git: &Git<'_>) -> Result<WorkspaceStatus, String> {
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).trim_end_matches('\n').to_owned();
    let root = PathBuf::from(text(git.run(&["rev-parse", "--show-toplevel"])?.0));
    // Fails before the first commit.
    let head = git.run(&["rev-parse", "--verify", "--quiet", "HEAD"]).ok().map(|(bytes, _)| text(bytes));
    let (bytes, all) = git.run(&["status", "--porcelain=v1", "-z", "--untracked-files=normal"])?;
    let (changes, fit) = changes(&bytes, &root, git.cwd);
    Ok(WorkspaceStatus::Known { head, changes, truncated: !all || !fit })
}

impl Git<'_> {
    /// What it prints, and whether that is all of it.
    fn run(&self, args: &[&str]) -> Result<(Vec<u8>, bool), String> {
        let mut command = Command::new("git");
        command.args(["-c", "core.fsmonitor=false", "--no-optional-locks"]).args(args).current_dir(self.cwd);
        let kept = |name: &&OsString| !ELSEWHERE.iter().any(|left_out| name.as_os_str() == *left_out);
        command.env_clear().envs(self.env.vars.iter().filter(|(name, _)| kept(name)));
        command.env("LC_ALL", "C").stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        // A group of its own, so that what it starts can be ended with it.
        let mut child = command.process_group(0).spawn().map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound if self.cwd.is_dir() => "there is no git".to_owned(),
            _ => format!("git cannot be run there ({error})"),
        })?;
        let Some(stdout) = child.stdout.take() else { return Err("git has no output".to_owned()) };
        let (sender, answer) = mpsc::channel();
        thread::spawn(move || {
            let mut bytes = Vec::new();
            let read = stdout.take(MOST_BYTES).read_to_end(&mut bytes);
            // Nobody listens after the deadline.
            let _ = sender.send(read.map(|_| bytes));
        });
        let read = answer.recv_timeout(self.until.saturating_duration_since(Instant::now()));
        let all = matches!(&read, Ok(Ok(bytes)) if (bytes.len() as u64) < MOST_BYTES);
        if !all && let Ok(pid) = i32::try_from(child.id()) {
            // It may have ended by itself meanwhile.
            let _ = killpg(Pid::from_raw(pid), Signal::SIGKILL);
        }
        let status = child.wait().map_err(|error| error.to_string())?;
        match read {
            Ok(Ok(bytes)) if status.success() || !all => Ok((bytes, all)),
            Ok(Ok(_)) => Err("it is no git repository".to_owned()),
            Ok(Err(error)) => Err(format!("git cannot be heard ({error})")),
            Err(_) => Err(format!("git did not answer within {} s", DEADLINE.as_secs())),
        }
    }
}

/// The entries of `git status --porcelain=v1 -z`, and whether they are all told. An entry that is cut off is left out.
fn changes(bytes: &[u8], root: &Path, cwd: &Path) -> (Vec<WorkspaceChange>, bool) {
    let whole = bytes.iter().rposition(|byte| *byte == 0).map_or(&[][..], |end| &bytes[..end]);
    let mut entries = whole.split(|byte| *byte == 0).filter(|entry| !entry.is_empty());
    let mut changes = Vec::new();
    while let Some(entry) = entries.next() {
        let text = String::from_utf8_lossy(entry);
        let (Some(status), Some(path)) = (text.get(..2), text.get(3..)) else { continue };
        if status.contains(['R', 'C']) {
            // Its old name.
            entries.next();
        }
        if changes.len() == MOST_CHANGES {
            return (changes, false);
        }
        let path = root.join(path);
        let path = path.strip_prefix(cwd).unwrap_or(&path).to_string_lossy().into_owned();
        changes.push(WorkspaceChange { status: status.to_owned(), path });
    }
    (changes, true)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(status: &str, path: &str) -> WorkspaceChange {
        WorkspaceChange { status: status.to_owned(), path: path.to_owned() }
    }

    #[test]
    fn entries_are_told_relative_to_the_workers_folder() {
        let bytes = b" M sub/a b.rs\0R  sub/new\0old\0?? other/\0?? cut of";
        let (changes, all) = changes(bytes, Path::new("/repo"), Path::new("/repo/sub"));
        assert_eq!(changes, [change(" M", "a b.rs"), change("R ", "new"), change("??", "/repo/other/")]);
        assert!(all);
        assert_eq!(super::changes(b"", Path::new("/"), Path::new("/")).0, []);
        assert_eq!(super::changes(b"\0x\0\xff\xff\xff y\0", Path::new("/"), Path::new("/")).0.len(), 0);
    }

    #[test]
    fn a_folder_without_git_and_a_caller_without_git_are_sentences() {
        let dir = tempfile::tempdir().unwrap();
        let path = |path: &str| Environment::new([("PATH".into(), path.into())], dir.path());
        let unknown = |status| match status {
            WorkspaceStatus::Unknown { unknown } => unknown,
            known => panic!("{known:?}"),
        };
        let none = unknown(of(dir.path(), &path("/nonexistent")));
        assert_eq!(none, "there is no git");
        let gone = unknown(of(&dir.path().join("gone"), &path("/usr/bin:/bin")));
        assert!(gone.starts_with("git cannot be run there"), "{gone}");
    }

    #[test]
    fn a_git_that_hangs_is_left_out_after_the_deadline() {
        use std::os::unix::fs::PermissionsExt as _;
        let dir = tempfile::tempdir().unwrap();
        let git = dir.path().join("git");
        std::fs::write(&git, "#!/bin/sh\n/bin/sleep 60 &\nwait\n").unwrap();
        std::fs::set_permissions(&git, std::fs::Permissions::from_mode(0o700)).unwrap();
        let env = Environment::new([("PATH".into(), dir.path().into())], dir.path());
        let begun = Instant::now();
        let unknown = WorkspaceStatus::Unknown { unknown: "git did not answer within 5 s".to_owned() };
        assert_eq!(of(dir.path(), &env), unknown);
        assert!(begun.elapsed() < DEADLINE * 3, "what it started is ended with it");
    }
}
