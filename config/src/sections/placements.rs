//! Reads `placements`: other machines, containers and pods where workers run, and the key `placement`
//! that selects one. They count only in the user's own file: options of a client can run commands, and
//! one kind is commands.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Map, Value};
use subagent_protocol::placement::command::{LOGS, REQUIRED, UserCommands};
use subagent_protocol::placement::kubernetes::{KubernetesCluster, PLACED_IN_POD};
use subagent_protocol::placement::podman::ContainerEngine;
use subagent_protocol::placement::slurm::SlurmCluster;
use subagent_protocol::placement::ssh::RemoteHost;
use subagent_protocol::placement::{Engine, GitTransport, PLACED_THERE, Placement, WORKTREES_THERE};
use subagent_protocol::{Code, Error, Result};

use crate::agents::keys::KeyPositions;
use crate::check::{
    CheckResult, LONGEST_SECONDS, args, mapping, mismatch, named, refuse, required_string, seconds_with_unit,
    texts, trimmed,
};
use crate::error::FieldPath;
use crate::model::{Config, Launcher};
use crate::policy::Position;
use crate::start::wire::millis;

pub(crate) const PLACEMENTS: &str = "placements";
/// The keys of each kind.
const KEYS: [(&str, &[&str]); 5] = [
    ("ssh", &["kind", "host", "cwd", "args", "program", "lease", "transport", "worktrees"]),
    ("podman", &["kind", "image", "cwd", "mounts", "args", "command", "program", "lease"]),
    ("slurm", &["kind", "cwd", "args", "folder", "program", "lease"]),
    (
        "kubernetes",
        &[
            "kind",
            "template",
            "cwd",
            "namespace",
            "context",
            "container",
            "args",
            "folder",
            "program",
            "lease",
        ],
    ),
    ("command", &["kind", "cwd", "submit", "dial", "status", "cancel", "logs", "program", "lease"]),
];
/// The name for this machine, which overrides the config.
pub const LOCAL: &str = "local";
/// Maximum length of a name in bytes.
const MAX_NAME_BYTES: usize = 64;

/// Reads the placements of a config file. Unknown keys are errors.
pub(crate) fn placements(root: &Map<String, Value>) -> CheckResult<BTreeMap<String, Placement>> {
    named(root, PLACEMENTS, PLACEMENTS, placement)
}

fn placement(name: &str, value: &Value) -> CheckResult<Placement> {
    let entry = || FieldPath::Entry { field: PLACEMENTS.to_owned(), key: name.to_owned() };
    if let Some(problem) = name_problem(name) {
        return refuse(entry(), problem);
    }
    let field = format!("{PLACEMENTS}.{name}");
    let given = mapping(value, || field.clone())?;
    let at = |key: &str| FieldPath::Field(format!("{field}.{key}"));
    let required = |key: &str, example: &str| match given.get(key).filter(|value| !value.is_null()) {
        Some(value) => Ok(required_string(value, || at(key))?.trim().to_owned()),
        None => refuse(at(key), format!("is missing; write {example}")),
    };
    let kind = required("kind", "`kind: ssh`, or `podman`, `slurm`, `kubernetes` or `command`")?;
    let Some((_, keys)) = KEYS.iter().find(|(known, _)| *known == kind) else {
        let known = "must be `ssh`, `podman`, `slurm`, `kubernetes` or `command`, the kinds of this version";
        return refuse(at("kind"), known);
    };
    if let Some(key) = given.keys().find(|key| !keys.contains(&key.as_str())) {
        let place = FieldPath::Entry { field: field.clone(), key: key.clone() };
        return refuse(place, format!("is not known; write {}", keys.join(", ")));
    }
    let args = args(given, &format!("{field}.args"))?;
    let engine = match kind.as_str() {
        "ssh" => {
            let host = required("host", "the host as ssh takes it")?;
            Engine::Ssh(RemoteHost { host, args })
        }
        "slurm" => {
            let folder = trimmed(given.get("folder"), || at("folder"))?;
            Engine::Slurm(SlurmCluster { args, folder: folder.unwrap_or_else(|| PLACED_THERE.to_owned()) })
        }
        "kubernetes" => {
            let text = |key: &str| trimmed(given.get(key), || at(key));
            Engine::Kubernetes(Box::new(KubernetesCluster {
                context: text("context")?,
                namespace: required("namespace", "the namespace of the pods")?,
                args,
                template: required("template", "the path of the manifest of a pod")?,
                container: text("container")?,
                folder: text("folder")?.unwrap_or_else(|| PLACED_IN_POD.to_owned()),
                image: None,
            }))
        }
        "command" => {
            let [submit, dial, status, cancel] = REQUIRED.map(|key| words(given, &field, key));
            let (submit, dial, status, cancel) = (submit?, dial?, status?, cancel?);
            let logs = texts(given.get(LOGS), &format!("{field}.{LOGS}"))?;
            Engine::Command(Box::new(UserCommands { submit, dial, status, cancel, logs }))
        }
        _ => {
            let image = required("image", "the image as podman takes it")?;
            let mounts = texts(given.get("mounts"), &format!("{field}.mounts"))?;
            let command = match given.get("command") {
                Some(Value::String(client)) => vec![client.trim().to_owned()],
                other => texts(other, &format!("{field}.command"))?,
            };
            Engine::Podman(ContainerEngine { command, image, mounts, args })
        }
    };
    let cwd = required("cwd", "the folder there")?;
    let program = trimmed(given.get("program"), || at("program"))?;
    let lease_ms = lease(given, || at("lease"))?;
    let git = git_transport(given, at)?.map(Box::new);
    let placement = Placement { name: name.to_owned(), cwd, program, lease_ms, git, engine };
    match placement.problem() {
        Some((key, problem)) => refuse(at(key), problem),
        None => Ok(placement),
    }
}

