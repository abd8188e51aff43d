//! The capabilities of this machine, and the layers of a sandbox here.

use std::path::{Path, PathBuf};

use subagent_protocol::sandbox::{Layers, Network, SandboxSpec};
use subagent_protocol::{Code, Error, Result};

#[cfg(target_os = "linux")]
use super::trial::works;

/// Landlock alone suffices from this version on: earlier ones do not limit
/// signals to processes outside.
const LANDLOCK_ALONE: u32 = 6;
/// The name of the program bubblewrap.
const BWRAP: &str = "bwrap";

/// The sandbox features of this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SandboxSupport {
    /// The usable version of Landlock's interface, or why there is none.
    pub landlock: std::result::Result<u32, String>,
    /// The program bubblewrap, or why it cannot be used.
    pub bubblewrap: std::result::Result<PathBuf, String>,
}

/// Finds bubblewrap in the folders of a `PATH`. Skips relative folders and those in `untrusted`
/// paths: an agent may have put a program with this name there.
#[must_use]
pub fn find(path: &std::ffi::OsStr, untrusted: &[PathBuf]) -> Option<PathBuf> {
    let candidates = std::env::split_paths(path).filter(|folder| folder.is_absolute());
    candidates.filter_map(|folder| folder.join(BWRAP).canonicalize().ok()).find(|program| {
        program.is_file()
            && !super::within(program, untrusted)
            && nix::unistd::access(program, nix::unistd::AccessFlags::X_OK).is_ok()
    })
}

impl SandboxSupport {
    /// Inspects this machine. Starts bubblewrap once, to check whether it may create namespaces.
    #[must_use]
    pub fn look(bubblewrap: Option<&Path>) -> Self {
        let bubblewrap = match bubblewrap {
            None => Err(format!("`{BWRAP}` is not in the PATH")),
            Some(program) => works(program).map(|()| program.to_owned()),
        };
        Self { landlock: landlock(), bubblewrap }
    }

    /// Returns the layers for a sandbox that also hides the paths `always`.
    ///
    /// # Errors
    ///
    /// `SANDBOX_UNAVAILABLE{missing}` if this machine cannot enforce it.
    pub fn layers(&self, spec: &SandboxSpec, always: &[PathBuf]) -> Result<Layers> {
        if let Ok(program) = &self.bubblewrap {
            return Ok(Layers { landlock: self.landlock.clone().ok(), bubblewrap: Some(program.clone()) });
        }
        let needs = |what: String| {
            let why = self.bubblewrap.as_ref().err().map(String::as_str).unwrap_or_default();
            unavailable(format!("{what}, which needs bubblewrap: {why}"))
                .with("missing", "bubblewrap")
                .recommend(
                    "install bubblewrap (the program `bwrap`); `subagent doctor` says what this machine has",
                )
        };
        let version = match &self.landlock {
            Ok(version) => *version,
            Err(why) => {
                let message = format!("this machine has neither Landlock ({why}) nor bubblewrap");
                return Err(needs(message));
            }
        };
        if version < LANDLOCK_ALONE {
            let message = format!(
                "Landlock of this kernel has version {version}, and keeps an agent in only from {LANDLOCK_ALONE} on; the sandbox is to be enforced by namespaces"
            );
            return Err(needs(message));
        }
        if spec.network == Network::Loopback {
            return Err(needs("`network: loopback` is a network namespace".to_owned()));
        }
        if spec.network == Network::Hosts {
            // Landlock limits the port of a connection and not its address, so that a rule for the
            // proxy's port would allow that port of every host.
            return Err(needs("a `network` of hosts and ports is a network namespace".to_owned()));
        }
        if let Some((hidden, written)) = spec.hidden_in_written(always) {
            let message = format!(
                "{} is hidden inside of {}, which may be written",
                hidden.display(),
                written.display()
            );
            return Err(needs(message).with("hidden", hidden.display().to_string()));
        }
        Ok(Layers { landlock: Some(version), bubblewrap: None })
    }
}

/// The error for a sandbox that cannot be enforced.
pub(crate) fn unavailable(message: String) -> Error {
    Error::new(Code::SandboxUnavailable, message)
}

