//! Copies of the database.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::ids::EventId;

/// `POST /v1/daemon/backup`: copies the database into a file, while everything goes on.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct BackUp {
    /// The file, absolute, in a folder that exists, outside of the state dir.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub path: PathBuf,
    /// Replace a backup, or an empty file, that is there; anything else never.
    #[serde(default)]
    pub force: bool,
}

/// Data of `state.backed_up`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct BackedUp {
    /// The file.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub path: PathBuf,
    /// Its size.
    pub size_bytes: u64,
    /// The schema of the database.
    pub schema: i64,
    /// The newest event in it; none before the first.
    pub last_event_id: Option<EventId>,
}
