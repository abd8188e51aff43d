//! Places where a test makes the process die, leave, hang, fail or break its word, to prove that nothing is lost there
//! and that the checks would notice if it were.
//!
//! Must not exist in an ordinary build: without the feature `enabled` every call compiles to nothing. With it,
//! `SUBAGENT_FAILPOINTS="name=abort;name2=exit(3);name3=hang;name4=error"` in the environment of the process arms them;
//! with `SUBAGENT_FAILPOINTS_ONCE=FILE` beside it, only the process that can make that file carries anything out, so
//! that the one that is started afterwards lives; its pid is in the file. `hang` stops the thread that comes there.

use std::ffi::OsString;
use std::io;

/// Carries out whatever is armed under this name. Nothing can fail here: `error` is for [`check`].
#[inline]
pub fn hit(name: &str) {
    #[cfg(feature = "enabled")]
    armed::hit(name);
    let _ = name;
}

/// As [`hit`], in front of something that can fail.
///
/// # Errors
/// `EIO` if `error` is armed under this name.
#[inline]
pub fn check(name: &str) -> io::Result<()> {
    #[cfg(feature = "enabled")]
    if armed::hit(name) == armed::Outcome::Fail {
        return Err(io::Error::from_raw_os_error(armed::EIO));
    }
    let _ = name;
    Ok(())
}

/// Whether this build is to break its word here: `SUBAGENT_SABOTAGE` lists the names. Proves that a check turns red.
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

/// What a process must be given by whoever starts it with an environment of its own, so that what is armed is armed
/// in it too. Nothing in an ordinary build.
pub fn armed_with() -> impl Iterator<Item = (OsString, OsString)> {
    #[cfg(feature = "enabled")]
    let names: &[&str] = &["SUBAGENT_FAILPOINTS", "SUBAGENT_FAILPOINTS_ONCE", "SUBAGENT_SABOTAGE"];
    #[cfg(not(feature = "enabled"))]
    let names: &[&str] = &[];
    names.iter().filter_map(|name| Some((OsString::from(name), std::env::var_os(name)?)))
}

#[cfg(feature = "enabled")]
mod armed {
    use std::fs::OpenOptions;
    use std::io::Write as _;

    pub(crate) const EIO: i32 = 5;

    #[derive(Debug, PartialEq, Eq)]
    pub(crate) enum Outcome {
        GoOn,
        Fail,
    }

    pub(crate) fn sabotaged(name: &str) -> bool {
        std::env::var("SUBAGENT_SABOTAGE")
            .is_ok_and(|list| list.split(';').any(|listed| listed.trim() == name))
    }

    pub(crate) fn hit(name: &str) -> Outcome {
        let Ok(list) = std::env::var("SUBAGENT_FAILPOINTS") else { return Outcome::GoOn };
        let action = list
            .split(';')
            .filter_map(|entry| entry.split_once('='))
            .find(|(armed, _)| armed.trim() == name)
            .map(|(_, action)| action.trim());
        let Some(action) = action else { return Outcome::GoOn };
        if let Some(file) = std::env::var_os("SUBAGENT_FAILPOINTS_ONCE") {
            let Ok(mut file) = OpenOptions::new().write(true).create_new(true).open(file) else {
                return Outcome::GoOn;
            };
            // Who reads it waits for the end of the line.
            let _ = file.write_all(format!("{}\n", std::process::id()).as_bytes());
        }
        match action {
            "abort" => std::process::abort(),
            "hang" => loop {
                std::thread::park();
            },
            "error" => Outcome::Fail,
            _ => {
                let code = action.strip_prefix("exit(").and_then(|rest| rest.strip_suffix(')'));
                if let Some(code) = code.and_then(|code| code.parse().ok()) {
                    std::process::exit(code);
                }
                Outcome::GoOn
            }
        }
    }
}
