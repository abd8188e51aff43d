//! Plays the steps of an answer in time. Knows no vendor: each turns the pieces into its own events.

use std::collections::VecDeque;
use std::path::Path;
use std::time::Duration;

use futures_util::Stream;
use futures_util::stream;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep};

use super::script::{GATE_LIMIT, Step};

/// How often a gate's file is looked for.
const LOOK: Duration = Duration::from_millis(10);

/// What is sent of an answer at once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Piece {
    /// A chunk of text.
    Text(String),
    /// A call of the agent's shell tool.
    Run(String),
    /// The end, always the last and always there.
    End,
}

/// The pieces of an answer, each at its time. Dropping the stream (the agent hung up) ends every wait.
pub(super) fn pieces(steps: Vec<Step>) -> impl Stream<Item = Piece> + Send + 'static {
    stream::unfold(Some(VecDeque::from(steps)), |left| async {
        let mut left = left?;
        loop {
            let piece = match left.pop_front() {
                None => return Some((Piece::End, None)),
                Some(Step::Text(text)) => Piece::Text(text),
                Some(Step::Run(command)) => Piece::Run(command),
                Some(Step::Pause(time)) => {
                    sleep(time).await;
                    continue;
                }
                Some(Step::WaitFor(path)) => {
                    if appears(&path).await {
                        continue;
                    }
                    left.clear();
                    Piece::Text(format!(
                        "GATE: {} did not appear in {} s",
                        path.display(),
                        GATE_LIMIT.as_secs()
                    ))
                }
            };
            return Some((piece, Some(left)));
        }
    })
}

/// Whether the file exists before the limit is over. Looks for it instead of watching its folder, which may
/// not exist yet.
async fn appears(path: &Path) -> bool {
    let deadline = Instant::now() + GATE_LIMIT;
    let mut look = interval(LOOK);
    look.set_missed_tick_behavior(MissedTickBehavior::Delay);
    while Instant::now() < deadline {
        look.tick().await;
        if path.exists() {
            return true;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use futures_util::StreamExt;

    use super::*;

    fn played(steps: Vec<Step>) -> Vec<Piece> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(pieces(steps).collect())
    }

    #[test]
    fn an_answer_ends_once_also_when_it_is_empty() {
        assert_eq!(played(vec![]), [Piece::End]);
        let steps = vec![Step::Text("a".into()), Step::Pause(Duration::ZERO), Step::Run("b".into())];
        assert_eq!(played(steps), [Piece::Text("a".into()), Piece::Run("b".into()), Piece::End]);
    }

    #[test]
    fn a_gate_holds_back_what_follows_until_its_file_exists() {
        let folder = tempfile::tempdir().unwrap();
        let gate = folder.path().join("gate");
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(async {
            let steps = vec![Step::WaitFor(gate.clone()), Step::Text("opened".into())];
            let mut answer = std::pin::pin!(pieces(steps));
            let early = tokio::time::timeout(Duration::from_millis(30), answer.next()).await;
            assert!(early.is_err(), "passed a closed gate: {early:?}");
            std::fs::write(&gate, "").unwrap();
            assert_eq!(answer.next().await, Some(Piece::Text("opened".into())));
        });
    }
}
