//! Launchers, roles and the manager's prompt.
