//! The hooks of one named file: a definition (`*.md`) or a config file.

use std::path::{Path, PathBuf};

use subagent_protocol::{Code, Error, Result};

use super::FileHooks;
use crate::agents::{self, DefinitionSource, Reading};
use crate::environment::Environment;
use crate::{file, paths, regular};

/// Resolves a typed path as trust stores it: absolute, and without symbolic links as far as it exists.
#[must_use]
pub fn resolved(typed: &Path, env: &Environment) -> PathBuf {
    paths::resolve(typed, env)
}

/// Returns the path and the hooks of a file. The hash covers the bytes that the hooks were parsed from.
///
/// # Errors
/// `INVALID_ARGUMENT{file}` for an unreadable file or one without hooks, `CONFIG_PARSE_ERROR`,
/// `AGENT_NOT_USABLE`.
pub fn of_file(typed: &Path, env: &Environment) -> Result<(PathBuf, FileHooks)> {
    let path = resolved(typed, env);
    let hooks = match path.extension().is_some_and(|ending| ending == "md") {
        true => of_definition(&path)?,
        false => file::load_hooks(&path)?,
    };
    if hooks.entries.is_empty() {
        let message = format!("{} has no hooks; there is nothing to trust", path.display());
        return Err(Error::new(Code::InvalidArgument, message)
            .with("file", path.display().to_string())
            .recommend("`subagent hook list` shows the files with hooks that apply here"));
    }
    Ok((path, hooks))
}

fn of_definition(path: &Path) -> Result<FileHooks> {
    let wrong = |code, problem: String| {
        Error::new(code, format!("{}: {problem}", path.display())).with("file", path.display().to_string())
    };
    let bytes = regular::read(path)
        .map_err(|error| wrong(Code::InvalidArgument, format!("cannot be read: {error}")))?;
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    match agents::read(&bytes, &stem, DefinitionSource::Project(path.to_owned())) {
        Ok(Reading::Definition(definition)) => Ok(definition.hooks),
        Ok(Reading::Other(problem)) | Err(problem) => {
            Err(wrong(Code::AgentNotUsable, problem.to_string()).with("reason", problem.message.as_str()))
        }
    }
}
