//! The way to the other machine: operations for the program there, and a transport for git.

use std::path::Path;
use std::process::Command;

use serde_json::Value;
use subagent_protocol::clean;
use subagent_protocol::placement::client::ClientFailure;
use subagent_protocol::placement::ssh::{self, RemoteHost};
use subagent_protocol::placement::{Engine, Placement};
use subagent_protocol::worktree::{Operation, PlacedWorktree, WorktreeResult};
use subagent_protocol::{Code, Error};

use crate::git::{GitFailure, run_program};
use crate::worktree::work::OperationContext;

/// Maximum length of an answer of the program there, in bytes.
const MAX_ANSWER_BYTES: usize = 16 * 1024 * 1024;
/// The codes of operations there that have their meaning here too.
const FAILURES: [Code; 6] = [
    Code::WorktreeBusy,
    Code::WorktreeNotFound,
    Code::WorktreeExists,
    Code::WorktreeNeedsGit,
    Code::WorktreeSetupFailed,
    Code::StorageFull,
];
/// The details that are taken from such an error.
const FACTS: [&str; 6] = ["reason", "path", "branch", "command", "output", "exitCode"];
/// The variable with the transports that git may use: this one, and those of the user's own remotes, as
/// a partial clone fetches from one.
pub(super) const TRANSPORTS: (&str, &str) = ("GIT_ALLOW_PROTOCOL", "ext:file:git:http:https:ssh");

/// A machine that ssh reaches.
pub(super) struct SshLink<'a> {
    placement: &'a Placement,
    host: &'a RemoteHost,
    program: &'a str,
}

impl<'a> SshLink<'a> {
    pub(super) fn new(placed: &'a PlacedWorktree) -> Result<Self, Error> {
        let placement = &placed.placement;
        match (&placement.engine, &placement.program) {
            (Engine::Ssh(host), Some(program)) => Ok(Self { placement, host, program }),
            _ => {
                let message = format!("git does not reach the placement `{}`", placement.name);
                Err(Error::new(Code::PlacementNotPrepared, message)
                    .with("placement", placement.name.as_str()))
            }
        }
    }

    /// Has the program there carry out an operation.
    pub(super) fn ask(
        &self,
        work: &OperationContext<'_>,
        operation: &Operation,
    ) -> Result<WorktreeResult, Error> {
        let internal = |error: serde_json::Error| Error::new(Code::Internal, error.to_string());
        let stdin = serde_json::to_vec(operation).map_err(internal)?;
        let mut command = Command::new(ssh::CLIENT);
        command.args(self.host.arguments(&ssh::line(self.program, &["worktree"], false)));
        command.env_clear().envs(work.env().iter().map(|(name, value)| (name, value)));
        command.stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::piped());
        command.stderr(std::process::Stdio::piped());
        let failed = |failure: ClientFailure<'_>| failure.error(self.placement, self.program);
        let ran = run_program(command, &stdin, MAX_ANSWER_BYTES, work.until(), work.held());
        let (status, printed, stderr) = ran.map_err(|failure| match failure {
            GitFailure::NotRun(error) => failed(ClientFailure::NoClient(&error.to_string())),
            GitFailure::Late => failed(ClientFailure::TimedOut(b"")),
            other => Error::new(Code::GitFailed, format!("the answer cannot be read: {other}")),
        })?;
        if !status.success() {
            return Err(failed(ClientFailure::Exited(status.code(), stderr.as_bytes())));
        }
        match serde_json::from_slice(last_line(&printed)) {
            Ok(WorktreeResult::Failed(error)) => Err(self.failed_there(error)),
            Ok(answer) => Ok(answer),
            Err(_) => Err(self.wrong_answer()),
        }
    }

    /// Returns the error for an answer that no program of this version gives.
    pub(super) fn wrong_answer(&self) -> Error {
        let failure = ClientFailure::Exited(Some(0), b"its answer cannot be read");
        failure.error(self.placement, self.program)
    }

    /// Returns an error from there as one of ours. The machine there may say anything.
    fn failed_there(&self, error: Error) -> Error {
        let code = if FAILURES.contains(&error.code) { error.code } else { Code::GitFailed };
        let message = format!("{} {}", clean::one_line(&error.message), self.placement.located());
        let mut own = Error::new(code, message);
        own.retryable = error.retryable;
        for key in FACTS {
            match error.details.get(key) {
                Some(Value::String(text)) => own = own.with(key, clean::clean(text)),
                Some(Value::Number(number)) => own = own.with(key, number.clone()),
                _ => {}
            }
        }
        self.placement.named_in(own)
    }

    /// Returns the address of a repository there, for git's `ext` transport.
    pub(super) fn url(&self, repository: &Path) -> String {
        let line = format!("exec %S {}", ssh::path_word(&escaped(&repository.to_string_lossy())));
        let words = self.host.arguments("").into_iter().map(|word| escaped(&word));
        let mut words: Vec<String> = [ssh::CLIENT.to_owned()].into_iter().chain(words).collect();
        // The last word is the shell's line there.
        words.pop();
        words.push(line);
        let words: Vec<String> = words.iter().map(|word| word.replace(' ', "% ")).collect();
        format!("ext::{}", words.join(" "))
    }
}

/// Escapes what the `ext` transport would expand.
fn escaped(word: &str) -> String {
    word.replace('%', "%%")
}

/// Shells may print before the program there.
fn last_line(printed: &[u8]) -> &[u8] {
    let text = printed.trim_ascii_end();
    memchr::memrchr(b'\n', text).map_or(text, |end| &text[end + 1..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_the_words_of_the_client() {
        let host = RemoteHost { host: "me@gpu1".into(), args: vec!["-o".into(), "Tag=a b%c".into()] };
        let placement = Placement {
            name: "gpu1".into(),
            cwd: "~".into(),
            program: Some("~/x".into()),
            lease_ms: None,
            git: None,
            engine: Engine::Ssh(host.clone()),
        };
        let link = SshLink { placement: &placement, host: &host, program: "~/x" };
        let url = link.url(Path::new("~/trees/a b.git"));
        let end = " -o Tag=a% b%%c -- me@gpu1 exec% %S% \"$HOME\"'/trees/a% b.git'";
        assert!(url.starts_with("ext::ssh -T -e none "), "{url}");
        assert!(url.ends_with(end), "{url}");
    }

    #[test]
    fn a_banner_is_passed_over() {
        assert_eq!(last_line(b"Welcome!\n\"ready\"\n"), b"\"ready\"");
        assert_eq!(last_line(b"\"ready\"\n"), b"\"ready\"");
        assert_eq!(last_line(b""), b"");
    }
}
