//! A worker on another machine that the user's ssh client reaches: the command lines, and what an
//! exit of the client means. Keys, agents and known hosts are the client's.

use serde::{Deserialize, Serialize};

use crate::error::{Code, Error};

/// Options of every call: no terminal, no escape character, no question, and an end when the host
/// does not answer.
const OPTIONS: [&str; 11] = [
    "-T",
    "-e",
    "none",
    "-o",
    "BatchMode=yes",
    "-o",
    "ConnectTimeout=10",
    "-o",
    "ServerAliveInterval=5",
    "-o",
    "ServerAliveCountMax=3",
];
/// The client, searched in the PATH.
pub const CLIENT: &str = "ssh";
/// Exit code of the client if it failed itself.
pub const CLIENT_FAILED: i32 = 255;
/// Exit codes of a shell that found no program, or could not execute it.
const NO_PROGRAM: [i32; 2] = [127, 126];
/// Maximum length of the client's standard error in a message, in bytes.
pub const MAX_SAID_BYTES: usize = 2000;

/// A machine that ssh reaches, and the folder there in which agents work.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct SshPlacement {
    /// Name of the placement in the config file.
    pub name: String,
    /// The host, as ssh takes it: a name of its config, `user@host`, or `ssh://user@host:port`.
    pub host: String,
    /// The folder there: absolute, or `~` or `~/...`, which is expanded there.
    pub cwd: String,
    /// Further options of the client.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub args: Vec<String>,
    /// Path of `subagent-runtime` there, absolute or `~/...`; absent: where `placement prepare` of
    /// this version puts it. The daemon stores the path that it chose.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub program: Option<String>,
}

impl SshPlacement {
    /// Returns the arguments of the client that run a line of a shell there.
    #[must_use]
    pub fn arguments(&self, line: &str) -> Vec<String> {
        let options = OPTIONS.iter().map(|option| (*option).to_owned());
        let rest = ["--".to_owned(), self.host.clone(), line.to_owned()];
        options.chain(self.args.iter().cloned()).chain(rest).collect()
    }

    /// Checks what a request brings: the client must take `host` as a host.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT{field}`.
    pub fn check(&self) -> Result<(), Error> {
        let wrong = |field: &str, message: &str| {
            Err(Error::new(Code::InvalidArgument, format!("the placement `{}`: {message}", self.name))
                .with("field", format!("placement.{field}")))
        };
        if self.name.trim().is_empty() {
            return wrong("name", "its name is empty");
        }
        if let Some(problem) = host_problem(&self.host) {
            return wrong("host", &format!("`host` {problem}"));
        }
        if let Some(problem) = path_problem(&self.cwd) {
            return wrong("cwd", &format!("`cwd` {problem}"));
        }
        if let Some(problem) = self.program.as_deref().and_then(path_problem) {
            return wrong("program", &format!("`program` {problem}"));
        }
        if self.args.iter().any(|arg| arg.contains('\0')) {
            return wrong("args", "an argument contains a NUL");
        }
        Ok(())
    }
}

/// Returns why ssh cannot take this text as a host.
#[must_use]
pub fn host_problem(host: &str) -> Option<&'static str> {
    match host {
        "" => Some("must not be empty"),
        host if host.starts_with('-') => Some("must not begin with `-`"),
        host if host.chars().any(|c| c.is_whitespace() || c.is_control()) => {
            Some("must not contain blanks or control characters")
        }
        _ => None,
    }
}

/// Returns why this is no path on another machine.
#[must_use]
pub fn path_problem(path: &str) -> Option<&'static str> {
    if path.chars().any(char::is_control) {
        return Some("must not contain control characters");
    }
    let is_there = path.starts_with('/') || path == "~" || path.starts_with("~/");
    (!is_there).then_some("must be absolute, or begin with `~/`")
}

/// Returns where `placement prepare` puts a runtime, relative to the home there. `sha256` has the
/// hash of the file in hexadecimal digits.
#[must_use]
pub fn prepared_program(version: &str, sha256: &str) -> String {
    let short = sha256.get(..16).unwrap_or(sha256);
    format!("~/.local/share/subagent/runtime/{version}-{short}/subagent-runtime")
}

