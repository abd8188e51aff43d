//! Places where a test makes the process die, leave or hang, to prove that nothing is lost there.
//!
//! Must not exist in an ordinary build: without the feature `enabled` every call compiles to nothing. With it,
//! `SUBAGENT_FAILPOINTS="name=abort;name2=exit(3);name3=hang"` in the environment of the process arms them; with
//! `SUBAGENT_FAILPOINTS_ONCE=FILE` beside it, only the process that can make that file carries anything out, so
//! that the one that is started afterwards lives.

/// Carries out whatever is armed under this name.
#[inline]
pub fn hit(name: &str) {
    #[cfg(feature = "enabled")]
    armed::hit(name);
    let _ = name;
}

#[cfg(feature = "enabled")]
mod armed {
    use std::fs::OpenOptions;

    pub(crate) fn hit(name: &str) {
        let Ok(list) = std::env::var("SUBAGENT_FAILPOINTS") else { return };
        let action = list
            .split(';')
            .filter_map(|entry| entry.split_once('='))
            .find(|(armed, _)| armed.trim() == name)
            .map(|(_, action)| action.trim());
        let Some(action) = action else { return };
        if let Some(file) = std::env::var_os("SUBAGENT_FAILPOINTS_ONCE")
            && OpenOptions::new().write(true).create_new(true).open(file).is_err()
        {
            return;
        }
        match action {
            "abort" => std::process::abort(),
            "hang" => loop {
                std::thread::park();
            },
            _ => {
                let code = action.strip_prefix("exit(").and_then(|rest| rest.strip_suffix(')'));
                if let Some(code) = code.and_then(|code| code.parse().ok()) {
                    std::process::exit(code);
                }
            }
        }
    }
}
