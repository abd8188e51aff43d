//! Two real agents work on one repository at the same time, each in its worktree. Both land; the
//! second one after a conflict that is returned to it.

use std::fs;

use subagent_tests::real_agent::{AGENTS, RealAgent};

use super::crew::Crew;
use super::example::git;
use super::world::DEADLINE;

#[test]
fn two_agents_in_one_repository_both_land() {
    let installed: Vec<&str> =
        AGENTS.into_iter().filter(|agent| RealAgent::is_installed(agent)).take(2).collect();
    let [first, second] = installed.as_slice() else { return };
    let crew = Crew::new(&[first, second]);
    let folder = crew.sandbox.workspace();
    git(&folder, &["init", "-q", "-b", "main", "."]);
    fs::write(folder.join(".git/info/exclude"), ".subagent/\n").unwrap();
    for (key, value) in [("user.name", "me"), ("user.email", "me@example.com")] {
        git(&folder, &["config", key, value]);
    }
    fs::write(folder.join("a.txt"), "begin\n").unwrap();
    git(&folder, &["add", "-A"]);
    git(&folder, &["commit", "-qm", "first"]);
    crew.models.mean(
        "conflict with the branch",
        "RUN: git merge main || { printf 'first and second\\n' > a.txt; git add a.txt; git commit -qm merged; }",
    );
    let run = |args: &[&str]| crew.sandbox.subagent(args).deadline(DEADLINE).run();
    for (name, agent) in [("one", first), ("two", second)] {
        let start =
            ["worker", "start", agent, "--name", name, "--worktree", "--allow", "execute", "--allow", "edit"];
        run(&start).data_of("worker.started");
    }
    // Concurrently: neither waits for the other.
    for (name, word) in [("one", "first"), ("two", "second")] {
        let text = format!("RUN: printf '{word}\\n' > a.txt; printf '{word}\\n' > {word}.txt");
        run(&["send", name, "-d", &text]).data();
    }
    run(&["wait", "one", "two", "--timeout", "3m"]).data();
    assert_eq!(fs::read_to_string(folder.join("a.txt")).unwrap(), "begin\n", "nothing has landed");
    run(&["land", "one"]).data_of("worktree.landed");
    let refused = run(&["land", "two"]).error("LAND_CONFLICT");
    assert_eq!(refused["details"]["files"][0], "a.txt", "{refused}");
    let landed = run(&["land", "two", "--fix"]).data_of("worktree.landed");
    assert_eq!(landed["into"], "main", "{landed}");
    let files =
        ["a.txt", "first.txt", "second.txt"].map(|name| fs::read_to_string(folder.join(name)).unwrap());
    assert_eq!(files, ["first and second\n", "first\n", "second\n"]);
    assert_eq!(git(&folder, &["status", "--porcelain"]), "");
    run(&["stop", "one", "two"]).data();
    assert_eq!(git(&folder, &["worktree", "list"]).lines().count(), 1, "both are removed");
    crew.finish();
}
