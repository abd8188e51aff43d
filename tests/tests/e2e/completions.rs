//! Completions in real shells, at a terminal: names from the daemon and file
//! names, without running anything.

use std::fs;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use subagent_tests::harness::{AtTerminal, On, TestSandbox};

/// Returns what the hidden command offers after these words.
fn offered(sandbox: &TestSandbox, shell: &str, words: &[&str]) -> Vec<String> {
    let output = sandbox.command("subagent").args(["__complete", shell]).args(words).run();
    assert_eq!((output.status.code(), output.stderr.as_str()), (Some(0), ""), "{output}");
    output.stdout.lines().map(str::to_owned).collect()
}

/// Whether a shell is installed. Where all are required, a missing one is an error.
fn is_there(sandbox: &TestSandbox, shell: &str) -> bool {
    let found = sandbox.command("sh").args(["-c", &format!("command -v {shell}")]).run().status.success();
    let required = std::env::var_os("SUBAGENT_REQUIRE_SHELLS").is_some_and(|value| value == "1");
    assert!(found || !required, "{shell} is not installed");
    found
}

/// Starts a shell at a terminal with our script loaded and our executables in its PATH.
fn shell(sandbox: &mut TestSandbox, name: &str) -> AtTerminal {
    let folder = sandbox.executable("subagent");
    let folder = folder.strip_suffix("/subagent").unwrap();
    sandbox.set_env("PATH", format!("{folder}:{}", std::env::var("PATH").unwrap()));
    sandbox.set_env("PS1", "$ ");
    let args: &[&str] = match name {
        "bash" => &["--norc", "--noprofile", "-i"],
        "fish" => &["--no-config", "-i"],
        _ => &["-f", "-i"],
    };
    // Fish requires a controlling terminal of its own.
    let command = sandbox.command("setsid").args(["--ctty", name]).args(args);
    let terminal = command.at_terminal(120, On::All);
    if name == "zsh" {
        terminal.types("autoload -U compinit && compinit -u -D\r");
    }
    terminal.types(&match name {
        "fish" => "subagent completions fish | source; echo re''ady\r".to_owned(),
        name => format!("source <(subagent completions {name}) && echo re''ady\r"),
    });
    terminal.wait_for("ready");
    terminal
}

#[test]
fn placements_of_the_config_file_are_completed() {
    let sandbox = TestSandbox::new();
    let folder = sandbox.file("home/.config/subagent");
    fs::create_dir_all(&folder).unwrap();
    let config = "placements: {gpu1: {kind: ssh, host: h, cwd: /x}}\n";
    fs::write(folder.join("config.yaml"), config).unwrap();
    for words in [["run", "--on", ""], ["placement", "check", ""]] {
        assert_eq!(offered(&sandbox, "bash", &words), ["gpu1"]);
    }
    sandbox.finish();
}

#[test]
fn names_requests_and_launchers_are_completed_in_real_shells() {
    for name in ["bash", "zsh", "fish"] {
        let mut sandbox = TestSandbox::new();
        let tagged = ["worker", "start", "demo", "--tag", "job=review"];
        let worker = sandbox.run(&tagged).data_of("worker.started")["workerId"].as_str().unwrap().to_owned();
        if !is_there(&sandbox, name) {
            sandbox.finish();
            continue;
        }
        let asked = sandbox.send(&worker, "!ask execute rm -rf build");
        let request = asked["requestId"].as_str().unwrap().to_owned();
        let shell = shell(&mut sandbox, name);
        // The completed part appears only after the Tab.
        for (typed, whole) in [
            ("subagent show de\t", "subagent show demo-1"),
            ("subagent approve ap\t", &*format!("subagent approve {request}")),
            ("subagent worker start --launcher dem\t", "--launcher demo"),
            ("subagent approve x --decision rej\t", "--decision reject"),
            ("subagent wait -l job=rev\t", "subagent wait -l job=review"),
            ("subagent wait -l job=\t", "subagent wait -l job=review"),
            ("subagent ls --output=nd\t", "subagent ls --output=ndjson"),
            ("subagent hook test UserP\t", "subagent hook test UserPromptSubmit"),
            ("subagent daemon sta\t", "subagent daemon sta"),
        ] {
            shell.types(typed);
            shell.wait_for(whole);
            // Ctrl-U clears the line.
            shell.types("\u{15}");
        }
        shell.types("exit\r");
        let _ = shell.screen();
        sandbox.approve(&worker, &request.into(), "allow").data_of("approval.decided");
        sandbox.finish();
    }
}

