//! Parses what an agent asks of its client: files and terminals.
//!
//! Pure. Reads the parameters only; [`crate::client`] checks whether a path leaves the workspace.

use std::path::Path;

use serde::Deserialize;
use serde_json::value::RawValue;

/// Maximum output kept per terminal in bytes, and the default when the agent names no limit.
pub(crate) const MAX_OUTPUT_BYTES: usize = 1024 * 1024;
/// `PATH_MAX` of the system, which also limits the agent.
const MAX_PATH_BYTES: usize = 4096;
/// A command without arguments that contains one of these is a line for the shell.
const SHELL_CHARACTERS: &str = " \t\n|&;<>()$`\\\"'*?[]#~{}!";

/// A file or terminal request of the agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ClientOperation {
    /// The ACP method `fs/read_text_file`.
    Read {
        /// Absolute path of the file.
        path: String,
        /// First line, counted from 1.
        line: Option<u64>,
        /// Maximum number of lines.
        limit: Option<u64>,
    },
    /// The ACP method `fs/write_text_file`.
    Write {
        /// Absolute path of the file.
        path: String,
        /// The complete new text of the file.
        content: String,
    },
    /// The ACP method `terminal/create`.
    Create(TerminalCommand),
    /// The ACP method `terminal/output`.
    Output { terminal: String },
    /// The ACP method `terminal/wait_for_exit`.
    WaitForExit { terminal: String },
    /// The ACP method `terminal/kill`.
    Kill { terminal: String },
    /// The ACP method `terminal/release`.
    Release { terminal: String },
}

/// The next step of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ClientOperationStep {
    /// Find out where the path leads, without carrying anything out.
    Find(OperationSubject),
    /// Carry it out. With a path, only if the request still leads to it.
    Do(ClientOperation, Option<String>),
}

/// What a request refers to, before it is carried out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum OperationSubject {
    /// A file to read.
    File(String),
    /// A file to write. `true`: also return its present text, if that is short enough to show.
    Target(String, bool),
    /// The working directory of a command; `None` is the agent's own.
    Folder(Option<String>),
}

/// A command to run in a terminal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TerminalCommand {
    pub(crate) program: String,
    pub(crate) args: Vec<String>,
    /// Variables set in addition to those of the agent.
    pub(crate) env: Vec<(String, String)>,
    /// Absolute working directory; `None` is the agent's own.
    pub(crate) cwd: Option<String>,
    /// Maximum output kept, in bytes.
    pub(crate) output_bytes: usize,
}

#[derive(Deserialize)]
struct ReadParams {
    path: String,
    #[serde(default)]
    line: Option<u64>,
    #[serde(default)]
    limit: Option<u64>,
}

