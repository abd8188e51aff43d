//! Copies of the database.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::ids::EventId;

/// `POST /v1/daemon/backup`: copies the database to a file, while the daemon keeps working.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct BackUp {
    /// Absolute path of the file, in an existing folder outside the state directory.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub path: PathBuf,
    /// Replace an existing backup or empty file. Other files are never replaced.
    #[serde(default)]
    pub force: bool,
}

/// Data of the response `state.backed_up`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct BackedUp {
    /// Path of the copy.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub path: PathBuf,
    /// Size of the copy in bytes.
    pub size_bytes: u64,
    /// Schema version of the database.
    pub schema: i64,
    /// The newest event in the copy; null without events.
    pub last_event_id: Option<EventId>,
}
