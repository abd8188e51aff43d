//! How a runtime restarts this daemon after it died.

use std::os::unix::ffi::OsStringExt as _;

use subagent_config::environment::{NO_AUTOSTART, daemon_inherits, passes_on};
use subagent_protocol::bytes64::Bytes64;
use subagent_protocol::start::DaemonStart;

use crate::supervisor::shared::DaemonSettings;

/// The state dir, and this process's settings. `always`: also if no sink and no schedule awaits the daemon. None where a daemon must not be started without being asked for.
pub(crate) fn of(setup: &DaemonSettings, always: bool) -> Option<DaemonStart> {
    if std::env::var_os(NO_AUTOSTART).is_some_and(|value| !value.is_empty() && value != "0") {
        return None;
    }
    // The runtime inherits the others.
    let own = std::env::vars_os().filter(|(name, _)| daemon_inherits(name) && !passes_on(name));
    let settings = own.map(|(name, value)| (Bytes64(name.into_vec()), Bytes64(value.into_vec())));
    Some(DaemonStart {
        state_dir: setup.state_dir.clone(),
        settings: settings.collect(),
        if_awaited: !always,
    })
}
