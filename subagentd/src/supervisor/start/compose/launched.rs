//! The launcher of a task and the environment of its agent: the parent's, without what the parent's
//! launcher set for its own agent.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;

use subagent_config::Environment;
use subagent_config::model::{Config, Launcher};
use subagent_config::start::{self, launcher};
use subagent_protocol::Result;
use subagent_protocol::api::LauncherSpec;

use super::ground::environment;
use crate::supervisor::start::environment::Variables;

/// Variables that are inherited even if the parent's launcher sets them.
const NEEDED: [&str; 2] = ["PATH", "HOME"];

/// The launcher and environment of a task.
pub(crate) struct TaskLauncher {
    pub(crate) spec: LauncherSpec,
    /// The current config of the launcher.
    pub(crate) launcher: Launcher,
    /// The variables that the agent inherits.
    pub(crate) variables: Variables,
    /// The variables as an environment, for lookups.
    pub(crate) env: Environment,
    /// Whether the parent has the same launcher.
    pub(crate) is_parents: bool,
}

impl TaskLauncher {
    /// Uses the parent's launcher as it was resolved for the parent.
    pub(crate) fn of_parent(
        (spec, variables): (&LauncherSpec, &Variables),
        config: &Config,
        env: &Environment,
    ) -> Self {
        let known = config.launchers.get(&spec.name).cloned();
        Self {
            launcher: known.unwrap_or_else(|| Launcher::new(&*spec.command)),
            spec: spec.clone(),
            variables: variables.clone(),
            env: env.clone(),
            is_parents: true,
        }
    }

    /// Uses the launcher that a definition names, with its current config. If `is_there`, its program
    /// is looked up on another machine.
    ///
    /// # Errors
    /// `LAUNCHER_NOT_FOUND`, `BACKEND_LAUNCHER`.
    pub(crate) fn named(
        name: &str,
        (of_parent, variables): (&LauncherSpec, &Variables),
        config: &Config,
        env: &Environment,
        is_there: bool,
    ) -> Result<Self> {
        let before = config.launchers.get(&of_parent.name).map(|launcher| &launcher.env);
        let mut inherited = environment(&without(variables, before), &env.cwd);
        inherited.home.clone_from(&env.home);
        let found = launcher::choose(config, Some(name), "", &env.cwd, &inherited)?;
        let (launcher, resolved) =
            if is_there { launcher::runnable_there(found)? } else { launcher::runnable(found)? };
        let is_parents = resolved.name == of_parent.name;
        let variables = start::environment(&inherited, launcher, &env.cwd);
        let launcher = launcher.clone();
        Ok(Self {
            spec: launcher::spec(&launcher, resolved)?,
            launcher,
            variables,
            env: inherited,
            is_parents,
        })
    }
}

/// Removes variables that the parent's launcher set. They are meant for its own agent, such as the
/// keys of a service.
fn without(variables: &Variables, set: Option<&BTreeMap<String, String>>) -> Variables {
    let is_set = |name: &[u8], value: &[u8]| {
        let name = OsStr::from_bytes(name).to_str();
        let of_launcher = name.and_then(|name| set?.get(name));
        of_launcher.is_some_and(|text| text.as_bytes() == value)
            && !name.is_some_and(|name| NEEDED.contains(&name))
    };
    variables.iter().filter(|(name, value)| !is_set(&name.0, &value.0)).cloned().collect()
}

#[cfg(test)]
mod tests {
    use subagent_protocol::bytes64::Bytes64;

    use super::*;

    #[test]
    fn m3_what_a_launcher_sets_for_its_agent_is_not_handed_on_to_another_one() {
        let variable = |name: &str, value: &str| (Bytes64(name.into()), Bytes64(value.into()));
        let variables = vec![
            variable("KEY_OF_ONE", "k"),
            variable("PATH", "/one"),
            variable("OTHER", "shell"),
            variable("SHARED", "shell"),
        ];
        let mut config = Config::default();
        let launcher = |vars: &[(&str, &str)]| {
            let mut launcher = Launcher::new("/bin/true");
            launcher.env = vars.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect();
            launcher
        };
        let one = launcher(&[("KEY_OF_ONE", "k"), ("PATH", "/one"), ("OTHER", "changed since")]);
        config.launchers.insert("one".to_owned(), one);
        config.launchers.insert("two".to_owned(), launcher(&[("SHARED", "two")]));
        let spec = LauncherSpec {
            name: "one".to_owned(),
            backend_kind: "acp-stdio".to_owned(),
            program: "/bin/true".to_owned(),
            command: "/bin/true".to_owned(),
            args: Vec::new(),
            timeouts: subagent_protocol::start::Timeouts::default(),
            auth_method: None,
            prefix_tools: false,
        };
        let env = environment(&variables, "/".as_ref());
        let launched = TaskLauncher::named("two", (&spec, &variables), &config, &env, false).unwrap();
        assert!(!launched.is_parents);
        let expected = [
            variable("OTHER", "shell"),
            variable("PATH", "/one"),
            variable("PWD", "/"),
            variable("SHARED", "two"),
        ];
        assert_eq!(launched.variables, expected);
        let same = TaskLauncher::of_parent((&spec, &variables), &config, &env);
        assert_eq!((same.variables, same.is_parents), (variables, true));
    }
}
