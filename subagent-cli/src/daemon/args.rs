//! Flags of `subagentd`.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

/// The daemon of a workspace's workers.
///
/// It starts by itself when a `subagent` command needs it. Run it yourself to
/// keep it under your own supervision, or to have dead workers restarted at once.
/// Workers go on when it ends.
#[derive(Debug, Parser)]
#[command(name = "subagentd", version, term_width = 80, args_override_self = true, verbatim_doc_comment)]
pub(super) struct SubagentdCli {
    #[command(subcommand)]
    pub(super) command: SubagentdCommand,
}

#[derive(Debug, Subcommand)]
pub(super) enum SubagentdCommand {
    Run(SubagentdRunArgs),
    Status(SubagentdStatusArgs),
    Stop(SubagentdStopArgs),
    #[command(hide = true)]
    Restore(SubagentdRestoreArgs),
}

/// Run the daemon in the foreground, until Ctrl-C or SIGTERM
///
/// It takes the place of a daemon that was started by itself, and fails beside another one in the foreground.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  subagentd run
  subagentd run --no-monitor-workers --json
  subagentd run --once --json")]
pub(super) struct SubagentdRunArgs {
    /// Look after the workers once and return
    #[arg(long)]
    pub(super) once: bool,
    /// How often the status file is written, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 5, value_parser = crate::command_line::numbers::interval)]
    pub(super) heartbeat_seconds: u64,
    /// Restart dead workers at once (the default)
    #[arg(long, overrides_with = "no_monitor_workers")]
    pub(super) monitor_workers: bool,
    /// Leave dead workers to the next message that is sent to them
    #[arg(long, overrides_with = "monitor_workers")]
    pub(super) no_monitor_workers: bool,
    /// How long a worker is left alone after a restart, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 30, value_parser = crate::command_line::numbers::interval)]
    pub(super) restart_cooldown_seconds: u64,
    /// Remove stopped workers and old events after this many days; 0 or never keeps them [default:
    /// $SUBAGENT_RETENTION_DAYS, else 30]
    #[arg(long, value_name = "DAYS", value_parser = subagentd::lifecycle::days)]
    pub(super) retention_days: Option<u64>,
    /// Print JSON
    #[arg(long)]
    pub(super) json: bool,
    /// Started by a command: say on stdout when ready, then go on in the background.
    #[arg(long, hide = true, conflicts_with = "once")]
    pub(super) background: bool,
    /// The state dir, resolved.
    #[arg(long, value_name = "PATH", hide = true)]
    pub(super) state_dir: Option<PathBuf>,
}

/// Show whether a daemon runs here
///
/// Exits with 1 if none has ever written its status here and none runs, else with 0.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  subagentd status --json")]
pub(super) struct SubagentdStatusArgs {
    /// Print JSON
    #[arg(long)]
    pub(super) json: bool,
    /// The state dir, resolved.
    #[arg(long, value_name = "PATH", hide = true)]
    pub(super) state_dir: Option<PathBuf>,
}

/// Stop the daemon; its workers go on
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  subagentd stop
  subagentd stop --workers")]
pub(super) struct SubagentdStopArgs {
    /// Also stop all workers
    #[arg(long)]
    pub(super) workers: bool,
    /// Print JSON
    #[arg(long)]
    pub(super) json: bool,
    /// The state dir, resolved.
    #[arg(long, value_name = "PATH", hide = true)]
    pub(super) state_dir: Option<PathBuf>,
}

/// The work behind `subagent restore`.
#[derive(Debug, Args)]
pub(super) struct SubagentdRestoreArgs {
    /// The backup.
    #[arg(value_name = "FILE", value_parser = crate::command_line::flags::database_file())]
    pub(super) file: PathBuf,
    /// End the workers that the backup does not know
    #[arg(long)]
    pub(super) force: bool,
    /// Print JSON
    #[arg(long)]
    pub(super) json: bool,
    /// The state dir, resolved.
    #[arg(long, value_name = "PATH", hide = true)]
    pub(super) state_dir: Option<PathBuf>,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        SubagentdCli::command().debug_assert();
    }

    #[test]
    fn the_last_flag_of_a_pair_counts_and_numbers_have_bounds() {
        let parse =
            |args: &str| SubagentdCli::try_parse_from(format!("subagentd run {args}").split_whitespace());
        let SubagentdCommand::Run(run) = parse("--no-monitor-workers --monitor-workers").unwrap().command
        else {
            panic!()
        };
        assert!(run.monitor_workers && !run.no_monitor_workers);
        assert_eq!((run.heartbeat_seconds, run.restart_cooldown_seconds), (5, 30));
        for (args, days) in [("", None), ("--retention-days never", Some(0)), ("--retention-days 7", Some(7))]
        {
            let SubagentdCommand::Run(run) = parse(args).unwrap().command else { panic!() };
            assert_eq!(run.retention_days, days, "{args}");
        }
        for wrong in [
            "--heartbeat-seconds 0",
            "--restart-cooldown-seconds 0",
            "--heartbeat-seconds x",
            "--heartbeat-seconds 18446744073709551615",
            "--restart-cooldown-seconds 18446744073709551615",
            "--once --background",
            "--retention-days -1",
            "--retention-days 1.5",
            "--retention-days soon",
        ] {
            assert_eq!(parse(wrong).unwrap_err().exit_code(), 2, "{wrong}");
        }
    }
}
