//! `approve` and `cancel`.
