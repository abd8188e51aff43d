//! `controller`: who owns the workers of a workspace.

pub(crate) mod attach;
mod grant;
pub(crate) mod init;
pub(crate) mod recover;
pub(crate) mod release;
pub(crate) mod status;
