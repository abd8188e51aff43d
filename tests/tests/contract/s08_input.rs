//! `--input`.
