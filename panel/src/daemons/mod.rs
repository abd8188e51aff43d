//! The daemons behind the page: where they are, requests to them, and their errors.

pub(super) mod bridge;
pub(super) mod daemon;
pub(super) mod errors;
pub(super) mod far_error;
pub(super) mod inquiry;
pub(super) mod pulse;
