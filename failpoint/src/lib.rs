//! Failpoints: a test makes the process die, exit, hang, fail or violate an invariant here. This
//! proves that nothing is lost, and that the checks would notice a loss. Must not exist in an
//! ordinary build: without the feature `enabled` every call compiles to nothing.

// With it, `SUBAGENT_FAILPOINTS="name=abort;name2=exit(3);name3=hang;name4=error"` in the
// environment of the process arms them.
//
// With `SUBAGENT_FAILPOINTS_ONCE=FILE` too, only the process that can create that file carries out
// a fault, so that its successor lives; the file contains its pid. `hang` stops the thread, `wait`
// stops it until that file is removed, and `error(28)` fails with that system error instead of
// `EIO`. `name=abort@3` applies to the third pass through the point, in any process: each pass
// adds a byte to `FILE.name`. `name=while(FILE)` fails as long as this file exists.

use std::ffi::OsString;
use std::io;

/// Carries out the fault armed under this name. Nothing can fail here: `error` is for [`check`].
#[inline]
pub fn hit(name: &str) {
    #[cfg(feature = "enabled")]
    armed::hit(name);
    let _ = name;
}

/// Like [`hit`], before an operation that can fail.
///
/// # Errors
///
/// `EIO`, or the given error, if `error` is armed under this name.
#[inline]
pub fn check(name: &str) -> io::Result<()> {
    #[cfg(feature = "enabled")]
    if let armed::FailpointOutcome::Fail(number) = armed::hit(name) {
        return Err(io::Error::from_raw_os_error(number));
    }
    let _ = name;
    Ok(())
}

/// Whether this build has to violate an invariant here: `SUBAGENT_SABOTAGE` lists the names. Proves
/// that a check can fail.
#[inline]
#[must_use]
pub fn sabotaged(name: &str) -> bool {
    #[cfg(feature = "enabled")]
    return armed::sabotaged(name);
    #[cfg(not(feature = "enabled"))]
    {
        let _ = name;
        false
    }
}

/// Returns the variables that a process with its own environment needs, so that it has the same
/// armed failpoints. Empty in an ordinary build.
pub fn armed_with() -> impl Iterator<Item = (OsString, OsString)> {
    #[cfg(feature = "enabled")]
    let names: &[&str] = &["SUBAGENT_FAILPOINTS", "SUBAGENT_FAILPOINTS_ONCE", "SUBAGENT_SABOTAGE"];
    #[cfg(not(feature = "enabled"))]
    let names: &[&str] = &[];
    names.iter().filter_map(|name| Some((OsString::from(name), std::env::var_os(name)?)))
}

#[cfg(feature = "enabled")]
mod armed {
    use std::ffi::OsStr;
    use std::fs::OpenOptions;
    use std::io::{self, Seek as _, Write as _};
    use std::path::{Path, PathBuf};
    use std::time::Duration;

    const EIO: i32 = 5;

    #[derive(Debug, PartialEq, Eq)]
    pub(crate) enum FailpointOutcome {
        GoOn,
        Fail(i32),
    }

    pub(crate) fn sabotaged(name: &str) -> bool {
        std::env::var("SUBAGENT_SABOTAGE")
            .is_ok_and(|list| list.split(';').any(|listed| listed.trim() == name))
    }

    pub(crate) fn hit(name: &str) -> FailpointOutcome {
        let Ok(list) = std::env::var("SUBAGENT_FAILPOINTS") else { return FailpointOutcome::GoOn };
        let action = list
            .split(';')
            .filter_map(|entry| entry.split_once('='))
            .find(|(armed, _)| armed.trim() == name)
            .map(|(_, action)| action.trim());
        let Some(action) = action else { return FailpointOutcome::GoOn };
        let (action, passing) = action.split_once('@').unwrap_or((action, ""));
        if let Some(file) = std::env::var_os("SUBAGENT_FAILPOINTS_ONCE") {
            let is_due = |passing| passed(&file, name).is_ok_and(|passed| passed == passing);
            if !passing.is_empty() && !passing.parse().is_ok_and(is_due) {
                return FailpointOutcome::GoOn;
            }
            let Ok(mut made) = OpenOptions::new().write(true).create_new(true).open(&file) else {
                return FailpointOutcome::GoOn;
            };
            // A reader waits for the end of the line.
            let _ = made.write_all(format!("{}\n", std::process::id()).as_bytes());
            while action == "wait" && Path::new(&file).exists() {
                std::thread::park_timeout(Duration::from_millis(5));
            }
        }
        carry_out(action)
    }

    /// Returns the number of passes through this point, including this one. This pass adds the byte
    /// at that position, which is unique.
    fn passed(file: &OsStr, name: &str) -> io::Result<u64> {
        let mut path = file.to_owned();
        path.push(format!(".{name}"));
        let mut file = OpenOptions::new().append(true).create(true).open(PathBuf::from(path))?;
        file.write_all(b".")?;
        file.stream_position()
    }

    fn carry_out(action: &str) -> FailpointOutcome {
        let number = |word: &str| -> Option<i32> {
            action.strip_prefix(word)?.strip_prefix('(')?.strip_suffix(')')?.parse().ok()
        };
        if let Some(file) = action.strip_prefix("while(").and_then(|rest| rest.strip_suffix(')')) {
            let is_armed = Path::new(file).exists();
            return if is_armed { FailpointOutcome::Fail(EIO) } else { FailpointOutcome::GoOn };
        }
        match action {
            "abort" => std::process::abort(),
            "hang" => loop {
                std::thread::park();
            },
            "error" => FailpointOutcome::Fail(EIO),
            _ => {
                if let Some(code) = number("exit") {
                    std::process::exit(code);
                }
                number("error").map_or(FailpointOutcome::GoOn, FailpointOutcome::Fail)
            }
        }
    }
}
