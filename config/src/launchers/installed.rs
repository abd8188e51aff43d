//! Detects whether the agent of a launcher is installed. Reads files; must not start programs.

use std::ffi::OsStr;
use std::fmt;
use std::path::{Path, PathBuf};

use crate::environment::Environment;
use crate::error::ConfigError;
use crate::launcher::{self, ResolvedLauncher};
use crate::model::{Config, Launcher};

/// Whether an agent can be started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Presence {
    /// Its program is installed.
    Available,
    /// Only `npx` is installed; it would fetch this package.
    Fetchable(String),
    /// Its program is not installed.
    Missing,
}

impl Presence {
    /// The word in output.
    #[must_use]
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Available => "available",
            Self::Fetchable(_) => "fetchable",
            Self::Missing => "missing",
        }
    }
}

/// A package that a launcher's program fetches before the agent can start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fetch {
    program: String,
    package: String,
    /// Whether the package is known to be absent.
    is_missing: bool,
}

impl fmt::Display for Fetch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fetches = if self.is_missing { "fetches" } else { "may fetch" };
        write!(f, "{} {fetches} {}", self.program, self.package)
    }
}

/// Returns the package that the launcher's program fetches for a worker in `cwd`, as its command line
/// shows.
#[must_use]
pub fn fetch(
    launcher: &Launcher,
    resolved: &ResolvedLauncher,
    cwd: &Path,
    env: &Environment,
) -> Option<Fetch> {
    let program = resolved.exec_path.as_ref()?.file_name()?.to_str()?;
    let args = &resolved.effective_args;
    let (package, is_missing) = match program {
        "npx" => match presence(launcher, resolved, cwd, env) {
            Presence::Fetchable(package) => (package, true),
            Presence::Available | Presence::Missing => return None,
        },
        "bunx" => (package(args)?.0.to_owned(), false),
        "uvx" => (uv_package(args)?.to_owned(), false),
        _ => return None,
    };
    Some(Fetch { program: program.to_owned(), package, is_missing })
}

/// Returns whether the agent of this launcher is installed, for a worker in `cwd`.
#[must_use]
pub fn presence(launcher: &Launcher, resolved: &ResolvedLauncher, cwd: &Path, env: &Environment) -> Presence {
    let Some(program) = &resolved.exec_path else { return Presence::Missing };
    if program.file_name() != Some(OsStr::new("npx")) {
        return Presence::Available;
    }
    let Some((name, version)) = package(&resolved.effective_args) else { return Presence::Available };
    let path = launcher.env.get("PATH").map(OsStr::new).or_else(|| env.var("PATH")).unwrap_or_default();
    let found = folders(program, path, cwd, env).iter().any(|folder| has(&folder.join(name), version));
    match found {
        true => Presence::Available,
        false => Presence::Fetchable(name.to_owned()),
    }
}

/// Returns all launchers of a config with their presence.
#[must_use]
pub fn all<'a>(config: &'a Config, cwd: &Path, env: &Environment) -> Vec<(&'a str, Presence)> {
    let of = |(name, launcher): (&'a String, &Launcher)| {
        let resolved = launcher::resolve(name, launcher, cwd, env);
        (name.as_str(), presence(launcher, &resolved, cwd, env))
    };
    config.launchers.iter().map(of).collect()
}

/// Returns the launcher for a command that names none: the only installed one, else the only fetchable one.
///
/// # Errors
/// `LAUNCHER_NOT_FOUND` without details if there are several or none.
pub fn only<'a>(config: &'a Config, cwd: &Path, env: &Environment) -> Result<&'a str, ConfigError> {
    let all = all(config, cwd, env);
    sole(all.iter().map(|(name, presence)| (*name, presence))).map_err(|several| {
        ConfigError::LauncherNotChosen {
            installed: several.into_iter().map(str::to_owned).collect(),
            known: config.launchers.keys().cloned().collect(),
        }
    })
}

/// Returns the only installed launcher, else the only fetchable one.
///
/// # Errors
/// The candidates of an ambiguous choice; empty if no agent can be started.
pub fn sole<'a, 'p>(all: impl Iterator<Item = (&'a str, &'p Presence)>) -> Result<&'a str, Vec<&'a str>> {
    let (mut available, mut fetchable) = (Vec::new(), Vec::new());
    for (name, presence) in all {
        match presence {
            Presence::Available => available.push(name),
            Presence::Fetchable(_) => fetchable.push(name),
            Presence::Missing => {}
        }
    }
    let first = if available.is_empty() { fetchable } else { available };
    match first.as_slice() {
        [one] => Ok(one),
        _ => Err(first),
    }
}

