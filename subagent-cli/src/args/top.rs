//! Flags of `top`.

use clap::Args;

use super::CwdFlag;

/// Show all workers on one screen: what they ask, do and have done
///
/// The board follows the workers. Keys answer questions, open the story of a
/// worker, show its diff, send messages, cancel, stop and start; `?` shows them.
/// `subagent` alone is the same at a terminal.
#[derive(Debug, Args)]
#[command(verbatim_doc_comment, mut_args = super::any_value, after_help = "\
Example:
  subagent top")]
pub struct Top {
    /// `--cwd`, a folder of the workspace.
    #[command(flatten)]
    pub cwd: CwdFlag,
}
