//! What is known of a worker's runtime: its life, a requested restart, its hibernation.

/// What is known of the runtime, in the order of its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum RuntimeStatus {
    /// No runtime is alive.
    None,
    /// A runtime is alive that another daemon started and that has not answered yet. It may have a
    /// prompt.
    Adopted,
    /// A runtime was started and has no session yet.
    Starting,
    /// The runtime has a session and takes commands.
    Ready,
    /// The runtime is ending on request, or because its agent failed or ended.
    Ending,
}

/// State of a requested restart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Restart {
    /// No restart is in progress.
    None,
    /// The old runtime must end first.
    Wanted,
    /// The new runtime is being started.
    Begun,
}

impl Restart {
    /// All states with their stored names.
    pub const WORDS: [(Self, &'static str); 3] =
        [(Self::None, "none"), (Self::Wanted, "wanted"), (Self::Begun, "begun")];
}

/// State of the hibernation of a worker whose next agent resumes the session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hibernation {
    /// The worker is awake.
    None,
    /// The runtime is asked to end, unless something is open.
    Wanted {
        /// Duration of the idle time, in seconds.
        idle_seconds: u64,
    },
    /// The runtime has ended. The next one resumes the session.
    Begun,
}
