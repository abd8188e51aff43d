//! Runs generated lines in real shells: an allowed line must not start a denied program (`bad`).
//! Every allowed line runs in dash, bash and zsh, in an empty folder, with a `PATH` of marker
//! programs and starters. With `SUBAGENT_REQUIRE_SHELLS=1` a missing shell is a failure.

mod lines;
mod pieces;
mod starters;

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::json;
use subagent_testkit::{Random, say, times};

use self::lines::line;
use self::starters::STARTERS;
use super::*;

const REQUIRE: &str = "SUBAGENT_REQUIRE_SHELLS";
/// Timeout of a line in seconds.
const LINE_LIMIT: &str = "10";
/// Number of lines in an ordinary run.
const LINES: usize = 20_000;
/// Shells with their option, and whether they read the line from stdin like a terminal's shell.
const SHELLS: &[(&str, &str, bool)] = &[
    ("dash", "-c", false),
    ("bash", "-c", false),
    ("zsh", "-fc", false),
    ("fish", "-Nc", false),
    ("dash", "-s", true),
    ("bash", "-s", true),
    ("zsh", "-fs", true),
    ("zsh", "-fis", true),
    ("bash", "-is", true),
];
/// Starters that are on every machine.
const REAL: &[&str] =
    &["sh", "bash", "env", "xargs", "timeout", "nohup", "nice", "find", "cat", "prlimit", "setarch"];
/// Commands that may read stdin. In a shell that reads its script from stdin, they would consume the next
/// lines, so multi-line scripts with them are not run there.
const READERS: &[&str] = &["cat", "read", "mapfile", "readarray", "xargs", "sh", "-s", "select", "parallel"];

/// An installed shell, as in [`SHELLS`].
type InstalledShell = (PathBuf, &'static str, bool);

struct Shells {
    _dir: tempfile::TempDir,
    bin: PathBuf,
    home: PathBuf,
    ran: PathBuf,
    started: PathBuf,
}

fn which(name: &str) -> Option<PathBuf> {
    std::env::split_paths(&std::env::var_os("PATH")?).map(|dir| dir.join(name)).find(|path| path.is_file())
}

impl Shells {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let [bin, home] = ["bin", "home"].map(|name| dir.path().join(name));
        let [ran, started] = ["ran", "started"].map(|name| dir.path().join(name));
        for folder in [&bin, &home] {
            fs::create_dir(folder).unwrap();
        }
        let program = |name: &str, script: &str| {
            let path = bin.join(name);
            fs::write(&path, script).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        };
        // A line may clear the environment, so the paths are part of the programs.
        let records = format!("echo >>'{}'", ran.display());
        for (marker, code) in [("ok", "exit 0"), ("no", "exit 1"), ("bad", records.as_str())] {
            program(marker, &format!("#!/bin/sh\n{code}\n"));
        }
        for starter in STARTERS {
            program(starter.name, &starter.script(&started.display().to_string()));
        }
        for starter in REAL {
            symlink(which(starter).unwrap(), bin.join(starter)).unwrap();
        }
        Self { _dir: dir, bin, home, ran, started }
    }

    /// Runs a line and returns whether `bad` ran.
    fn starts_bad(&self, shell: &InstalledShell, line: &str) -> bool {
        let (program, option, by_input) = shell;
        // `timeout` kills the whole process group, since a line may loop endlessly.
        let mut command = Command::new("timeout");
        command.args(["--signal=KILL", LINE_LIMIT]).arg(program).arg(option);
        let input = match by_input {
            false => {
                command.arg(line);
                Stdio::null()
            }
            true => {
                let path = self.bin.with_file_name("input");
                fs::write(&path, format!("{line}\n")).unwrap();
                fs::File::open(path).unwrap().into()
            }
        };
        let output = command
            .env_clear()
            .env("PATH", &self.bin)
            .env("HOME", &self.home)
            .current_dir(&self.home)
            .stdin(input)
            .output()
            .unwrap();
        // `output` returns when all started processes have closed the pipe.
        drop(output);
        for entry in fs::read_dir(&self.home).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) }.unwrap();
        }
        fs::remove_file(&self.ran).is_ok()
    }

    /// Returns the starters that have run.
    fn started(&self) -> BTreeSet<String> {
        fs::read_to_string(&self.started).unwrap_or_default().lines().map(str::to_owned).collect()
    }
}

