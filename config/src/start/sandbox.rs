//! The sandbox of a worker: the selected profile, narrowed by the definition, with absolute paths.
//!
//! The daemon decides whether this machine can enforce it.

use std::path::{Component, Path, PathBuf};

use subagent_protocol::Result;
use subagent_protocol::sandbox::{FileSystem, HostPort, Network, PreferredSandbox, SandboxSpec};

use super::wire::{argument, path_value};
use crate::environment::Environment;
use crate::model::{Config, Launcher};
use crate::sandbox::{NONE, NetworkAccess, Profile, SandboxChoice, files_words};
use crate::{own_paths, paths};

/// Hidden by default: files with keys and passwords.
pub const HIDDEN: [&str; 8] = [
    "~/.ssh",
    "~/.gnupg",
    "~/.aws",
    "~/.config/gcloud",
    "~/.config/gh",
    "~/.kube",
    "~/.netrc",
    "~/.git-credentials",
];

/// Folders of [`HIDDEN`] in which agents find the login of a cloud's models.
const LOGINS: [&str; 2] = ["~/.aws", "~/.config/gcloud"];

/// The requested sandbox of a worker.
#[derive(Debug, Clone, Default)]
pub struct SandboxRequest {
    /// Name of a sandbox; `None` uses the launcher's, or that of `defaults`.
    pub name: Option<String>,
    /// The sandbox of the worker that this one continues; used if `name` is `None`.
    pub kept: Option<SandboxSpec>,
    /// Profiles that narrow it.
    pub narrower: Vec<Profile>,
    /// Profile of a built-in definition. It narrows a sandbox, and applies without one where
    /// possible. The default profile is no preference.
    pub preferred: Profile,
}

/// The sandbox of a new worker.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SandboxPlan {
    /// The sandbox without which the worker is not started.
    pub required: Option<SandboxSpec>,
    /// The sandbox to use where possible; never beside `required`.
    pub preferred: Option<PreferredSandbox>,
}

/// The base folders for paths of a profile.
#[derive(Debug, Clone, Copy)]
pub struct Ground<'a> {
    /// The working folder of the agent: the base of relative paths.
    pub cwd: &'a Path,
    /// All working folders of the agent.
    pub roots: &'a [&'a Path],
    /// Environment of the caller.
    pub env: &'a Environment,
}

/// Returns the sandbox of a worker: the requested one, that of `launcher`, or that of `defaults`.
/// Narrowing profiles only remove access (M3). The preferred one gives way to a name, to `none` in
/// the config, and to an `obstacle`: a property of the worker that no sandbox allows.
///
/// # Errors
/// `INVALID_ARGUMENT{sandbox}` for an unknown name or a path outside of the worker's folders.
pub fn plan(
    mut wish: SandboxRequest,
    launcher: &Launcher,
    config: &Config,
    ground: Ground<'_>,
    obstacle: Option<&str>,
) -> Result<SandboxPlan> {
    let choice = launcher.sandbox.as_ref();
    let configured = choice.or(config.defaults.sandbox.as_ref());
    let is_off = matches!(configured, Some(SandboxChoice::Named(name)) if name == NONE);
    let is_chosen = wish.name.is_some() || (wish.kept.is_none() && is_off);
    let preferred = std::mem::take(&mut wish.preferred);
    let required = spec(wish, choice, config, ground)?;
    if is_chosen || !preferred.confines() {
        return Ok(SandboxPlan { required, preferred: None });
    }
    let impossible = |why: &str| Ok(Some(PreferredSandbox::Impossible(why.to_owned())));
    let preferred = match (required, obstacle) {
        (Some(above), None) => {
            let required = narrow(above, &preferred, ground)?;
            return Ok(SandboxPlan { required: Some(required), preferred: None });
        }
        (Some(above), Some(_)) => return Ok(SandboxPlan { required: Some(above), preferred: None }),
        (None, Some(obstacle)) => impossible(obstacle),
        (None, None) => match own_paths::of_agent(launcher, ground.env, ground.roots) {
            None => impossible(
                "the folders that this agent must write are not known; set `sandbox` of the launcher",
            ),
            Some(own) => {
                preference(preferred, own, ground).map(|spec| Some(PreferredSandbox::Spec(Box::new(spec))))
            }
        },
    }?;
    Ok(SandboxPlan { required: None, preferred })
}

