//! Daemons on other hosts: how a user names one, what the client and `subagent dial-daemon` there
//! say to each other before the bytes of the daemon's socket follow, and why that fails.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::api::{DaemonInfo, StateFolder};
use crate::error::{Code, Error};
use crate::placement::client::{NO_PROGRAM, after_colon, cleaned};
use crate::placement::ssh::{self, RemoteHost};

/// The line after which the conversation begins. A login shell may print text before it.
pub const DIAL_MAGIC: &[u8] = b"\x01subagent-dial-daemon\x02\n";
/// Maximum number of bytes before [`DIAL_MAGIC`], and of a line after it.
pub const MAX_DIAL_BYTES: usize = 64 * 1024;
/// The command of `subagent` that answers there.
pub const DIAL_COMMAND: &str = "dial-daemon";
/// The program there, searched in the PATH of a login shell.
const PROGRAM: &str = "subagent";
/// Exit code of `subagent` for a command that it does not know.
const UNKNOWN_COMMAND: i32 = 2;

/// A host of the user's config file, whose daemon commands can use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DaemonHost {
    /// Name in the config file.
    pub name: String,
    /// What the user's ssh client reaches.
    pub remote: RemoteHost,
    /// The folder there whose workspace counts; `None` is the home there.
    pub cwd: Option<String>,
    /// Path of `subagent` there; `None` is the one that a login shell finds.
    pub program: Option<String>,
}

impl DaemonHost {
    /// Returns the line of a shell that becomes `subagent dial-daemon` there.
    #[must_use]
    pub fn dial_line(&self) -> String {
        ssh::line(self.program.as_deref().unwrap_or(PROGRAM), &[DIAL_COMMAND], true)
    }

    /// Adds the host to an error.
    fn named_in(&self, error: Error) -> Error {
        error.with("host", self.name.as_str())
    }

    fn described(&self) -> String {
        format!("the host `{}` ({})", self.name, self.remote.host)
    }
}

/// What `dial-daemon` does if no daemon runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum DialPolicy {
    /// Connects with a running daemon, and starts none.
    Running,
    /// Starts one if the workspace has state.
    IfUsed,
    /// Starts one in any case.
    Start,
}

/// A line to `dial-daemon`. It answers each with a [`DialReply`], until one has a daemon.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DialRequest {
    /// The folder there whose workspace counts. Relative paths and the default are those of the
    /// home there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// What happens if no daemon runs.
    pub policy: DialPolicy,
    /// Generation of a daemon that is ending: its end is awaited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<u64>,
}

/// The workspace of a [`DialRequest`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DialedWorkspace {
    /// Path of its folder there.
    pub root: PathBuf,
    /// Path of its state dir there.
    pub state_dir: PathBuf,
    /// Whether anything was ever started in it.
    pub has_state: bool,
    /// Id of the controller that the folder names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub controller_id: Option<String>,
}

/// The answer of `dial-daemon`. `E` is an error as JSON.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DialReply<E> {
    /// The workspace; absent if it was not found.
    #[serde(default = "absent", skip_serializing_if = "Option::is_none")]
    pub workspace: Option<DialedWorkspace>,
    /// The daemon to which all further bytes go. Absent: the next line is another request.
    #[serde(default = "absent", skip_serializing_if = "Option::is_none")]
    pub daemon: Option<DaemonInfo>,
    /// The state dir that requests name.
    #[serde(default = "absent", skip_serializing_if = "Option::is_none")]
    pub state_folder: Option<StateFolder>,
    /// Why there is no daemon.
    #[serde(default = "absent", skip_serializing_if = "Option::is_none")]
    pub error: Option<E>,
}

fn absent<T>() -> Option<T> {
    None
}

