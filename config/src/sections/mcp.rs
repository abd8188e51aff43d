//! MCP servers for an agent's sessions, in the format of `.mcp.json`. Pure.
//!
//! `Debug` and errors contain only names: commands, URLs and values may contain secrets.

use std::collections::BTreeMap;
use std::fmt;

use crate::check::{CheckResult, refuse, required_string};
use crate::section::Section;

/// The transport of a server. Texts may contain `${NAME}` and `${NAME:-default}`.
#[derive(Clone, PartialEq, Eq)]
pub enum McpServer {
    /// A local program that the agent starts.
    Stdio {
        /// The program to start.
        command: String,
        /// Arguments of the program.
        args: Vec<String>,
        /// Environment variables of the program.
        env: BTreeMap<String, String>,
    },
    /// A server that is already running.
    Remote {
        /// The transport: `http` or `sse`.
        transport: &'static str,
        /// URL of the server.
        url: String,
        /// Headers of every request.
        headers: BTreeMap<String, String>,
    },
}

impl fmt::Debug for McpServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (kind, names) = match self {
            Self::Stdio { env, .. } => ("stdio", env),
            Self::Remote { transport, headers, .. } => (*transport, headers),
        };
        write!(f, "{kind} {:?}", names.keys().collect::<Vec<_>>())
    }
}

impl McpServer {
    /// Returns the server with all variables expanded.
    ///
    /// # Errors
    /// The name of an unset variable.
    pub fn expanded(&self, lookup: &dyn Fn(&str) -> Option<String>) -> Result<Self, String> {
        let one = |text: &String| expand(text, lookup);
        let all = |map: &BTreeMap<String, String>| {
            map.iter().map(|(name, value)| Ok((name.clone(), one(value)?))).collect::<Result<_, String>>()
        };
        Ok(match self {
            Self::Stdio { command, args, env } => Self::Stdio {
                command: one(command)?,
                args: args.iter().map(one).collect::<Result<_, _>>()?,
                env: all(env)?,
            },
            Self::Remote { transport, url, headers } => {
                Self::Remote { transport, url: one(url)?, headers: all(headers)? }
            }
        })
    }
}

/// Reads the key `mcpServers` of a launcher, or of the document.
pub(crate) fn servers(holder: &Section<'_>) -> CheckResult<BTreeMap<String, McpServer>> {
    const KEY: &str = "mcpServers";
    holder.named(KEY, |name, value| server(&Section::of(value, holder.field(&format!("{KEY}.{name}")))?))
}

fn server(server: &Section<'_>) -> CheckResult<McpServer> {
    let text = |key: &str| {
        let place = || server.place(key);
        match server.string(key)? {
            Some(text) if !text.trim().is_empty() && !text.contains('\0') => Ok(text.to_owned()),
            Some(_) => refuse(place(), "must not be blank or contain a NUL character"),
            None => refuse(place(), "is missing"),
        }
    };
    let transport = match server.string("type")? {
        None | Some("stdio") => {
            let (args, env) = (server.texts("args")?, server.env()?);
            return Ok(McpServer::Stdio { command: text("command")?, args, env });
        }
        Some("http") => "http",
        Some("sse") => "sse",
        Some(_) => return refuse(server.place("type"), "must be stdio, http or sse"),
    };
    Ok(McpServer::Remote { transport, url: text("url")?, headers: headers(server)? })
}

fn headers(server: &Section<'_>) -> CheckResult<BTreeMap<String, String>> {
    let mut headers = BTreeMap::new();
    for (name, value, place) in server.entries("headers")? {
        let value = required_string(value, || place.clone())?;
        if name.is_empty() || [name, value].iter().any(|text| text.contains(['\r', '\n', '\0'])) {
            return refuse(place, "is not a header of one line");
        }
        headers.insert(name.to_owned(), value.to_owned());
    }
    Ok(headers)
}

/// Expands `${NAME}` and `${NAME:-default}`. Other text is unchanged.
pub(crate) fn expand(text: &str, lookup: &dyn Fn(&str) -> Option<String>) -> Result<String, String> {
    let mut expanded = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("${") {
        expanded.push_str(before);
        let Some((inner, behind)) = after.split_once('}') else {
            expanded.push_str("${");
            rest = after;
            continue;
        };
        let (name, default) = inner.split_once(":-").map_or((inner, None), |(name, text)| (name, Some(text)));
        let is_name =
            !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        if !is_name {
            expanded.push_str("${");
            rest = after;
            continue;
        }
        match lookup(name)
            .filter(|value| !value.is_empty() || default.is_none())
            .or_else(|| default.map(str::to_owned))
        {
            Some(value) => expanded.push_str(&value),
            None => return Err(name.to_owned()),
        }
        rest = behind;
    }
    expanded.push_str(rest);
    Ok(expanded)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::error::FieldPath;

    fn checked(server: Value) -> CheckResult<BTreeMap<String, McpServer>> {
        let holder = json!({"mcpServers": {"a": server}});
        servers(&Section::new(holder.as_object().unwrap(), "launchers.x"))
    }

    #[test]
    fn servers_have_the_usual_shape() {
        let stdio = checked(json!({"command": "c", "args": ["-x"], "env": {"K": "v"}, "later": 1})).unwrap();
        assert_eq!(format!("{stdio:?}"), r#"{"a": stdio ["K"]}"#);
        let http = checked(json!({"type": "http", "url": "https://x", "headers": {"A": "b"}})).unwrap();
        assert_eq!(format!("{http:?}"), r#"{"a": http ["A"]}"#);
    }

    #[test]
    fn what_is_no_server_is_located() {
        for (server, place) in [
            (json!("x"), "launchers.x.mcpServers.a"),
            (json!({}), "launchers.x.mcpServers.a.command"),
            (json!({"command": " "}), "launchers.x.mcpServers.a.command"),
            (json!({"type": "pigeon", "url": "x"}), "launchers.x.mcpServers.a.type"),
            (json!({"type": "sse"}), "launchers.x.mcpServers.a.url"),
        ] {
            assert_eq!(checked(server).unwrap_err().place, FieldPath::Field(place.to_owned()));
        }
        let place =
            checked(json!({"type": "http", "url": "x", "headers": {"A": "b\r\nC: d"}})).unwrap_err().place;
        let field = "launchers.x.mcpServers.a.headers".to_owned();
        assert_eq!(place, FieldPath::Entry { field, key: "A".to_owned() });
        assert!(checked(json!({"command": "x", "env": {"A": 1}})).is_err());
    }

    #[test]
    fn variables_are_replaced_and_what_is_none_stays() {
        let lookup = |name: &str| match name {
            "A" => Some("1".to_owned()),
            "EMPTY" => Some(String::new()),
            _ => None,
        };
        for (text, expected) in [
            ("${A}-${A}", Ok("1-1")),
            ("${B:-x y}", Ok("x y")),
            ("${EMPTY}${EMPTY:-d}", Ok("d")),
            ("$A ${ ${} ${a b} ${A", Ok("$A ${ ${} ${a b} ${A")),
            ("x${B}", Err("B")),
        ] {
            assert_eq!(expand(text, &lookup), expected.map(str::to_owned).map_err(str::to_owned), "{text}");
        }
    }
}
