//! Flags of `turn` and `queue`.

use clap::{Args, Subcommand};

use super::{ConfigFlag, CwdFlag, JsonFlag};

/// `subagent turn ...`
#[allow(missing_docs)]
#[derive(Debug, Subcommand)]
#[command(defer = true)]
pub enum TurnCommand {
    List(TurnList),
    Show(TurnShow),
    Drop(TurnDrop),
    Move(TurnMove),
    Retry(TurnRetry),
}

impl TurnCommand {
    /// Whether `--json` was given.
    #[must_use]
    pub const fn json(&self) -> bool {
        match self {
            Self::List(args) => args.json.json,
            Self::Show(TurnShow { one }) | Self::Drop(TurnDrop { one }) => one.json.json,
            Self::Move(args) => args.one.json.json,
            Self::Retry(args) => args.one.json.json,
        }
    }
}

/// `subagent queue ...`
#[allow(missing_docs)]
#[derive(Debug, Subcommand)]
#[command(defer = true)]
pub enum QueueCommand {
    Resume(QueueResume),
}

/// One turn, and where it is.
#[derive(Debug, Args)]
pub struct OneTurn {
    /// The id of the turn
    #[arg(value_name = "TURN")]
    pub turn_id: String,
    /// `--cwd`, a folder of the workspace.
    #[command(flatten)]
    pub cwd: CwdFlag,
    /// Which form of output.
    #[command(flatten)]
    pub json: JsonFlag,
}

/// List the turns of a worker: the last that have ended, the open one, those that wait
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  subagent turn list --worker-id w_0123456789
  subagent turn list --worker-id w_0123456789 --ended 0 --json")]
pub struct TurnList {
    /// The worker's id
    #[arg(long, value_name = "ID")]
    pub worker_id: String,
    /// How many turns that have ended, at most 1000
    #[arg(long, value_name = "COUNT", default_value_t = 10, value_parser = clap::value_parser!(u32).range(0..=1000))]
    pub ended: u32,
    /// `--cwd`, a folder of the workspace.
    #[command(flatten)]
    pub cwd: CwdFlag,
    /// Which form of output.
    #[command(flatten)]
    pub json: JsonFlag,
}

/// Show one turn: its whole message, its times, how it ended
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  subagent turn show turn_0123456789 --json")]
pub struct TurnShow {
    /// The id of the turn, and its workspace.
    #[command(flatten)]
    pub one: OneTurn,
}

/// Take a message out of the queue; it is not sent
///
/// A turn that is open is ended with `cancel`.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  subagent turn drop turn_0123456789")]
pub struct TurnDrop {
    /// The id of the turn, and its workspace.
    #[command(flatten)]
    pub one: OneTurn,
}

/// Give a message that waits another place in the queue
#[derive(Debug, Args)]
#[command(mut_args = super::any_value, after_help = "\
Examples:
  subagent turn move turn_0123456789 --first
  subagent turn move turn_0123456789 --to 3 --json")]
pub struct TurnMove {
    /// The id of the turn, and its workspace.
    #[command(flatten)]
    pub one: OneTurn,
    /// Which place, from 1
    #[arg(long, value_name = "PLACE", conflicts_with_all = ["first", "last"], value_parser = clap::value_parser!(u32).range(1..))]
    pub to: Option<u32>,
    /// Before all others
    #[arg(long, conflicts_with = "last")]
    pub first: bool,
    /// Behind all others
    #[arg(long)]
    pub last: bool,
}

/// Send the message of a turn that failed or was canceled once more, as another turn
///
/// A busy worker gets it behind the messages that wait, an idle one at once. Look at what the turn has done before:
/// `dispatched` of `turn show` says whether its prompt was sent (yes, no, maybe).
#[derive(Debug, Args)]
#[command(mut_args = super::any_value, after_help = "\
Example:
  subagent turn retry turn_0123456789")]
pub struct TurnRetry {
    /// The id of the turn, and its workspace.
    #[command(flatten)]
    pub one: OneTurn,
    /// `--config`, the path of the config file.
    #[command(flatten)]
    pub config: ConfigFlag,
}

/// Have the messages go on that wait in a paused queue
///
/// A turn that fails or is lost pauses the queue behind it. A queue that is not paused is left as it is.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  subagent queue resume --worker-id w_0123456789")]
pub struct QueueResume {
    /// The worker's id
    #[arg(long, value_name = "ID")]
    pub worker_id: String,
    /// `--cwd`, a folder of the workspace.
    #[command(flatten)]
    pub cwd: CwdFlag,
    /// `--config`, the path of the config file.
    #[command(flatten)]
    pub config: ConfigFlag,
    /// Which form of output.
    #[command(flatten)]
    pub json: JsonFlag,
}
