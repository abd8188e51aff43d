//! Controllers and who owns them.