#[derive(Deserialize)]
struct WriteParams {
    path: String,
    content: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct CreateParams {
    command: String,
    #[serde(default)]
    args: Option<Vec<String>>,
    #[serde(default)]
    env: Option<Vec<Variable>>,
    #[serde(default)]
    cwd: Option<String>,
    #[serde(default)]
    output_byte_limit: Option<u64>,
}

#[derive(Deserialize)]
struct Variable {
    name: String,
    value: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct TerminalParams {
    terminal_id: String,
}

/// Parses the parameters of one of the client's methods.
///
/// # Errors
///
/// Returns a sentence that says what is wrong with them.
pub(crate) fn parse(method: &str, params: Option<&RawValue>) -> Result<ClientOperation, String> {
    let terminal = || read::<TerminalParams>(params).map(|params| params.terminal_id);
    Ok(match method {
        "fs/read_text_file" => {
            let ReadParams { path, line, limit } = read(params)?;
            ClientOperation::Read { path: absolute("path", path)?, line, limit }
        }
        "fs/write_text_file" => {
            let WriteParams { path, content } = read(params)?;
            ClientOperation::Write { path: absolute("path", path)?, content }
        }
        "terminal/create" => ClientOperation::Create(command(read(params)?)?),
        "terminal/output" => ClientOperation::Output { terminal: terminal()? },
        "terminal/wait_for_exit" => ClientOperation::WaitForExit { terminal: terminal()? },
        "terminal/kill" => ClientOperation::Kill { terminal: terminal()? },
        "terminal/release" => ClientOperation::Release { terminal: terminal()? },
        _ => return Err("no such method".to_owned()),
    })
}

/// Returns the session that a request names.
pub(crate) fn session(params: &RawValue) -> Option<String> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct SessionParams {
        session_id: String,
    }
    read::<SessionParams>(Some(params)).ok().map(|params| params.session_id)
}

/// Unlike elsewhere, half of a surrogate pair is not repaired: the file would get another text.
fn read<'a, T: Deserialize<'a>>(params: Option<&'a RawValue>) -> Result<T, String> {
    serde_json::from_str(params.map_or("null", RawValue::get)).map_err(|error| error.to_string())
}

fn absolute(name: &str, path: String) -> Result<String, String> {
    if path.len() > MAX_PATH_BYTES {
        return Err(format!("`{name}` is longer than {MAX_PATH_BYTES} bytes"));
    }
    let path = without_nul(name, path)?;
    if Path::new(&path).is_absolute() { Ok(path) } else { Err(format!("`{name}` must be absolute: {path}")) }
}

fn without_nul(name: &str, text: String) -> Result<String, String> {
    if text.contains('\0') { Err(format!("`{name}` has a NUL byte in it")) } else { Ok(text) }
}

fn command(params: CreateParams) -> Result<TerminalCommand, String> {
    let program = without_nul("command", params.command)?;
    if program.trim().is_empty() {
        return Err("`command` is empty".to_owned());
    }
    let args = params.args.unwrap_or_default().into_iter().map(|arg| without_nul("args", arg));
    let args = args.collect::<Result<Vec<_>, _>>()?;
    let env = params.env.unwrap_or_default().into_iter().map(|variable| {
        let name = without_nul("env", variable.name)?;
        if name.is_empty() || name.contains('=') {
            return Err(format!("`env` has a variable that cannot be named so: {name:?}"));
        }
        Ok((name, without_nul("env", variable.value)?))
    });
    let env = env.collect::<Result<Vec<_>, _>>()?;
    let cwd = params.cwd.map(|cwd| absolute("cwd", cwd)).transpose()?;
    let asked = params.output_byte_limit.and_then(|limit| usize::try_from(limit).ok());
    let output_bytes = asked.unwrap_or(MAX_OUTPUT_BYTES).min(MAX_OUTPUT_BYTES);
    let (program, args) = words(program, args);
    Ok(TerminalCommand { program, args, env, cwd, output_bytes })
}

/// Splits a command line: agents send a program with arguments, or a whole line as `command`.
fn words(program: String, args: Vec<String>) -> (String, Vec<String>) {
    if args.is_empty() && program.contains(|character| SHELL_CHARACTERS.contains(character)) {
        ("/bin/sh".to_owned(), vec!["-c".to_owned(), program])
    } else {
        (program, args)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::{Value, json};

    fn parsed(method: &str, params: &Value) -> Result<ClientOperation, String> {
        let raw = RawValue::from_string(params.to_string()).unwrap();
        parse(method, Some(&raw))
    }

    fn created(params: &Value) -> TerminalCommand {
        match parsed("terminal/create", params) {
            Ok(ClientOperation::Create(command)) => command,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn requests_are_read_as_agents_write_them() {
        let read = json!({"sessionId": "s", "path": "/w/a", "line": 2, "limit": null, "_meta": {"x": 1}});
        assert_eq!(
            parsed("fs/read_text_file", &read),
            Ok(ClientOperation::Read { path: "/w/a".to_owned(), line: Some(2), limit: None })
        );
        let write = json!({"path": "/w/a", "content": ""});
        assert_eq!(
            parsed("fs/write_text_file", &write),
            Ok(ClientOperation::Write { path: "/w/a".to_owned(), content: String::new() })
        );
        let kill = json!({"sessionId": "s", "terminalId": "t"});
        assert_eq!(parsed("terminal/kill", &kill), Ok(ClientOperation::Kill { terminal: "t".to_owned() }));
    }

    #[test]
    fn a_command_without_arguments_may_be_a_line_for_the_shell() {
        let plain = created(&json!({"command": "npm", "args": null, "env": null, "outputByteLimit": null}));
        assert_eq!((plain.program.as_str(), plain.args.len()), ("npm", 0));
        assert_eq!(plain.output_bytes, MAX_OUTPUT_BYTES);
        let line = created(&json!({"command": "npm test && echo $HOME"}));
        assert_eq!(line.program, "/bin/sh");
        assert_eq!(line.args, ["-c", "npm test && echo $HOME"]);
        let words = created(&json!({"command": "a program", "args": ["-x"], "outputByteLimit": 7}));
        assert_eq!(
            (words.program.as_str(), words.args, words.output_bytes),
            ("a program", vec!["-x".to_owned()], 7)
        );
        let huge = created(&json!({"command": "yes", "outputByteLimit": u64::MAX}));
        assert_eq!(huge.output_bytes, MAX_OUTPUT_BYTES);
    }

    #[test]
    fn errors_name_the_invalid_parameter() {
        for (method, params, what) in [
            ("fs/read_text_file", json!(null), "invalid type: null"),
            ("fs/read_text_file", json!({}), "missing field `path`"),
            ("fs/read_text_file", json!({"path": "a"}), "`path` must be absolute: a"),
            ("fs/read_text_file", json!({"path": "/a\u{0}b"}), "`path` has a NUL byte"),
            ("fs/read_text_file", json!({"path": format!("/{}", "a/".repeat(3000))}), "longer than 4096"),
            ("fs/read_text_file", json!({"path": "/a", "line": -1}), "invalid value"),
            ("fs/write_text_file", json!({"path": "/a"}), "missing field `content`"),
            ("terminal/create", json!({"command": "  "}), "`command` is empty"),
            ("terminal/create", json!({"command": "a\u{0}"}), "`command` has a NUL byte"),
            ("terminal/create", json!({"command": "a", "args": ["\u{0}"]}), "`args` has a NUL byte"),
            ("terminal/create", json!({"command": "a", "env": [{"name": "A=B", "value": ""}]}), "\"A=B\""),
            ("terminal/create", json!({"command": "a", "env": [{"name": "", "value": ""}]}), "\"\""),
            (
                "terminal/create",
                json!({"command": "a", "env": [{"name": "A", "value": "\u{0}"}]}),
                "`env` has a NUL",
            ),
            ("terminal/create", json!({"command": "a", "cwd": "b"}), "`cwd` must be absolute"),
            ("terminal/output", json!({"terminalId": 7}), "invalid type"),
        ] {
            let error = parsed(method, &params).unwrap_err();
            assert!(error.contains(what), "{params}: {error}");
        }
        let half = RawValue::from_string(r#"{"path":"/a","content":"\ud83d"}"#.to_owned()).unwrap();
        assert!(parse("fs/write_text_file", Some(&half)).is_err());
        assert!(parse("fs/read_text_file", None).is_err());
    }

    proptest! {
        #[test]
        fn accepted_parameters_are_valid_for_the_system(command in ".{0,20}", arg in ".{0,9}", name in ".{0,9}") {
            let params = json!({"command": command, "args": [arg], "env": [{"name": name, "value": arg}]});
            if let Ok(ClientOperation::Create(taken)) = parsed("terminal/create", &params) {
                prop_assert!(!taken.program.is_empty() && !taken.program.contains('\0') && !arg.contains('\0'));
                prop_assert!(!name.is_empty() && !name.contains(['=', '\0']));
            }
        }
    }
}
