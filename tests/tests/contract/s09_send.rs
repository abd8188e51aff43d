//! `send`, strictly and in debug mode.