/// Why a host was not reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DialFailure<'a> {
    /// The ssh client could not be started.
    NoClient(&'a str),
    /// The client or the command there ended with this code; `None`: by a signal.
    Exited(Option<i32>, &'a [u8]),
    /// Nothing answered in time.
    TimedOut(&'a [u8]),
    /// Something else than `dial-daemon` answered.
    Foreign(&'a [u8]),
}

impl DialFailure<'_> {
    /// Returns the error for users.
    #[must_use]
    pub fn error(self, host: &DaemonHost) -> Error {
        let (name, place) = (&host.name, host.described());
        let check = format!("run `ssh -o BatchMode=yes {} true`, which must succeed", host.remote.host);
        let unreachable = |message: String, reason: &str, said: String| {
            host.named_in(Error::new(Code::HostUnreachable, message).retryable())
                .with("reason", reason)
                .with("stderr", said)
        };
        let unprepared = |message: String, reason: &str, said: &[u8]| {
            let said = cleaned(said);
            host.named_in(Error::new(Code::HostNotPrepared, message + &after_colon(&said)))
                .with("reason", reason)
                .with("stderr", said)
        };
        match self {
            Self::NoClient(why) => {
                let message = format!("`{}` cannot be started for {place}: {why}", ssh::CLIENT);
                unreachable(message, "client", String::new())
                    .recommend(format!("install `{}`, and check your PATH", ssh::CLIENT))
            }
            Self::TimedOut(said) => {
                let said = cleaned(said);
                let message = format!("{place} did not answer in time{}", after_colon(&said));
                unreachable(message, "timeout", said).recommend(check)
            }
            Self::Exited(Some(code), said) if NO_PROGRAM.contains(&code) => unprepared(
                format!("there is no usable `subagent` on {place}"),
                "missing",
                said,
            )
            .recommend(format!(
                "install it there, where a login shell finds it, or set hosts.{name}.program to its path"
            )),
            Self::Exited(None | Some(ssh::CLIENT_FAILED), said) => {
                let said = cleaned(said);
                let (reason, advice) = host.remote.reason_of(&said, &check);
                let message = format!("{place} cannot be reached{}", after_colon(&said));
                unreachable(message, reason, said).recommend(advice)
            }
            Self::Exited(Some(UNKNOWN_COMMAND), said) => {
                let message = format!("`subagent` on {place} is too old: it does not know `{DIAL_COMMAND}`");
                unprepared(message, "tooOld", said).recommend("install the version of this command there")
            }
            Self::Exited(Some(code), said) => {
                unprepared(format!("`subagent` on {place} ended with code {code}"), "ended", said)
                    .recommend(check)
            }
            Self::Foreign(said) => {
                unprepared(format!("something else than `subagent` answers on {place}"), "foreign", said)
                    .recommend(format!("correct hosts.{name}.program, or what the login shell there prints"))
            }
        }
    }
}

/// Returns what follows the greeting; `None` if it has not come yet.
///
/// # Errors
/// Too many bytes came without it.
pub fn after_greeting(received: &[u8]) -> Result<Option<&[u8]>, NoGreeting> {
    let found = received.windows(DIAL_MAGIC.len()).position(|window| window == DIAL_MAGIC);
    match found {
        Some(at) if at <= MAX_DIAL_BYTES => Ok(Some(&received[at + DIAL_MAGIC.len()..])),
        None if received.len() < MAX_DIAL_BYTES + DIAL_MAGIC.len() => Ok(None),
        Some(_) | None => Err(NoGreeting),
    }
}

/// Too many bytes came without a greeting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NoGreeting;

#[cfg(test)]
mod tests {
    use super::*;

    fn lap() -> DaemonHost {
        let remote = RemoteHost { host: "me@lap".into(), args: Vec::new() };
        DaemonHost { name: "lap".into(), remote, cwd: None, program: None }
    }

    #[test]
    fn the_line_there_is_that_of_a_login_shell() {
        assert_eq!(lap().dial_line(), "exec \"$SHELL\" -lc 'exec subagent dial-daemon'");
        let own = DaemonHost { program: Some("~/x y".into()), ..lap() };
        assert!(own.dial_line().contains("HOME"), "{}", own.dial_line());
    }

    #[test]
    fn a_greeting_is_found_behind_a_bounded_banner() {
        let text = [b"Welcome!\nno line end", DIAL_MAGIC, b"{}"].concat();
        for cut in 0..text.len() - 2 {
            assert_eq!(after_greeting(&text[..cut]), Ok(None));
        }
        assert_eq!(after_greeting(&text), Ok(Some(&b"{}"[..])));
        assert_eq!(after_greeting(&vec![b'x'; 2 * MAX_DIAL_BYTES]), Err(NoGreeting));
    }

    #[test]
    fn each_failure_has_a_code_a_reason_and_advice() {
        for (failure, code, reason) in [
            (DialFailure::NoClient("x"), Code::HostUnreachable, "client"),
            (DialFailure::TimedOut(b""), Code::HostUnreachable, "timeout"),
            (DialFailure::Exited(Some(255), b"Permission denied"), Code::HostUnreachable, "login"),
            (DialFailure::Exited(None, b""), Code::HostUnreachable, "client"),
            (DialFailure::Exited(Some(127), b"no"), Code::HostNotPrepared, "missing"),
            (DialFailure::Exited(Some(2), b"\x1b[31mno"), Code::HostNotPrepared, "tooOld"),
            (DialFailure::Exited(Some(1), b""), Code::HostNotPrepared, "ended"),
            (DialFailure::Foreign(b""), Code::HostNotPrepared, "foreign"),
        ] {
            let error = failure.error(&lap());
            assert_eq!((error.code, &error.details["reason"]), (code, &reason.into()), "{failure:?}");
            assert_eq!(error.details["host"], "lap");
            assert!(error.details.contains_key("recommendedAction"));
            assert!(!error.message.chars().any(char::is_control), "{error:?}");
        }
    }
}