#[test]
fn without_a_daemon_there_are_names_of_files_and_none_is_started() {
    let sandbox = TestSandbox::new();
    let agents = sandbox.workspace().join(".agents/agents");
    fs::create_dir_all(&agents).unwrap();
    let definition = "---\nname: reviewer\ndescription: \"Reads \\e[31mred `id` $(id)\"\n---\nYou review.\n";
    fs::write(agents.join("reviewer.md"), definition).unwrap();
    let config = sandbox.config_file();
    let roles = "roleHints: {tester: {}, '$(touch pwned)': {}}\n";
    fs::write(&config, format!("{}{roles}", fs::read_to_string(&config).unwrap())).unwrap();

    assert_eq!(offered(&sandbox, "bash", &["run", "dem"]), ["demo"]);
    assert_eq!(offered(&sandbox, "bash", &["run", "review"]), ["reviewer"]);
    let zsh = offered(&sandbox, "zsh", &["agent", "show", "review"]);
    assert_eq!(zsh.len(), 1, "{zsh:?}");
    assert!(zsh[0].starts_with("reviewer\tReads red") && !zsh[0].contains(['`', '$', '\u{1b}']), "{zsh:?}");
    assert_eq!(offered(&sandbox, "bash", &["worker", "start", "--role", ""]), ["tester"]);
    for words in [["show", ""], ["approve", ""], ["task", "show"]] {
        assert_eq!(offered(&sandbox, "bash", &words).iter().filter(|line| line.contains("demo")).count(), 0);
    }
    // Names of another workspace, and words that are not commands.
    let ws = sandbox.workspace();
    let elsewhere = sandbox.command("subagent").cwd("/").args(["__complete", "bash", "run", "--cwd"]);
    let elsewhere = elsewhere.args([ws.to_str().unwrap(), "review"]).run();
    assert_eq!(elsewhere.text(), "reviewer\n");
    assert!(offered(&sandbox, "bash", &["nonsense", "--what", ""]).is_empty());
    for bad in [&["__complete"][..], &["__complete", "tcsh", "a"], &["__complete", "bash"]] {
        let output = sandbox.command("subagent").args(bad).run();
        assert_eq!((output.status.code(), output.text(), output.stderr.as_str()), (Some(0), "", ""));
    }
    fs::write(&config, "launchers: [").unwrap();
    let _ = offered(&sandbox, "bash", &["run", ""]);
    assert!(!sandbox.state_dir().exists() && sandbox.processes().is_empty(), "something was started");
    sandbox.finish();
}

#[test]
fn names_come_with_what_the_workers_do_and_what_is_stopped_is_left_out_where_it_is_of_no_use() {
    let (sandbox, _) = TestSandbox::with_worker();
    let label = "fix\u{1b}]0;x\u{7} $(touch pwned) `id`";
    let start = ["worker", "start", "--name", "login", "--label", label];
    sandbox.run(&start).data_of("worker.started");
    sandbox.run(&["stop", "demo-1"]).data_of("worker.stopped");
    let mut shown = offered(&sandbox, "zsh", &["show", ""]);
    shown.sort();
    assert_eq!(shown.len(), 2, "{shown:?}");
    assert!(shown[0].starts_with("demo-1\tstopped"), "{shown:?}");
    assert!(shown[1].starts_with("login\tidle fix"), "{shown:?}");
    assert!(!shown[1].contains(['$', '`', '\u{1b}', '\u{7}']), "{shown:?}");
    assert_eq!(offered(&sandbox, "bash", &["send", ""]), ["login"]);
    assert_eq!(offered(&sandbox, "bash", &["send", "--worker-id", "=", "lo"]), ["login"]);
    assert_eq!(offered(&sandbox, "bash", &["send", "--worker-id=lo"]), ["--worker-id=login"]);
    assert_eq!(offered(&sandbox, "bash", &["send", "@"]), ["@last"]);
    let ids = offered(&sandbox, "bash", &["show", "w_"]);
    assert!(ids.len() == 2 && ids.iter().all(|id| id.starts_with("w_")), "{ids:?}");
    sandbox.finish();
}

