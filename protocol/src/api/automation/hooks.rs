//! Trust in files with hooks.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::time::Timestamp;

/// `POST /v1/hooks/trust`: trusts the hooks of a file while its content stays the same.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct TrustHooks {
    /// Absolute path of the file, without symbolic links.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub file: PathBuf,
    /// SHA-256 of its content, in lowercase hexadecimal.
    pub sha256: String,
}

/// `POST /v1/hooks/trust/remove`: revokes the trust in every content of a file.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct DistrustHooks {
    /// Absolute path of the file, without symbolic links.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub file: PathBuf,
}

/// A trusted content of a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct TrustedHooks {
    /// Path of the file.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub file: PathBuf,
    /// SHA-256 of the content, in lowercase hexadecimal.
    pub sha256: String,
    /// Time when it was trusted.
    pub trusted_at: Timestamp,
}

/// Data of the response `hook.trust`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct AllTrustedHooks {
    /// The trusted contents, by file and time.
    pub items: Vec<TrustedHooks>,
    /// Number of the contents.
    pub count: usize,
}

/// Data of the response `hook.distrusted`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct DistrustedHooks {
    /// Path of the file.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub file: PathBuf,
    /// Number of revoked contents.
    pub removed: usize,
}
