//! Tests of command resolution with generated programs.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};

use super::*;

struct LauncherFixture {
    _dir: tempfile::TempDir,
    base: PathBuf,
}

impl LauncherFixture {
    /// Creates the folders `bin`, `home`, `ws` (of the worker) and `cli` (of the caller) with these
    /// executable files.
    fn new(programs: &[&str]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let base = dir.path().canonicalize().unwrap();
        for folder in ["bin", "home", "ws", "cli"] {
            fs::create_dir(base.join(folder)).unwrap();
        }
        let place = Self { _dir: dir, base };
        for program in programs {
            place.file(program, 0o755);
        }
        place
    }

    fn file(&self, path: &str, mode: u32) {
        let path = self.base.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, "").unwrap();
        fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
    }

    fn resolve(&self, launcher: &Launcher) -> ResolvedLauncher {
        let vars =
            [("HOME".into(), self.base.join("home").into()), ("PATH".into(), self.base.join("bin").into())];
        let env = Environment::new(vars, self.base.join("cli"));
        let resolved = resolve("x", launcher, &self.base.join("ws"), &env);
        assert_eq!(resolved.available, resolved.problem.is_none());
        assert_eq!(resolved.available, resolved.resolved_path.is_some());
        assert_eq!(resolved.available, resolved.exec_path.is_some());
        resolved
    }

    fn command(&self, command: &str) -> ResolvedLauncher {
        self.resolve(&Launcher::new(command))
    }

    fn found(&self, command: &str) -> Option<PathBuf> {
        let path = self.command(command).resolved_path?;
        Some(path.strip_prefix(&self.base).unwrap().to_owned())
    }
}

#[test]
fn words_are_split_and_arguments_follow() {
    let place = LauncherFixture::new(&["bin/npx"]);
    let mut launcher = Launcher::new("npx -y 'my agent'");
    launcher.args = vec!["--acp".to_owned()];
    launcher.env = [("B", "2"), ("A", "1")].map(|(k, v)| (k.to_owned(), v.to_owned())).into();
    let resolved = place.resolve(&launcher);
    assert_eq!((resolved.name.as_str(), resolved.backend_kind.as_str()), ("x", "acp-stdio"));
    assert_eq!(resolved.command, "npx -y 'my agent'");
    assert_eq!(resolved.args, ["--acp"]);
    assert_eq!(resolved.effective_command, "npx");
    assert_eq!(resolved.effective_args, ["-y", "my agent", "--acp"]);
    assert!(resolved.command_was_tokenized);
    assert_eq!(resolved.env_keys, ["A", "B"]);
    assert_eq!(resolved.resolved_path, Some(place.base.join("bin/npx")));
}

#[test]
fn one_word_is_not_tokenized() {
    let resolved = LauncherFixture::new(&["bin/npx"]).command(" 'npx' ");
    assert_eq!(resolved.effective_command, "npx");
    assert!(!resolved.command_was_tokenized && resolved.effective_args.is_empty());
}

#[test]
fn a_number_sign_begins_no_comment() {
    let place = LauncherFixture::new(&["bin/sh"]);
    for (command, args) in [
        ("sh #x y", vec!["#x", "y"]),
        ("sh a#b # '#' \\# \"\\#\"", vec!["a#b", "#", "#", "#", "\\#"]),
        ("sh -c 'x' #", vec!["-c", "x", "#"]),
    ] {
        let resolved = place.command(command);
        assert_eq!((resolved.effective_command.as_str(), &resolved.effective_args), ("sh", &to_owned(args)));
        assert_eq!(resolved.command, command);
    }
    assert_eq!(place.command("#sh x").effective_command, "#sh");
}

fn to_owned(words: Vec<&str>) -> Vec<String> {
    words.into_iter().map(str::to_owned).collect()
}

#[test]
fn what_cannot_be_split_is_one_word() {
    let place = LauncherFixture::new(&["bin/it's"]);
    assert_eq!(place.found("it's"), Some("bin/it's".into()));
    for odd in ["npx \"-y", "''", "'' x"] {
        let resolved = place.command(odd);
        assert_eq!((resolved.effective_command.as_str(), resolved.command_was_tokenized), (odd, false));
        assert!(matches!(resolved.problem, Some(LauncherProblem::NotInPath { .. })), "{resolved:?}");
    }
}

