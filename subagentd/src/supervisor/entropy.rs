//! Sources of randomness and wall-clock time, which the rules of `core` must not use.

use std::time::{SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use subagent_protocol::time::Timestamp;
use subagent_protocol::{Code, Error, Result};

/// Returns random bytes from the system.
///
/// # Errors
/// `INTERNAL_ERROR` if the system has none.
pub(super) fn random<const N: usize>() -> Result<[u8; N]> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes)
        .map_err(|error| Error::new(Code::Internal, format!("cannot get random bytes: {error}")))?;
    Ok(bytes)
}

/// Returns an owner token: 24 random bytes as 32 characters of base64url.
///
/// # Errors
/// As [`random`].
pub(super) fn token() -> Result<String> {
    Ok(URL_SAFE_NO_PAD.encode(random::<24>()?))
}

/// Returns the wall-clock time.
pub(crate) fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}
