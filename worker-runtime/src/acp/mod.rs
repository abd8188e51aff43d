//! The wire of ACP: lines, the JSON-RPC envelope, and the messages that we send.
//!
//! Must not know states or do I/O. Strict in what is sent, lenient in what is taken: whatever cannot be understood
//! becomes noise with its size, digest and head, and never an end.

pub(crate) mod asked;
pub(crate) mod attachments;
pub(crate) mod lines;
pub(crate) mod message;
pub(crate) mod noise;
pub(crate) mod options;
pub(crate) mod outgoing;
pub(crate) mod requests;
pub(crate) mod results;
