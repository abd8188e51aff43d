//! A confined agent's requests to its client and to the daemon.

use std::fs;

use serde_json::json;

use super::world::{Confinement, has_layers, world};

#[test]
fn files_and_terminals_of_the_client_keep_to_the_same_sets() {
    if !has_layers() {
        return;
    }
    for layers in Confinement::ALL {
        let mut sandbox = world(layers);
        let profile = json!({"filesystem": "shared_ro", "write": ["allowed"], "hide": ["hidden", "~/.ssh"]});
        let agent = sandbox.test_agent("sdk-agent", &[]).key("sandbox", profile);
        sandbox.launcher("sdk", agent);
        fs::create_dir_all(sandbox.file("ws/hidden")).unwrap();
        fs::write(sandbox.file("ws/hidden/file"), "a secret").unwrap();
        fs::write(sandbox.file("ws/file"), "text").unwrap();
        sandbox.init();
        let worker = sandbox.start("sdk");
        let at = |name: &str| sandbox.file_name(name);
        let says = |line: String| sandbox.send(&worker, &line)["assistantText"].as_str().unwrap().to_owned();
        assert_eq!(says(format!("read {}", at("ws/file"))).trim(), "text");
        assert!(says(format!("read {}", at("ws/hidden/file"))).contains("it is hidden"));
        let refused = says(format!("write {} x", at("ws/file")));
        assert!(refused.contains("is not what the sandbox of the agent allows"), "{refused}");
        assert!(says(format!("write {} x", at("ws/new/file"))).contains("sandbox"));
        assert!(!sandbox.file("ws/new").exists());
        let _ = says(format!("write {} x", at("ws/allowed/new/file")));
        assert_eq!(fs::read_to_string(sandbox.file("ws/allowed/new/file")).unwrap(), "x");
        let failed = |line: &str| {
            let said = says(format!("run {line}"));
            assert!(said.starts_with("exit Some(") && !said.starts_with("exit Some(0)"), "{line}: {said}");
        };
        failed(&format!("echo x > {}", at("outside/victim")));
        failed(&format!("echo x > {}", at("ws/file")));
        failed(&format!("cat {}", at("home/.ssh/id")));
        failed(&format!("cat {}", at("ws/hidden/file")));
        let said = says(format!("run echo y > {} && cat {}", at("ws/allowed/shell"), at("outside/victim")));
        assert!(said.starts_with("exit Some(0)") && said.contains("untouched"), "{said}");
        assert_eq!(fs::read_to_string(sandbox.file("outside/victim")).unwrap(), "untouched");
        let _ = sandbox.run(&["worker", "stop", &worker]).data_of("worker.stopped");
        sandbox.finish();
    }
}

#[test]
fn a_confined_agent_cannot_approve_itself() {
    if !has_layers() {
        return;
    }
    for layers in Confinement::ALL {
        let mut sandbox = world(layers);
        let agent = sandbox.test_agent("sdk-agent", &[]).key("sandbox", json!("shared_ro"));
        sandbox.launcher("sdk", agent);
        sandbox.init();
        let worker = sandbox.start("sdk");
        let subagent = sandbox.executable("subagent");
        let own_state = sandbox.file_name("ws/allowed/state");
        for command in [
            format!("{subagent} inbox --json"),
            format!("{subagent} worker list --json"),
            format!("{subagent} worker stop {worker} --json"),
            format!("{subagent} approve {worker} --json"),
        ] {
            let said = sandbox.send(&worker, &format!("run {command}"));
            let text = said["assistantText"].as_str().unwrap();
            assert!(
                !text.starts_with("exit Some(0)") && text.starts_with("exit "),
                "{layers:?} {command}: {text}"
            );
        }
        // It may use its own daemon, which does not know the worker.
        let own = format!("SUBAGENT_STATE_DIR={own_state} {subagent} worker list --json");
        let said = sandbox.send(&worker, &format!("run {own}"));
        let text = said["assistantText"].as_str().unwrap();
        assert!(text.starts_with("exit ") && !text.contains(&worker), "{layers:?}: {text}");
        let _ = sandbox.run(&["worker", "stop", &worker]).data_of("worker.stopped");
        sandbox.finish();
    }
}

#[test]
fn a_confined_agent_writes_its_memory_and_nothing_else() {
    if !has_layers() {
        return;
    }
    for layers in Confinement::ALL {
        let mut sandbox = world(layers);
        let agent = sandbox.test_agent("sdk-agent", &[]);
        sandbox.launcher("sdk", agent);
        sandbox.init();
        let definitions = sandbox.file("ws/.agents/agents");
        fs::create_dir_all(&definitions).unwrap();
        let text = "---\ndescription: notes\nlauncher: sdk\nfilesystem: shared_ro\nmemory: project\n---\n";
        fs::write(definitions.join("noter.md"), text).unwrap();
        let started = sandbox.run(&["worker", "start", "--agent", "noter"]).data_of("worker.started");
        let worker = started["workerId"].as_str().unwrap();
        let memory = sandbox.file("ws/.agents/agent-memory/noter");
        let shown = sandbox.show(worker);
        assert_eq!(shown["sandbox"]["write"], json!([memory]), "{shown}");
        let says = |line: String| sandbox.send(worker, &line)["assistantText"].as_str().unwrap().to_owned();
        let at = |name: &str| memory.join(name).to_str().unwrap().to_owned();
        assert!(says(format!("write {} x", at("MEMORY.md"))).contains("written"), "{layers:?}");
        let said = says(format!("run echo y >> {}", at("MEMORY.md")));
        assert!(said.starts_with("exit Some(0)"), "{layers:?}: {said}");
        assert_eq!(fs::read_to_string(memory.join("MEMORY.md")).unwrap(), "xy\n");
        for other in ["../x.md", "../../agents/noter.md", "../../../file"] {
            let said = says(format!("run echo z >> {}", at(other)));
            assert!(
                said.starts_with("exit Some(") && !said.starts_with("exit Some(0)"),
                "{layers:?} {other}: {said}"
            );
            assert!(!says(format!("write {} z", at(other))).contains("written"), "{layers:?} {other}");
        }
        assert_eq!(fs::read_to_string(definitions.join("noter.md")).unwrap(), text);
        let _ = sandbox.run(&["worker", "stop", worker]).data_of("worker.stopped");
        sandbox.finish();
    }
}
