//! What is configured and installed, and whether it is well.

pub(super) mod checks;
pub(super) mod doctor;
pub(super) mod installed;
pub(super) mod registry;
