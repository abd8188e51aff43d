//! Skills that a definition names: folders with a `SKILL.md`, which goes into the prompt as it is.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use super::{Definition, MAX_BYTES};
use crate::environment::Environment;
use crate::regular;

/// A skill as it was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Skill {
    /// The name in the definition.
    pub name: String,
    /// Its folder.
    pub folder: PathBuf,
    /// The text of its `SKILL.md`.
    pub text: String,
}

/// Reads the skills of a definition, each from the first of these places that has it: beside the definition's file if the
/// name is a path (`./x`, `../x`, `/x`, `~/x`), else `.agents/skills/` and `.claude/skills/` of the workspace, then of the
/// home (there `.config/subagent/skills/` first).
///
/// # Errors
/// Which one there is not, or why it cannot be read.
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
    // `..` is no name of a folder in there.
    folders.into_iter().filter(|_| name != "..").map(|folder| folder.join(name)).collect()
}
