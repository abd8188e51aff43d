//! Reads sandbox profiles: `sandboxes`, and `sandbox` of launchers, `defaults` and definitions. Pure.
//!
//! Unknown keys are errors: a misspelled key must not widen access.

use serde_json::Value;
use subagent_protocol::sandbox::{FileSystem, HostPort, InvalidHostPort, Network};

use crate::check::{CheckResult, mismatch, refuse, required_string, without_nul};
use crate::error::FieldPath;
use crate::section::Section;

const KEYS: [&str; 5] = ["filesystem", "write", "read", "hide", "network"];
/// The name for no sandbox.
pub const NONE: &str = "none";

/// A sandbox profile. An absent field is the default; in a definition it adds no limit.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Profile {
    /// Sharing mode of the workspace.
    pub filesystem: Option<FileSystem>,
    /// Paths that are writable in addition to the workspace.
    pub write: Option<Vec<String>>,
    /// Readable paths; `None` uses the default.
    pub read: Option<Vec<String>>,
    /// Paths that are hidden.
    pub hide: Option<Vec<String>>,
    /// The permitted network access.
    pub network: Option<NetworkAccess>,
}

impl Profile {
    /// Whether the profile limits anything; `shared_rw` alone equals no sandbox.
    #[must_use]
    pub fn confines(&self) -> bool {
        let shares_all = Self { filesystem: Some(FileSystem::SharedRw), ..Self::default() };
        *self != Self::default() && *self != shares_all
    }
}

/// The permitted network access.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NetworkAccess {
    /// A mode of network access.
    Of(Network),
    /// Only these hosts and ports; at least one.
    Hosts(Vec<HostPort>),
}

/// The sandbox of a launcher or of `defaults`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SandboxChoice {
    /// A name: of `sandboxes`, or a sharing mode.
    Named(String),
    /// A profile without a name.
    Own(Profile),
}

/// Returns all words for sharing modes, for messages.
#[must_use]
pub fn files_words() -> String {
    let words = FileSystem::ALL.iter().map(|mode| mode.as_str());
    words.collect::<Vec<_>>().join(", ")
}

/// Reads an entry of `sandboxes`.
pub(crate) fn named(name: &str, value: &Value) -> CheckResult<Profile> {
    let place = || FieldPath::Entry { field: "sandboxes".to_owned(), key: name.to_owned() };
    if FileSystem::parse(name).is_some() || name == NONE {
        return refuse(place(), "is the name of a built-in sandbox; choose another");
    }
    profile(value, &format!("sandboxes.{name}"))
}

/// Reads `sandbox` of a launcher or of `defaults`: a name or a profile.
pub(crate) fn choice(holder: &Section<'_>) -> CheckResult<Option<SandboxChoice>> {
    match holder.value("sandbox") {
        None => Ok(None),
        Some(Value::String(name)) if !name.trim().is_empty() => {
            Ok(Some(SandboxChoice::Named(name.trim().to_owned())))
        }
        Some(value @ Value::Object(_)) => {
            profile(value, &holder.field("sandbox")).map(SandboxChoice::Own).map(Some)
        }
        Some(other) => mismatch(holder.place("sandbox"), "the name of a sandbox, or a mapping", other),
    }
}

/// Reads a profile and rejects unknown keys.
pub(crate) fn profile(value: &Value, field: &str) -> CheckResult<Profile> {
    let given = Section::of(value, field)?;
    given.only(&KEYS)?;
    Ok(Profile {
        filesystem: filesystem(&given)?,
        write: paths(&given, "write")?,
        read: paths(&given, "read")?,
        hide: paths(&given, "hide")?,
        network: network(&given)?,
    })
}

/// Reads `filesystem` of a profile or definition.
pub(crate) fn filesystem(given: &Section<'_>) -> CheckResult<Option<FileSystem>> {
    let Some(word) = given.string("filesystem")? else { return Ok(None) };
    match FileSystem::parse(word.trim()) {
        Some(mode) => Ok(Some(mode)),
        None => refuse(given.place("filesystem"), format!("must be one of {}", files_words())),
    }
}

