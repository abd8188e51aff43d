//! The agents from npm packages: how each is started and configured.

use serde_json::json;

use super::{AgentSetup, SetupFolders, pairs, text};

pub(super) fn claude(at: &SetupFolders) -> AgentSetup {
    AgentSetup {
        command: at.node.join("node"),
        args: vec![at.script("dist/index.js")],
        // It is part of the adapter's packages.
        typed: vec![at.beside("@anthropic-ai/claude-agent-sdk").join("claude")],
        env: pairs([
            ("ANTHROPIC_BASE_URL", at.models.clone()),
            ("ANTHROPIC_API_KEY", "unused".into()),
            ("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1".into()),
            // Otherwise the model has to search for MCP tools before it can call them.
            ("ENABLE_TOOL_SEARCH", "false".into()),
            // Otherwise it retries silently for minutes.
            ("CLAUDE_CODE_MAX_RETRIES", "1".into()),
        ]),
        files: vec![],
        chosen: Some(("plan", "sonnet")),
    }
}

pub(super) fn codex(at: &SetupFolders) -> AgentSetup {
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
    AgentSetup {
        command: at.node.join("node"),
        args: vec![at.script("dist/index.js")],
        typed: vec![at.node.join("node"), at.packages[1].join("bin/codex.js")],
        env: pairs([
            ("CODEX_HOME", text(&at.home.join(".codex"))),
            ("MOCK_KEY", "unused".into()),
            ("NO_BROWSER", "1".into()),
            // In its default mode another model decides, without a permission request.
            ("INITIAL_AGENT_MODE", "read-only".into()),
        ]),
        files: vec![(".codex/config.toml", config)],
        chosen: Some(("workspace-write", "gpt-5.6-sol")),
    }
}

pub(super) fn gemini(at: &SetupFolders) -> AgentSetup {
    let settings = json!({
        "privacy": {"usageStatisticsEnabled": false},
        "general": {"disableAutoUpdate": true},
        // It cannot detect the type of a foreign address, unless it is driven through ACP.
        "security": {"auth": {"selectedType": "gemini-api-key"}},
    });
    AgentSetup {
        command: at.node.join("node"),
        args: vec![at.script("bundle/gemini.js"), "--acp".into()],
        typed: vec![at.node.join("node"), at.packages[0].join("bundle/gemini.js")],
        env: pairs([
            ("GOOGLE_GEMINI_BASE_URL", at.models.clone()),
            // Any value works, but without one it requires a login.
            ("GEMINI_API_KEY", "unused".into()),
            // Otherwise it restarts itself for a larger heap.
            ("GEMINI_CLI_NO_RELAUNCH", "true".into()),
            // Otherwise MCP servers are silently dropped.
            ("GEMINI_CLI_TRUST_WORKSPACE", "true".into()),
        ]),
        files: vec![(".gemini/settings.json", settings.to_string())],
        chosen: Some(("autoEdit", "gemini-2.5-pro")),
    }
}

pub(super) fn opencode(at: &SetupFolders) -> AgentSetup {
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
    AgentSetup {
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
        chosen: Some(("plan", "mock/other-model")),
    }
}

pub(super) fn kimi(at: &SetupFolders) -> AgentSetup {
    let model = |name: &str| {
        format!(
            r#"
[models.{name}]
provider = "mock"
model = "{name}"
max_context_size = 200000
capabilities = ["image_in"]
"#
        )
    };
    let config = format!(
        r#"default_model = "mock-model"
[providers.mock]
type = "openai"
base_url = "{}/v1"
api_key = "unused"
{}{}"#,
        at.models,
        model("mock-model"),
        model("other-model"),
    );
    AgentSetup {
        command: at.node.join("node"),
        args: vec![at.script("dist/main.mjs"), "acp".into()],
        typed: vec![at.node.join("node"), at.packages[0].join("dist/main.mjs")],
        env: pairs([
            ("KIMI_CODE_HOME", text(&at.home.join(".kimi-code"))),
            ("KIMI_CODE_NO_AUTO_UPDATE", "1".into()),
            ("KIMI_DISABLE_TELEMETRY", "1".into()),
        ]),
        files: vec![(".kimi-code/config.toml", config)],
        chosen: Some(("auto", "other-model")),
    }
}
