//! The git worktree of a new worker, if flags, definition, launcher or `defaults` request one. Pure.

use std::path::PathBuf;

use subagent_protocol::Result;
use subagent_protocol::api::{COPY_LIMIT, CopyMode, NewWorktree, WorktreeChoice};
use subagent_protocol::sandbox::{FileSystem, SandboxSpec};
use subagent_protocol::worktree::Setup;

use super::wire::argument;
use crate::environment::Environment;
use crate::model::{Config, Launcher};
use crate::paths;
use crate::worktrees::{Isolation, Worktrees};

/// Returns the worktree of a new worker, if it gets one. Precedence: flag, definition, launcher,
/// `defaults`.
///
/// # Errors
/// `INVALID_ARGUMENT` without a folder for worktrees: neither `worktrees.dir` nor a home.
pub fn of(
    chosen: Option<WorktreeChoice>,
    definition: Option<Isolation>,
    launcher: &Launcher,
    config: &Config,
    env: &Environment,
) -> Result<Option<NewWorktree>> {
    let configured = definition.or(launcher.isolation).or(config.defaults.isolation).unwrap_or_default();
    if chosen.is_none() && configured == Isolation::None {
        return Ok(None);
    }
    let copies = chosen.is_none() && configured == Isolation::Copy;
    Ok(Some(copied(wanted(chosen, config, env)?, copies)))
}

/// Returns a copy of the folder instead of a git worktree if `copies` is set.
#[must_use]
pub fn copied(wanted: NewWorktree, copies: bool) -> NewWorktree {
    if copies { NewWorktree { copy: CopyMode::Always, ..wanted } } else { wanted }
}

/// Returns the worktree of a worker in this sandbox. An isolated worker gets a copy that includes
/// uncommitted changes of the workspace.
///
/// # Errors
/// Those of [`of`].
pub fn isolated(
    wanted: Option<NewWorktree>,
    sandbox: Option<&SandboxSpec>,
    config: &Config,
    env: &Environment,
) -> Result<Option<NewWorktree>> {
    let is_isolated = sandbox.is_some_and(|spec| spec.filesystem == FileSystem::Isolated);
    if !is_isolated || wanted.as_ref().is_some_and(|wanted| wanted.choice.base.is_some()) {
        return Ok(wanted);
    }
    let (choice, copy) = wanted.map(|wanted| (wanted.choice, wanted.copy)).unwrap_or_default();
    let copy = match copy {
        // A named branch needs git.
        CopyMode::Never if choice.branch.is_none() => CopyMode::WithoutGit,
        other => other,
    };
    let wanted = self::wanted(Some(WorktreeChoice { with_changes: true, ..choice }), config, env)?;
    Ok(Some(NewWorktree { copy, ..wanted }))
}

/// Returns a new worktree with the settings of the config.
///
/// # Errors
/// Those of [`of`].
pub fn wanted(chosen: Option<WorktreeChoice>, config: &Config, env: &Environment) -> Result<NewWorktree> {
    let Worktrees { setup, copy, .. } = &config.worktrees;
    Ok(NewWorktree {
        root: root(&config.worktrees, env)?,
        choice: chosen.unwrap_or_default(),
        setup: Setup { commands: setup.clone(), copy: copy.clone() },
        copy: CopyMode::Never,
        copy_limit: config.worktrees.copy_limit.unwrap_or(COPY_LIMIT),
        source: None,
    })
}

/// Returns the folder of all worktrees.
///
/// # Errors
/// `INVALID_ARGUMENT` without `worktrees.dir` and a home.
pub fn root(worktrees: &Worktrees, env: &Environment) -> Result<PathBuf> {
    if let Some(dir) = &worktrees.dir {
        return Ok(paths::resolve(dir, env));
    }
    let data = env.var("XDG_DATA_HOME").map(PathBuf::from).filter(|dir| dir.is_absolute());
    let data = data.or_else(|| Some(env.home.as_ref()?.join(".local/share")));
    data.map(|data| data.join("subagent/worktrees")).ok_or_else(|| {
        argument("there is no folder for worktrees: HOME is not set; set `worktrees.dir` in the config")
    })
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn env(variables: &[(&str, &str)]) -> Environment {
        Environment::new(
            variables.iter().map(|(name, value)| (name.into(), value.into())),
            Path::new("/work"),
        )
    }

    #[test]
    fn the_folder_is_that_of_the_config_or_of_the_users_data() {
        let of = |dir: Option<&str>, variables: &[(&str, &str)]| {
            root(&Worktrees { dir: dir.map(PathBuf::from), ..Worktrees::default() }, &env(variables))
        };
        assert_eq!(of(Some("/trees"), &[]).unwrap(), Path::new("/trees"));
        assert_eq!(
            of(None, &[("HOME", "/home/a")]).unwrap(),
            Path::new("/home/a/.local/share/subagent/worktrees")
        );
        let both = [("HOME", "/home/a"), ("XDG_DATA_HOME", "/data")];
        assert_eq!(of(None, &both).unwrap(), Path::new("/data/subagent/worktrees"));
        let relative = [("HOME", "/home/a"), ("XDG_DATA_HOME", "data")];
        assert_eq!(of(None, &relative).unwrap(), Path::new("/home/a/.local/share/subagent/worktrees"));
        assert!(of(None, &[]).is_err());
    }

    #[test]
    fn a_flag_counts_before_the_definition_and_that_before_the_launcher() {
        let (mut config, mut launcher) = (Config::default(), Launcher::new("agent"));
        let env = env(&[("HOME", "/home/a")]);
        let flag = Some(WorktreeChoice { branch: Some("b".into()), ..WorktreeChoice::default() });
        let wants = |typed: &Option<WorktreeChoice>, definition, launcher: &Launcher, config: &Config| {
            of(typed.clone(), definition, launcher, config, &env).unwrap().is_some()
        };
        let (yes, no) = (Some(Isolation::Worktree), Some(Isolation::None));
        assert!(!wants(&None, None, &launcher, &config));
        assert!(wants(&flag, no, &launcher, &config));
        config.defaults.isolation = yes;
        assert!(wants(&None, None, &launcher, &config));
        launcher.isolation = no;
        assert!(!wants(&None, None, &launcher, &config));
        assert!(wants(&None, yes, &launcher, &config));
    }
}
