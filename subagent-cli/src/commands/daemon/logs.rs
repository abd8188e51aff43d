//! `daemon logs`: the end of the daemon's log, read from its file: also when no daemon runs.

use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::path::Path;

use clap::Args;
use serde_json::json;
use subagent_config::regular;
use subagent_protocol::Code;

use crate::client::log_path;
use crate::command_line::flags::{CwdFlag, JsonFlag};
use crate::command_line::numbers::count;
use crate::context::{CliContext, path_value};
use crate::failure::{Failure, Result};
use crate::output::CliOutcome;

/// Show the end of the daemon's log
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  subagent daemon logs --lines 20
  subagent daemon logs --tail-bytes 1000000 --json")]
pub(crate) struct DaemonLogsArgs {
    /// How much of the end, in bytes
    #[arg(long, value_name = "N", default_value_t = 65_536, value_parser = count)]
    pub(crate) tail_bytes: u64,
    /// Maximum number of lines
    #[arg(long, value_name = "N", value_parser = count)]
    pub(crate) lines: Option<u64>,
    #[command(flatten)]
    pub(crate) cwd: CwdFlag,
    #[command(flatten)]
    pub(crate) json: JsonFlag,
}

pub(super) fn run(args: &DaemonLogsArgs, context: &CliContext) -> Result<CliOutcome> {
    let path = log_path(&context.workspace(args.cwd.cwd.as_deref())?.state_dir);
    let (text, cut) = match tail(&path, args.tail_bytes) {
        Ok(tail) => tail,
        // No daemon has run here yet.
        Err(error) if error.kind() == io::ErrorKind::NotFound => (String::new(), false),
        Err(error) => {
            let message = format!("the daemon's log {} cannot be read: {error}", path.display());
            return Err(Failure::new(Code::StorageError, message)
                .with("path", path_value(&path))
                .with("error", error.to_string()));
        }
    };
    let shown = args.lines.map_or(text.as_str(), |lines| last_lines(&text, lines));
    let data = json!({
        "path": path_value(&path), "text": shown, "truncated": cut || shown.len() < text.len(),
    });
    Ok(CliOutcome::report("daemon.logs", data, shown.to_owned()))
}

/// The last bytes of a file, with U+FFFD for what is not UTF-8, and whether there is more before them.
fn tail(path: &Path, bytes: u64) -> io::Result<(String, bool)> {
    let mut file = regular::open_to_read(path)?;
    let size = file.metadata()?.len();
    file.seek(SeekFrom::Start(size.saturating_sub(bytes)))?;
    let mut tail = Vec::new();
    // It may grow meanwhile.
    file.take(bytes).read_to_end(&mut tail)?;
    Ok((String::from_utf8_lossy(&tail).into_owned(), size > bytes))
}

fn last_lines(text: &str, lines: u64) -> &str {
    let inner = text.strip_suffix('\n').unwrap_or(text);
    let before = usize::try_from(lines).ok().and_then(|lines| inner.rmatch_indices('\n').nth(lines - 1));
    before.map_or(text, |(end, _)| &text[end + 1..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_lines_are_whole() {
        assert_eq!(last_lines("a\nb\nc\n", 2), "b\nc\n");
        assert_eq!(last_lines("a\nb\nc", 1), "c");
        assert_eq!(last_lines("a\nb\n", 2), "a\nb\n");
        assert_eq!(last_lines("a\n", 9), "a\n");
        assert_eq!(last_lines("", 1), "");
        assert_eq!(last_lines("\n\n\n", 2), "\n\n");
        assert_eq!(last_lines("a\nb", u64::MAX), "a\nb");
    }

    #[test]
    fn a_tail_may_begin_inside_of_a_character() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        std::fs::write(&path, "xü\n").unwrap();
        assert_eq!(tail(&path, 100).unwrap(), ("xü\n".to_owned(), false));
        assert_eq!(tail(&path, 2).unwrap(), ("\u{fffd}\n".to_owned(), true));
    }
}
