//! Sends one message to a webhook, and ends. TLS, DNS and responses of foreign servers stay in this
//! process, which has a deadline and little memory. Must not decide which URLs are allowed, follow
//! redirects, read a body, or print a URL or a secret.

mod post;
mod signature;

use std::io::{Read as _, Write as _};
use std::process::ExitCode;

use nix::sys::resource::{Resource, setrlimit};
use subagent_protocol::webhook::WebhookPost;

pub use signature::sign;

/// Maximum address space of the process, in bytes.
const MAX_MEMORY: u64 = 1024 * 1024 * 1024;
/// Maximum size of the request on standard input, in bytes.
const MAX_REQUEST: u64 = 4 * 1024 * 1024;

/// Reads a [`WebhookPost`] from standard input and writes a
/// [`WebhookAnswer`](subagent_protocol::webhook::WebhookAnswer) to standard output.
///
/// Exits with 2 if it cannot read the one or write the other.
#[must_use]
pub fn main() -> ExitCode {
    // It also works without the limit.
    let _ = setrlimit(Resource::RLIMIT_AS, MAX_MEMORY, MAX_MEMORY);
    let mut request = Vec::new();
    if std::io::stdin().take(MAX_REQUEST).read_to_end(&mut request).is_err() {
        return ExitCode::from(2);
    }
    let Ok(request) = serde_json::from_slice::<WebhookPost>(&request) else { return ExitCode::from(2) };
    let written = serde_json::to_vec(&post::send(&request))
        .map_err(Into::into)
        .and_then(|line| std::io::stdout().write_all(&line));
    if written.is_ok() { ExitCode::SUCCESS } else { ExitCode::from(2) }
}
