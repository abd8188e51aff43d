//! A hook denies an action of a real agent before the owner is asked.

use std::fs;

use serde_json::json;
use subagent_tests::real_agent::RealAgent;

use super::world::RealAgentWorld;

/// Agents that ask before commands, each with its own name for the tool.
const ASKING: [&str; 2] = ["claude", "gemini"];

#[test]
fn a_hook_denies_a_command_of_a_real_agent() {
    for agent in ASKING.into_iter().filter(|agent| RealAgent::is_installed(agent)) {
        let mut world = RealAgentWorld::empty(agent);
        let config = world.sandbox.file("home/.config/subagent");
        fs::create_dir_all(&config).unwrap();
        let hook = json!({"type": "command", "command": "grep -q 'rm kept' && { echo 'no rm here' >&2; exit 2; }; exit 0"});
        let hooks = json!({"hooks": {"PreToolUse": [{"matcher": "Bash", "hooks": [hook]}]}});
        fs::write(config.join("config.yaml"), hooks.to_string()).unwrap();
        world.worker = world.start();
        let file = world.sandbox.workspace().join("kept");
        fs::write(&file, "").unwrap();
        let waited = world.send("RUN: rm kept");
        assert_eq!(waited["matchedEvent"]["type"], "turn.completed", "{agent}: {waited}");
        assert!(file.exists(), "{agent}: it was denied");
        let events = world.sandbox.events(&world.worker);
        let decided = events.iter().find(|event| event["type"] == "approval.decided").unwrap();
        assert_eq!(
            (&decided["data"]["by"], &decided["data"]["note"]),
            (&json!("hook"), &json!("no rm here")),
            "{agent}: {decided}"
        );
        // The refusal of ACP has no field for a reason: the agent knows only that it was refused.
        let requests = world.models.requests();
        let reported = requests.iter().find(|request| request.body.to_string().contains("no rm here"));
        assert!(reported.is_none(), "{agent}: docs/hooks.md says that it gets no reason: {reported:?}");
        // Actions that the hook does not mention continue as before.
        let asked = world.question("RUN: touch made", "touch made");
        world.decide(&asked, "allow");
        world.finish();
    }
}
