//! Where an answer differs from the reference's on purpose. `docs/migrating.md` tells users.

/// One difference.
pub(crate) struct Difference {
    /// The session.
    pub(crate) session: &'static str,
    /// A part of the command's line.
    pub(crate) command: &'static str,
    /// Where in the answer.
    pub(crate) path: &'static str,
    /// Why ours is better.
    #[allow(dead_code, reason = "for whoever reads the list")]
    pub(crate) why: &'static str,
}

/// All of them. One that does not show any more is an error too.
pub(crate) const DIFFERENCES: &[Difference] = &[];
