//! Clients that tests play: a browser, a terminal, managers, and plain HTTP.

pub(super) mod browser;
pub(super) mod http;
pub(super) mod manager;
pub(super) mod stubborn;
pub(super) mod terminal;
pub(super) mod typist;