#[test]
fn a_path_is_relative_to_the_workers_folder_and_home_is_expanded() {
    let place = LauncherFixture::new(&["ws/tools/a", "home/b", "cli/tools/c"]);
    assert_eq!(place.found("./tools/a --x"), Some("ws/tools/a".into()));
    assert_eq!(place.found("~/b"), Some("home/b".into()));
    assert_eq!(place.command("~/b").effective_command, "~/b");
    assert_eq!(place.found(&format!("{}/home/b", place.base.display())), Some("home/b".into()));
    let missing = place.command("tools/c").problem.unwrap();
    assert_eq!(missing, LauncherProblem::NoSuchFile(place.base.join("ws/tools/c")));
}

#[test]
fn a_path_with_spaces_is_found_whole() {
    let place = LauncherFixture::new(&["ws/My Agent/run"]);
    let resolved = place.command("./My Agent/run");
    assert_eq!(resolved.resolved_path, Some(place.base.join("ws/My Agent/run")));
    assert!(!resolved.command_was_tokenized);
    assert_eq!(place.command("'./My Agent/run' --acp").effective_args, ["--acp"]);
}

#[test]
fn the_launchers_own_path_replaces_the_callers() {
    let place = LauncherFixture::new(&["bin/agent", "other/agent"]);
    let mut launcher = Launcher::new("agent");
    launcher.env.insert("PATH".to_owned(), place.base.join("other").display().to_string());
    assert_eq!(place.resolve(&launcher).resolved_path, Some(place.base.join("other/agent")));
    launcher.env.insert("PATH".to_owned(), place.base.join("home").display().to_string());
    let problem = place.resolve(&launcher).problem.unwrap();
    assert!(problem.to_string().contains("/home"), "{problem}");
    launcher.env.insert("PATH".to_owned(), String::new());
    assert_eq!(place.resolve(&launcher).resolved_path, Some(place.base.join("bin/agent")));
}

#[test]
fn relative_path_entries_mean_the_workers_folder() {
    let place = LauncherFixture::new(&["ws/agent", "ws/rel/other"]);
    let mut launcher = Launcher::new("agent");
    launcher.env.insert("PATH".to_owned(), ":rel".to_owned());
    assert_eq!(place.resolve(&launcher).exec_path, Some(place.base.join("ws/agent")));
    launcher.command = "other".to_owned();
    assert_eq!(place.resolve(&launcher).exec_path, Some(place.base.join("ws/rel/other")));
}

#[test]
fn only_an_executable_regular_file_is_available() {
    let place = LauncherFixture::new(&[]);
    place.file("ws/plain", 0o644);
    let problem = |command: &str| place.command(command).problem.unwrap();
    assert_eq!(problem("./plain"), LauncherProblem::NotExecutable(place.base.join("ws/./plain")));
    assert!(matches!(problem("../bin"), LauncherProblem::IsDirectory(_)));
    assert!(matches!(problem("/dev/null"), LauncherProblem::NotAFile(_)));
    assert!(matches!(problem("plain"), LauncherProblem::NotInPath { .. }));
    place.file("bin/plain", 0o644);
    assert_eq!(problem("plain"), LauncherProblem::NotExecutable(place.base.join("bin/plain")));
    fs::create_dir(place.base.join("bin/folder")).unwrap();
    assert!(matches!(problem("folder"), LauncherProblem::NotInPath { .. }));
}

#[test]
fn a_link_is_shown_by_its_target_and_started_by_its_name() {
    let place = LauncherFixture::new(&["home/manager"]);
    symlink(place.base.join("home/manager"), place.base.join("bin/npx")).unwrap();
    let resolved = place.command("npx");
    assert_eq!(resolved.resolved_path, Some(place.base.join("home/manager")));
    assert_eq!(resolved.exec_path, Some(place.base.join("bin/npx")));
    symlink(place.base.join("gone"), place.base.join("bin/dangling")).unwrap();
    assert!(!place.command("dangling").available);
}

#[test]
fn without_any_path_the_systems_default_is_searched() {
    let resolved = resolve("x", &Launcher::new("sh"), Path::new("/"), &Environment::new([], "/"));
    assert!(resolved.available, "{resolved:?}");
}

proptest::proptest! {
    #[test]
    fn any_command_resolves_or_says_why_not(command in "\\PC{1,30}") {
        let resolved = resolve("x", &Launcher::new(command), Path::new("/nowhere"), &Environment::new([], "/nowhere"));
        proptest::prop_assert_eq!(resolved.available, resolved.problem.is_none());
    }
}
