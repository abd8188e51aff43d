//! `daemon install`: a systemd user unit that keeps this state dir's daemon.

use std::fs::{self, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use clap::Args;
use serde_json::{Value, json};
use subagent_config::state_dir;
use subagentd::lifecycle::refuse_below_guard;

use super::systemctl::{in_words, order, reload};
use super::unit::{SystemdUnit, UnitEnvironment, text};
use crate::client::block_on;
use crate::command_line::flags::{CwdFlag, JsonFlag};
use crate::context::{CliContext, path_value};
use crate::failure::{Failure, Result};
use crate::output::{CliOutcome, json, text as lines};

/// Have systemd keep this workspace's daemon: a unit of your own user manager
///
/// Writes the unit and, where the manager can be reached, enables and starts
/// it; else it says what to type. Its workers go on when the unit is stopped
/// or restarted. Without `loginctl enable-linger` the manager ends everything
/// when you log out.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  subagent daemon install
  subagent daemon install --print
  subagent daemon install --cwd ~/src/thing --json")]
pub(crate) struct DaemonInstallArgs {
    /// Only print the unit; nothing is written or started
    #[arg(long)]
    pub(crate) print: bool,
    #[command(flatten)]
    pub(crate) cwd: CwdFlag,
    #[command(flatten)]
    pub(crate) json: JsonFlag,
}

pub(super) fn run(args: &DaemonInstallArgs, context: &CliContext) -> Result<CliOutcome> {
    let state_dir = context.workspace(args.cwd.cwd.as_deref())?.state_dir;
    let unit = SystemdUnit::of(&state_dir, &context.env)?;
    let program = subagentd()?;
    let text = text(&program, &state_dir, &UnitEnvironment::of(&context.env)?)?;
    let mut data = json!({
        "unit": unit.name,
        "unitPath": path_value(&unit.path),
        "stateDir": path_value(&state_dir),
        "program": path_value(&program),
    });
    if args.print {
        json::extend(&mut data, [("text", text.as_str().into())]);
        return Ok(CliOutcome::report("daemon.unit", data, text.trim_end().to_owned()));
    }
    // Its program would be the daemon from then on.
    refuse_below_guard("daemon install")?;
    // The unit wants it to be there.
    state_dir::prepare(&state_dir)?;
    write(&unit.path, &text).map_err(|error| unwritable(&unit.path, &error))?;
    let enable = ["enable", "--now"];
    let missing = block_on(async {
        Ok(match reload(&context.env).await {
            Ok(()) => order(&enable, &unit, &context.env).await.map(|()| None)?,
            Err(why) => Some(why),
        })
    })?;
    let left = match &missing {
        None => vec![],
        Some(_) => vec![in_words(&["daemon-reload"]), in_words(&["enable", "--now", &unit.name])],
    };
    json::extend(&mut data, [("enabled", missing.is_none().into())]);
    Ok(report("daemon.installed", data, &["enabled"], missing, left))
}

/// The outcome of `install` and `uninstall`, with the commands that are left to type where no manager could be asked.
pub(super) fn report(
    kind: &'static str,
    mut data: Value,
    done: &[&str],
    missing: Option<String>,
    left: Vec<String>,
) -> CliOutcome {
    let mut shown = lines::fields(&data, &[&["unit", "unitPath"], done].concat());
    if let Some(why) = &missing {
        shown.push_str(&format!("\nsystemd: not reached ({})", why.replace('\n', " ")));
    }
    for command in &left {
        shown.push_str(&format!("\ntype: {command}"));
    }
    json::extend(&mut data, [("problem", missing.into()), ("commands", left.into())]);
    CliOutcome::report(kind, data, shown)
}

/// The daemon's program, beside this one.
fn subagentd() -> Result<std::path::PathBuf> {
    let own = std::env::current_exe()
        .map_err(|error| Failure::internal(format!("cannot find the own executable: {error}")))?;
    let program = own.with_file_name("subagentd");
    if program.is_file() {
        return Ok(program);
    }
    Err(Failure::argument(format!("there is no {}", program.display()))
        .with("program", path_value(&program))
        .recommend("install subagent, subagentd, subagent-runtime and subagent-webhook into the same folder"))
}

/// Writes the unit as a whole or not at all.
fn write(path: &Path, text: &str) -> io::Result<()> {
    let folder = path.parent().ok_or(io::ErrorKind::InvalidInput)?;
    fs::create_dir_all(folder)?;
    let mut file = tempfile::NamedTempFile::new_in(folder)?;
    file.write_all(text.as_bytes())?;
    file.as_file().set_permissions(Permissions::from_mode(0o644))?;
    file.as_file().sync_all()?;
    file.persist(path).map(drop).map_err(|error| error.error)
}

/// The error of a unit that cannot be written or removed.
pub(super) fn unwritable(path: &Path, error: &io::Error) -> Failure {
    Failure::argument(format!("the unit {} cannot be changed: {error}", path.display()))
        .with("unitPath", path_value(path))
        .with("error", error.to_string())
        .recommend("check the permissions of this folder, or write the text of `subagent daemon install --print` to a file yourself")
}
