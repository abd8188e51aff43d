//! Another machine that the user's ssh client reaches: the command lines, and what the client says
//! when it fails. Keys, agents and known hosts are the client's.

use serde::{Deserialize, Serialize};

use super::places::ClientCommand;

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
/// A machine that ssh reaches.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct RemoteHost {
    /// The host, as ssh takes it: a name of its config, `user@host`, or `ssh://user@host:port`.
    pub host: String,
    /// Further options of the client.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub args: Vec<String>,
}

impl RemoteHost {
    /// Returns the arguments of the client that run a line of a shell there.
    #[must_use]
    pub fn arguments(&self, line: &str) -> Vec<String> {
        let options = OPTIONS.iter().map(|option| (*option).to_owned());
        let rest = ["--".to_owned(), self.host.clone(), line.to_owned()];
        options.chain(self.args.iter().cloned()).chain(rest).collect()
    }

    /// Returns the command that runs a program there, without a login shell.
    #[must_use]
    pub fn exec(&self, program: &str, words: &[&str]) -> ClientCommand {
        ClientCommand::new(CLIENT, self.arguments(&line(program, words, false)))
    }

    /// Returns the key that is wrong, and why.
    #[must_use]
    pub fn problem(&self) -> Option<(&'static str, &'static str)> {
        let host = host_problem(&self.host).map(|problem| ("host", problem));
        let has_nul = || self.args.iter().any(|arg| arg.contains('\0'));
        host.or_else(|| has_nul().then_some(("args", "must not contain a NUL")))
    }

    /// Returns why the client failed, as a word, and what to do. Other texts are `client`.
    #[must_use]
    pub fn reason_of(&self, said: &str, check: &str) -> (&'static str, String) {
        let host = &self.host;
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
                format!("check the name of the host and the network, then {check}"),
            ),
        ];
        let found = known.into_iter().find(|(_, texts, _)| texts.iter().any(|text| said.contains(text)));
        found.map_or_else(|| ("client", check.to_owned()), |(reason, _, advice)| (reason, advice))
    }
}

/// Returns why ssh cannot take this text as a host.
fn host_problem(host: &str) -> Option<&'static str> {
    match host {
        "" => Some("must not be empty"),
        host if host.starts_with('-') => Some("must not begin with `-`"),
        host if host.chars().any(|c| c.is_whitespace() || c.is_control()) => {
            Some("must not contain blanks or control characters")
        }
        _ => None,
    }
}

/// Returns where `placement prepare` puts a runtime, relative to the home there. `sha256` has the
/// hash of the file in hexadecimal digits.
#[must_use]
pub fn prepared_program(version: &str, sha256: &str) -> String {
    let short = sha256.get(..16).unwrap_or(sha256);
    format!("~/.local/share/subagent/runtime/{version}-{short}/subagent-runtime")
}

/// Returns the path of another program in the folder of a program there.
#[must_use]
pub fn program_beside(program: &str, name: &str) -> String {
    program.rsplit_once('/').map_or_else(|| name.to_owned(), |(folder, _)| format!("{folder}/{name}"))
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

#[cfg(test)]
mod tests {
    use super::super::client::{ClientFailure, MAX_SAID_BYTES, cleaned};
    use super::super::{Engine, Placement};
    use super::*;
    use crate::error::Code;

    fn placement() -> Placement {
        let host = RemoteHost { host: "me@gpu1".into(), args: vec!["-p".into(), "2222".into()] };
        Placement {
            name: "gpu1".into(),
            cwd: "~/src/a thing".into(),
            program: None,
            lease_ms: None,
            git: None,
            engine: Engine::Ssh(host),
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
        let host = RemoteHost { host: "me@gpu1".into(), args: vec!["-p".into(), "2222".into()] };
        let arguments = host.arguments("line");
        assert_eq!(arguments[arguments.len() - 5..], ["-p", "2222", "--", "me@gpu1", "line"]);
    }

    #[test]
    fn a_host_is_no_option_and_a_folder_no_relative_path() {
        placement().check().unwrap();
        for host in ["", "-oProxyCommand=x", "a b", "a\nb"] {
            let engine = Engine::Ssh(RemoteHost { host: host.into(), args: Vec::new() });
            let error = Placement { engine, ..placement() }.check().unwrap_err();
            assert_eq!(error.details["field"], "placement.host");
        }
        for cwd in ["", "src", "~other/x", "/a\0"] {
            let error = Placement { cwd: cwd.into(), ..placement() }.check().unwrap_err();
            assert_eq!(error.details["field"], "placement.cwd");
        }
    }

    #[test]
    fn each_exit_has_a_code_and_advice() {
        let error = |failure: ClientFailure<'_>| failure.error(&placement(), "~/x");
        let missing = error(ClientFailure::Exited(Some(127), b"sh: not found"));
        assert_eq!(missing.code, Code::PlacementNotPrepared);
        assert!(missing.details["recommendedAction"].as_str().unwrap().contains("prepare gpu1"));
        for (said, reason) in [
            ("Host key verification failed.\r\n", "hostKey"),
            ("me@gpu1: Permission denied (publickey).\r\n", "login"),
            ("ssh: Could not resolve hostname gpu1: x\r\n", "network"),
            ("\x1b[31mkex_exchange\x07", "client"),
        ] {
            let error = error(ClientFailure::Exited(Some(255), said.as_bytes()));
            assert_eq!((error.code, &error.details["reason"]), (Code::PlacementUnreachable, &reason.into()));
            assert!(!error.message.chars().any(char::is_control), "{error:?}");
        }
        assert_eq!(error(ClientFailure::Exited(Some(2), b"")).code, Code::PlacementNotPrepared);
        assert_eq!(error(ClientFailure::TimedOut(b"")).code, Code::PlacementUnreachable);
        assert_eq!(cleaned(&[b'x'; 5000]).len(), MAX_SAID_BYTES);
    }
}
