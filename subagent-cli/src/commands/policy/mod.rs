//! `policy`: the rules for what agents may do.

pub(crate) mod rules;
pub(crate) mod test;
