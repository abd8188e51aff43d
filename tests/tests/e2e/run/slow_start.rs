//! A slow start reports its progress at a terminal.

use std::fs;
use std::path::PathBuf;

use nix::sys::stat::Mode;
use nix::unistd::mkfifo;
use subagent_tests::harness::{AtTerminal, On, TestLauncher, TestSandbox};

use crate::config_layers::program;

/// The line of a start that takes more than a second, without its time.
const LINE: &str = "starting slow (npx fetches @scope/agent) · ";

/// An `npx` whose download ends when the test writes to the pipe.
struct SlowNpxFixture {
    sandbox: TestSandbox,
    pipe: PathBuf,
}

fn world() -> SlowNpxFixture {
    let mut sandbox = TestSandbox::new();
    let pipe = sandbox.file("fetched");
    mkfifo(&pipe, Mode::S_IRWXU).unwrap();
    let agent = format!(
        "exec {} demo-agent --state {}",
        sandbox.executable("subagent"),
        sandbox.file_name("sessions")
    );
    program(&sandbox, "npx", &format!("read -r _ < {}\n{agent}", pipe.display()));
    let npx = TestLauncher::new(sandbox.file_name("bin/npx"), ["-y", "@scope/agent"]);
    sandbox.launcher("slow", npx);
    SlowNpxFixture { sandbox, pipe }
}

impl SlowNpxFixture {
    fn begin(&self, args: &[&str]) -> AtTerminal {
        self.sandbox.command("subagent").args(args).at_terminal(100, On::Both)
    }

    fn fetched(&self) {
        fs::write(&self.pipe, "\n").unwrap();
    }

    /// The command shows the line, and later this text.
    #[track_caller]
    fn shows(&self, args: &[&str], line: &str, text: &str) {
        let terminal = self.begin(args);
        terminal.wait_for(line);
        self.fetched();
        let screen = terminal.screen();
        assert!(screen.status.success() && screen.text().contains(text), "{}", screen.text());
        let after = screen.bytes.rsplit_once("starting slow").unwrap().1;
        assert!(after.contains("\r\u{1b}[2K"), "the line must be erased: {:?}", screen.bytes);
    }
}

#[test]
fn a_run_and_a_start_show_what_they_wait_for() {
    let world = world();
    world.shows(&["run", "slow", "hello"], LINE, "hello");
    world.shows(&["run", "-d", "--name", "left", "slow", "hello"], LINE, "left");
    world.shows(&["worker", "start", "slow", "--name", "mine"], LINE, "mine");
    world.sandbox.finish();
}

#[test]
fn a_task_shows_what_it_waits_for() {
    let world = world();
    world.shows(&["task", "run", "--launcher", "slow", "--text", "!say It is here."], LINE, "It is here.");
    world.sandbox.finish();
}

#[test]
fn a_message_that_starts_the_agent_shows_what_it_waits_for() {
    let world = world();
    world.shows(&["worker", "start", "slow", "--name", "mine"], LINE, "mine");
    world.shows_end();
    world.shows(&["send", "mine", "!say Back again."], LINE, "Back again.");
    world.sandbox.finish();
}

impl SlowNpxFixture {
    /// Makes the agent of `mine` end itself.
    fn shows_end(&self) {
        let output = self.sandbox.command("subagent").args(["send", "mine", "!exit-after\nbye"]).run();
        assert_eq!(output.text(), "bye\n");
    }
}

#[test]
fn a_package_that_is_here_is_not_fetched() {
    let world = world();
    let manifest = world.sandbox.workspace().join("node_modules/@scope/agent/package.json");
    fs::create_dir_all(manifest.parent().unwrap()).unwrap();
    fs::write(manifest, "{}").unwrap();
    world.shows(&["run", "slow", "hello"], "starting slow · ", "hello");
    world.sandbox.finish();
}

#[test]
fn programs_get_no_line() {
    let world = world();
    let run = world.sandbox.command("subagent").args(["run", "slow", "hello"]).spawn();
    world.fetched();
    let output = run.output();
    assert_eq!(output.text(), "hello\n");
    assert!(!output.stderr.contains("starting"), "{output}");
    let json = world.begin(&["run", "--json", "slow", "hello"]);
    world.fetched();
    let screen = json.screen();
    assert!(screen.status.success() && !screen.text().contains("starting slow"), "{}", screen.text());
    world.sandbox.finish();
}
