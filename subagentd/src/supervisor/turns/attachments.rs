//! Attachments of a message: validation, and the form in which events store them.

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use subagent_protocol::attachment::Attachment;
use subagent_protocol::ids::hex;
use subagent_protocol::json::extend;
use subagent_protocol::{Code, Error, Result};

/// Maximum number of attachments of a message.
const MOST: usize = 64;
/// Maximum length of a name, URI or media type, in bytes.
const MAX_BYTES: usize = 32 * 1024;

/// Validates the attachments of a message.
///
/// # Errors
/// `INVALID_INPUT`.
pub(crate) fn check(attachments: &[Attachment]) -> Result<()> {
    let refused = |message: String| Err(Error::new(Code::InvalidInput, message));
    if attachments.len() > MOST {
        return refused(format!(
            "at most {MOST} files can be attached to a message, not {}",
            attachments.len()
        ));
    }
    for attachment in attachments {
        let Attachment { name, uri, mime_type, size, content } = attachment;
        let texts = [Some(name), Some(uri), mime_type.as_ref()];
        if texts.into_iter().flatten().any(|text| text.is_empty() || text.len() > MAX_BYTES) {
            return refused(format!("name, uri and mimeType of an attachment have 1 to {MAX_BYTES} bytes"));
        }
        if !uri.starts_with("file:///") {
            return refused(format!("the uri of an attachment begins with file:///, not as {uri:.100}"));
        }
        if content.bytes().is_some_and(|bytes| bytes.len() as u64 != *size) {
            return refused(format!("the size of attachment {name:.100} is not that of its content"));
        }
    }
    Ok(())
}

/// Returns the stored form of attachments: all members, and the SHA-256 digest that views show in
/// place of content.
pub(crate) fn stored(attachments: &[Attachment]) -> Value {
    let stored = attachments.iter().map(|attachment| {
        let mut stored = json!(attachment);
        if let Some(bytes) = attachment.content.bytes() {
            extend(&mut stored, [("sha256", hex(&Sha256::digest(bytes)).into())]);
        }
        stored
    });
    stored.collect()
}
