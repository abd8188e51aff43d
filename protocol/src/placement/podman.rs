//! A container on this machine that podman or docker runs: the command lines, and what the client
//! says when it fails. A container belongs to one runtime, and ends with it.

mod answers;

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::ssh::program_beside;
use crate::mcp::TASK_SERVER_PROGRAM;
pub(super) use answers::{is_image_missing, is_of_docker, reason_of};

/// The client if the placement names none.
const CLIENT: &str = "podman";
/// Exit codes of the client if it failed itself, or the container does not run.
pub const CLIENT_FAILED: [i32; 2] = [125, 255];
/// Where the runtime of this installation is in a container. The task server of agents is beside it.
pub const PROGRAM: &str = "/run/subagent/subagent-runtime";
/// The command that keeps a container alive while its runtime lives.
pub const HOLD: &str = "hold";

/// An image, and how podman or docker runs it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct ContainerEngine {
    /// The client and its global options; empty: `podman`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub command: Vec<String>,
    /// The image as the client takes it.
    pub image: String,
    /// Folders of this machine, as `SOURCE:TARGET` or `SOURCE:TARGET:OPTIONS`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mounts: Vec<String>,
    /// Further options of `run`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub args: Vec<String>,
}

/// A container that is about to be started.
#[derive(Debug, Clone, Copy)]
pub struct ContainerRun<'a> {
    /// The name of the container.
    pub name: &'a str,
    /// The worker's folder, at the same path here and there.
    pub folder: &'a Path,
    /// Folders there that are empty in the container: a mount would show what is in them.
    pub hidden: &'a [String],
    /// The runtime of this installation; `None` if the image has its own.
    pub runtime: Option<&'a Path>,
    /// Path of the runtime there.
    pub program: &'a str,
    /// User and group of the processes there.
    pub user: (u32, u32),
}

impl ContainerEngine {
    /// Returns the program of the client.
    #[must_use]
    pub fn client(&self) -> &str {
        self.command.first().map_or(CLIENT, String::as_str)
    }

    /// Returns the global options of the client.
    fn global(&self) -> impl Iterator<Item = String> {
        self.command.iter().skip(1).cloned()
    }

    fn is_podman(&self) -> bool {
        Path::new(self.client()).file_name().is_some_and(|name| name == CLIENT)
    }

    /// Returns the options of each run: user, mounts, and those of the config file.
    fn options(&self, runtime: Option<&Path>, (user, group): (u32, u32)) -> Vec<String> {
        let mut options =
            vec!["--rm".to_owned(), "--pull=never".to_owned(), format!("--user={user}:{group}")];
        if user != 0 && self.is_podman() {
            // Without it, another user of this machine owns what this user writes there.
            options.push("--userns=keep-id".to_owned());
        }
        if let Some(runtime) = runtime {
            let task_server = runtime.with_file_name(TASK_SERVER_PROGRAM);
            let beside = program_beside(PROGRAM, TASK_SERVER_PROGRAM);
            options.push(bound(runtime, PROGRAM, true));
            options.push(bound(&task_server, &beside, true));
        }
        options.extend(self.mounts.iter().map(|mount| format!("--volume={mount}")));
        options.extend(self.args.iter().cloned());
        options
    }

    /// Returns where the mounts show this folder of this machine. Their sources are resolved with
    /// `real`, which follows links.
    #[must_use]
    pub fn shown(&self, folder: &Path, real: impl Fn(&Path) -> PathBuf) -> Vec<String> {
        let shown = self.mounts.iter().filter_map(|mount| {
            let (source, rest) = mount.split_once(':')?;
            let target = Path::new(rest.split_once(':').map_or(rest, |(target, _)| target));
            let below = folder.strip_prefix(real(Path::new(source))).ok()?;
            let path = if below.as_os_str().is_empty() { target.to_owned() } else { target.join(below) };
            Some(path.display().to_string())
        });
        shown.collect()
    }

    /// Returns the arguments that start a container, which lives as long as the runtime in it.
    #[must_use]
    pub fn start(&self, run: &ContainerRun<'_>) -> Vec<String> {
        let mut words: Vec<String> = self.global().collect();
        words.extend(["run", "--detach", "--name", run.name].map(str::to_owned));
        words.extend(self.options(run.runtime, run.user));
        let folder = run.folder.display();
        // Podman would copy what is below.
        let empty = if self.is_podman() { ",notmpcopyup" } else { "" };
        words.extend(
            run.hidden.iter().map(|hidden| format!("--mount=type=tmpfs,{}{empty}", field("dst", hidden))),
        );
        words.push(bound(run.folder, &folder.to_string(), false));
        words.push(format!("--entrypoint={}", run.program));
        words.extend([self.image.clone(), HOLD.to_owned(), folder.to_string()]);
        words
    }

