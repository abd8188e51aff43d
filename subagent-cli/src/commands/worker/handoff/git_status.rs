//! What git says of a folder, never for long, and without running anything that is named there.
//! Must not fail: a folder without git, or a git that hangs, is a sentence in the handoff.

// The folder is the agent's, its `.git/config` too: what that names (filters, hooks, monitors,
// transports, submodules) would run here, in the owner's name and beyond the guard's reach. So git
// gets settings that win over it, no `SUBAGENT_*` variable and none of its own.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use subagent_config::Environment;
use subagent_protocol::api::{WorkspaceChange, WorkspaceStatus};
use tokio::io::AsyncReadExt as _;
use tokio::process::{Child, Command};
use tokio::time::{Instant, timeout_at};

/// For all questions together.
const DEADLINE: Duration = Duration::from_secs(5);
/// The maximum size of an answer that is read, in bytes; `MAX_CHANGES` limits the reported changes.
const MAX_BYTES: u64 = 1024 * 1024;
const MAX_CHANGES: usize = 2_000;
/// Git's own variables that it gets from the caller: they say whose settings count, not which folder is meant.
const KEPT: [&str; 4] =
    ["GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM", "GIT_CONFIG_NOSYSTEM", "GIT_CEILING_DIRECTORIES"];

/// What git says of this folder.
pub(crate) async fn of(cwd: &Path, env: &Environment) -> WorkspaceStatus {
    let settings = [("core.fsmonitor", "false"), ("core.hooksPath", "/dev/null")]
        .map(|(name, value)| (name.into(), value));
    let git = StatusCommand { cwd, env, settings: settings.to_vec(), until: Instant::now() + DEADLINE };
    ask(git).await.unwrap_or_else(|unknown| WorkspaceStatus::Unknown { unknown })
}

struct StatusCommand<'a> {
    cwd: &'a Path,
    env: &'a Environment,
    /// Win over those of the folder.
    settings: Vec<(OsString, &'static str)>,
    until: Instant,
}

async fn ask(mut git: StatusCommand<'_>) -> Result<WorkspaceStatus, String> {
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).trim_end_matches('\n').to_owned();
    let root = PathBuf::from(text(git.run(&["rev-parse", "--show-toplevel"]).await?.0));
    // Fails before the first commit.
    let head =
        git.run(&["rev-parse", "--verify", "--quiet", "HEAD"]).await.ok().map(|(bytes, _)| text(bytes));
    let (names, all) = git.run(&["config", "--list", "--name-only", "--null"]).await?;
    if !all {
        return Err("it has too many settings".to_owned());
    }
    git.settings.extend(names.split(|byte| *byte == 0).filter_map(without_filter));
    let status = ["status", "--porcelain=v1", "-z", "--untracked-files=normal", "--ignore-submodules=all"];
    let (bytes, all) = git.run(&status).await?;
    let (changes, fit) = changes(&bytes, &root, git.cwd);
    Ok(WorkspaceStatus::Known { head, changes, truncated: !all || !fit })
}

/// The value of a setting with which it runs no program on a file's content.
fn without_filter(name: &[u8]) -> Option<(OsString, &'static str)> {
    let name = name.strip_prefix(b"filter.").map(|_| OsStr::from_bytes(name).to_owned())?;
    let value = match name.as_bytes().rsplit(|byte| *byte == b'.').next()? {
        b"clean" | b"smudge" | b"process" => "",
        b"required" => "false",
        _ => return None,
    };
    Some((name, value))
}

impl StatusCommand<'_> {
    /// What it prints, and whether that is all of it.
    async fn run(&self, args: &[&str]) -> Result<(Vec<u8>, bool), String> {
        let mut child = self.command(args).spawn().map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound if self.cwd.is_dir() => "there is no git".to_owned(),
            _ => format!("git cannot be run there ({error})"),
        })?;
        let group = child.id().and_then(|pid| i32::try_from(pid).ok());
        let heard = timeout_at(self.until, hear(&mut child)).await;
        if !matches!(&heard, Ok(Ok((_, true, _))))
            && let Some(group) = group
        {
            // It may have ended already, then this has no effect. It is not waited for.
            let _ = killpg(Pid::from_raw(group), Signal::SIGKILL);
        }
        match heard {
            Ok(Ok((bytes, all, succeeded))) if succeeded || !all => Ok((bytes, all)),
            Ok(Ok(_)) => Err("it is no git repository".to_owned()),
            Ok(Err(error)) => Err(format!("git's output cannot be read ({error})")),
            Err(_) => Err(format!("git did not answer within {} s", DEADLINE.as_secs())),
        }
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new("git");
        command.args(["--no-optional-locks", "--no-pager"]).args(args).current_dir(self.cwd);
        let passed = |name: &OsStr| {
            let of = |prefix: &str| name.as_bytes().starts_with(prefix.as_bytes());
            KEPT.iter().any(|kept| name == *kept) || !(of("SUBAGENT_") || of("GIT_"))
        };
        command.env_clear().envs(self.env.vars.iter().filter(|(name, _)| passed(name)));
        // A relative entry would name a program of the folder.
        let path = self.env.vars.iter().find(|(name, _)| *name == "PATH").map(|(_, path)| path.as_bytes());
        let mut absolute: Vec<&[u8]> = path.unwrap_or_default().split(|byte| *byte == b':').collect();
        absolute.retain(|entry| entry.starts_with(b"/"));
        if absolute.is_empty() {
            // An empty PATH would be the folder itself.
            absolute.push(b"/dev");
        }
        command.env("PATH", OsString::from_vec(absolute.join(&b':')));
        // In variables, since `-c` cannot set a name with `=` in it.
        command.env("GIT_CONFIG_COUNT", self.settings.len().to_string());
        for (index, (name, value)) in self.settings.iter().enumerate() {
            command
                .env(format!("GIT_CONFIG_KEY_{index}"), name)
                .env(format!("GIT_CONFIG_VALUE_{index}"), value);
        }
        command.env("GIT_NO_LAZY_FETCH", "1").env("GIT_ALLOW_PROTOCOL", "none").env("LC_ALL", "C");
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        // A group of its own, so that what it starts can be ended with it.
        command.process_group(0).kill_on_drop(true);
        command
    }
}

/// What it prints, whether that is all, and whether it succeeded. Of one that says too much the end is not waited for.
async fn hear(child: &mut Child) -> std::io::Result<(Vec<u8>, bool, bool)> {
    let mut bytes = Vec::new();
    if let Some(stdout) = child.stdout.take() {
        stdout.take(MAX_BYTES).read_to_end(&mut bytes).await?;
    }
    if bytes.len() as u64 >= MAX_BYTES {
        return Ok((bytes, false, false));
    }
    let status = child.wait().await?;
    Ok((bytes, true, status.success()))
}

/// Returns the entries of `git status --porcelain=v1 -z`, and whether these are all. An entry that
/// is cut off is left out.
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
        if changes.len() == MAX_CHANGES {
            return (changes, false);
        }
        let path = root.join(path);
        let path = path.strip_prefix(cwd).unwrap_or(&path).to_string_lossy().into_owned();
        changes.push(WorkspaceChange { status: status.to_owned(), path });
    }
    (changes, true)
}

#[cfg(test)]
mod tests;
