//! What the commands that send a message share: where its text is from, and what is attached.

pub(crate) mod attachments;
pub(crate) mod shell_expansion;
pub(crate) mod text_source;