#[test]
fn turns_tags_sinks_and_rules_are_offered_where_they_are_taken() {
    let sandbox = TestSandbox::new();
    let own = sandbox.file("home/.config/subagent");
    fs::create_dir_all(&own).unwrap();
    fs::write(own.join("config.yaml"), "notify: [{name: desk, to: command, command: 'true'}]\n").unwrap();
    sandbox
        .run(&["worker", "start", "demo", "--tag", "job=review", "--tag", "owner=me"])
        .data_of("worker.started");
    let turn = |args: &[&str]| {
        let accepted = sandbox.run(&[&["send", "demo-1", "-d"], args].concat()).data();
        accepted["turnId"].as_str().unwrap().to_owned()
    };
    let gate = sandbox.gate("turn");
    let failed = turn(&["!error -32603 no luck"]);
    assert_eq!(sandbox.run(&["wait", "demo-1"]).status.code(), Some(10));
    let open = turn(&[&gate.directive()]);
    let queued = turn(&["--queue", "later"]);
    let all = [&*queued, &*open, &*failed];
    let typed = |words: &[&str]| offered(&sandbox, "bash", &[words, &["turn_"]].concat());
    assert_eq!(typed(&["turn", "show"]), all);
    assert_eq!(typed(&["result"]), all);
    assert_eq!(typed(&["worker", "inspect", "demo-1", "--turn-id"]), all);
    assert_eq!(typed(&["turn", "drop"]), [&*queued]);
    assert_eq!(typed(&["turn", "move"]), [&*queued]);
    assert_eq!(typed(&["turn", "retry"]), [&*failed]);
    assert_eq!(offered(&sandbox, "bash", &["result", ""]), ["demo-1"]);
    let zsh = offered(&sandbox, "zsh", &["turn", "drop", ""]);
    assert_eq!(zsh, [format!("{queued}\tdemo-1 queued: later")]);

    assert_eq!(offered(&sandbox, "bash", &["wait", "-l", ""]), ["job=review", "owner=me"]);
    assert_eq!(offered(&sandbox, "zsh", &["ls", "-l", "job=review,ow"]), ["job=review,owner=me\t1 worker"]);
    assert_eq!(offered(&sandbox, "bash", &["run", "--tag", "j"]), ["job=review"]);
    // Bash splits words at `=` and replaces only the last part.
    assert_eq!(offered(&sandbox, "bash", &["wait", "-l", "job", "=", "re"]), ["review"]);
    assert_eq!(offered(&sandbox, "bash", &["wait", "-l", "job", "=", "review,ow"]), ["review,owner=me"]);
    assert_eq!(offered(&sandbox, "bash", &["notify", "test", ""]), ["desk"]);
    gate.open();
    sandbox.run(&["wait", "demo-1"]).data_of("workers.waited");
    let asked = sandbox.run(&["send", "demo-1", "-d", "!ask execute make"]).data();
    assert_eq!(sandbox.run(&["wait", "demo-1"]).status.code(), Some(15), "{asked}");
    let rule = sandbox.run(&["approve", "--always"]).data_of("approval.decided");
    let rule = rule["always"]["ruleId"].as_str().unwrap();
    assert_eq!(offered(&sandbox, "bash", &["policy", "rules", "remove", ""]), [rule]);
    sandbox.finish();
}

#[test]
fn schedules_and_triggers_are_offered_where_they_are_taken() {
    let sandbox = TestSandbox::new();
    sandbox.run(&["schedule", "add", "nightly", "--every", "20m", "demo", "hello"]).data_of("schedule.added");
    sandbox.run(&["trigger", "add", "pushed", "demo", "hello"]).data_of("trigger.added");
    sandbox.run(&["trigger", "pause", "pushed"]).data_of("trigger.paused");
    for command in ["show", "log", "pause", "resume", "run", "rm"] {
        assert_eq!(offered(&sandbox, "bash", &["schedule", command, ""]), ["nightly"]);
        assert_eq!(offered(&sandbox, "zsh", &["trigger", command, "p"]), ["pushed\tpaused: user"]);
    }
    assert_eq!(offered(&sandbox, "bash", &["trigger", "fire", ""]), ["pushed"]);
    assert!(offered(&sandbox, "bash", &["trigger", "add", "x", "de"]).contains(&"demo".to_owned()));
    sandbox.finish();
}

#[test]
fn a_daemon_that_does_not_answer_costs_no_time() {
    let (sandbox, _) = TestSandbox::with_worker();
    let daemon = sandbox.daemon();
    daemon.signal(Signal::SIGSTOP);
    let begun = Instant::now();
    assert!(offered(&sandbox, "bash", &["show", ""]).is_empty());
    let took = begun.elapsed();
    daemon.signal(Signal::SIGCONT);
    assert!(took < Duration::from_secs(5), "{took:?}");
    sandbox.finish();
}

#[test]
fn twenty_workers_are_completed_within_the_time_that_is_granted_to_the_daemon() {
    let sandbox = TestSandbox::new();
    sandbox.init();
    for _ in 0..20 {
        sandbox.run(&["worker", "start", "--debug-mode"]).data_of("worker.started");
    }
    let begun = Instant::now();
    assert_eq!(offered(&sandbox, "bash", &["show", "demo-"]).len(), 20);
    eprintln!("20 names in {:?}", begun.elapsed());
    sandbox.finish();
}
