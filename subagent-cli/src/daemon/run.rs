//! `subagentd run`: starts the daemon in this process.

use std::path::PathBuf;
use std::process::ExitCode;

use serde_json::json;
use subagent_config::Environment;
use subagentd::lifecycle::{self, RunOptions, StartMode};

use super::args::SubagentdRunArgs;
use crate::failure::Failure;
use crate::output::{OutputFormat, finish, json as one_line, print};

pub(super) fn run(args: &SubagentdRunArgs, state_dir: PathBuf, env: &Environment) -> ExitCode {
    let mode = if args.background { StartMode::Background } else { StartMode::Foreground };
    let idle_exit_seconds = match lifecycle::idle_exit_seconds(env) {
        Ok(seconds) => seconds,
        Err(error) => return refuse(mode, OutputFormat::of(args.json), error.into()),
    };
    let retention_days = match args.retention_days.map_or_else(|| lifecycle::retention_days(env), Ok) {
        Ok(days) => days,
        Err(error) => return refuse(mode, OutputFormat::of(args.json), error.into()),
    };
    lifecycle::run(RunOptions {
        state_dir,
        environment: env.clone(),
        runtime_program: None,
        mode,
        once: args.once,
        heartbeat_seconds: args.heartbeat_seconds,
        monitor_workers: !args.no_monitor_workers && !args.background,
        restart_cooldown_seconds: args.restart_cooldown_seconds,
        json: args.json,
        idle_exit_seconds,
        retention_days,
    })
}

/// Reports why the daemon does not start: as a readiness line, or in the foreground as other commands do.
fn refuse(mode: StartMode, format: OutputFormat, failure: Failure) -> ExitCode {
    if mode == StartMode::Foreground {
        return finish(format, Err(failure));
    }
    // The starting command may have exited.
    let _ = print(&one_line::line(json!({"error": failure})));
    ExitCode::FAILURE
}
