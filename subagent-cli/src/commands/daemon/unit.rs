//! The text of the systemd user unit that runs a state dir's daemon, and where it belongs. Pure.
//!
//! Must not ask systemd (`systemctl`) nor write anything (`install`).

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use subagent_config::{Environment, runtime_dir};
use subagentd::lifecycle;

use crate::context::path_value;
use crate::failure::{Failure, Result};

/// The unit of one state dir.
#[derive(Debug)]
pub(super) struct SystemdUnit {
    /// Its name, ending in `.service`.
    pub(super) name: String,
    pub(super) path: PathBuf,
}

impl SystemdUnit {
    /// The unit of this state dir, for this user.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` without a home.
    pub(super) fn of(state_dir: &Path, env: &Environment) -> Result<Self> {
        let set = env.var("XDG_CONFIG_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
        let config = set.or_else(|| env.home.as_ref().map(|home| home.join(".config"))).ok_or_else(|| {
            Failure::argument("there is no place for user units: set HOME or XDG_CONFIG_HOME")
        })?;
        let name = format!("subagentd-{}.service", runtime_dir::hash(state_dir));
        Ok(Self { path: config.join("systemd/user").join(&name), name })
    }

    /// What `systemctl --user enable` makes, and only `disable` removes.
    pub(super) fn link(&self) -> PathBuf {
        self.path.with_file_name("default.target.wants").join(&self.name)
    }
}

/// What the daemon would take from the environment of the command that starts it: the manager's has nothing of it.
///
/// Not the time after which it ends without work: under a manager it does not.
#[derive(Debug, Default)]
pub(super) struct UnitEnvironment {
    /// `SUBAGENT_RETENTION_DAYS`, if it is set.
    retention_days: Option<u64>,
    /// `SUBAGENT_LOG`, if it is set.
    log: Option<String>,
}

impl UnitEnvironment {
    /// Those of the caller.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` for a value that the daemon would refuse.
    pub(super) fn of(env: &Environment) -> Result<Self> {
        let retention_days = match env.var("SUBAGENT_RETENTION_DAYS") {
            Some(_) => Some(lifecycle::retention_days(env)?),
            None => None,
        };
        let log = env.var("SUBAGENT_LOG").map(|level| level.to_string_lossy().into_owned());
        Ok(Self { retention_days, log })
    }
}

/// The unit's text. `program` is an absolute path of `subagentd`.
///
/// # Errors
/// `INVALID_ARGUMENT` for a program that systemd cannot start.
pub(super) fn text(program: &Path, state_dir: &Path, settings: &UnitEnvironment) -> Result<String> {
    let program = executable(program)?;
    // Their workspace's paths are text: `CliContext::workspace` has seen to it.
    let state_dir = state_dir.to_string_lossy();
    let shown = one_line(&state_dir);
    let kept = !state_dir.contains(char::is_control) && !state_dir.ends_with(['\\', ' ']);
    let condition = if kept {
        format!(
            "# Without it there is nothing to serve, and it is not made anew at each login.\nConditionPathIsDirectory={shown}\n"
        )
    } else {
        // The value of a condition cannot be quoted.
        String::new()
    };
    let state_dir = argument(&state_dir);
    let retention = settings.retention_days.map_or(String::new(), |days| format!(" --retention-days {days}"));
    let log = settings.log.as_ref().map_or(String::new(), |level| {
        // Here a dollar sign means nothing.
        let set = argument(&format!("SUBAGENT_LOG={level}")).replace("$$", "$");
        format!("Environment={set}\n")
    });
    Ok(format!(
        "\
# Written by `subagent daemon install`; `subagent daemon uninstall` removes it.

[Unit]
Description=subagent daemon of {shown}
{condition}
[Service]
Type=notify
NotifyAccess=main
ExecStart={program} run --state-dir {state_dir}{retention}
{log}# Workers go on while the daemon is away, and when one of them takes too much memory the daemon stays.
KillMode=process
OOMPolicy=continue
Restart=on-failure
RestartSec=1
# It may wait for a daemon in the background to make room.
TimeoutStartSec=120

[Install]
WantedBy=default.target
"
    ))
}

/// The path of the program. Nothing of it is taken for a variable there, and systemd refuses quotes and backslashes.
fn executable(program: &Path) -> Result<String> {
    let refused = |why: &str| {
        Failure::argument(format!(
            "systemd cannot start {}: its path {why}; install subagent in another folder",
            program.display()
        ))
        .with("program", path_value(program))
    };
    let text = program.to_str().ok_or_else(|| refused("is not UTF-8"))?;
    if text.contains(|char: char| char.is_control() || matches!(char, '"' | '\'' | '\\')) {
        return Err(refused("has a quote, a backslash or a control character in it"));
    }
    Ok(format!("\"{}\"", text.replace('%', "%%")))
}

/// One argument of `ExecStart=`: quoted, without specifiers and variables.
fn argument(text: &str) -> String {
    let mut quoted = "\"".to_owned();
    for char in text.chars() {
        match char {
            '"' | '\\' => quoted.extend(['\\', char]),
            '%' | '$' => quoted.extend([char, char]),
            char if char.is_ascii_control() => {
                // Writing to a String cannot fail.
                let _ = write!(quoted, "\\x{:02x}", u32::from(char));
            }
            char => quoted.push(char),
        }
    }
    quoted + "\""
}

/// Text for a setting that is not quoted.
fn one_line(text: &str) -> String {
    let harmless: String = text.chars().map(|char| if char.is_control() { ' ' } else { char }).collect();
    // At the end of a line it would take the next one in.
    let harmless = if harmless.ends_with('\\') { harmless + " " } else { harmless };
    harmless.replace('%', "%%")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_in_a_path_means_anything() {
        assert_eq!(argument("/a b"), r#""/a b""#);
        assert_eq!(argument(r#"/%h/$HOME/"q"\e'"#), r#""/%%h/$$HOME/\"q\"\\e'""#);
        assert_eq!(argument("/a\nb\u{7f}ä"), r#""/a\x0ab\x7fä""#);
        assert_eq!(executable(Path::new("/a b/%h/$x/subagentd")).unwrap(), r#""/a b/%%h/$x/subagentd""#);
        for path in ["/a\"b", "/a'b", "/a\\b", "/a\nb"] {
            let failure = executable(Path::new(path)).unwrap_err();
            assert_eq!(failure.details["program"], path);
        }
    }

    #[test]
    fn each_line_is_one_setting() {
        for path in ["/plain", "/two\nExecStartPre=/bin/rm", "/end\\", "/blank ", "/%n%%"] {
            let text =
                text(Path::new("/bin/subagentd"), Path::new(path), &UnitEnvironment::default()).unwrap();
            let settings: Vec<_> = text.lines().filter_map(|line| line.split_once('=')).collect();
            let starts: Vec<_> = settings.iter().filter(|(key, _)| key.starts_with("Exec")).collect();
            assert_eq!(starts.len(), 1, "{text}");
            assert!(!text.lines().any(|line| line.ends_with('\\')), "{text}");
        }
        let plain =
            text(Path::new("/bin/subagentd"), Path::new("/plain"), &UnitEnvironment::default()).unwrap();
        assert!(plain.contains("\nConditionPathIsDirectory=/plain\n"), "{plain}");
        let strange =
            text(Path::new("/bin/subagentd"), Path::new("/a %h"), &UnitEnvironment::default()).unwrap();
        assert!(strange.contains("\nConditionPathIsDirectory=/a %%h\n"), "{strange}");
    }

    #[test]
    fn a_unit_keeps_what_the_daemon_would_take_from_the_environment() {
        let of = |vars: &[(&str, &str)]| {
            let vars = vars.iter().map(|(name, value)| ((*name).into(), (*value).into()));
            let settings = UnitEnvironment::of(&Environment::new(vars, "/"))?;
            text(Path::new("/bin/subagentd"), Path::new("/s"), &settings)
        };
        let start = "\nExecStart=\"/bin/subagentd\" run --state-dir \"/s\"";
        assert!(of(&[]).unwrap().contains(&format!("{start}\n#")));
        for (days, flag) in [("7", 7), ("never", 0)] {
            let text = of(&[("SUBAGENT_RETENTION_DAYS", days)]).unwrap();
            assert!(text.contains(&format!("{start} --retention-days {flag}\n")), "{text}");
        }
        let text = of(&[("SUBAGENT_LOG", "a=debug,b[{x=\"$y%\"}]=info")]).unwrap();
        let line = r#"Environment="SUBAGENT_LOG=a=debug,b[{x=\"$y%%\"}]=info""#;
        assert!(text.lines().any(|found| found == line), "{text}");
        assert!(of(&[("SUBAGENT_RETENTION_DAYS", "soon")]).is_err());
        assert_eq!(of(&[("SUBAGENT_IDLE_EXIT_SECONDS", "7")]).unwrap(), of(&[]).unwrap());
    }

    #[test]
    fn a_unit_lies_where_systemd_looks() {
        let of = |vars: &[(&str, &str)]| {
            let vars = vars.iter().map(|(name, value)| ((*name).into(), (*value).into()));
            SystemdUnit::of(Path::new("/s"), &Environment::new(vars, "/"))
        };
        let unit = of(&[("HOME", "/h")]).unwrap();
        assert!(unit.name.starts_with("subagentd-") && unit.name.ends_with(".service"));
        assert_eq!(unit.path, Path::new("/h/.config/systemd/user").join(&unit.name));
        let wants = Path::new("/c/systemd/user/default.target.wants");
        let unit = of(&[("HOME", "/h"), ("XDG_CONFIG_HOME", "/c")]).unwrap();
        assert_eq!(unit.link(), wants.join(&unit.name));
        assert_eq!(
            of(&[("HOME", "/h"), ("XDG_CONFIG_HOME", "rel")]).unwrap().path.parent(),
            Some(Path::new("/h/.config/systemd/user"))
        );
        assert!(of(&[]).is_err());
    }
}
