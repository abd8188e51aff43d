//! Which files with hooks are trusted.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::time::Timestamp;

/// `POST /v1/hooks/trust`: trusts the hooks of a file as long as its content stays the same.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct TrustHooks {
    /// The file, absolute and without symbolic links.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub file: PathBuf,
    /// SHA-256 of its content, in lowercase hexadecimal.
    pub sha256: String,
}

/// `POST /v1/hooks/trust/remove`: trusts no content of a file any more.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct DistrustHooks {
    /// The file, absolute and without symbolic links.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub file: PathBuf,
}

/// A content of a file whose hooks run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct TrustedHooks {
    /// The file.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub file: PathBuf,
    /// SHA-256 of the content, in lowercase hexadecimal.
    pub sha256: String,
    /// Since when.
    pub trusted_at: Timestamp,
}

/// Data of `hook.trust`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct AllTrustedHooks {
    /// The contents that are trusted, by file and time.
    pub items: Vec<TrustedHooks>,
    /// How many there are.
    pub count: usize,
}

/// Data of `hook.distrusted`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct DistrustedHooks {
    /// The file.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub file: PathBuf,
    /// How many contents of it were trusted.
    pub removed: usize,
}
