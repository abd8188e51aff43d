//! The skills of a definition: folders with a `SKILL.md`, which becomes part of the prompt unchanged.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use super::{Definition, MAX_BYTES};
use crate::environment::Environment;
use crate::regular;

/// A skill that was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Skill {
    /// The name in the definition.
    pub name: String,
    /// The folder of the skill.
    pub folder: PathBuf,
    /// The content of its `SKILL.md`.
    pub text: String,
}

/// Reads the skills of a definition. A name that is a path (`./x`, `../x`, `/x`, `~/x`) is relative to the
/// definition's file. Another name is searched in `.agents/skills/` and `.claude/skills/` of the workspace,
/// then in `.config/subagent/skills/` and the same two folders of the home.
///
/// # Errors
/// The name of the missing skill, or the reason why it is unreadable.
pub fn load(definition: &Definition, workspace: &Path, env: &Environment) -> Result<Vec<Skill>, String> {
    definition.skills.iter().map(|name| one(name, definition, workspace, env)).collect()
}

fn one(name: &str, definition: &Definition, workspace: &Path, env: &Environment) -> Result<Skill, String> {
    let folders = folders(name, definition, workspace, env);
    for folder in &folders {
        let file = folder.join("SKILL.md");
        let mut bytes = Vec::new();
        let most = u64::try_from(MAX_BYTES).unwrap_or(u64::MAX);
        let read = regular::open_to_read(&file)
            .and_then(|opened| opened.take(most.saturating_add(1)).read_to_end(&mut bytes));
        match read {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
            Err(error) => {
                return Err(format!("the skill `{name}` cannot be read: {}: {error}", file.display()));
            }
            Ok(_) if bytes.len() > MAX_BYTES => {
                return Err(format!(
                    "the skill `{name}` is larger than {MAX_BYTES} bytes: {}",
                    file.display()
                ));
            }
            Ok(_) => {
                let text = String::from_utf8(bytes)
                    .map_err(|_| format!("the skill `{name}` is not UTF-8 text: {}", file.display()))?;
                let text = text.trim_start_matches('\u{feff}').trim().to_owned();
                return Ok(Skill { name: name.to_owned(), folder: folder.clone(), text });
            }
        }
    }
    let looked: Vec<String> = folders.iter().map(|folder| folder.display().to_string()).collect();
    Err(format!("there is no skill `{name}`; no SKILL.md in {}", looked.join(", ")))
}

fn folders(name: &str, definition: &Definition, workspace: &Path, env: &Environment) -> Vec<PathBuf> {
    if name.contains('/') {
        let beside = definition.source.path().and_then(|path| path.parent()).unwrap_or(workspace);
        return vec![beside.join(crate::paths::expand_home(Path::new(name), env))];
    }
    let mut folders = vec![workspace.join(".agents/skills"), workspace.join(".claude/skills")];
    if let Some(home) = &env.home {
        folders.extend(
            [".config/subagent/skills", ".agents/skills", ".claude/skills"].map(|path| home.join(path)),
        );
    }
    // `..` would leave the folder.
    folders.into_iter().filter(|_| name != "..").map(|folder| folder.join(name)).collect()
}