#[cfg(target_os = "linux")]
fn landlock() -> std::result::Result<u32, String> {
    if subagent_failpoint::sabotaged("sandbox.no_landlock") {
        return Err("the kernel has none".to_owned());
    }
    super::rules::version().ok_or_else(|| "the kernel has none, or it is not enabled at boot".to_owned())
}

#[cfg(not(target_os = "linux"))]
fn landlock() -> std::result::Result<u32, String> {
    Err("this system has none".to_owned())
}

#[cfg(not(target_os = "linux"))]
fn works(_program: &Path) -> std::result::Result<(), String> {
    Err("this system has no namespaces".to_owned())
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    use subagent_protocol::sandbox::FileSystem;

    use super::*;

    fn spec() -> SandboxSpec {
        SandboxSpec {
            name: None,
            filesystem: FileSystem::SharedRw,
            write: vec!["/ws".into()],
            read: None,
            hide: vec!["/home/u/.ssh".into()],
            network: Network::All,
            hosts: Vec::new(),
        }
    }

    fn machine(landlock: Option<u32>, bubblewrap: bool) -> SandboxSupport {
        SandboxSupport {
            landlock: landlock.ok_or_else(|| "none".to_owned()),
            bubblewrap: if bubblewrap { Ok("/usr/bin/bwrap".into()) } else { Err("not there".to_owned()) },
        }
    }

    #[test]
    fn both_layers_are_used_and_one_of_them_is_enough() {
        let both = machine(Some(6), true).layers(&spec(), &[]).unwrap();
        assert_eq!(both.names().collect::<Vec<_>>(), ["landlock", "bubblewrap"]);
        let old = machine(Some(2), true).layers(&spec(), &[]).unwrap();
        assert_eq!(old.landlock, Some(2), "beside bubblewrap an old one helps, too");
        assert_eq!(
            machine(Some(6), false).layers(&spec(), &[]).unwrap().names().collect::<Vec<_>>(),
            ["landlock"]
        );
        assert_eq!(
            machine(None, true).layers(&spec(), &[]).unwrap().names().collect::<Vec<_>>(),
            ["bubblewrap"]
        );
    }

    #[test]
    fn what_the_machine_cannot_enforce_is_refused() {
        let refused = |machine: SandboxSupport, spec: &SandboxSpec, always: &[PathBuf]| {
            let error = machine.layers(spec, always).unwrap_err();
            assert_eq!(
                (error.code, &error.details["missing"]),
                (Code::SandboxUnavailable, &"bubblewrap".into())
            );
            error.message
        };
        assert!(refused(machine(None, false), &spec(), &[]).contains("neither Landlock"));
        assert!(refused(machine(Some(5), false), &spec(), &[]).contains("version 5"));
        let loopback = SandboxSpec { network: Network::Loopback, ..spec() };
        assert!(refused(machine(Some(6), false), &loopback, &[]).contains("loopback"));
        let hosts = SandboxSpec { network: Network::Hosts, ..spec() };
        assert!(refused(machine(Some(6), false), &hosts, &[]).contains("hosts and ports"));
        let inside = [PathBuf::from("/ws/.subagent/state")];
        assert!(refused(machine(Some(6), false), &spec(), &inside).contains("/ws/.subagent/state"));
        assert!(machine(Some(6), true).layers(&spec(), &inside).is_ok());
    }

    #[test]
    fn a_program_that_an_agent_may_have_written_is_not_taken() {
        let dir = tempfile::tempdir().unwrap();
        let base = dir.path().canonicalize().unwrap();
        for folder in ["ws/bin", "system"] {
            fs::create_dir_all(base.join(folder)).unwrap();
            let program = base.join(folder).join(BWRAP);
            fs::write(&program, "").unwrap();
            fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        }
        let path = OsString::from(format!("bin:{0}/ws/bin:{0}/system", base.display()));
        assert_eq!(find(&path, &[base.join("ws")]), Some(base.join("system").join(BWRAP)));
        assert_eq!(find(&path, std::slice::from_ref(&base)), None);
    }
}
