//! Runs generated lines in real shells: an allowed line must not start a denied program (`bad`).
//!
//! Every allowed line runs in dash, bash and zsh, in an empty folder, with a `PATH` of marker programs and
//! a few starters. With `SUBAGENT_REQUIRE_SHELLS=1` a missing shell is a failure.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::json;
use subagent_testkit::{Random, say, times};

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
const STARTERS: &[&str] =
    &["sh", "bash", "env", "xargs", "timeout", "nohup", "nice", "find", "cat", "prlimit", "setarch"];
/// Commands that may read stdin. In a shell that reads its script from stdin, they would consume the next
/// lines, so multi-line scripts with them are not run there.
const READERS: &[&str] = &["cat", "read", "mapfile", "readarray", "xargs", "sh", "-s", "select"];

/// The pieces of lines: everything that shells parse differently. `kill` is omitted, since random process
/// ids would end other processes.
const PIECES: &[&str] = &[
    "bad",
    "bad x",
    "'bad'",
    "b''ad",
    "b\\ad",
    "\\bad",
    "\"bad\"",
    "./bad",
    "ok",
    "ok",
    "ok",
    "no",
    "echo",
    "x",
    "y",
    "$x",
    "\"$x\"",
    "${x}",
    "${x:-bad}",
    "${x:=bad}",
    "${x%d}",
    "${#x}",
    "$#x",
    "$?",
    "$(bad)",
    "$(ok)",
    "$(ok bad)",
    "\"$(bad)\"",
    "'$(bad)'",
    "`bad`",
    "`ok`",
    "`echo \\`bad\\``",
    "$'bad'",
    "$'\\'; bad; #'",
    "$'\\142ad'",
    "$'bad\\0z'",
    "$\"bad\"",
    "'a[$(bad)]'",
    "$x[1]",
    "$path['a[$(bad)]']",
    "${(e)x}",
    "${ bad; }",
    "${| bad; }",
    "$((1))",
    "$((x))",
    "$[x]",
    "${x@P}",
    "${!x}",
    ">",
    ">>",
    "<",
    "&>",
    ">&",
    "<&",
    "<>",
    ">|",
    "2>",
    "2>&1",
    "12>",
    "f",
    "/dev/null",
    "<1-2>",
    "&",
    "&&",
    "|",
    "||",
    ";",
    ";;",
    "|&",
    "&!",
    "&|",
    "\n",
    "\n",
    "(",
    ")",
    "((",
    "))",
    "{",
    "}",
    "{}",
    "{bad,x}",
    "{a,b}",
    "{ok}",
    "!",
    "! ",
    "!bad",
    "if ok; then",
    "if",
    "then",
    "else",
    "fi",
    "for i in a bad; do",
    "for i in a",
    "do",
    "done",
    "in",
    "case x in x)",
    "esac",
    "while no; do",
    "x=bad",
    "x=ok",
    "x='$(bad)'",
    "x='a[$(bad)]'",
    "x=",
    "PS4='$(bad)'",
    "set -x",
    "set -e",
    "RANDOM='a[$(bad)]'",
    "path=x",
    "[",
    "]",
    "[[",
    "]]",
    "-eq",
    "-gt",
    "1",
    "-v",
    "-n",
    "test",
    "=",
    "=bad",
    "==",
    "a=b",
    "~",
    "~bad",
    "*",
    "?",
    "[a-b]*",
    "#",
    "# bad",
    "# ; bad",
    "\\",
    "'",
    "\"",
    "<<E\n",
    "\nE\n",
    "<<'E'\n",
    "<<-E\n",
    "E",
    "<<<",
    "$",
    "$'",
    "eval",
    "exec",
    "command",
    "builtin",
    "export",
    "readonly",
    "local",
    "printf %d",
    "read x",
    "time",
    "noglob",
    "coproc",
    "function f",
    "f()",
    "alias ok=bad",
    "trap bad EXIT",
    "trap",
    "%1",
    "-",
    "\u{e9}",
    "\u{a0}",
    "\r",
    "\t",
    "1>f",
    "{bad}",
    "x=ba",
    "${x}d",
    "\"${x}d\"",
    "$\\\n(bad)",
    "\"$\\\n(bad)\"",
    "\"$x\\\n[1]\"",
    "i\\\nf",
    "!\\\n",
    "time -p",
    "time !",
    "time noglob",
    "exec noglob",
    "\"noglob\"",
    "x=$(printf 'path[\\044(b\\141d)]')",
    "exit $x",
    "exit x",
    "return -x",
    "shift x",
    "break x",
    "printf %d x",
    "printf %d -x",
    "printf -- %x",
    "printf '%s %d' a",
    "printf '%*s'",
    "[ -t x ]",
    "[ \"$x\" -gt 3 ]",
    "[[ 1 -eq x ]]",
    "[[ 1 -eq -x ]]",
    "[[ a && 1 -eq x ]]",
    "-t x",
    "-x",
    "x+1",
    "-eq x",
    "&& 1 -eq x ]]",
    "HISTSIZE=x",
    "COLUMNS=x",
    "COLUMNS=80",
    "TRY_BLOCK_ERROR=x",
    "read COLUMNS <f",
    "read x <f",
    "getopts ab x",
    "typeset -F y=x",
    "declare -n y=\"$x\"",
    "readonly -a y=\"$x\"",
    "wait x",
    "ulimit -n x",
    "umask x",
    "pushd +x",
    "popd",
    "read -t x y",
    "[ -t \"$x\" ]",
    "printf %d \"$x\"",
    "integer y=$x",
    "COLUMNS=$x",
    "x=\"-exec b\"",
    "=(bad)",
    "<(bad)",
    ">(bad)",
    "@(bad)",
    "..",
    "cd",
    ".",
    "source f",
    "sh -c bad",
    "sh -c 'bad'",
    "bash -c",
    "env bad",
    "env",
    "xargs bad",
    "xargs",
    "timeout 5",
    "nohup",
    "find . -exec",
    "\\;",
    "+",
    "cat f",
    "echo bad",
    "printf bad",
    "| sh",
    "sh <f",
    "hash -p bad ok",
    "repeat 2 bad",
    "foreach",
    "end",
    "select",
    "nocorrect",
    "- bad",
    "--",
    "^",
    "^bad",
    "%bad",
    "@",
    ",",
    ":",
    ": ",
    "'\\'",
    "\\\n",
    "\"\\\"\"",
    "let 'x=a[$(bad)]'",
    "typeset -i x",
    "complete -C bad",
    "compgen -C bad",
    "mapfile -C bad -c 1",
    "jobs -x bad",
    "emulate sh",
    "autoload bad",
    "exec <f",
    "exec 0<f",
    "exec 3<f 0<&3",
    "printf 'b%s' ad >f",
    "printf 'b%s' ad |",
    "!!",
    "!$",
    "\"b!$\"",
    "!#",
    "!!:1",
    "b!!:1",
    "\n^ok^b",
    "^ok ^b^",
    "r",
    "r o=ba k=d",
    "\"a!\"",
    "ad",
    "prlimit {bad,x}",
    "{x86_64,bad,x}",
    "b{ad,x}",
    "prlimit ${x:-bad}",
    "prlimit b${x:-ad}",
    "prlimit b${x}ad",
    "b$@ad",
    "| prlimit sh\n",
    "sh -c 'b$@ad x'",
    "sh -c 'printf b%s ad | sh'",
    "xargs env",
    "xargs -I{} {}",
    "xargs timeout 5",
    "xargs prlimit sh -c",
    "\\x62ad",
    "\\142ad",
    "\\u0062ad",
    "not bad",
    "and bad",
    "begin;",
];

