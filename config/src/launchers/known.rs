//! The names of the built-in launchers. The module depends on nothing, because errors list these names.

/// Names of the built-in launchers, sorted.
pub const NAMES: [&str; 7] =
    ["claude-code", "cline", "codex", "gemini", "github-copilot", "kiro", "opencode"];