/// Returns a preferred sandbox. It hides no logins of models, because the user did not choose it.
fn preference(profile: Profile, own: Vec<PathBuf>, ground: Ground<'_>) -> Result<SandboxSpec> {
    let hidden = HIDDEN.iter().filter(|path| !LOGINS.contains(path)).map(|path| (*path).to_owned());
    let hide = profile.hide.clone().unwrap_or_else(|| hidden.collect());
    let mut spec = resolve(None, &Profile { hide: Some(hide), ..profile }, ground)?;
    spec.write.extend(own);
    Ok(SandboxSpec { write: outermost(spec.write), ..spec })
}

/// Returns the required sandbox of a worker, if it has one.
fn spec(
    wish: SandboxRequest,
    launcher: Option<&SandboxChoice>,
    config: &Config,
    ground: Ground<'_>,
) -> Result<Option<SandboxSpec>> {
    let base = match (&wish.name, launcher.or(config.defaults.sandbox.as_ref())) {
        (Some(name), _) => by_name(name, config)?,
        (None, _) if wish.kept.is_some() => None,
        (None, Some(SandboxChoice::Named(name))) => by_name(name, config)?,
        (None, Some(SandboxChoice::Own(profile))) => Some((None, profile.clone())),
        (None, None) => None,
    };
    let base = base.map(|(name, profile)| resolve(name, &profile, ground)).transpose()?;
    let base = base.or(wish.kept.filter(|_| wish.name.is_none()));
    let mut asks = wish.narrower.iter().filter(|profile| profile.confines());
    asks.try_fold(base, |above, profile| match above {
        None => resolve(None, profile, ground).map(Some),
        Some(above) => narrow(above, profile, ground).map(Some),
    })
}

/// Returns why no preferred sandbox applies to a worker.
#[must_use]
pub fn obstacle(has_worktree: bool, delegates: bool) -> Option<&'static str> {
    match (has_worktree, delegates) {
        (true, _) => Some("it works in a worktree"),
        (_, true) => Some("it can give tasks to other agents, and needs the daemon for that"),
        (false, false) => None,
    }
}

/// Adds the memory folder to the writable paths. It is the only access that a definition adds.
#[must_use]
pub fn with_memory(mut spec: SandboxSpec, memory: Option<&Path>) -> SandboxSpec {
    spec.write.extend(memory.map(Path::to_owned));
    SandboxSpec { write: outermost(spec.write), ..spec }
}

fn by_name(name: &str, config: &Config) -> Result<Option<(Option<String>, Profile)>> {
    if name == NONE {
        return Ok(None);
    }
    let built_in =
        || FileSystem::parse(name).map(|mode| Profile { filesystem: Some(mode), ..Profile::default() });
    match config.sandboxes.get(name).cloned().or_else(built_in) {
        Some(profile) => Ok(Some((Some(name.to_owned()), profile))),
        None => {
            let mut known: Vec<&str> = config.sandboxes.keys().map(String::as_str).collect();
            let built_in = files_words();
            known.extend(built_in.split(", ").chain([NONE]));
            let message = format!("there is no sandbox `{name}`; there are: {}", known.join(", "));
            Err(argument(message).with("sandbox", name).with("available", known))
        }
    }
}

fn network(access: Option<&NetworkAccess>) -> (Network, Vec<HostPort>) {
    match access {
        None => (Network::All, Vec::new()),
        Some(NetworkAccess::Of(network)) => (*network, Vec::new()),
        Some(NetworkAccess::Hosts(hosts)) => (Network::Hosts, sorted(hosts.clone())),
    }
}

fn sorted(mut hosts: Vec<HostPort>) -> Vec<HostPort> {
    hosts.sort();
    hosts.dedup();
    hosts
}

/// Returns the stricter network of two. Of two lists, the common hosts remain.
fn stricter_network(
    above: (Network, Vec<HostPort>),
    own: (Network, Vec<HostPort>),
) -> (Network, Vec<HostPort>) {
    if above.0 == Network::Hosts && own.0 == Network::Hosts {
        let common: Vec<_> = above.1.into_iter().filter(|target| own.1.contains(target)).collect();
        let network = if common.is_empty() { Network::Loopback } else { Network::Hosts };
        return (network, common);
    }
    let rank = |network: Network| Network::ALL.iter().position(|one| *one == network);
    if rank(own.0) > rank(above.0) { own } else { above }
}

