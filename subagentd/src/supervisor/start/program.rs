//! Finds the program of a worker's launcher when a runtime starts. The client usually resolved it
//! to an absolute path; workers started without an agent (debug mode) keep a bare name. A name is
//! looked up in the worker's environment, as the client does, never in the daemon's.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;
use std::path::Path;

use subagent_config::{Environment, LauncherProblem, launcher};
use subagent_protocol::api::LauncherSpec;
use subagent_protocol::{Code, Error, Result};

use super::environment::Variables;

/// Returns the absolute path of the launcher's program.
///
/// # Errors
/// `BACKEND_LAUNCHER` with the program that was looked for.
pub(crate) fn find(launcher: &LauncherSpec, cwd: &Path, variables: &Variables) -> Result<String> {
    check_backend(launcher)?;
    if Path::new(&launcher.program).is_absolute() {
        // The runtime reports why the path is unusable.
        return Ok(launcher.program.clone());
    }
    let text = |bytes: &[u8]| OsString::from_vec(bytes.to_vec());
    let env = Environment::new(variables.iter().map(|(name, value)| (text(&name.0), text(&value.0))), cwd);
    match launcher::find_program(&launcher.program, cwd, &env) {
        Ok(path) => path.into_os_string().into_string().map_err(|path| {
            let why = format!("its path {} is not UTF-8", path.display());
            unusable(launcher, &why)
        }),
        Err(problem) => Err(not_found(launcher, &problem)),
    }
}

/// Checks that a launcher of a request names a program.
///
/// # Errors
/// `INVALID_ARGUMENT{field}`.
pub(crate) fn check(launcher: &LauncherSpec) -> Result<()> {
    let LauncherSpec { name, backend_kind, program, .. } = launcher;
    let fields =
        [("launcher.name", name), ("launcher.backendKind", backend_kind), ("launcher.program", program)];
    let Some((field, _)) = fields.iter().find(|(_, text)| text.trim().is_empty()) else { return Ok(()) };
    Err(Error::new(Code::InvalidArgument, format!("{field} is empty"))
        .with("field", *field)
        .recommend("give the launcher's name, the kind `acp-stdio` and the path of its program"))
}

/// Checks that the launcher's backend is supported.
///
/// # Errors
/// `BACKEND_LAUNCHER{launcher,backendKind}`.
pub(crate) fn check_backend(launcher: &LauncherSpec) -> Result<()> {
    if launcher.backend_kind == "acp-stdio" {
        return Ok(());
    }
    Err(Error::new(
        Code::BackendLauncher,
        format!(
            "launcher {} has backend kind {:?}; only acp-stdio can be run",
            launcher.name, launcher.backend_kind
        ),
    )
    .with("launcher", launcher.name.as_str())
    .with("backendKind", launcher.backend_kind.as_str())
    .with("reasonCategory", "launcher")
    .recommend("set `backend: {kind: acp-stdio}` in the launcher's config"))
}

fn not_found(launcher: &LauncherSpec, problem: &LauncherProblem) -> Error {
    unusable(launcher, &problem.to_string())
}

fn unusable(launcher: &LauncherSpec, why: &str) -> Error {
    let name = &launcher.name;
    let command = if launcher.command.is_empty() { &launcher.program } else { &launcher.command };
    Error::new(Code::BackendLauncher, format!("launcher {name} cannot be started: {why}"))
        .with("launcher", name.as_str())
        .with("command", command.as_str())
        .with("effectiveCommand", launcher.program.as_str())
        .with("effectiveArgs", launcher.args.clone())
        .with("reasonCategory", "launcher")
        .recommend(format!(
            "install it, or correct launchers.{name}.command and start another worker; \
             `subagent launcher probe {name}` shows what is looked for"
        ))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use serde_json::json;
    use subagent_protocol::bytes64::Bytes64;
    use subagent_protocol::start::Timeouts;

    use super::*;

    fn launcher(program: &str) -> LauncherSpec {
        LauncherSpec {
            name: "one".into(),
            backend_kind: "acp-stdio".into(),
            program: program.into(),
            command: format!("{program} --acp"),
            args: vec!["--acp".into()],
            timeouts: Timeouts::default(),
            auth_method: None,
            prefix_tools: false,
        }
    }

    fn path(folder: &Path) -> Variables {
        vec![(Bytes64(b"PATH".to_vec()), Bytes64(folder.to_str().unwrap().into()))]
    }

    #[test]
    fn a_word_is_looked_up_in_the_workers_own_path() {
        let dir = tempfile::tempdir().unwrap();
        let error = find(&launcher("agent"), dir.path(), &path(dir.path())).unwrap_err();
        assert_eq!(error.code, Code::BackendLauncher);
        assert_eq!(
            (&error.details["command"], &error.details["effectiveCommand"], &error.details["effectiveArgs"]),
            (&json!("agent --acp"), &json!("agent"), &json!(["--acp"]))
        );
        let program = dir.path().join("agent");
        std::fs::write(&program, "").unwrap();
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
        let found = find(&launcher("agent"), dir.path(), &path(dir.path())).unwrap();
        assert_eq!(Path::new(&found), program);
    }

    #[test]
    fn a_path_that_was_found_stays_as_it_is() {
        assert_eq!(find(&launcher("/no/such"), Path::new("/"), &vec![]).unwrap(), "/no/such");
    }

    #[test]
    fn a_foreign_backend_is_never_started() {
        let foreign = LauncherSpec { backend_kind: "telepathy".into(), ..launcher("/bin/sh") };
        let error = find(&foreign, Path::new("/"), &vec![]).unwrap_err();
        assert_eq!(error.details["backendKind"], "telepathy");
    }
}
