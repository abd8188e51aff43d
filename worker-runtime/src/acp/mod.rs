//! The wire format of ACP: lines, the JSON-RPC envelope, and the messages that we send. Knows no
//! states and does no I/O. Strict in what it sends, lenient in what it accepts. Input that cannot
//! be understood becomes noise (size, digest and head) and never ends the conversation.

pub(crate) mod attachments;
pub(crate) mod client_operation;
pub(crate) mod lines;
pub(crate) mod message;
pub(crate) mod noise;
pub(crate) mod options;
pub(crate) mod outgoing;
pub(crate) mod requests;
pub(crate) mod results;
