//! Every command in `--help`, with its required arguments and its flags.

use subagent_tests::harness::TestSandbox;

/// Commands beyond the contract, which have no flags to compare.
const NOT_IN_THE_CONTRACT: &[&str] = &[
    "run",
    "ls",
    "usage",
    "status",
    "stop",
    "rm",
    "logs",
    "worker logs",
    "worker restart",
    "worker resume",
    "worker rm",
    "doctor",
    "completions",
    "init",
    "config show",
    "config check",
    "launcher login",
    "launcher logout",
    "session list",
    "session delete",
    "policy test",
    "turn list",
    "turn show",
    "turn drop",
    "turn move",
    "turn retry",
    "queue resume",
    "agent list",
    "agent show",
    "agent validate",
    "placement list",
    "placement check",
    "placement prepare",
    "memory list",
    "memory show",
    "memory edit",
    "memory clear",
    "task run",
    "task list",
    "task show",
    "task wait",
    "task message",
    "task result",
    "task cancel",
    "task merge",
    "task prune",
    "tree",
    "hook list",
    "hook test",
    "hook trust",
    "schedule add",
    "schedule list",
    "schedule show",
    "schedule log",
    "schedule pause",
    "schedule resume",
    "schedule run",
    "schedule rm",
    "trigger add",
    "trigger list",
    "trigger show",
    "trigger log",
    "trigger pause",
    "trigger resume",
    "trigger run",
    "trigger fire",
    "trigger rm",
    "notify list",
    "notify test",
    "notify log",
    "summary",
    "show",
    "diff",
    "result",
    "land",
    "worktree list",
    "worktree show",
    "worktree diff",
    "worktree setup",
    "worktree remove",
    "worktree discard",
    "worktree land",
    "worktree prune",
];

/// A command without subcommands.
#[derive(Debug)]
pub(super) struct Leaf {
    /// The words that select it.
    pub(super) path: Vec<String>,
    /// Its required arguments, with `x` as every value.
    pub(super) required: Vec<String>,
    /// Its flags, and whether they take a value.
    pub(super) flags: Vec<(String, bool)>,
}

impl Leaf {
    pub(super) fn is_in_the_contract(&self) -> bool {
        let name = self.path.join(" ");
        !NOT_IN_THE_CONTRACT.contains(&name.as_str()) && self.path[0] != "daemon"
    }
}

/// Returns all of them, except the demo and the board (for people), the panel (for browsers) and the MCP server (with its
/// own protocol).
#[track_caller]
pub(super) fn leaves(sandbox: &TestSandbox) -> Vec<Leaf> {
    let mut found = Vec::new();
    below(sandbox, &[], &mut found);
    assert!(found.len() > 15, "{found:?}");
    found
}

fn below(sandbox: &TestSandbox, path: &[String], found: &mut Vec<Leaf>) {
    let help = sandbox.command("subagent").args(path).args(["--help"]).run();
    let help = help.text();
    let commands = section(help, "Commands:");
    if commands.is_empty() {
        found.push(Leaf { path: path.to_vec(), required: required(help), flags: flags(help) });
        return;
    }
    for command in
        commands.iter().filter(|name| !["help", "demo", "mcp", "top", "panel"].contains(&name.as_str()))
    {
        below(sandbox, &[path, std::slice::from_ref(command)].concat(), found);
    }
}

/// Returns the first words of a section's entries.
fn section(help: &str, title: &str) -> Vec<String> {
    let lines = help.lines().skip_while(|line| *line != title).skip(1).take_while(|line| !line.is_empty());
    let entries = lines.filter_map(|line| line.strip_prefix("  ").filter(|line| !line.starts_with(' ')));
    entries.filter_map(|line| line.split_whitespace().next()).map(str::to_owned).collect()
}

/// Parses the required arguments after `[OPTIONS]` in the usage line, without a list that may be
/// empty; `x` is every value.
fn required(help: &str) -> Vec<String> {
    let usage = help.lines().find(|line| line.starts_with("Usage:")).unwrap();
    let (_, required) = usage.split_once("[OPTIONS]").unwrap();
    let words = required.split_whitespace().filter(|word| !word.ends_with("]..."));
    words.map(|word| if word.starts_with('<') { "x".to_owned() } else { word.to_owned() }).collect()
}

fn flags(help: &str) -> Vec<(String, bool)> {
    let lines = help.lines().map(str::trim_start).filter(|line| line.starts_with("--"));
    let words = lines.map(|line| line.split_whitespace());
    let flag = words.map(|mut words| {
        (words.next().unwrap().to_owned(), words.next().is_some_and(|word| word.starts_with('<')))
    });
    flag.collect()
}
