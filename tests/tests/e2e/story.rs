//! A new user's first result: from an empty home to a visible change, with little
//! typing and without ids.

use subagent_tests::harness::{MAX_TYPED, Typist};

use crate::config_layers::{agent, bare, program};

#[test]
fn a_first_result_takes_six_commands_and_no_id() {
    let mut sandbox = bare();
    sandbox.remove_env("SUBAGENT_STATE_DIR");
    sandbox.set_state_dir(sandbox.workspace().join(".subagent/state"));
    std::fs::remove_dir_all(sandbox.file("ws/.git")).unwrap();
    agent(&sandbox, "codex-acp", "");
    program(&sandbox, "git", "exec /usr/bin/git \"$@\"");
    program(&sandbox, "subagent", &format!("exec '{}' \"$@\"", sandbox.executable("subagent")));
    let git = sandbox.command("/bin/sh").args(["-c", "git init -q ."]).run();
    assert!(git.status.success(), "{git}");
    let mut typist = Typist::new(&sandbox);
    let prompt = "!edit create fix.txt\n!ask execute make\nFixed.";
    let started = typist.types(&format!("subagent run -d codex '{prompt}'"), 0);
    assert_eq!(started.stdout, "codex-1\n");
    let asked = typist.types("subagent wait codex-1", 15);
    assert!(asked.stderr.contains("answer with: subagent approve codex-1"), "{asked}");
    let _ = typist.types("subagent approve", 0);
    let ended = typist.types("subagent wait codex-1", 0);
    assert!(ended.stdout.starts_with("codex-1\tcompleted\t"), "{ended}");
    let shown = typist.types("subagent show codex-1", 0);
    assert!(shown.stdout.contains("filesChanged: 1 +1 -0"), "{shown}");
    let diff = typist.types("subagent diff codex-1", 0);
    assert!(diff.stdout.contains("+++ b/fix.txt"), "{diff}");
    assert!(typist.typed <= MAX_TYPED, "{} characters", typist.typed);
    let _ = typist.types("subagent stop codex-1", 0);
    sandbox.finish();
}