/// Returns the package that `npx` runs, and its requested version.
fn package(args: &[String]) -> Option<(&str, Option<&str>)> {
    let mut args = args.iter().map(String::as_str);
    let spec = loop {
        match args.next()? {
            "-p" | "--package" => break args.next()?,
            "-c" | "--call" => return None,
            flag if flag.starts_with("--package=") => break &flag["--package=".len()..],
            flag if flag.starts_with('-') => {}
            word => break word,
        }
    };
    // The first character may be the `@` of a scope.
    let at = spec.char_indices().skip(1).find(|(_, char)| *char == '@').map(|(at, _)| at);
    let (name, version) = at.map_or((spec, None), |at| (&spec[..at], Some(&spec[at + 1..])));
    // npm fetches paths, URLs and repositories in other ways.
    let is_name = !name.is_empty() && !name.starts_with(['.', '/']) && !name.contains([':', '\\']);
    (is_name && !name.contains("..")).then_some((name, version))
}

/// Returns the package that `uvx` runs.
fn uv_package(args: &[String]) -> Option<&str> {
    const WITH_VALUE: &[&str] = &[
        "-p",
        "--python",
        "-w",
        "--with",
        "--with-editable",
        "--with-requirements",
        "--index",
        "--default-index",
    ];
    let mut args = args.iter().map(String::as_str);
    loop {
        match args.next()? {
            "--from" => return args.next(),
            flag if flag.starts_with("--from=") => return Some(&flag["--from=".len()..]),
            flag if WITH_VALUE.contains(&flag) => drop(args.next()),
            flag if flag.starts_with('-') => {}
            word => return Some(word),
        }
    }
}

/// Returns where `npx` finds packages without a download: parent folders, folders beside the PATH, and its
/// cache.
fn folders(npx: &Path, path: &OsStr, cwd: &Path, env: &Environment) -> Vec<PathBuf> {
    const MODULES: &str = "node_modules";
    let mut found: Vec<PathBuf> = cwd.ancestors().map(|folder| folder.join(MODULES)).collect();
    let bins = std::env::split_paths(path).filter(|folder| folder.is_absolute());
    found.extend(bins.filter_map(|bin| Some(bin.parent()?.join("lib").join(MODULES))));
    // `npx` itself is a package beside the others.
    if let Ok(real) = npx.canonicalize() {
        found.extend(real.ancestors().filter(|folder| folder.ends_with(MODULES)).map(Path::to_owned));
    }
    let cache = env.var("npm_config_cache").or_else(|| env.var("NPM_CONFIG_CACHE")).map(PathBuf::from);
    let cache = cache.or_else(|| Some(env.home.as_ref()?.join(".npm")));
    let runs = cache.and_then(|cache| std::fs::read_dir(cache.join("_npx")).ok());
    found.extend(runs.into_iter().flatten().flatten().map(|run| run.path().join(MODULES)));
    found
}

/// The part of a `package.json` that is read.
#[derive(serde::Deserialize)]
struct PackageManifest {
    version: String,
}