    /// Returns the arguments that run a program in a new container until it ends.
    #[must_use]
    pub fn once(
        &self,
        runtime: Option<&Path>,
        user: (u32, u32),
        program: &str,
        words: &[&str],
    ) -> Vec<String> {
        let mut all: Vec<String> = self.global().collect();
        all.push("run".to_owned());
        all.extend(self.options(runtime, user));
        all.extend([format!("--entrypoint={program}"), self.image.clone()]);
        all.extend(words.iter().map(|word| (*word).to_owned()));
        all
    }

    /// Returns the arguments that run a program in a container, with standard input.
    #[must_use]
    pub fn exec(&self, name: &str, program: &str, words: &[&str]) -> Vec<String> {
        let command = ["exec", "--interactive", name, program];
        self.global().chain(command.into_iter().chain(words.iter().copied()).map(str::to_owned)).collect()
    }

    /// Returns the arguments that end a container and everything in it. Of several names, podman removes
    /// none if the first one ends meanwhile.
    #[must_use]
    pub fn remove(&self, name: &str) -> Vec<String> {
        self.global().chain(["rm", "--force", name].map(str::to_owned)).collect()
    }

    /// Returns the arguments that print the names of containers with this in their name.
    #[must_use]
    pub fn list(&self, part: &str) -> Vec<String> {
        let filter = format!("--filter=name={part}");
        let words = ["ps", "--all", &filter, "--format={{.Names}}"];
        self.global().chain(words.map(str::to_owned)).collect()
    }

    /// Returns the arguments of another command of the client.
    #[must_use]
    pub fn other(&self, words: &[&str]) -> Vec<String> {
        self.global().chain(words.iter().map(|word| (*word).to_owned())).collect()
    }

    /// Returns the same with mounts that begin with a folder, not with a relative path or `~`.
    #[must_use]
    pub fn mounted_from(self, workspace: &Path, home: Option<&Path>) -> Self {
        let resolved = |mount: String| {
            let (source, rest) = mount.split_once(':').unwrap_or((mount.as_str(), ""));
            let source = match (source.strip_prefix('~'), home) {
                (Some(below), Some(home)) if below.is_empty() || below.starts_with('/') => {
                    home.join(below.trim_start_matches('/'))
                }
                _ if source == "." => workspace.to_owned(),
                _ => workspace.join(source),
            };
            format!("{}:{rest}", source.display())
        };
        Self { mounts: self.mounts.into_iter().map(resolved).collect(), ..self }
    }

    /// Returns the key that is wrong, and why.
    pub(super) fn problem(&self) -> Option<(&'static str, &'static str)> {
        let mut words = self.command.iter().chain(&self.args);
        let image = image_problem(&self.image).map(|problem| ("image", problem));
        let command = self.command.first().is_some_and(String::is_empty);
        let mount = self.mounts.iter().find_map(|mount| mount_problem(mount));
        let shares_pids = self.args.iter().any(|arg| arg == "--pid" || arg.starts_with("--pid="));
        image
            .or(command.then_some(("command", "must not be empty")))
            .or(words.any(|word| word.contains('\0')).then_some(("args", "must not contain a NUL")))
            .or(shares_pids
                .then_some(("args", "must not contain `--pid`: the end of a container ends its processes")))
            .or(mount.map(|problem| ("mounts", problem)))
    }
}

/// Returns the option for a mount. Unlike `--volume`, it takes any path.
fn bound(source: &Path, target: &str, read_only: bool) -> String {
    let (source, target) = (field("src", &source.display().to_string()), field("dst", target));
    format!("--mount=type=bind,{source},{target}{}", if read_only { ",readonly" } else { "" })
}

/// Returns a field of `--mount`, which is a line of CSV.
fn field(name: &str, path: &str) -> String {
    match path.contains([',', '"']) {
        true => format!("\"{name}={}\"", path.replace('"', "\"\"")),
        false => format!("{name}={path}"),
    }
}

/// Returns why the client cannot take this text as an image.
fn image_problem(image: &str) -> Option<&'static str> {
    match image {
        "" => Some("must not be empty"),
        image if image.starts_with('-') => Some("must not begin with `-`"),
        image if image.chars().any(|c| c.is_whitespace() || c.is_control()) => {
            Some("must not contain blanks or control characters")
        }
        _ => None,
    }
}

