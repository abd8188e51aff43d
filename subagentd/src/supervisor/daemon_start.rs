//! How a runtime restarts this daemon after it died.

use std::os::unix::ffi::OsStringExt as _;

use subagent_config::environment::{DAEMON_SETTINGS, NO_AUTOSTART};
use subagent_protocol::bytes64::Bytes64;
use subagent_protocol::start::DaemonStart;

use super::shared::Setup;

/// Returns the state dir and this process's settings. `None` if automatic starts are disabled.
pub(super) fn of(setup: &Setup) -> Option<DaemonStart> {
    if std::env::var_os(NO_AUTOSTART).is_some_and(|value| !value.is_empty() && value != "0") {
        return None;
    }
    let settings = DAEMON_SETTINGS.iter().filter_map(|name| {
        let value = std::env::var_os(name)?;
        Some((Bytes64((*name).into()), Bytes64(value.into_vec())))
    });
    Some(DaemonStart { state_dir: setup.state_dir.clone(), settings: settings.collect() })
}
