//! `config`: shows, checks and creates the config file.

pub(crate) mod check;
pub(crate) mod init;
pub(crate) mod show;