/// Reads a command that the placement must have: a program with its arguments.
fn words(given: &Map<String, Value>, field: &str, key: &str) -> CheckResult<Vec<String>> {
    let field = format!("{field}.{key}");
    match given.get(key).filter(|value| !value.is_null()) {
        Some(value) => texts(Some(value), &field),
        None => {
            let example =
                "is missing; write a program with its arguments, as `[my-engine, start, \"{name}\"]`";
            refuse(FieldPath::Field(field), example)
        }
    }
}

/// Reads how git worktrees come to the placement, and where they are there.
fn git_transport(
    given: &Map<String, Value>,
    at: impl Fn(&str) -> FieldPath,
) -> CheckResult<Option<GitTransport>> {
    let transport = trimmed(given.get("transport"), || at("transport"))?;
    let folder = trimmed(given.get("worktrees"), || at("worktrees"))?;
    match (transport.as_deref(), folder) {
        (Some("git"), folder) => {
            Ok(Some(GitTransport { folder: folder.unwrap_or_else(|| WORKTREES_THERE.to_owned()) }))
        }
        (Some(_), _) => refuse(at("transport"), "must be `git`, the only one of this version"),
        (None, Some(_)) => refuse(at("worktrees"), "needs `transport: git` beside it"),
        (None, None) => Ok(None),
    }
}

/// Reads how long a runtime works on without its daemon, in milliseconds.
fn lease(given: &Map<String, Value>, place: impl Fn() -> FieldPath) -> CheckResult<Option<u64>> {
    let time = match given.get("lease") {
        None | Some(Value::Null) => return Ok(None),
        Some(Value::String(text)) => seconds_with_unit(text),
        Some(Value::Number(number)) => number.as_f64(),
        Some(other) => return mismatch(place(), "a time like 2h, or a number of seconds", other),
    };
    match time.filter(|seconds| (1.0..=LONGEST_SECONDS).contains(seconds)) {
        Some(seconds) => Ok(Duration::try_from_secs_f64(seconds).ok().map(millis)),
        None => refuse(place(), "must be a time between a second and a year, like 2h, 30m or 90s"),
    }
}

/// Returns why this is no name of a placement or host.
pub(crate) fn name_problem(name: &str) -> Option<&'static str> {
    let is_name = name.len() <= MAX_NAME_BYTES
        && name.starts_with(|c: char| c.is_ascii_alphanumeric())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c));
    match (is_name, name == LOCAL) {
        (false, _) => Some("is no name: write up to 64 letters, digits, `-`, `_` and `.`"),
        (true, true) => Some("is the name of this machine; choose another"),
        (true, false) => None,
    }
}

/// Reads the key `placement` of a launcher or of `defaults`.
pub(crate) fn choice(holder: &Map<String, Value>, field: &str) -> CheckResult<Option<String>> {
    trimmed(holder.get("placement"), || FieldPath::Field(format!("{field}.placement")))
}

/// Returns the position of a place below `placements`, or another section of named entries.
pub(crate) fn position(keys: &KeyPositions, place: &FieldPath, section: &'static str) -> Option<Position> {
    let (field, key) = match place {
        FieldPath::Field(field) | FieldPath::Element { field, .. } => (field, None),
        FieldPath::Entry { field, key } => (field, Some(key.as_str())),
        _ => return None,
    };
    let rest = field.strip_prefix(section)?;
    let mut path = vec![section];
    match rest.strip_prefix('.') {
        // A name may contain dots, and the key after it does not.
        Some(rest) if !keys.has(&[section, rest]) => match rest.rsplit_once('.') {
            Some((name, last)) => path.extend([name, last]),
            None => path.push(rest),
        },
        Some(rest) => path.push(rest),
        None => {}
    }
    path.extend(key);
    keys.of(&path)
}

