//! A newcomer's first result: from an empty home to a change that he has seen, with few words and no id.

use subagent_tests::harness::{Output, Sandbox};

use crate::config_layers::{agent, bare, program};

/// The most characters that the story may take.
const MAX_TYPED: usize = 200;

/// A person who types commands at a prompt.
struct Typist<'a> {
    sandbox: &'a Sandbox,
    typed: usize,
}

impl Typist<'_> {
    #[track_caller]
    fn types(&mut self, line: &str, code: i32) -> Output {
        self.typed += line.chars().count();
        let output = self.sandbox.command("/bin/sh").args(["-c", line]).run();
        assert_eq!(output.status.code(), Some(code), "{line}: {output}");
        output
    }
}

#[test]
fn a_first_result_takes_six_commands_and_no_id() {
    let mut sandbox = bare();
    sandbox.remove_env("SUBAGENT_STATE_DIR");
    sandbox.set_state_dir(sandbox.workspace().join(".subagent/state"));
    std::fs::remove_dir_all(sandbox.file("ws/.git")).unwrap();
    agent(&sandbox, "codex-acp", "");
    program(&sandbox, "git", "exec /usr/bin/git \"$@\"");
    program(&sandbox, "subagent", &format!("exec '{}' \"$@\"", sandbox.executable("subagent")));
    let mut typist = Typist { sandbox: &sandbox, typed: 0 };
    let _ = typist.types("git init -q .", 0);
    typist.typed = 0;
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
