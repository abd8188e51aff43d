//! How what goes wrong at the start becomes an error that a user can act on.

use std::fmt::Display;
use std::path::Path;

use subagent_config::ConfigError;
use subagent_protocol::{Code, Error};

/// An error of the places where things live.
pub(super) fn of_config(error: ConfigError) -> Error {
    // That crate writes its codes down by itself; the message says what it is also without one.
    let code = Code::parse(error.code()).unwrap_or(Code::DaemonStartFailed);
    let mut of = Error::new(code, error.message());
    of.details = error.details();
    of
}

/// The daemon cannot start, and no better code says why.
pub(super) fn start_failed(what: &str, cause: &dyn Display) -> Error {
    Error::new(Code::DaemonStartFailed, format!("the daemon cannot start: {what}: {cause}"))
        .with("error", cause.to_string())
}

/// The same with the file that is in the way.
pub(super) fn at_path(what: &str, path: &Path, cause: &dyn Display) -> Error {
    let shown = path.display().to_string();
    let advice = format!(
        "See what is in its place, and whether it is yours, with `ls -ld '{shown}'`; `subagent doctor` says more."
    );
    start_failed(&format!("{what} {shown}"), cause).with("path", shown).recommend(advice)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_and_details_are_kept() {
        let state_dir = Path::new("/proc/self/none").to_owned();
        let cause = std::io::ErrorKind::PermissionDenied.into();
        let error = of_config(ConfigError::StateDirUnwritable { state_dir, cause });
        assert_eq!(error.code, Code::StateDirUnwritable);
        assert_eq!(error.details["stateDir"], "/proc/self/none");
    }
}
