//! Places where a test makes the process die, leave or hang, to prove that nothing is lost there.
//!
//! Must not exist in an ordinary build: without the feature `failpoints` every call compiles to nothing. With it,
//! `SUBAGENT_FAILPOINTS="name=abort;name2=exit(3);name3=hang"` in the environment of the runtime itself arms them.

/// Carries out whatever is armed under this name.
#[cfg(not(feature = "failpoints"))]
#[inline]
pub(crate) fn hit(_name: &str) {}

/// Carries out whatever is armed under this name.
#[cfg(feature = "failpoints")]
pub(crate) fn hit(name: &str) {
    match armed(name).as_deref() {
        Some("abort") => std::process::abort(),
        Some("hang") => loop {
            std::thread::park();
        },
        Some(action) => {
            let code = action.strip_prefix("exit(").and_then(|rest| rest.strip_suffix(')'));
            if let Some(code) = code.and_then(|code| code.parse().ok()) {
                std::process::exit(code);
            }
        }
        None => {}
    }
}

#[cfg(feature = "failpoints")]
fn armed(name: &str) -> Option<String> {
    let list = std::env::var("SUBAGENT_FAILPOINTS").ok()?;
    list.split(';')
        .filter_map(|entry| entry.split_once('='))
        .find(|(n, _)| n.trim() == name)
        .map(|(_, a)| a.trim().to_owned())
}