/// Returns the shell line that becomes the program there. A line with a `login` shell has the PATH
/// that the user has at a terminal there.
#[must_use]
pub fn line(program: &str, arguments: &[&str], login: bool) -> String {
    let words: Vec<String> = arguments.iter().map(|word| quoted(word)).collect();
    let line = format!("exec {} {}", path_word(program), words.join(" "));
    match login {
        true => format!("exec \"$SHELL\" -lc {}", quoted(&line)),
        false => line,
    }
}

/// Quotes a path for a shell, so that the shell there expands a leading `~/`.
#[must_use]
pub fn path_word(path: &str) -> String {
    match path.strip_prefix('~') {
        Some("") => "\"$HOME\"".to_owned(),
        Some(rest) if rest.starts_with('/') => format!("\"$HOME\"{}", quoted(rest)),
        _ => quoted(path),
    }
}

fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-+,:@%=".contains(c);
    match !word.is_empty() && word.chars().all(is_plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', "'\\''")),
    }
}

/// Why nothing runs there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SshFailure<'a> {
    /// The client could not be started.
    NoClient(&'a str),
    /// The client or the command there ended with this code; `None`: by a signal.
    Exited(Option<i32>, &'a [u8]),
    /// Nothing answered in time.
    TimedOut(&'a [u8]),
}

impl SshFailure<'_> {
    /// Returns the error for users. The command there was `program`.
    #[must_use]
    pub fn error(self, placement: &SshPlacement, program: &str) -> Error {
        let SshPlacement { name, host, .. } = placement;
        let unreachable = |message: String| {
            Error::new(Code::PlacementUnreachable, message)
                .retryable()
                .with("placement", name.as_str())
                .with("host", host.as_str())
        };
        let check = format!("run `subagent placement check {name}`");
        match self {
            Self::NoClient(why) => {
                unreachable(format!("`{CLIENT}` cannot be started for the placement `{name}`: {why}"))
                    .recommend("install an OpenSSH client, and check that the daemon's PATH has it")
            }
            Self::TimedOut(said) => {
                let said = cleaned(said);
                unreachable(format!(
                    "{host} (placement `{name}`) did not answer in time{}",
                    after_colon(&said)
                ))
                .with("stderr", said)
                .recommend(check)
            }
            Self::Exited(Some(code), said) if NO_PROGRAM.contains(&code) => {
                let message = format!("there is no usable subagent-runtime on {host} (placement `{name}`)");
                Error::new(Code::PlacementNotPrepared, message)
                    .with("placement", name.as_str())
                    .with("host", host.as_str())
                    .with("program", program)
                    .with("stderr", cleaned(said))
                    .recommend(format!("run `subagent placement prepare {name}`"))
            }
            Self::Exited(code, said) if code.is_none_or(|code| code == CLIENT_FAILED) => {
                let said = cleaned(said);
                let (reason, advice) = reason_of(&said, host, &check);
                unreachable(format!("{host} (placement `{name}`) cannot be reached{}", after_colon(&said)))
                    .with("reason", reason)
                    .with("stderr", said)
                    .recommend(advice)
            }
            Self::Exited(code, said) => {
                let (code, said) = (code.unwrap_or(CLIENT_FAILED), cleaned(said));
                let message = format!(
                    "subagent-runtime on {host} (placement `{name}`) ended with code {code}{}",
                    after_colon(&said)
                );
                Error::new(Code::PlacementNotPrepared, message)
                    .with("placement", name.as_str())
                    .with("host", host.as_str())
                    .with("program", program)
                    .with("stderr", said)
                    .recommend(format!("{check}; `program` of a placement must be of this version"))
            }
        }
    }
}

/// Returns why the client failed, as a word, and what to do. Other texts are `client`.
fn reason_of(said: &str, host: &str, check: &str) -> (&'static str, String) {
    let known: [(&str, &[&str], String); 3] = [
        (
            "hostKey",
            &["Host key verification failed", "REMOTE HOST IDENTIFICATION HAS CHANGED"],
            format!("run `ssh {host}` once at a terminal and compare the key of the host"),
        ),
        (
            "login",
            &["Permission denied", "Too many authentication failures", "No more authentication methods"],
            format!(
                "give the client a key that needs no question (`ssh-add`, `IdentityFile`); `ssh -o BatchMode=yes {host} true` must succeed"
            ),
        ),
        (
            "network",
            &[
                "Could not resolve hostname",
                "Connection refused",
                "Connection timed out",
                "No route to host",
                "Network is unreachable",
            ],
            format!("check `host` of the placement and the network, then {check}"),
        ),
    ];
    let found = known.into_iter().find(|(_, texts, _)| texts.iter().any(|text| said.contains(text)));
    found.map_or_else(|| ("client", check.to_owned()), |(reason, _, advice)| (reason, advice))
}

fn after_colon(said: &str) -> String {
    if said.is_empty() { String::new() } else { format!(": {said}") }
}

/// Returns the end of a standard error as one line without control characters.
#[must_use]
pub fn cleaned(said: &[u8]) -> String {
    let said = String::from_utf8_lossy(&said[said.len().saturating_sub(MAX_SAID_BYTES)..]).into_owned();
    let lines = said.lines().map(|line| line.chars().filter(|c| !c.is_control()).collect::<String>());
    let lines: Vec<String> =
        lines.map(|line| line.trim().to_owned()).filter(|line| !line.is_empty()).collect();
    lines.join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn placement() -> SshPlacement {
        SshPlacement {
            name: "gpu1".into(),
            host: "me@gpu1".into(),
            cwd: "~/src/a thing".into(),
            args: vec!["-p".into(), "2222".into()],
            program: None,
        }
    }

    #[test]
    fn nothing_of_a_line_is_taken_apart() {
        let program = prepared_program("0.1.0", "0123456789abcdef0123");
        assert_eq!(
            line(&program, &["dial", "w_1"], false),
            "exec \"$HOME\"/.local/share/subagent/runtime/0.1.0-0123456789abcdef/subagent-runtime dial w_1"
        );
        assert_eq!(line("/a b/it's", &["submit"], false), "exec '/a b/it'\\''s' submit");
        let login = line("~/x y", &["submit"], true);
        assert_eq!(login, "exec \"$SHELL\" -lc 'exec \"$HOME\"'\\''/x y'\\'' submit'");
        let arguments = placement().arguments("line");
        assert_eq!(arguments[arguments.len() - 5..], ["-p", "2222", "--", "me@gpu1", "line"]);
    }

    #[test]
    fn a_host_is_no_option_and_a_folder_no_relative_path() {
        placement().check().unwrap();
        for host in ["", "-oProxyCommand=x", "a b", "a\nb"] {
            let error = SshPlacement { host: host.into(), ..placement() }.check().unwrap_err();
            assert_eq!(error.details["field"], "placement.host");
        }
        for cwd in ["", "src", "~other/x", "/a\0"] {
            let error = SshPlacement { cwd: cwd.into(), ..placement() }.check().unwrap_err();
            assert_eq!(error.details["field"], "placement.cwd");
        }
    }

    #[test]
    fn each_exit_has_a_code_and_advice() {
        let error = |failure: SshFailure<'_>| failure.error(&placement(), "~/x");
        let missing = error(SshFailure::Exited(Some(127), b"sh: not found"));
        assert_eq!(missing.code, Code::PlacementNotPrepared);
        assert!(missing.details["recommendedAction"].as_str().unwrap().contains("prepare gpu1"));
        for (said, reason) in [
            ("Host key verification failed.\r\n", "hostKey"),
            ("me@gpu1: Permission denied (publickey).\r\n", "login"),
            ("ssh: Could not resolve hostname gpu1: x\r\n", "network"),
            ("\x1b[31mkex_exchange\x07", "client"),
        ] {
            let error = error(SshFailure::Exited(Some(255), said.as_bytes()));
            assert_eq!((error.code, &error.details["reason"]), (Code::PlacementUnreachable, &reason.into()));
            assert!(!error.message.chars().any(char::is_control), "{error:?}");
        }
        assert_eq!(error(SshFailure::Exited(Some(2), b"")).code, Code::PlacementNotPrepared);
        assert_eq!(error(SshFailure::TimedOut(b"")).code, Code::PlacementUnreachable);
        assert_eq!(cleaned(&[b'x'; 5000]).len(), MAX_SAID_BYTES);
    }
}
