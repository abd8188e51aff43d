//! Reads `hosts`: other machines whose daemons commands can use. Pure. They count only
//! in the user's own file: options of a client can run commands.

use std::collections::BTreeMap;

use serde_json::{Map, Value};
use subagent_protocol::hosts::DaemonHost;
use subagent_protocol::placement::ssh::RemoteHost;
use subagent_protocol::{Code, Error};

use crate::check::{CheckResult, named, refuse};
use crate::error::FieldPath;
use crate::placements::name_problem;
use crate::section::Section;

pub(crate) const HOSTS: &str = "hosts";
const KEYS: [&str; 4] = ["host", "cwd", "args", "program"];
const SCHEME: &str = "ssh://";

/// The hosts of a file, by name.
pub type DaemonHosts = BTreeMap<String, DaemonHost>;

/// Reads the hosts of a config file. Unknown keys are errors.
pub(crate) fn hosts(root: &Map<String, Value>) -> CheckResult<DaemonHosts> {
    named(root, HOSTS, HOSTS, host)
}

fn host(name: &str, value: &Value) -> CheckResult<DaemonHost> {
    if let Some(problem) = name_problem(name) {
        return refuse(FieldPath::Entry { field: HOSTS.to_owned(), key: name.to_owned() }, problem);
    }
    let field = format!("{HOSTS}.{name}");
    if let Value::String(text) = value {
        let place = || FieldPath::Field(field.clone());
        let Some(rest) = text.trim().strip_prefix(SCHEME) else {
            return refuse(place(), "must be `ssh://USER@HOST`, or a mapping with `host`");
        };
        // ssh takes no folder in its own addresses.
        let (host, folder) = rest.split_once('/').unwrap_or((rest, ""));
        let cwd = match folder {
            "" => None,
            home if home == "~" || home.starts_with("~/") => Some(home.to_owned()),
            folder => Some(format!("/{folder}")),
        };
        let remote = RemoteHost { host: format!("{SCHEME}{host}"), args: Vec::new() };
        if host.is_empty() {
            return refuse(place(), "names no host: write `ssh://USER@HOST`");
        }
        return match remote.problem() {
            None => Ok(DaemonHost { name: name.to_owned(), remote, cwd, program: None }),
            Some((_, problem)) => refuse(place(), problem),
        };
    }
    let given = Section::of(value, field)?;
    given.only(&KEYS)?;
    let Some(host) = given.string("host")? else {
        return refuse(given.place("host"), "is missing; write the host as ssh takes it");
    };
    let remote = RemoteHost { host: host.trim().to_owned(), args: given.texts("args")? };
    if let Some((key, problem)) = remote.problem() {
        return refuse(given.place(key), problem);
    }
    let (cwd, program) = (given.text("cwd")?, given.text("program")?);
    for (key, path) in [("cwd", &cwd), ("program", &program)] {
        let is_usable = |path: &String| {
            let is_absolute = path.starts_with('/') || path == "~" || path.starts_with("~/");
            is_absolute && !path.contains('\0')
        };
        if path.as_ref().is_some_and(|path| !is_usable(path)) {
            return refuse(given.place(key), "must be an absolute path there, or begin with `~/`");
        }
    }
    Ok(DaemonHost { name: name.to_owned(), remote, cwd, program })
}

/// Returns the host of this name.
///
/// # Errors
/// `HOST_NOT_FOUND{host,available}`.
pub fn by_name(hosts: &DaemonHosts, name: &str) -> Result<DaemonHost, Error> {
    hosts.get(name).cloned().ok_or_else(|| {
        let available: Vec<&str> = hosts.keys().map(String::as_str).collect();
        let known = match available.is_empty() {
            true => "your config file has none".to_owned(),
            false => format!("there are: {}", available.join(", ")),
        };
        Error::new(Code::HostNotFound, format!("there is no host `{name}`; {known}"))
            .with("host", name)
            .with("available", available)
            .recommend(format!("add hosts.{name} to your own config file, or name one of these"))
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(value: Value) -> CheckResult<DaemonHost> {
        hosts(json!({"hosts": {"lap": value}}).as_object().unwrap()).map(|mut all| all.remove("lap").unwrap())
    }

    #[test]
    fn an_address_may_have_a_folder() {
        for (text, host, cwd) in [
            ("ssh://me@lap", "ssh://me@lap", None),
            ("ssh://me@lap:2222/", "ssh://me@lap:2222", None),
            ("ssh://lap/src/app", "ssh://lap", Some("/src/app")),
            ("ssh://lap/~/src/app", "ssh://lap", Some("~/src/app")),
        ] {
            let found = read(json!(text)).unwrap();
            assert_eq!((found.remote.host.as_str(), found.cwd.as_deref()), (host, cwd), "{text}");
        }
        for text in ["", "me@lap", "http://lap", "ssh://", "ssh:///src", "ssh://a b"] {
            assert!(read(json!(text)).is_err(), "{text}");
        }
    }

    #[test]
    fn a_mapping_has_a_host_and_may_have_more() {
        let good = json!({"host": "lap", "cwd": "~/app", "args": ["-p", "2"], "program": "/opt/subagent"});
        let found = read(good.clone()).unwrap();
        assert_eq!((found.name.as_str(), found.remote.args.len()), ("lap", 2));
        for (key, value) in [
            ("host", json!(null)),
            ("host", json!("-oProxyCommand=x")),
            ("cwd", json!("app")),
            ("program", json!("subagent")),
            ("args", json!("x")),
            ("hots", json!("x")),
        ] {
            let mut bad = good.clone();
            bad[key] = value;
            assert!(read(bad.clone()).is_err(), "{bad}");
        }
        let local = json!({"hosts": {"local": "ssh://lap"}});
        assert!(hosts(local.as_object().unwrap()).is_err());
        let error = by_name(&DaemonHosts::from([("lap".to_owned(), found)]), "top").unwrap_err();
        assert_eq!((error.code, &error.details["available"]), (Code::HostNotFound, &json!(["lap"])));
    }
}