/// An installed shell, as in [`SHELLS`].
type InstalledShell = (PathBuf, &'static str, bool);

struct Shells {
    _dir: tempfile::TempDir,
    bin: PathBuf,
    home: PathBuf,
    ran: PathBuf,
}

fn which(name: &str) -> Option<PathBuf> {
    std::env::split_paths(&std::env::var_os("PATH")?).map(|dir| dir.join(name)).find(|path| path.is_file())
}

impl Shells {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let [bin, home] = ["bin", "home"].map(|name| dir.path().join(name));
        let ran = dir.path().join("ran");
        for folder in [&bin, &home] {
            fs::create_dir(folder).unwrap();
        }
        for (marker, code) in [("ok", "exit 0"), ("no", "exit 1"), ("bad", "echo >>\"$RAN\"")] {
            let path = bin.join(marker);
            fs::write(&path, format!("#!/bin/sh\n{code}\n")).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        }
        for starter in STARTERS {
            symlink(which(starter).unwrap(), bin.join(starter)).unwrap();
        }
        Self { _dir: dir, bin, home, ran }
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
            .env("RAN", &self.ran)
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
}

/// Rules that allow all but `bad`, and rules that allow only what they name.
fn policies() -> [Policy; 2] {
    let of = |text: &str| {
        let rules = rules(Some(&crate::syntax::parse(text).unwrap())).unwrap().unwrap();
        let layer = Layer { kind: LayerKind::Owner, source: None, rules };
        let places = Places { workspace: "/ws".into(), cwd: "/ws".into(), home: None };
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

/// Allowed lines; mutation replaces or adds a word.
const ALLOWED: &[&str] = &[
    "ok x | no && echo \"$x\" > f 2>&1",
    "x=$(printf 'path[\\044(b\\141d)]') ; ok 1",
    "x=$(printf 'path[\\044(b\\141d)]') ; printf '%s %d' a 1",
    "x=$(printf 'path[\\044(b\\141d)]') ; [ \"$x\" -gt 1 ] && exit 1",
    "x=$(printf 'path[\\044(b\\141d)]') ; [[ -n \"$x\" ]] || no",
    "x=$(printf 'path[\\044(b\\141d)]') ; export y=\"$x\" ; set -x ; ok",
    "echo '$(b''ad)' >f ; read -r x <f ; ok \"$x\" ${x:0:1}",
    "for i in a b ; do ok $i ; break 1 ; done",
    "if ok ; then echo a ; else exit 1 ; fi",
    "( ok ; no ) || { ok ; }",
    "ok &> f ; echo a &>>f && no",
    "cat <<E | xargs ok\na $x\nE\n",
    "timeout 5 env ok x ; nohup ok >f & wait $!",
    "echo a # b c\nok",
    "printf 'b%s' ad | ok | prlimit ok x",
    "prlimit sh -c 'ok x' ; setarch x86_64 ok x",
    "ok bad ; ok x\nok ad a! \"b != c\"",
    "ok ad\nok bad & x=$!; ok $x",
];

fn line(random: &mut Random) -> String {
    if random.below(2) == 0 {
        return mutated(random);
    }
    let mut line = String::new();
    let count = 1 + random.below(7);
    // Random pieces rarely form an allowed line; these beginnings raise the share.
    if random.below(2) == 0 {
        line.push_str(random.pick::<&str>(&["ok ", "echo ", "x=1; ", "ok && ", "no || "]));
    }
    for _ in 0..count {
        line.push_str(random.pick::<&str>(PIECES));
        if random.below(4) > 0 {
            line.push(' ');
        }
    }
    line
}

/// Mutates an allowed line: replaces or adds words.
fn mutated(random: &mut Random) -> String {
    let mut words: Vec<&str> = random.pick::<&str>(ALLOWED).split(' ').collect();
    for _ in 0..1 + random.below(2) {
        let places: Vec<usize> = (0..words.len()).collect();
        let at = *random.pick(&places);
        let piece = *random.pick::<&str>(PIECES);
        match random.below(3) {
            0 => words.insert(at, piece),
            _ => words[at] = piece,
        }
    }
    words.join(" ")
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
    let escapes: Vec<String> = std::thread::scope(|scope| {
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
                    lines.iter().enumerate().filter_map(escapes).collect::<Vec<_>>()
                })
            })
            .collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
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
    }
}
