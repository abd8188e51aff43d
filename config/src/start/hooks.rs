//! The hooks of a worker: of the user file, of the config file, and of its definition.
//!
//! The hooks of the user file always apply: a project must not disable a hook that denies.

use std::path::{Path, PathBuf};

use subagent_protocol::Result;
use subagent_protocol::hook::{Hook, HookOrigin};

use crate::agents::{Definition, DefinitionSource};
use crate::environment::Environment;
use crate::hooks::{FileHooks, HookEntry};
use crate::{LoadedConfig, discovery, file, paths};

/// The hooks of one file with its author.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HookSource {
    /// Path of the file, absolute and without symbolic links; `--agents` for an inline definition.
    pub file: PathBuf,
    /// The author of the file.
    pub origin: HookOrigin,
    /// The hooks of the file.
    pub hooks: FileHooks,
}

impl HookSource {
    /// Returns the hooks in the form for a worker.
    pub fn hooks(&self) -> impl Iterator<Item = Hook> {
        let of = |entry: &HookEntry| entry.hook(self.origin, &self.file, &self.hooks.sha256);
        self.hooks.entries.iter().map(of)
    }
}

/// Returns the hooks of config files for a worker with these writable folders, those of the user file
/// first.
///
/// # Errors
/// `CONFIG_PARSE_ERROR` for unreadable hooks of the user file.
pub fn of_files(loaded: &LoadedConfig, writable: &[&Path], env: &Environment) -> Result<Vec<HookSource>> {
    let mut found = Vec::new();
    if let Some(own) = discovery::user_path(env).filter(|own| *own != loaded.path)
        && own.try_exists().unwrap_or(true)
    {
        let hooks = file::load_hooks(&own)?;
        found.push(HookSource { origin: origin(&own, writable), file: own, hooks });
    }
    found.push(HookSource {
        origin: origin(&loaded.path, writable),
        file: loaded.path.clone(),
        hooks: loaded.config.hooks.clone(),
    });
    Ok(found)
}

/// A file that the agent can write counts as the project's, however it was named.
fn origin(file: &Path, writable: &[&Path]) -> HookOrigin {
    let in_project = file.parent().and_then(Path::file_name).is_some_and(|name| name == ".subagent");
    let is_writable = writable.iter().any(|folder| file.starts_with(paths::resolve_absolute(folder)));
    if in_project || is_writable { HookOrigin::Project } else { HookOrigin::User }
}

/// Returns the hooks of a definition.
#[must_use]
pub fn of_definition(definition: &Definition) -> HookSource {
    let (file, origin) = match &definition.source {
        DefinitionSource::Project(path) | DefinitionSource::User(path) => {
            (paths::resolve_absolute(path), HookOrigin::Definition)
        }
        DefinitionSource::Command | DefinitionSource::BuiltIn => {
            (PathBuf::from(definition.source.text()), HookOrigin::Command)
        }
    };
    HookSource { file, origin, hooks: definition.hooks.clone() }
}

/// Returns the hooks of a worker in order of execution.
///
/// # Errors
/// Those of [`of_files`].
pub fn of_worker(
    loaded: &LoadedConfig,
    writable: &[&Path],
    env: &Environment,
    definition: Vec<Hook>,
) -> Result<Vec<Hook>> {
    let mut hooks: Vec<Hook> = of_files(loaded, writable, env)?.iter().flat_map(HookSource::hooks).collect();
    hooks.extend(definition);
    Ok(hooks)
}

/// Returns the hooks of a task: its parent's hooks of config files, those that may deny calls, and its own.
#[must_use]
pub fn of_task(parent: &[Hook], definition: Vec<Hook>) -> Vec<Hook> {
    let inherited = |hook: &&Hook| match hook.origin {
        HookOrigin::User | HookOrigin::Project => true,
        // A task must not be allowed more than its parent.
        HookOrigin::Definition | HookOrigin::Command => hook.event.narrows_calls(),
    };
    parent.iter().filter(inherited).cloned().chain(definition).collect()
}

#[cfg(test)]
mod tests {
    use subagent_protocol::hook::HookEvent;

    use super::*;
    use crate::ConfigSource;

    const HOOKS: &str = "hooks: {PreToolUse: [{hooks: [{type: command, command: NAME}]}]}\n";

