//! The names of the launchers that are known without a file. It depends on nothing: errors list them.

/// The names, sorted.
pub const NAMES: [&str; 7] =
    ["claude-code", "cline", "codex", "gemini", "github-copilot", "kiro", "opencode"];