/// Returns the placement of this name.
///
/// # Errors
/// `PLACEMENT_NOT_FOUND{placement,available}`.
pub fn by_name<'a>(config: &'a Config, name: &str) -> Result<&'a Placement> {
    config.placements.get(name).ok_or_else(|| {
        let available: Vec<&str> = config.placements.keys().map(String::as_str).collect();
        let known = match available.is_empty() {
            true => "your config file has none".to_owned(),
            false => format!("there are: {}", available.join(", ")),
        };
        Error::new(Code::PlacementNotFound, format!("there is no placement `{name}`; {known}"))
            .with("placement", name)
            .with("available", available)
            .recommend(format!(
                "add placements.{name} to your own config file; `subagent placement list` shows them"
            ))
    })
}

/// Returns the placement of a new worker: the chosen one, that of its launcher, or that of
/// `defaults`. [`LOCAL`] is this machine.
///
/// # Errors
/// `PLACEMENT_NOT_FOUND{placement,available}`.
pub fn choose(config: &Config, chosen: Option<&str>, launcher: &Launcher) -> Result<Option<Placement>> {
    let chosen = chosen.map(str::trim).filter(|name| !name.is_empty());
    let name = chosen.or(launcher.placement.as_deref()).or(config.defaults.placement.as_deref());
    name.filter(|name| *name != LOCAL).map(|name| by_name(config, name).cloned()).transpose()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(value: Value) -> CheckResult<BTreeMap<String, Placement>> {
        placements(json!({"placements": value}).as_object().unwrap())
    }

    #[test]
    fn a_placement_has_a_host_and_a_folder() {
        let found =
            read(json!({"gpu.1": {"kind": "ssh", "host": "me@gpu1", "cwd": "~/x", "args": ["-p", "2"]}}));
        let found = found.unwrap().remove("gpu.1").unwrap();
        let host = RemoteHost { host: "me@gpu1".into(), args: vec!["-p".into(), "2".into()] };
        assert_eq!((found.cwd.as_str(), found.engine), ("~/x", Engine::Ssh(host)));
        let good = json!({"kind": "ssh", "host": "h", "cwd": "/x"});
        for (key, value) in [
            ("kind", json!("podman")),
            ("kind", json!("nspawn")),
            ("image", json!("x")),
            ("kind", json!(null)),
            ("host", json!("-oProxyCommand=x")),
            ("host", json!("")),
            ("cwd", json!("relative")),
            ("cwd", json!(null)),
            ("program", json!("x")),
            ("args", json!("x")),
            ("hots", json!("x")),
        ] {
            let mut bad = good.clone();
            bad[key] = value;
            assert!(read(json!({"one": bad.clone()})).is_err(), "{bad}");
        }
        for name in ["local", "", "a b", "-x"] {
            assert!(read(json!({name: good.clone()})).is_err(), "{name}");
        }
    }

    #[test]
    fn a_lease_is_a_time() {
        let good = json!({"kind": "ssh", "host": "h", "cwd": "/x"});
        let lease = |value: Value| {
            let mut one = good.clone();
            one["lease"] = value;
            read(json!({"one": one})).map(|mut found| found.remove("one").unwrap().lease_ms).ok()
        };
        for (given, millis) in [
            (json!("2h"), Some(7_200_000)),
            (json!(90), Some(90_000)),
            (json!("1.5s"), Some(1500)),
            (json!(null), None),
        ] {
            assert_eq!(lease(given.clone()), Some(millis), "{given}");
        }
        for bad in
            [json!("soon"), json!(0), json!("0.5s"), json!("2y"), json!(-1), json!("400d"), json!(true)]
        {
            assert_eq!(lease(bad.clone()), None, "{bad}");
        }
    }

    #[test]
    fn a_container_has_an_image_and_a_folder() {
        let good = json!({"kind": "podman", "image": "agents:1", "cwd": "/work", "mounts": [".:/work"]});
        for (command, expected) in [
            (json!(null), Vec::<&str>::new()),
            (json!("docker"), vec!["docker"]),
            (json!(["podman", "--remote"]), vec!["podman", "--remote"]),
        ] {
            let mut one = good.clone();
            one["command"] = command;
            let found = read(json!({"box": one})).unwrap().remove("box").unwrap();
            let Engine::Podman(podman) = found.engine else { panic!("{found:?}") };
            assert_eq!(
                (podman.command, podman.mounts.len()),
                (expected.iter().map(|word| (*word).to_owned()).collect(), 1)
            );
        }
        for (key, value) in [
            ("image", json!("--privileged")),
            ("image", json!(null)),
            ("mounts", json!(["/a"])),
            ("mounts", json!("/a:/b")),
            ("args", json!(["--pid=host"])),
            ("command", json!("")),
            ("command", json!([""])),
            ("host", json!("x")),
            ("cwd", json!("work")),
        ] {
            let mut bad = good.clone();
            bad[key] = value;
            assert!(read(json!({"one": bad.clone()})).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_cluster_has_a_folder_that_nodes_share() {
        let good = json!({"kind": "slurm", "cwd": "/scratch/me", "args": ["--mem=4G"]});
        let found = read(json!({"c": good.clone()})).unwrap().remove("c").unwrap();
        let cluster = SlurmCluster { args: vec!["--mem=4G".into()], folder: PLACED_THERE.into() };
        assert_eq!(found.engine, Engine::Slurm(cluster));
        let own = Placement { program: Some("~/bin/x".into()), ..found };
        let own = own.with_home(Some(std::path::Path::new("/home/me")));
        let Engine::Slurm(cluster) = own.engine else { panic!() };
        assert_eq!(cluster.folder, "/home/me/.local/state/subagent/placed");
        assert_eq!(own.program.as_deref(), Some("/home/me/bin/x"));
        for (key, value) in [
            ("args", json!(["--array=1-3"])),
            ("args", json!(["-J", "x"])),
            ("folder", json!("relative")),
            ("host", json!("x")),
            ("cwd", json!(null)),
        ] {
            let mut bad = good.clone();
            bad[key] = value;
            assert!(read(json!({"one": bad.clone()})).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_placement_of_pods_has_a_namespace_and_a_template() {
        let good =
            json!({"kind": "kubernetes", "template": "~/pod.yaml", "cwd": "/work", "namespace": "agents"});
        assert!(read(json!({"one": good.clone()})).is_ok());
        for (key, value) in [
            ("template", json!(null)),
            ("namespace", json!(null)),
            ("namespace", json!("A")),
            ("args", json!(["--token=x"])),
            ("folder", json!("x")),
            ("image", json!("x")),
        ] {
            let mut bad = good.clone();
            bad[key] = value;
            assert!(read(json!({"one": bad.clone()})).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_placement_of_commands_has_each_of_them() {
        let good = json!({
            "kind": "command", "cwd": "/work", "submit": ["vm", "start", "{name}"],
            "dial": ["~/bin/vm", "ssh", "{handle}"], "status": ["vm", "status"], "cancel": ["vm", "end"],
        });
        let found = read(json!({"vm": good.clone()})).unwrap().remove("vm").unwrap();
        let found = found.with_home(Some(std::path::Path::new("/home/me")));
        let Engine::Command(commands) = found.engine else { panic!() };
        assert_eq!((commands.dial[0].as_str(), commands.logs.len()), ("/home/me/bin/vm", 0));
        for (key, value) in [
            ("submit", json!(null)),
            ("dial", json!(null)),
            ("status", json!([])),
            ("cancel", json!("vm end")),
            ("submit", json!(["vm", "{handle}"])),
            ("dial", json!(["./vm"])),
            ("dial", json!([" "])),
            ("logs", json!([""])),
            ("logs", json!([7])),
            ("status", json!(["vm", "\0"])),
            ("program", json!("/a b")),
            ("args", json!(["x"])),
            ("image", json!("x")),
        ] {
            let mut bad = good.clone();
            bad[key] = value;
            assert!(read(json!({"one": bad.clone()})).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_choice_precedes_the_launcher_and_the_defaults() {
        let mut config = Config::default();
        for name in ["a", "b", "c"] {
            let one = read(json!({name: {"kind": "ssh", "host": name, "cwd": "/x"}})).unwrap();
            config.placements.extend(one);
        }
        let mut launcher = Launcher::new("x");
        let host = |config: &Config, chosen, launcher: &Launcher| {
            choose(config, chosen, launcher).unwrap().map(|found| found.name)
        };
        assert_eq!(host(&config, None, &launcher), None);
        config.defaults.placement = Some("a".to_owned());
        assert_eq!(host(&config, None, &launcher).as_deref(), Some("a"));
        launcher.placement = Some("b".to_owned());
        assert_eq!(host(&config, None, &launcher).as_deref(), Some("b"));
        assert_eq!(host(&config, Some("c"), &launcher).as_deref(), Some("c"));
        assert_eq!(host(&config, Some(LOCAL), &launcher), None);
        let error = choose(&config, Some("gpu"), &launcher).unwrap_err();
        assert_eq!(
            (error.code, &error.details["available"]),
            (Code::PlacementNotFound, &json!(["a", "b", "c"]))
        );
    }
}
