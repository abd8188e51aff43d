//! Files that are put where other programs look for them: completions of shells, the skill for managers.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use subagent_config::Environment;
use subagent_protocol::Code;

use crate::completion::Shell;
use crate::context::path_value;
use crate::failure::{Failure, Result};
use crate::prompt::SKILL;

/// The folder of the skill.
const SKILL_NAME: &str = "subagent-manager";

/// Programs that take skills, with their folders in the home.
const MANAGERS: [(&str, &str); 5] = [
    ("Claude Code", ".claude"),
    ("Codex", ".codex"),
    ("Gemini CLI", ".gemini"),
    ("GitHub Copilot", ".copilot"),
    ("OpenCode", ".config/opencode"),
];

/// A file that may be put somewhere.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct InstallTarget {
    /// What it is for.
    pub(crate) what: String,
    pub(crate) path: PathBuf,
    pub(crate) content: String,
}

/// What is at the place of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum There {
    Nothing,
    /// A file with the same content.
    Same,
    /// Another file, or one that cannot be read.
    Other,
}

impl InstallTarget {
    pub(crate) fn there(&self) -> There {
        match fs::read(&self.path) {
            Ok(bytes) if bytes == self.content.as_bytes() => There::Same,
            Err(error) if error.kind() == io::ErrorKind::NotFound && !self.path.is_symlink() => {
                There::Nothing
            }
            _ => There::Other,
        }
    }

    /// Writes it, folders included.
    ///
    /// # Errors
    /// `CONFIG_UNWRITABLE{path,error}`.
    pub(crate) fn write(&self) -> Result<()> {
        let folder = self.path.parent().unwrap_or(Path::new("/"));
        fs::create_dir_all(folder).and_then(|()| fs::write(&self.path, &self.content)).map_err(|error| {
            Failure::new(Code::ConfigUnwritable, format!("cannot write {}: {error}", self.path.display()))
                .with("path", path_value(&self.path))
                .with("error", error.to_string())
        })
    }
}

/// The shell that the caller logs in with, if there are completions for it.
pub(crate) fn login_shell(env: &Environment) -> Option<Shell> {
    let shell = env.var("SHELL")?.to_str()?;
    <Shell as clap::ValueEnum>::from_str(shell.rsplit('/').next()?, false).ok()
}

/// Where a shell looks for the completions of a user.
pub(crate) fn completions(shell: Shell, content: String, env: &Environment) -> Option<InstallTarget> {
    let folder = |name: &str| env.var(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let below = |rest: &str| env.home.as_ref().map(|home| home.join(rest));
    let (what, path) = match shell {
        Shell::Bash => {
            let data = || folder("XDG_DATA_HOME").or_else(|| below(".local/share"));
            let own = || Some(data()?.join("bash-completion"));
            let base = folder("BASH_COMPLETION_USER_DIR").or_else(own)?;
            ("bash", base.join("completions/subagent"))
        }
        Shell::Zsh => {
            let home = folder("ZDOTDIR").or_else(|| env.home.clone())?;
            ("zsh", home.join(".zfunc/_subagent"))
        }
        Shell::Fish => {
            let base = folder("XDG_CONFIG_HOME").or_else(|| below(".config"))?;
            ("fish", base.join("fish/completions/subagent.fish"))
        }
    };
    Some(InstallTarget { what: format!("completions for {what}"), path, content })
}

/// What remains to be typed after completions were put there.
pub(crate) fn after(shell: Shell) -> &'static str {
    match shell {
        Shell::Bash => "start a new shell; the package bash-completion loads it",
        Shell::Zsh => "put `fpath+=(~/.zfunc)` before `compinit` into ~/.zshrc, then start a new shell",
        Shell::Fish => "start a new shell",
    }
}

/// The skill, for each manager whose folder is in the home.
pub(crate) fn skills(env: &Environment) -> Vec<InstallTarget> {
    let Some(home) = &env.home else { return Vec::new() };
    let found = MANAGERS.iter().filter(|(_, folder)| home.join(folder).is_dir());
    let target = |(name, folder): &(&str, &str)| InstallTarget {
        what: format!("the skill {SKILL_NAME} for {name}"),
        path: home.join(folder).join("skills").join(SKILL_NAME).join("SKILL.md"),
        content: SKILL.to_owned(),
    };
    found.map(target).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_shell_has_its_folder() {
        let env = |vars: &[(&str, &str)]| {
            let home = [("HOME", "/h")];
            let vars = home.iter().chain(vars).map(|(name, value)| ((*name).into(), (*value).into()));
            Environment::new(vars.collect::<Vec<_>>(), "/")
        };
        let path = |shell, vars: &[(&str, &str)]| completions(shell, String::new(), &env(vars)).unwrap().path;
        let bash = "/h/.local/share/bash-completion/completions/subagent";
        assert_eq!(path(Shell::Bash, &[]), Path::new(bash));
        assert_eq!(
            path(Shell::Bash, &[("XDG_DATA_HOME", "/d")]),
            Path::new("/d/bash-completion/completions/subagent")
        );
        assert_eq!(path(Shell::Zsh, &[]), Path::new("/h/.zfunc/_subagent"));
        assert_eq!(path(Shell::Fish, &[]), Path::new("/h/.config/fish/completions/subagent.fish"));
        assert_eq!(login_shell(&env(&[("SHELL", "/usr/bin/zsh")])), Some(Shell::Zsh));
        assert_eq!(login_shell(&env(&[("SHELL", "/bin/tcsh")])), None);
    }
}
