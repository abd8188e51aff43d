//! The agents from PyPI packages: how each is started and configured.

use std::path::Path;

use serde_json::json;

use super::{AgentSetup, SetupFolders, pairs, text};

pub(super) fn vibe(at: &SetupFolders) -> AgentSetup {
    let model = |name: &str| {
        format!(
            r#"
[models.{name}]
name = "{name}"
alias = "{name}"
provider = "mock"
"#
        )
    };
    let config = format!(
        r#"active_model = "mock-model"
# Otherwise it edits files without asking.
default_agent = "ask"
enable_telemetry = false
enable_update_checks = false
enable_auto_update = false
enable_connectors = false
[[providers]]
name = "mock"
api_base = "{}/v1"
api_key_env_var = "MOCK_KEY"
api_style = "openai"
backend = "generic"
{}{}"#,
        at.models,
        model("mock-model"),
        model("other-model"),
    );
    AgentSetup {
        command: at.packages[0].join("bin/vibe-acp"),
        args: vec![],
        typed: vec![at.packages[0].join("bin/vibe")],
        env: pairs([("VIBE_HOME", text(&at.home.join(".vibe"))), ("MOCK_KEY", "unused".into())]),
        files: vec![(".vibe/config.toml", config)],
        chosen: Some(("accept-edits", "other-model")),
    }
}

pub(super) fn fast_agent(at: &SetupFolders) -> AgentSetup {
    let home = text(&at.home.join(".fast-agent"));
    let args = ["--model", "generic.mock-model", "--shell", "--home", &home];
    AgentSetup {
        command: at.packages[0].join("bin/fast-agent-acp"),
        args: args.map(str::to_owned).to_vec(),
        typed: vec![at.packages[0].join("bin/fast-agent")],
        env: pairs([("GENERIC_API_KEY", "unused".into()), ("GENERIC_BASE_URL", format!("{}/v1", at.models))]),
        // The folder has to exist.
        files: vec![(".fast-agent/.keep", String::new())],
        chosen: None,
    }
}

pub(super) fn deepagents(at: &SetupFolders) -> AgentSetup {
    // The package is a library. This is the smallest program that uses it.
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("real-agents/python/deepagents_stdio.py");
    let python = at.packages[0].join("bin/python");
    AgentSetup {
        command: python.clone(),
        typed: vec![python, script.clone()],
        args: vec![text(&script), "mock-model".into(), text(&at.home.join("sessions.sqlite"))],
        env: pairs([("OPENAI_API_KEY", "unused".into()), ("OPENAI_BASE_URL", format!("{}/v1", at.models))]),
        files: vec![],
        chosen: None,
    }
}

pub(super) fn openhands(at: &SetupFolders) -> AgentSetup {
    let openhands = at.packages[0].join("bin/openhands");
    let settings = json!({
        "kind": "Agent",
        "llm": {
            "usage_id": "agent",
            "model": "openai/mock-model",
            "api_key": "unused",
            "base_url": format!("{}/v1", at.models),
        },
        "tools": [{"name": "terminal"}, {"name": "file_editor"}, {"name": "task_tracker"}, {"name": "task_tool_set"}],
        "system_prompt_kwargs": {"cli_mode": true},
    });
    AgentSetup {
        command: openhands.clone(),
        args: vec!["acp".to_owned()],
        typed: vec![openhands],
        env: pairs([
            ("OPENHANDS_SUPPRESS_BANNER", "1".into()),
            ("DO_NOT_TRACK", "1".into()),
            // Otherwise it downloads a price table at each start.
            ("LITELLM_LOCAL_MODEL_COST_MAP", "True".into()),
            // Its shells are children of a tmux server, which all agents of a
            // user would share otherwise.
            ("TMUX_TMPDIR", text(&at.home.join("tmp"))),
        ]),
        files: vec![(".openhands/agent_settings.json", settings.to_string())],
        chosen: None,
    }
}
