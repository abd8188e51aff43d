//! Makes a worktree usable: copies untracked files and runs the user's commands.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::{Component, Path};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use command_fds::CommandFdExt as _;
use rustix::fs::{Timespec, Timestamps, UTIME_NOW};
use subagent_protocol::worktree::{Setup, Worktree, WorktreeResult};
use subagent_protocol::{Code, Error};

use super::registration::{READY, Registration};
use super::work::{OperationContext, step};
use super::{errors, status};
use crate::git::listen;

/// Longest clock step of a file system: that of FAT.
const LONGEST_STEP: Duration = Duration::from_secs(2);
/// The variable with the top folder of the main work tree.
const MAIN: &str = "SUBAGENT_WORKTREE_MAIN";

pub(super) fn make(
    work: &OperationContext<'_>,
    worktree: &Worktree,
    setup: &Setup,
) -> Result<WorktreeResult, Error> {
    let found = Registration::find(worktree)?.filter(|found| found.path.is_dir());
    let found =
        found.ok_or_else(|| errors::not_found(&worktree.path, "the folder of the worktree is gone"))?;
    copy(work, worktree, &found.path, &setup.copy)?;
    for command in &setup.commands {
        step();
        if let Some(failed) = run(work, worktree, &found.path, command)? {
            let message = format!("the setup command `{command}` failed in {}", found.path.display());
            return Err(failed.into_error(Code::WorktreeSetupFailed, message, command));
        }
    }
    found.write(READY, b"")?;
    let ready = found.admin.join(READY);
    tick(&ready).map_err(|error| errors::file(&ready, &error))?;
    Ok(WorktreeResult::Ready)
}

/// Makes the time of a file later than that of all files so far. File system clocks advance in
/// steps (4 ms on Linux); later files get the same time or a later one.
fn tick(path: &Path) -> io::Result<()> {
    let file = File::options().write(true).open(path)?;
    let (first, until) = (file.metadata()?.modified()?, Instant::now() + LONGEST_STEP);
    let now = Timespec { tv_sec: 0, tv_nsec: UTIME_NOW };
    while file.metadata()?.modified()? <= first && Instant::now() < until {
        // Only time passes, so there is nothing to wait for.
        std::thread::park_timeout(Duration::from_millis(1));
        rustix::fs::futimens(&file, &Timestamps { last_access: now, last_modification: now })?;
    }
    Ok(())
}

/// How a command of the user failed.
pub(super) struct Failed {
    exit_code: Option<i32>,
    signal: Option<i32>,
    output: String,
}

impl Failed {
    pub(super) fn into_error(self, code: Code, message: String, command: &str) -> Error {
        let mut error = Error::new(code, message)
            .with("command", command)
            .with("exitCode", self.exit_code)
            .with("output", self.output);
        if let Some(signal) = self.signal {
            error = error.with("signal", signal);
        }
        error
    }
}

/// Runs a command of the user in a folder. Returns how it failed, if it did.
pub(super) fn run(
    work: &OperationContext<'_>,
    worktree: &Worktree,
    folder: &Path,
    command: &str,
) -> Result<Option<Failed>, Error> {
    let failed = |error: io::Error| Error::new(Code::GitFailed, format!("`sh` cannot be run: {error}"));
    let (output, writer) = io::pipe().map_err(failed)?;
    let mut shell = Command::new("sh");
    shell.args(["-c", command]).current_dir(folder).env_clear();
    // Locations from the calling git do not apply to the worktree.
    let places = ["GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_PREFIX", "GIT_COMMON_DIR"];
    shell.envs(work.env().iter().filter(|(name, _)| !places.iter().any(|place| name == place)).cloned());
    shell.env(MAIN, &worktree.main).stdin(Stdio::null());
    shell.stderr(writer.try_clone().map_err(failed)?).stdout(writer).process_group(0);
    let held = work.held().iter().filter_map(|file| file.try_clone().ok()).collect();
    shell.preserved_fds(held);
    let child = shell.spawn().map_err(failed)?;
    // Closes our ends of the pipe.
    drop(shell);
    let (status, output) = listen::until_end(child, output, work.until())?;
    let (exit_code, signal) = (status.code(), status.signal());
    Ok((!status.success()).then_some(Failed { exit_code, signal, output }))
}

/// Copies untracked files of the main work tree. Keeps existing files.
fn copy(work: &OperationContext<'_>, worktree: &Worktree, to: &Path, globs: &[String]) -> Result<(), Error> {
    let mut args = vec!["ls-files", "-z", "--others", "--"];
    for glob in globs {
        let stays_inside =
            Path::new(glob).components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir));
        if glob.is_empty() || glob.starts_with(':') || !stays_inside {
            let message = format!("`{glob}` is no path below the top of the repository");
            return Err(errors::argument("worktrees.copy", message));
        }
        args.push(glob);
    }
    if globs.is_empty() {
        return Ok(());
    }
    let mut git = work.git(&worktree.main);
    git.places = vec![("GIT_LITERAL_PATHSPECS", "0".into()), ("GIT_GLOB_PATHSPECS", "1".into())];
    for name in status::parts(&work.feed(&git, &args, b"")?) {
        let name = status::path(name);
        let (from, to) = (worktree.main.join(name), to.join(name));
        // A folder is a separate repository and not copied.
        if name.as_os_str().as_encoded_bytes().ends_with(b"/") || to.symlink_metadata().is_ok() {
            continue;
        }
        copy_file(&from, &to).map_err(|error| errors::file(&to, &error))?;
    }
    Ok(())
}

pub(super) fn copy_file(from: &Path, to: &Path) -> io::Result<()> {
    to.parent().map_or(Ok(()), fs::create_dir_all)?;
    let meta = fs::symlink_metadata(from)?;
    if meta.is_symlink() {
        return std::os::unix::fs::symlink(fs::read_link(from)?, to);
    }
    if !meta.is_file() {
        return Ok(());
    }
    // Atomically: existing files are not copied again.
    let mut name = to.file_name().unwrap_or_default().to_owned();
    name.push(".subagent-new");
    let unfinished = to.with_file_name(name);
    let _ = io::copy(&mut File::open(from)?, &mut File::create(&unfinished)?)?;
    fs::set_permissions(&unfinished, fs::Permissions::from_mode(meta.permissions().mode() & 0o777))?;
    fs::rename(&unfinished, to)
}
