//! Finds, reads, merges and checks config files, and says what is wrong with them.

#[cfg(test)]
pub(crate) mod bytes;
pub(crate) mod check;
pub mod discovery;
#[cfg(test)]
pub(crate) mod documented;
pub mod file;
pub mod init;
pub(crate) mod layers;
pub mod problems;
pub(crate) mod section;
pub mod shown;
pub(crate) mod syntax;
pub mod template;
pub mod unknown;
pub(crate) mod validate;
