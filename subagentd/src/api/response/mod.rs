//! How results and errors become responses, whole or as a stream.

pub(in crate::api) mod reply;
pub(in crate::api) mod sse;
pub(in crate::api) mod status;
pub(in crate::api) mod waited;
