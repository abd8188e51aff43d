//! Who may use the panel: checks of requests, secrets, and limits on connections.

pub(super) mod doors;
pub(super) mod gate;
pub(super) mod peer;
pub(super) mod presence;
pub(super) mod seats;
pub(super) mod window;
