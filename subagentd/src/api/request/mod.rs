//! What every request passes before its handler: layers, checks, and the extractors of its parts.

pub(in crate::api) mod address;
pub(in crate::api) mod body;
pub(in crate::api) mod caller;
pub(in crate::api) mod checks;
pub(in crate::api) mod incoming;
pub(in crate::api) mod layers;
