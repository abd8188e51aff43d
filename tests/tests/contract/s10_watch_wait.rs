//! `watch` and `wait`.
