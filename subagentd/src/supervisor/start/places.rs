//! Validates the MCP servers and additional folders of a worker's sessions. The agent validates the
//! rest.

use std::collections::BTreeSet;
use std::path::PathBuf;

use subagent_protocol::mcp::McpServers;
use subagent_protocol::{Code, Error, Result};

/// Maximum number of MCP servers, and of folders, of a worker.
const MOST: usize = 256;
/// Maximum length of a server's name, in bytes.
const MAX_NAME_BYTES: usize = 1024;
/// Maximum size of all servers of a worker as JSON, in bytes.
const MAX_BYTES: usize = 4 * 1024 * 1024;

/// Validates MCP servers.
///
/// # Errors
/// `INVALID_INPUT`. The message contains no values of the servers, which may be secrets.
pub(crate) fn check_servers(servers: &McpServers) -> Result<()> {
    let refused = |message: String| Err(Error::new(Code::InvalidInput, message).with("field", "mcpServers"));
    if servers.0.len() > MOST {
        return refused(format!("a worker has at most {MOST} MCP servers, not {}", servers.0.len()));
    }
    let names = servers.names();
    if names.iter().any(|name| name.trim().is_empty() || name.len() > MAX_NAME_BYTES) {
        return refused(format!("each MCP server is an object with a name of 1 to {MAX_NAME_BYTES} bytes"));
    }
    if names.iter().collect::<BTreeSet<_>>().len() < names.len() {
        return refused("two MCP servers have the same name".to_owned());
    }
    let bytes = serde_json::to_vec(servers).map_or(usize::MAX, |text| text.len());
    if bytes > MAX_BYTES {
        return refused(format!("all MCP servers together have at most {MAX_BYTES} bytes, not {bytes}"));
    }
    Ok(())
}

/// Checks that the folders exist.
///
/// # Errors
/// `INVALID_ARGUMENT{additionalDirectory}`. `INVALID_INPUT` for too many folders.
pub(crate) fn check_folders(folders: &[PathBuf]) -> Result<()> {
    if folders.len() > MOST {
        let message = format!("a worker has at most {MOST} additional directories, not {}", folders.len());
        return Err(Error::new(Code::InvalidInput, message).with("field", "additionalDirectories"));
    }
    for folder in folders {
        if !folder.is_absolute() || !folder.is_dir() {
            let message = format!("{} is not the absolute path of an existing folder", folder.display());
            let shown = folder.display().to_string();
            return Err(Error::new(Code::InvalidArgument, message).with("additionalDirectory", shown));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn servers_have_names_of_their_own_and_bounds() {
        let check = |servers: Vec<Value>| check_servers(&McpServers(servers));
        let server = |name: &str| json!({"name": name, "command": "secret"});
        check(vec![]).unwrap();
        check((0..MOST).map(|n| server(&n.to_string())).collect()).unwrap();
        for bad in [
            (0..=MOST).map(|n| server(&n.to_string())).collect(),
            vec![json!("secret")],
            vec![json!({"command": "secret"})],
            vec![server(" ")],
            vec![server(&"x".repeat(MAX_NAME_BYTES + 1))],
            vec![server("a"), server("a")],
            vec![json!({"name": "a", "command": "secret".repeat(MAX_BYTES / 6)})],
        ] {
            let error = check(bad).unwrap_err();
            assert_eq!(error.code, Code::InvalidInput);
            assert!(!format!("{error:?}").contains("secret"), "{error:?}");
        }
    }

    #[test]
    fn folders_are_there_and_not_too_many() {
        check_folders(&vec![PathBuf::from("/"); MOST]).unwrap();
        let code = |folders: &[PathBuf]| check_folders(folders).unwrap_err().code;
        assert_eq!(code(&vec![PathBuf::from("/"); MOST + 1]), Code::InvalidInput);
        assert_eq!(code(&["tmp".into()]), Code::InvalidArgument);
        assert_eq!(code(&["/dev/null".into()]), Code::InvalidArgument);
    }
}