/// Rules that allow all but `bad`, and rules that allow only what they name.
fn policies() -> [Policy; 2] {
    let of = |text: &str| {
        let rules = rules(Some(&crate::syntax::parse(text).unwrap())).unwrap().unwrap();
        let layer = Layer { kind: LayerKind::Owner, source: None, rules };
        let places = BaseFolders { workspace: "/ws".into(), cwd: "/ws".into(), home: None };
        Policy { places, chain: vec![Node::new("worker", vec![layer])] }
    };
    [
        of("{'*': allow, execute: {'*': allow, 'bad *': deny}}"),
        of(
            "{'*': ask, edit: allow, execute: {'ok *': allow, 'no *': allow, 'echo *': allow, 'export *': allow, \
            'set *': allow, 'test *': allow, '[ *': allow, 'printf *': allow, 'read *': allow, 'cd *': allow, \
            'x=*': allow, 'env *': allow, 'xargs ok *': allow, 'cat *': allow, ': *': allow, 'trap *': allow, \
            'readonly *': allow, 'typeset *': allow, 'hash *': allow, 'alias *': allow, 'let *': allow}}",
        ),
    ]
}

#[test]
fn what_is_allowed_starts_nothing_else_in_any_shell() {
    let found: Vec<InstalledShell> = SHELLS
        .iter()
        .filter_map(|(name, option, by_input)| Some((which(name)?, *option, *by_input)))
        .collect();
    if found.len() < SHELLS.len() {
        let required = std::env::var_os(REQUIRE).is_some_and(|value| value == "1");
        assert!(!required, "{REQUIRE}=1, and only these shells are installed: {found:?}");
        say(&format!("*** only these shells are installed: {found:?} ***"));
    }
    let mut random = Random::announced();
    let policies = policies();
    let allowed: BTreeSet<String> = (0..times(LINES))
        .map(|_| line(&mut random))
        .filter(|line| {
            let call = ToolCallDescription::of(&json!({"kind": "execute", "rawInput": {"command": line}}));
            policies.iter().any(|policy| policy.decide(&call, &Path::to_owned).action == RuleAction::Allow)
        })
        .collect();
    say(&format!("{} of {} lines are allowed", allowed.len(), times(LINES)));
    assert!(allowed.len() * 50 > times(LINES), "too few lines are allowed for this to say much");
    let lines: Vec<String> = allowed.into_iter().collect();
    let (escapes, started): (Vec<Vec<String>>, Vec<BTreeSet<String>>) = std::thread::scope(|scope| {
        let threads: Vec<_> = lines
            .chunks(lines.len().div_ceil(4))
            .map(|lines| {
                let found = &found;
                scope.spawn(move || {
                    let shells = Shells::new();
                    let (by_argument, by_input): (Vec<&InstalledShell>, Vec<&InstalledShell>) =
                        found.iter().partition(|(_, _, by_input)| !by_input);
                    let escapes = |(number, line): (usize, &String)| {
                        // Shells that read stdin share the lines between them.
                        let reads =
                            line.trim().contains('\n') && READERS.iter().any(|reader| line.contains(reader));
                        let one = by_input.get(number % by_input.len().max(1)).filter(|_| !reads);
                        let mut chosen = by_argument.iter().chain(one);
                        let ran = |shell: &&&InstalledShell| shells.starts_bad(shell, line);
                        let shown = |(program, option, _): &InstalledShell| {
                            format!("{} {option} {line:?}", program.display())
                        };
                        chosen.find(ran).map(|shell| shown(shell))
                    };
                    (lines.iter().enumerate().filter_map(escapes).collect(), shells.started())
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).unzip()
    });
    let escapes = escapes.concat();
    let started: BTreeSet<String> = started.into_iter().flatten().collect();
    let idle: Vec<&str> =
        STARTERS.iter().map(|one| one.name).filter(|name| !started.contains(*name)).collect();
    assert!(idle.is_empty(), "no allowed line has started {idle:?}");
    assert!(escapes.is_empty(), "{} lines started `bad`:\n{}", escapes.len(), escapes.join("\n"));
}

/// Proves that the test above can fail: `bad` is detected.
#[test]
fn a_line_that_starts_it_is_noticed() {
    let shells = Shells::new();
    let dash = which("dash").or_else(|| which("sh")).unwrap();
    for (option, by_input) in [("-c", false), ("-s", true)] {
        let shell = (dash.clone(), option, by_input);
        assert!(shells.starts_bad(&shell, "ok; (ok; bad) & ok"));
        assert!(!shells.starts_bad(&shell, "ok; echo bad > f"));
        for starter in STARTERS {
            let line = starter.line.replace("ok", "bad");
            assert!(shells.starts_bad(&shell, &line), "{line}");
            assert!(!shells.starts_bad(&shell, starter.line), "{}", starter.line);
        }
        assert!(shells.starts_bad(&shell, "env -i PATH=\"$PATH\" sudo -u x -- bad"));
    }
}