fn paths(given: &Section<'_>, key: &str) -> CheckResult<Option<Vec<String>>> {
    let Some(items) = given.list(key)? else { return Ok(None) };
    let checked = items.iter().enumerate().map(|(index, item)| {
        let place = || FieldPath::Element { field: given.field(key), index };
        match without_nul(required_string(item, place)?, place)? {
            path if path.trim().is_empty() => refuse(place(), "must not be blank"),
            path => Ok(path),
        }
    });
    checked.collect::<CheckResult<_>>().map(Some)
}

fn hosts(items: &[Value], field: &str) -> CheckResult<Vec<HostPort>> {
    let read = items.iter().enumerate().map(|(index, item)| {
        let place = || FieldPath::Element { field: field.to_owned(), index };
        match required_string(item, place)?.trim().parse() {
            Ok(target) => Ok(target),
            Err(InvalidHostPort) => refuse(place(), InvalidHostPort.to_string()),
        }
    });
    read.collect()
}

fn network(given: &Section<'_>) -> CheckResult<Option<NetworkAccess>> {
    let place = || given.place("network");
    match given.value("network") {
        None => Ok(None),
        Some(Value::String(word)) => match Network::parse(word.trim()) {
            Some(network) if network != Network::Hosts => Ok(Some(NetworkAccess::Of(network))),
            _ => refuse(place(), "must be all, loopback, none, or a list of host:port"),
        },
        Some(Value::Array(items)) => {
            if items.is_empty() {
                return refuse(place(), "must not be an empty list; write none or loopback");
            }
            hosts(items, &given.field("network")).map(NetworkAccess::Hosts).map(Some)
        }
        Some(other) => mismatch(place(), "all, loopback, none, or a list of host:port", other),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_key_is_read() {
        let read = profile(
            &json!({"filesystem": "shared_ro", "write": ["./target"], "read": [], "hide": ["~"], "network": "none"}),
            "s",
        );
        let expected = Profile {
            filesystem: Some(FileSystem::SharedRo),
            write: Some(vec!["./target".to_owned()]),
            read: Some(Vec::new()),
            hide: Some(vec!["~".to_owned()]),
            network: Some(NetworkAccess::Of(Network::None)),
        };
        assert_eq!(read.unwrap(), expected);
        assert_eq!(profile(&json!({"write": null}), "s").unwrap(), Profile::default());
        let hosts = profile(&json!({"network": ["api.example:443"]}), "s").unwrap().network;
        assert_eq!(hosts, Some(NetworkAccess::Hosts(vec!["api.example:443".parse().unwrap()])));
    }

    #[test]
    fn what_is_wrong_is_named_and_no_key_is_overlooked() {
        let of = |value: Value| profile(&value, "launchers.a.sandbox").unwrap_err().place;
        let field = |key: &str| FieldPath::Field(format!("launchers.a.sandbox.{key}"));
        assert_eq!(of(json!({"filesystem": "rw"})), field("filesystem"));
        assert_eq!(of(json!({"network": "lan"})), field("network"));
        assert_eq!(of(json!({"network": 1})), field("network"));
        assert_eq!(of(json!({"network": "hosts"})), field("network"));
        assert_eq!(of(json!({"network": []})), field("network"));
        let host = FieldPath::Element { field: "launchers.a.sandbox.network".to_owned(), index: 1 };
        assert_eq!(of(json!({"network": ["a:1", "https://b"]})), host);
        assert_eq!(of(json!({"hide": "~"})), field("hide"));
        let element = FieldPath::Element { field: "launchers.a.sandbox.write".to_owned(), index: 1 };
        assert_eq!(of(json!({"write": ["a", ""]})), element);
        let entry = FieldPath::Entry { field: "launchers.a.sandbox".to_owned(), key: "hidden".to_owned() };
        assert_eq!(of(json!({"hidden": []})), entry);
    }

    #[test]
    fn a_launcher_names_one_or_has_its_own() {
        let of = |value: Value| {
            choice(&Section::new(json!({"sandbox": value}).as_object().unwrap(), "launchers.a"))
        };
        assert_eq!(of(json!(null)).unwrap(), None);
        assert_eq!(of(json!("tight")).unwrap(), Some(SandboxChoice::Named("tight".to_owned())));
        assert_eq!(of(json!({})).unwrap(), Some(SandboxChoice::Own(Profile::default())));
        assert!(of(json!(true)).is_err() && of(json!("")).is_err());
        for taken in ["shared_ro", "isolated", "none"] {
            assert!(named(taken, &json!({})).is_err(), "{taken}");
        }
    }
}
