//! Real agents do only what their definition permits, as seen in the folder and in the events.

use std::fs;

use serde_json::Value;
use subagent_tests::real_agent::RealAgent;

use super::crew::Crew;

/// The agents in this test: one that continues after a refusal, and one that does not.
const TRIED: [&str; 2] = ["claude", "codex"];

/// Returns the installed ones, each with a definition with these keys and the same name.
fn crew(keys: &str) -> Option<(Crew, Vec<&'static str>)> {
    let agents: Vec<_> = TRIED.into_iter().filter(|name| RealAgent::is_installed(name)).collect();
    if agents.is_empty() {
        return None;
    }
    let crew = Crew::new(&agents);
    for agent in &agents {
        crew.define(&format!("by-{agent}"), &format!("launcher: {agent}\n{keys}"));
    }
    Some((crew, agents))
}

/// A task that has ended.
struct Ended {
    agent: &'static str,
    task: Value,
    decided: Vec<Value>,
    violated: Vec<Value>,
}

impl Ended {
    /// Checks that a rule of its definition denied its action, without a question.
    #[track_caller]
    fn was_denied(&self) {
        let rule = match (&self.decided[..], &self.violated[..]) {
            ([decided], []) => {
                assert_eq!(
                    (&decided["decision"], &decided["by"]),
                    (&"deny".into(), &"rule".into()),
                    "{decided}"
                );
                &decided["policy"]
            }
            ([], [violated]) => violated,
            _ => panic!("{}: {:?} {:?}", self.agent, self.decided, self.violated),
        };
        assert_eq!(rule["layer"], "definition", "{}: {rule}", self.agent);
    }

    /// Checks that it did the action; a rule of its definition allowed its request.
    #[track_caller]
    fn was_done(&self) {
        assert_eq!(self.task["status"], "completed", "{}: {}", self.agent, self.task);
        assert_eq!(self.violated, Vec::<Value>::new(), "{}", self.agent);
        for decided in &self.decided {
            let rule = (&decided["decision"], &decided["by"], &decided["policy"]["layer"]);
            assert_eq!(rule, (&"allow".into(), &"rule".into(), &"definition".into()), "{decided}");
        }
    }
}

/// Makes each agent do this; `{}` in it is the agent's name.
fn each(crew: &Crew, agents: &[&'static str], prompt: &str) -> Vec<Ended> {
    let give =
        |agent: &&'static str| (*agent, crew.gives(&[&format!("by-{agent}")], &prompt.replace("{}", agent)));
    let given: Vec<_> = agents.iter().map(give).collect();
    given.into_iter().map(|(agent, task)| ended(crew, agent, &task)).collect()
}

fn ended(crew: &Crew, agent: &'static str, id: &str) -> Ended {
    let task = crew.ended(id);
    let (decided, violated) = (crew.events(id, "approval.decided"), crew.events(id, "policy.violated"));
    Ended { agent, task, decided, violated }
}

#[test]
fn m1_a_real_agent_that_may_only_read_reads_and_neither_edits_nor_runs_a_command() {
    let Some((crew, agents)) = crew("tools: [read]") else { return };
    let folder = crew.sandbox.workspace();
    fs::write(folder.join("seed"), "the file's content").unwrap();
    for ended in each(&crew, &agents, "RUN: touch made-by-{}") {
        ended.was_denied();
        assert!(!folder.join(format!("made-by-{}", ended.agent)).exists());
    }
    for ended in each(&crew, &agents, &format!("WRITE: {}/written-by-{{}}=text", folder.display())) {
        ended.was_denied();
        assert!(!folder.join(format!("written-by-{}", ended.agent)).exists());
    }
    let read = format!("READ: {}", folder.join("seed").display());
    let mut readers = each(&crew, &agents, &read);
    if agents.contains(&"codex") {
        // It reads with its shell, which must not prevent exploring.
        let explores = crew.gives(&["explore", "--launcher", "codex"], &read);
        readers.push(ended(&crew, "codex", &explores));
    }
    for reader in readers {
        reader.was_done();
        assert!(reader.task["result"].as_str().unwrap().contains("the file's content"), "{}", reader.task);
    }
    crew.finish();
}

#[test]
fn a_real_agent_whose_folders_are_known_explores_in_a_sandbox() {
    let known: Vec<_> = ["claude", "gemini", "kimi", "opencode", "vibe"]
        .into_iter()
        .filter(|name| RealAgent::is_installed(name))
        .collect();
    if known.is_empty() {
        return;
    }
    let crew = Crew::new(&known);
    let seed = crew.sandbox.workspace().join("seed");
    fs::write(&seed, "the file's content").unwrap();
    let (read, run) = (format!("READ: {}", seed.display()), format!("RUN: cat {}", seed.display()));
    let mut given = Vec::new();
    for agent in known {
        // Kimi Code asks for a command without naming it, so the definition's rules deny it.
        for prompt in [Some(&read), (agent != "kimi").then_some(&run)].into_iter().flatten() {
            given.push((agent, crew.gives(&["explore", "--launcher", agent], prompt)));
        }
    }
    for (agent, task) in given {
        let shown = crew.sandbox.show(&task);
        // A machine without layers has a reason of its own.
        let reason = shown["noSandbox"].as_str().unwrap_or_default();
        assert!(shown["sandbox"].is_object() || reason.contains("bubblewrap"), "{shown}");
        let ended = ended(&crew, agent, &task);
        ended.was_done();
        assert!(ended.task["result"].as_str().unwrap().contains("the file's content"), "{}", ended.task);
    }
    crew.finish();
}

#[test]
fn m1_a_real_agent_does_not_use_a_disallowed_tool_even_if_the_config_allows_it() {
    let Some((crew, agents)) = crew("disallowedTools: [Bash]") else { return };
    let config = crew.sandbox.config_file();
    let text = fs::read_to_string(&config).unwrap();
    fs::write(&config, format!("{text}permissions:\n  \"*\": allow\n")).unwrap();
    for ended in each(&crew, &agents, "RUN: touch made-by-{}") {
        ended.was_denied();
        assert!(!crew.sandbox.workspace().join(format!("made-by-{}", ended.agent)).exists());
    }
    // An action without a request cannot be denied: the agent is canceled for it, unless its
    // turn ends before that.
    for ended in each(&crew, &agents, "RUN: echo {}") {
        ended.was_denied();
        let unasked = ended.agent == "claude";
        assert_eq!(ended.violated.len(), usize::from(unasked), "{:?}", ended.violated);
        let may_be_canceled = unasked && ended.task["status"] == "cancelled";
        assert!(may_be_canceled || ended.task["status"] == "completed", "{}", ended.task);
    }
    crew.finish();
}

#[test]
fn m1_a_real_agent_runs_the_commands_that_its_definition_allows_and_no_others() {
    let Some((crew, agents)) = crew("permission: {execute: {\"*\": deny, \"echo *\": allow}}") else {
        return;
    };
    for ended in each(&crew, &agents, "RUN: echo allowed-{}") {
        ended.was_done();
        let result = ended.task["result"].as_str().unwrap();
        assert!(
            result.starts_with("DONE: ") && result.contains(&format!("allowed-{}", ended.agent)),
            "{result}"
        );
    }
    for ended in each(&crew, &agents, "RUN: touch made-by-{}") {
        ended.was_denied();
        assert!(!crew.sandbox.workspace().join(format!("made-by-{}", ended.agent)).exists());
    }
    crew.finish();
}
