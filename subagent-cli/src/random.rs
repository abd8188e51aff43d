//! Random names, keys and secrets.

use subagent_protocol::ids::hex;

use crate::failure::{Failure, Result};

/// Returns this many random bytes as hexadecimal digits.
///
/// # Errors
/// `INTERNAL_ERROR` if the system gives no random bytes.
pub(crate) fn random<const BYTES: usize>() -> Result<String> {
    let mut bytes = [0; BYTES];
    getrandom::fill(&mut bytes)
        .map_err(|error| Failure::internal(format!("cannot get random bytes: {error}")))?;
    Ok(hex(&bytes))
}