fn resolve(name: Option<String>, profile: &Profile, ground: Ground<'_>) -> Result<SandboxSpec> {
    let filesystem = profile.filesystem.unwrap_or(FileSystem::SharedRw);
    let mut write = absolute(profile.write.as_deref().unwrap_or_default(), "write", ground)?;
    if filesystem == FileSystem::SharedRw {
        write.extend(ground.roots.iter().map(|root| paths::resolve_absolute(root)));
    }
    let read = profile.read.as_deref().map(|read| absolute(read, "read", ground)).transpose()?;
    let hide = match &profile.hide {
        Some(hide) => absolute(hide, "hide", ground)?,
        None => absolute(&HIDDEN.map(str::to_owned), "hide", ground)?,
    };
    let (network, hosts) = network(profile.network.as_ref());
    Ok(SandboxSpec {
        name,
        filesystem,
        write: outermost(write),
        // The agent works there, so it must read that folder.
        read: read
            .map(|read| outermost(read.into_iter().chain([paths::resolve_absolute(ground.cwd)]).collect())),
        hide: outermost(hide),
        network,
        hosts,
    })
}

/// Returns the access that both permit.
fn narrow(above: SandboxSpec, profile: &Profile, ground: Ground<'_>) -> Result<SandboxSpec> {
    let rank = |mode: FileSystem| FileSystem::ALL.iter().position(|one| *one == mode);
    let own = profile.filesystem.unwrap_or(FileSystem::SharedRw);
    let filesystem = if rank(own) > rank(above.filesystem) { own } else { above.filesystem };
    let stricter = filesystem != FileSystem::SharedRw;
    let roots: Vec<PathBuf> = ground.roots.iter().map(|root| paths::resolve_absolute(root)).collect();
    // The workspace itself is removed; an explicitly listed folder inside stays.
    let mut write: Vec<PathBuf> =
        above.write.into_iter().filter(|path| !(stricter && roots.contains(path))).collect();
    if let Some(own) = &profile.write {
        let mut own = absolute(own, "write", ground)?;
        if filesystem == FileSystem::SharedRw {
            own.extend(roots);
        }
        write = common(&write, &own);
    }
    let own = profile.read.as_deref().map(|read| absolute(read, "read", ground)).transpose()?;
    let own =
        own.map(|read| read.into_iter().chain([paths::resolve_absolute(ground.cwd)]).collect::<Vec<_>>());
    let read = match (above.read, own) {
        (Some(above), Some(own)) => Some(common(&above, &own)),
        (above, own) => above.or(own),
    };
    let mut hide = above.hide;
    hide.extend(absolute(profile.hide.as_deref().unwrap_or_default(), "hide", ground)?);
    let (network, hosts) = stricter_network((above.network, above.hosts), network(profile.network.as_ref()));
    Ok(SandboxSpec {
        name: above.name,
        filesystem,
        write: outermost(write),
        read,
        hide: outermost(hide),
        network,
        hosts,
    })
}

/// Intersects two lists of paths: of a path and its parent, the inner one remains.
fn common(some: &[PathBuf], others: &[PathBuf]) -> Vec<PathBuf> {
    let inner = |one: &PathBuf, other: &PathBuf| {
        if one.starts_with(other) { Some(one.clone()) } else { other.starts_with(one).then(|| other.clone()) }
    };
    let both = some.iter().flat_map(|one| others.iter().filter_map(move |other| inner(one, other)));
    outermost(both.collect())
}

/// Removes paths that are inside of another one.
fn outermost(mut paths: Vec<PathBuf>) -> Vec<PathBuf> {
    paths.sort();
    paths.dedup_by(|inner, outer| inner.starts_with(&*outer));
    paths
}

/// Resolves paths of a profile, without links. A path that is written below the worker's folders but leads
/// out of them is refused: an earlier agent may have created the link.
fn absolute(written: &[String], key: &str, ground: Ground<'_>) -> Result<Vec<PathBuf>> {
    let of = |written: &String| {
        let named = lexical(&ground.cwd.join(paths::expand_home(Path::new(written), ground.env)));
        let real = paths::resolve_absolute(&named);
        let out = |root: &&Path| {
            let (root, real_root) = (lexical(root), paths::resolve_absolute(root));
            (named.starts_with(&root) || named.starts_with(&real_root)) && !real.starts_with(&real_root)
        };
        let problem = match () {
            () if !named.is_absolute() => "it is not below a folder that is known",
            () if real.to_str().is_none() => "it is not UTF-8",
            () if key == "write" && ground.roots.iter().any(out) => {
                "a link leads it out of the folder where the agent works"
            }
            () if key == "write" && real == Path::new("/") => "it is the whole system",
            () => return Ok(real),
        };
        let message = format!("`{key}: {written}` of the sandbox cannot be used: {problem}");
        Err(argument(message).with("path", path_value(&named)).with("field", format!("sandbox.{key}")))
    };
    written.iter().map(of).collect()
}