    fn place() -> (tempfile::TempDir, PathBuf, Environment) {
        let dir = tempfile::tempdir().unwrap();
        let base = dir.path().canonicalize().unwrap();
        for (file, name) in [("home/.config/subagent/config.yaml", "own"), ("ws/.subagent/config.yaml", "ws")]
        {
            let path = base.join(file);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, HOOKS.replace("NAME", name)).unwrap();
        }
        let env = Environment::new([("HOME".into(), base.join("home").into())], base.join("ws"));
        (dir, base, env)
    }

    fn loaded_hooks(
        loaded: &LoadedConfig,
        writable: &[&Path],
        env: &Environment,
    ) -> Vec<(String, HookOrigin)> {
        let hooks = of_worker(loaded, writable, env, Vec::new()).unwrap();
        hooks.into_iter().map(|hook| (hook.command, hook.origin)).collect()
    }

    #[test]
    fn hooks_of_the_user_apply_beside_those_of_the_project() {
        let (_dir, base, env) = place();
        let loaded = discovery::load(None, None, &env).unwrap();
        assert_eq!(loaded.source, ConfigSource::Project);
        let both = [("own".to_owned(), HookOrigin::User), ("ws".to_owned(), HookOrigin::Project)];
        assert_eq!(loaded_hooks(&loaded, &[&base.join("ws")], &env), both);
        // A folder above the workspace counts as the project's, too.
        assert_eq!(loaded_hooks(&loaded, &[&base.join("ws/sub")], &env), both);
        let at_home = env.clone().or_home(|| None);
        let loaded = discovery::load(None, Some(&base.join("home")), &at_home).unwrap();
        assert_eq!(
            loaded_hooks(&loaded, &[&base.join("ws")], &env),
            both[..1],
            "the user's file is read once"
        );
        assert_eq!(
            loaded_hooks(&loaded, &[&base.join("home")], &env)[0].1,
            HookOrigin::Project,
            "an agent can write it"
        );
    }

    #[test]
    fn a_file_that_was_named_is_the_users_unless_it_is_in_the_workspace() {
        let (_dir, base, env) = place();
        for (file, origin) in [("ws/ci.yaml", HookOrigin::Project), ("ci.yaml", HookOrigin::User)] {
            std::fs::write(base.join(file), HOOKS.replace("NAME", "ci")).unwrap();
            let loaded = discovery::load(Some(&base.join(file)), None, &env).unwrap();
            let hooks = loaded_hooks(&loaded, &[&base.join("ws")], &env);
            assert_eq!(hooks, [("own".to_owned(), HookOrigin::User), ("ci".to_owned(), origin)]);
        }
    }

    #[test]
    fn a_file_of_the_user_that_is_wrong_is_not_passed_over() {
        let (_dir, base, env) = place();
        std::fs::write(base.join("home/.config/subagent/config.yaml"), "hooks: {Stopp: []}").unwrap();
        let error = discovery::load(None, None, &env).unwrap_err();
        assert!(error.message().contains("Stopp"), "{error}");
        // A file of `--config` is not merged, but the user's hooks apply.
        let named = base.join("ws/.subagent/config.yaml");
        let loaded = discovery::load(Some(&named), None, &env).unwrap();
        let error = of_worker(&loaded, &[], &env, Vec::new()).unwrap_err();
        assert_eq!(error.code, subagent_protocol::Code::ConfigParseError);
        assert!(error.message.contains("Stopp"), "{}", error.message);
    }

    #[test]
    fn a_task_keeps_what_may_deny() {
        let hook = |event, origin| Hook {
            event,
            matcher: None,
            command: format!("{event} {origin}"),
            timeout_ms: 1,
            origin,
            file: "/f".into(),
            sha256: String::new(),
        };
        let (stop, pre) = (HookEvent::Stop, HookEvent::PreToolUse);
        let parent = [
            hook(stop, HookOrigin::User),
            hook(stop, HookOrigin::Project),
            hook(stop, HookOrigin::Definition),
            hook(pre, HookOrigin::Definition),
            hook(pre, HookOrigin::Command),
        ];
        let own = hook(HookEvent::SessionStart, HookOrigin::Definition);
        let loaded_hooks: Vec<String> =
            of_task(&parent, vec![own]).into_iter().map(|hook| hook.command).collect();
        assert_eq!(
            loaded_hooks,
            [
                "Stop user",
                "Stop project",
                "PreToolUse definition",
                "PreToolUse command",
                "SessionStart definition"
            ]
        );
    }
}
