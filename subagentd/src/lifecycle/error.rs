//! Turns failures of the start into errors that a user can act on.

use std::fmt::Display;
use std::io;
use std::path::Path;

use subagent_protocol::{Code, Error};

/// The error for a failed start without a more specific code.
pub(super) fn start_failed(what: &str, cause: &dyn Display) -> Error {
    Error::new(Code::DaemonStartFailed, format!("the daemon cannot start: {what}: {cause}"))
        .with("error", cause.to_string())
}

/// Same as [`start_failed`], with the file that is in the way.
pub(super) fn at_path(what: &str, path: &Path, cause: &io::Error) -> Error {
    let shown = path.display().to_string();
    let advice =
        format!("Check what it is and who owns it with `ls -ld '{shown}'`; `subagent doctor` says more.");
    start_failed(&format!("{what} {shown}"), cause)
        .with("path", shown)
        .recommend(advice)
        .or_storage_full(cause)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_is_not_a_failed_start() {
        let path = Path::new("/state/daemon.lock");
        let of = |kind: io::ErrorKind| at_path("its lock cannot be taken:", path, &kind.into());
        assert_eq!(of(io::ErrorKind::PermissionDenied).code, Code::DaemonStartFailed);
        for kind in [io::ErrorKind::StorageFull, io::ErrorKind::QuotaExceeded] {
            let error = of(kind);
            assert_eq!((error.code, error.retryable), (Code::StorageFull, true));
            let advice = error.details["recommendedAction"].as_str().unwrap();
            assert!(advice.starts_with("make room on the disk of"), "{advice}");
        }
    }
}