/// Returns why this is no mount.
fn mount_problem(mount: &str) -> Option<&'static str> {
    if mount.chars().any(char::is_control) {
        return Some("must not contain control characters");
    }
    match mount.split_once(':') {
        Some((source, target)) if !source.is_empty() && target.starts_with('/') => None,
        _ => Some("must be `SOURCE:TARGET` with an absolute target"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::client::ClientFailure;
    use super::super::{Engine, Placement};
    use super::*;
    use crate::error::Code;

    fn engine() -> ContainerEngine {
        ContainerEngine {
            command: vec!["/opt/podman".into(), "--root".into(), "/x".into()],
            image: "agents:1".into(),
            mounts: vec![".:/work".into(), "~/.codex:/home/me/.codex:ro".into(), "/a b:/c".into()],
            args: vec!["--network=none".into()],
        }
    }

    #[test]
    fn a_container_is_that_of_one_runtime() {
        let engine = engine().mounted_from(Path::new("/src/app"), Some(Path::new("/home/me")));
        let name = super::super::engine::place_name("0a1b2c3d", "w_1", 3);
        let run = ContainerRun {
            name: &name,
            folder: Path::new("/state/placed/w_1"),
            hidden: &["/at/state".to_owned()],
            runtime: Some(Path::new("/bin/subagent-runtime")),
            program: PROGRAM,
            user: (1000, 100),
        };
        let expected = "--root /x run --detach --name subagent-0a1b2c3d-w_1-3 --rm --pull=never --user=1000:100 \
            --userns=keep-id --mount=type=bind,src=/bin/subagent-runtime,dst=/run/subagent/subagent-runtime,readonly \
            --mount=type=bind,src=/bin/subagent,dst=/run/subagent/subagent,readonly \
            --volume=/src/app:/work --volume=/home/me/.codex:/home/me/.codex:ro --volume=/a b:/c --network=none \
            --mount=type=tmpfs,dst=/at/state,notmpcopyup \
            --mount=type=bind,src=/state/placed/w_1,dst=/state/placed/w_1 --entrypoint=/run/subagent/subagent-runtime agents:1 \
            hold /state/placed/w_1";
        assert_eq!(engine.start(&run).join(" "), expected);
        let shown = |folder: &str| engine.shown(Path::new(folder), Path::to_owned);
        assert_eq!(shown("/src/app/state"), [Path::new("/work").join("state").to_str().unwrap()]);
        assert_eq!(shown("/src/app"), ["/work"]);
        assert!(shown("/src/application/state").is_empty());
        assert_eq!(
            engine.exec(&name, PROGRAM, &["submit", "w_1"]).join(" "),
            "--root /x exec --interactive subagent-0a1b2c3d-w_1-3 /run/subagent/subagent-runtime submit w_1"
        );
        let docker = ContainerEngine { command: vec!["docker".into()], ..engine };
        assert!(!docker.start(&run).iter().any(|word| word.starts_with("--userns")));
        assert_eq!(docker.remove(&name).join(" "), "rm --force subagent-0a1b2c3d-w_1-3");
    }

    #[test]
    fn keys_are_checked() {
        assert_eq!(engine().problem(), None);
        for image in ["", "--privileged", "a b"] {
            assert_eq!(ContainerEngine { image: image.into(), ..engine() }.problem().unwrap().0, "image");
        }
        let pids = ContainerEngine { args: vec!["--pid=host".into()], ..engine() };
        assert_eq!(pids.problem().unwrap().0, "args");
        assert_eq!(bound(Path::new("/a,b"), "/c", false), "--mount=type=bind,\"src=/a,b\",dst=/c");
        for mount in ["", "/a", ":/a", "/a:b", "/a:/b\n"] {
            let found = ContainerEngine { mounts: vec![mount.into()], ..engine() }.problem();
            assert_eq!(found.unwrap().0, "mounts", "{mount}");
        }
    }

    #[test]
    fn each_failure_of_the_client_has_advice() {
        let placement = Placement {
            name: "box".into(),
            cwd: "/work".into(),
            program: None,
            lease_ms: None,
            git: None,
            engine: Engine::Podman(engine()),
        };
        for (code, said, reason) in [
            (
                255,
                "Error: can only create exec sessions on running containers: container state improper",
                "container",
            ),
            (125, "Error: creating runtime static files directory", "engine"),
            (1, "Error response from daemon: container 6e is not running", "container"),
        ] {
            let error = ClientFailure::Exited(Some(code), said.as_bytes()).error(&placement, PROGRAM);
            assert_eq!((error.code, &error.details["reason"]), (Code::PlacementUnreachable, &reason.into()));
            assert_eq!(error.details["image"], "agents:1");
        }
        for (code, said) in [(127, ""), (125, "Error: agents:1: image not known")] {
            let missing = ClientFailure::Exited(Some(code), said.as_bytes()).error(&placement, PROGRAM);
            assert_eq!(missing.code, Code::PlacementNotPrepared);
            assert!(missing.details["recommendedAction"].as_str().unwrap().contains("prepare box"));
        }
    }
}
