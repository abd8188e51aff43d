//! The recording in README: its first steps, typed at a pseudo terminal and drawn as an SVG.
//! `UPDATE_VIEWS=1` renews it. It must contain only what the program printed; ids and paths of
//! the run are replaced.

mod svg;

use std::fs;
use std::path::PathBuf;

use subagent_tests::harness::{On, TestSandbox, executables};

use super::look::git;
use super::views::normal;
use svg::{Line, Step};

const COLUMNS: u16 = 86;

/// Rows of the terminal that the output is replayed on. More than any command prints.
const ROWS: u16 = 100;

/// What the scripted agent does: it asks, changes a file and says so.
const TASK: &str = "!ask execute make check
!edit replace shop.toml 2 login = \"password\"
The login asks for a password.
";

const FILE: &str = "[shop]
login = \"none\"
open = true
";

/// The typed commands, the text to wait for, and the key to press then.
const COMMANDS: &[(&str, Option<(&str, &str)>)] = &[
    ("subagent run -d demo --worktree - < task.md", None),
    ("subagent wait demo-1", Some(("[s] skip ", "y"))),
    ("subagent ls", None),
    ("subagent diff demo-1", None),
    ("subagent land demo-1", None),
];

fn file() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../docs/images/first-steps.svg")
}

/// A repository with a file to change and a task.
fn repository() -> TestSandbox {
    let mut sandbox = TestSandbox::new();
    sandbox.set_env("XDG_DATA_HOME", sandbox.file("data"));
    let workspace = sandbox.workspace();
    git(&sandbox, &["init", "-q", "-b", "main", "."]);
    git(&sandbox, &["config", "user.name", "me"]);
    git(&sandbox, &["config", "user.email", "me@example.com"]);
    fs::write(workspace.join(".git/info/exclude"), ".subagent/\n").unwrap();
    fs::write(workspace.join("shop.toml"), FILE).unwrap();
    fs::write(workspace.join("task.md"), TASK).unwrap();
    git(&sandbox, &["add", "-A"]);
    git(&sandbox, &["commit", "-qm", "first"]);
    sandbox
}

fn typed(sandbox: &TestSandbox, command: &str, answer: Option<(&str, &str)>) -> Step {
    let path = format!("{}:/usr/bin:/bin", executables().folder().display());
    let shell = sandbox.command("sh").args(["-c", command]).env("PATH", path);
    let terminal = shell.at_terminal(COLUMNS, On::All);
    if let Some((question, key)) = answer {
        terminal.wait_for(question);
        terminal.types(key);
    }
    let screen = terminal.screen();
    assert!(screen.status.success(), "{command}: {}", screen.text());
    let mut replayed = vt100::Parser::new(ROWS, COLUMNS, 0);
    let bytes = screen.bytes.replace(&sandbox.file_name("data"), "~/.local/share");
    replayed.process(bytes.replace('\n', "\r\n").as_bytes());
    let mut lines: Vec<Line> = (0..ROWS).map(|row| svg::line(replayed.screen(), row, COLUMNS)).collect();
    while lines.last().is_some_and(Line::is_empty) {
        lines.pop();
    }
    // An erased status line leaves one in front.
    let printed = lines.into_iter().skip_while(Line::is_empty).collect();
    Step { command: command.to_owned(), lines: printed }
}

#[test]
fn the_recording_of_the_first_steps_is_what_the_program_prints() {
    let sandbox = repository();
    let steps: Vec<Step> =
        COMMANDS.iter().map(|(command, answer)| typed(&sandbox, command, *answer)).collect();
    let drawn = svg::draw(&steps, COLUMNS);
    let stored = fs::read_to_string(file()).unwrap_or_default();
    let texts = [&drawn, &stored].map(|drawing| {
        let transcript = svg::transcript(drawing);
        let lines: Vec<String> = transcript.lines().map(str::to_owned).chain(svg::visible(drawing)).collect();
        normal(&sandbox, &lines)
    });
    if texts[0] != texts[1] && std::env::var_os("UPDATE_VIEWS").is_some() {
        fs::write(file(), drawn).unwrap();
    } else {
        assert_eq!(texts[0], texts[1], "the recording is old; UPDATE_VIEWS=1 renews it");
    }
    sandbox.finish();
}
