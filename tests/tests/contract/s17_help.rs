//! Help texts.
