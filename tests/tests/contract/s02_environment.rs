//! Environment variables.