/// Removes `.` and `..` textually.
fn lexical(path: &Path) -> PathBuf {
    let mut clean = PathBuf::new();
    for component in path.components() {
        match component {
            Component::ParentDir => {
                clean.pop();
            }
            Component::CurDir => {}
            other => clean.push(other),
        }
    }
    clean
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use subagent_protocol::Code;

    use super::*;

    struct SandboxFixture {
        _dir: tempfile::TempDir,
        base: PathBuf,
        env: Environment,
    }

    fn world() -> SandboxFixture {
        let dir = tempfile::tempdir().unwrap();
        let base = dir.path().canonicalize().unwrap();
        for folder in ["home", "ws/target", "cache/deep"] {
            fs::create_dir_all(base.join(folder)).unwrap();
        }
        let env = Environment::new([("HOME".into(), base.join("home").into())], base.join("ws"));
        SandboxFixture { _dir: dir, base, env }
    }

    impl SandboxFixture {
        fn at(&self, name: &str) -> PathBuf {
            self.base.join(name)
        }

        fn spec(
            &self,
            chosen: Option<&str>,
            launcher: Option<Profile>,
            narrower: &[Profile],
        ) -> Result<Option<SandboxSpec>> {
            let mut config = Config::default();
            config.sandboxes.insert("tight".to_owned(), Profile { network: of(Network::None), ..ro() });
            let ws = self.at("ws");
            let ground = Ground { cwd: &ws, roots: &[&ws], env: &self.env };
            let wish = SandboxRequest {
                name: chosen.map(str::to_owned),
                narrower: narrower.to_vec(),
                ..SandboxRequest::default()
            };
            spec(wish, launcher.map(SandboxChoice::Own).as_ref(), &config, ground)
        }
    }

    fn ro() -> Profile {
        Profile { filesystem: Some(FileSystem::SharedRo), ..Profile::default() }
    }

    fn of(network: Network) -> Option<NetworkAccess> {
        Some(NetworkAccess::Of(network))
    }

    fn paths_of(paths: &[&str]) -> Option<Vec<String>> {
        Some(paths.iter().map(|path| (*path).to_owned()).collect())
    }

    #[test]
    fn a_name_is_a_profile_or_a_mode_and_none_takes_it_away() {
        let world = world();
        assert_eq!(world.spec(None, None, &[]).unwrap(), None);
        let tight = world.spec(Some("tight"), None, &[]).unwrap().unwrap();
        assert_eq!((tight.name.as_deref(), tight.network), (Some("tight"), Network::None));
        assert_eq!((tight.write, tight.read), (Vec::new(), None));
        assert!(tight.hide.contains(&world.at("home/.ssh")));
        let rw = world.spec(Some("shared_rw"), Some(ro()), &[]).unwrap().unwrap();
        assert_eq!((rw.write, rw.filesystem), (vec![world.at("ws")], FileSystem::SharedRw));
        assert_eq!(world.spec(Some("none"), Some(ro()), &[]).unwrap(), None);
        let error = world.spec(Some("loose"), None, &[]).unwrap_err();
        assert_eq!((error.code, &error.details["sandbox"]), (Code::InvalidArgument, &"loose".into()));
    }

    #[test]
    fn m3_a_definition_takes_away_and_gives_nothing() {
        let world = world();
        let launcher = Profile {
            write: paths_of(&["../cache", "target"]),
            network: of(Network::Loopback),
            hide: paths_of(&["~/.ssh"]),
            ..Profile::default()
        };
        let own = Profile { write: paths_of(&["../cache/deep", "~"]), network: of(Network::All), ..ro() };
        let both = world.spec(None, Some(launcher.clone()), &[own]).unwrap().unwrap();
        assert_eq!(both.write, [world.at("cache/deep")]);
        assert_eq!((both.network, both.filesystem), (Network::Loopback, FileSystem::SharedRo));
        assert_eq!(both.hide, [world.at("home/.ssh")]);
        let only_mode = world.spec(None, Some(launcher), &[ro()]).unwrap().unwrap();
        assert_eq!(only_mode.write, [world.at("cache")], "the workspace is taken back, and what is in it");
        let alone = world.spec(None, None, &[ro()]).unwrap().unwrap();
        assert!(alone.write.is_empty());
        let mode = |mode| Profile { filesystem: Some(mode), ..Profile::default() };
        let isolated = mode(FileSystem::Isolated);
        let copied = world.spec(Some("shared_rw"), None, std::slice::from_ref(&isolated)).unwrap().unwrap();
        assert_eq!((copied.filesystem, copied.write), (FileSystem::Isolated, Vec::new()));
        let read = world.spec(Some("shared_ro"), None, &[isolated]).unwrap().unwrap();
        assert_eq!(read.filesystem, FileSystem::SharedRo, "a copy could be written");
        let rw = Profile { filesystem: Some(FileSystem::SharedRw), ..Profile::default() };
        assert_eq!(world.spec(None, None, &[rw]).unwrap(), None, "that is what everybody has");
    }

    #[test]
    fn a_preferred_profile_narrows_a_sandbox_and_gives_way_to_a_choice() {
        let world = world();
        let plan = |name: Option<&str>, launcher: Launcher, obstacle: Option<&str>| {
            let wish = SandboxRequest {
                name: name.map(str::to_owned),
                preferred: ro(),
                ..SandboxRequest::default()
            };
            let ws = world.at("ws");
            let ground = Ground { cwd: &ws, roots: &[&ws], env: &world.env };
            super::plan(wish, &launcher, &Config::default(), ground, obstacle).unwrap()
        };
        let known = |sandbox: Option<SandboxChoice>| Launcher { sandbox, ..Launcher::new("gemini") };
        let Some(PreferredSandbox::Spec(spec)) = plan(None, known(None), None).preferred else { panic!() };
        assert_eq!(spec.filesystem, FileSystem::SharedRo);
        assert!(spec.write.contains(&world.at("home/.gemini")) && !spec.write.contains(&world.at("ws")));
        assert!(spec.hide.contains(&world.at("home/.ssh")) && !spec.hide.contains(&world.at("home/.aws")));
        for (launcher, obstacle) in [(Launcher::new("other"), None), (known(None), Some("why"))] {
            let plan = plan(None, launcher, obstacle);
            assert!(matches!(plan.preferred, Some(PreferredSandbox::Impossible(_))), "{plan:?}");
            assert_eq!(plan.required, None);
        }
        let named = |name: &str| Some(SandboxChoice::Named(name.to_owned()));
        assert_eq!(plan(Some("none"), known(None), None), SandboxPlan::default());
        assert_eq!(plan(None, known(named("none")), None), SandboxPlan::default());
        let chosen = plan(Some("shared_rw"), known(None), None);
        assert_eq!((chosen.required.unwrap().write, chosen.preferred), (vec![world.at("ws")], None));
        let narrowed = plan(None, known(named("shared_rw")), None).required.unwrap();
        assert_eq!((narrowed.filesystem, narrowed.write.len()), (FileSystem::SharedRo, 0));
        let kept = plan(None, known(named("isolated")), Some("why")).required.unwrap();
        assert_eq!(kept.filesystem, FileSystem::Isolated, "a worktree is not taken away");
    }

    #[test]
    fn of_two_lists_of_hosts_the_common_ones_remain() {
        let world = world();
        let list = |hosts: &[&str]| Profile {
            network: Some(NetworkAccess::Hosts(hosts.iter().map(|host| host.parse().unwrap()).collect())),
            ..Profile::default()
        };
        let got = |launcher: Profile, own: Profile| {
            let spec = world.spec(None, Some(launcher), &[own]).unwrap().unwrap();
            (spec.network, spec.hosts.iter().map(ToString::to_string).collect::<Vec<_>>())
        };
        let none = Vec::<String>::new;
        assert_eq!(
            got(list(&["b:1", "a:1"]), list(&["a:1", "c:1"])),
            (Network::Hosts, vec!["a:1".to_owned()])
        );
        assert_eq!(got(list(&["a:1"]), list(&["a:2"])), (Network::Loopback, none()));
        let mode = |network| Profile { network: of(network), ..ro() };
        assert_eq!(got(mode(Network::All), list(&["a:1"])), (Network::Hosts, vec!["a:1".to_owned()]));
        assert_eq!(got(list(&["a:1"]), mode(Network::All)), (Network::Hosts, vec!["a:1".to_owned()]));
        assert_eq!(got(list(&["a:1"]), mode(Network::Loopback)), (Network::Loopback, none()));
        assert_eq!(got(mode(Network::None), list(&["a:1"])), (Network::None, none()));
    }

    #[test]
    fn what_cannot_be_had_is_refused() {
        let world = world();
        symlink(world.at("home"), world.at("ws/link")).unwrap();
        for bad in ["link", "link/.ssh", "/"] {
            let profile = Profile { write: paths_of(&[bad]), ..ro() };
            let error = world.spec(None, Some(profile), &[]).unwrap_err();
            assert_eq!(
                (error.code, &error.details["field"]),
                (Code::InvalidArgument, &"sandbox.write".into())
            );
        }
    }
}