/// Whether a folder contains a package in the requested version. Ranges and tags need the registry.
fn has(folder: &Path, version: Option<&str>) -> bool {
    let file = folder.join("package.json");
    match version {
        None => file.is_file(),
        Some(version) => {
            let read = crate::regular::read(&file).ok();
            let manifest = read.and_then(|bytes| serde_json::from_slice::<PackageManifest>(&bytes).ok());
            manifest.is_some_and(|manifest| manifest.version == version)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn the_package_is_the_first_word_that_is_no_flag() {
        let listed = |args: &[&str]| {
            let args: Vec<String> = args.iter().map(|&arg| arg.to_owned()).collect();
            package(&args).map(|(name, version)| (name.to_owned(), version.map(str::to_owned)))
        };
        let plain = |name: &str| Some((name.to_owned(), None));
        assert_eq!(listed(&["-y", "@google/gemini-cli", "--acp"]), plain("@google/gemini-cli"));
        assert_eq!(listed(&["cline", "x"]), plain("cline"));
        assert_eq!(listed(&["-p", "a", "b"]), plain("a"));
        assert_eq!(listed(&["--package=@s/a", "b"]), plain("@s/a"));
        assert_eq!(listed(&["@s/a@1.2.3"]), Some(("@s/a".to_owned(), Some("1.2.3".to_owned()))));
        assert_eq!(listed(&["a@latest"]), Some(("a".to_owned(), Some("latest".to_owned()))));
        for none in [&[][..], &["-y"], &["./a"], &["github:a/b"], &["-c", "a"], &["a/../../b"]] {
            assert_eq!(listed(none), None, "{none:?}");
        }
    }

    #[test]
    fn what_uvx_and_bunx_may_fetch_is_in_their_command_line() {
        let dir = tempfile::tempdir().unwrap();
        for program in ["uvx", "bunx"] {
            fs::write(dir.path().join(program), "#!/bin/sh\n").unwrap();
            fs::set_permissions(dir.path().join(program), fs::Permissions::from_mode(0o755)).unwrap();
        }
        let env = Environment::new([("PATH".into(), dir.path().into())], "/");
        let of = |command: &str| {
            let launcher = Launcher::new(command);
            let resolved = launcher::resolve("a", &launcher, &env.cwd, &env);
            fetch(&launcher, &resolved, &env.cwd, &env).map(|fetch| fetch.to_string())
        };
        for (command, package) in [
            ("uvx fast-agent@1.2 acp", "fast-agent@1.2"),
            ("uvx -p 3.13 --quiet --with x fast-agent", "fast-agent"),
            ("uvx --from openhands agent", "openhands"),
            ("uvx --from=openhands agent", "openhands"),
        ] {
            assert_eq!(of(command), Some(format!("uvx may fetch {package}")), "{command}");
        }
        assert_eq!(of("bunx --bun @s/a --acp").as_deref(), Some("bunx may fetch @s/a"));
        for none in ["uvx", "bunx ./a", "/bin/sh", "no-such-agent"] {
            assert_eq!(of(none), None, "{none}");
        }
    }

    #[test]
    fn the_only_one_that_is_installed_is_taken() {
        let env = Environment::new([("PATH".into(), "/nonexistent".into())], "/");
        let of = |commands: &[&str]| {
            let mut config = Config::default();
            for command in commands {
                config.launchers.insert((*command).to_owned(), Launcher::new(*command));
            }
            only(&config, Path::new("/"), &env).map(str::to_owned).map_err(|error| error.message())
        };
        assert_eq!(of(&["/bin/sh", "codex"]).unwrap(), "/bin/sh");
        let several = of(&["/bin/sh", "/bin/ls"]).unwrap_err();
        assert!(several.contains("/bin/ls, /bin/sh") && several.contains("subagent init"), "{several}");
        let none = of(&["codex"]).unwrap_err();
        assert!(none.contains("no agent is installed") && none.contains("known: codex"), "{none}");
    }

    #[test]
    fn a_package_is_fetchable_until_it_is_somewhere() {
        let dir = tempfile::tempdir().unwrap();
        let base = dir.path().canonicalize().unwrap();
        for folder in ["node/bin", "ws", "home"] {
            fs::create_dir_all(base.join(folder)).unwrap();
        }
        fs::write(base.join("node/bin/npx"), "#!/bin/sh\n").unwrap();
        fs::set_permissions(base.join("node/bin/npx"), fs::Permissions::from_mode(0o755)).unwrap();
        let vars = [("PATH".into(), base.join("node/bin").into()), ("HOME".into(), base.join("home").into())];
        let env = Environment::new(vars, base.join("ws"));
        let of = |args: &[&str], command: &str| {
            let args = args.iter().map(|&arg| arg.to_owned()).collect();
            let launcher = Launcher { args, ..Launcher::new(command) };
            let resolved = launcher::resolve("a", &launcher, &env.cwd, &env);
            presence(&launcher, &resolved, &env.cwd, &env)
        };
        let fetchable = Presence::Fetchable("@s/a".to_owned());
        let launcher = Launcher { args: vec!["@s/a".to_owned()], ..Launcher::new("npx") };
        let resolved = launcher::resolve("a", &launcher, &env.cwd, &env);
        let fetches = || fetch(&launcher, &resolved, &env.cwd, &env).map(|fetch| fetch.to_string());
        assert_eq!(fetches().as_deref(), Some("npx fetches @s/a"));
        for place in ["ws/node_modules", "node/lib/node_modules", "home/.npm/_npx/0f/node_modules"] {
            assert_eq!(of(&["-y", "@s/a"], "npx"), fetchable, "{place}");
            let folder = base.join(place).join("@s/a");
            fs::create_dir_all(&folder).unwrap();
            fs::write(folder.join("package.json"), r#"{"version": "1.0.0"}"#).unwrap();
            assert_eq!(of(&["-y", "@s/a"], "npx"), Presence::Available, "{place}");
            assert_eq!(fetches(), None, "{place}");
            assert_eq!(of(&["@s/a@1.0.0"], "npx"), Presence::Available);
            for other in ["@s/a@2.0.0", "@s/a@latest"] {
                assert_eq!(of(&[other], "npx"), fetchable);
            }
            fs::remove_dir_all(folder).unwrap();
        }
        assert_eq!(of(&[], "no-such-agent"), Presence::Missing);
        assert_eq!(of(&[], "/bin/sh"), Presence::Available);
    }
}
