//! The two things that the rules must not have: randomness and the time of day.

use std::time::{SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use subagent_protocol::time::Timestamp;
use subagent_protocol::{Code, Error, Result};

/// Random bytes of the system.
///
/// # Errors
/// `INTERNAL_ERROR` when the system has none.
pub(super) fn random<const N: usize>() -> Result<[u8; N]> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes)
        .map_err(|error| Error::new(Code::Internal, format!("the system gave no random bytes: {error}")))?;
    Ok(bytes)
}

/// An owner token: 24 random bytes as 32 characters.
///
/// # Errors
/// As [`random`].
pub(super) fn token() -> Result<String> {
    Ok(URL_SAFE_NO_PAD.encode(random::<24>()?))
}

/// The time of day.
pub(crate) fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}
