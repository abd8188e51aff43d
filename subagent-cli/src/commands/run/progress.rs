//! What a person sees while a run works: the story, and below it a line that says what the agent is doing. The line is
//! erased before the story goes on, and stands only where the story's own line has ended.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::Value;
use subagent_protocol::event::{NoData, SeenEvent};
use tokio::time::Instant;

use crate::output::human::WatchPage;
use crate::output::live::{ERASE, LiveActivity, width};
use crate::output::terminal::{OutputTerminal, all_at_terminal, can_redraw_stderr};
use crate::output::{write, write_stderr};

/// The progress of a run.
pub(crate) struct Progress {
    story: WatchPage,
    /// To stderr; to stdout where both are a terminal, so that the agent's text is there once.
    print: fn(&str),
    below: Option<ProgressLine>,
}

/// The line below the story.
struct ProgressLine {
    activity: LiveActivity,
    begun: Instant,
    is_drawn: bool,
    /// Whether the terminal has not taken the last line yet.
    is_on_its_way: Arc<AtomicBool>,
}

/// Writes to stdout. The error of a terminal that is gone has no reader.
fn show(text: &str) {
    let _ = write(text);
}

/// What prints a piece of the progress.
pub(crate) type Print = Box<dyn FnOnce() + Send>;

impl Progress {
    /// That of a run that begins now.
    pub(crate) fn new() -> Self {
        let below = can_redraw_stderr().then(|| ProgressLine {
            activity: LiveActivity::of_turn(),
            begun: Instant::now(),
            is_drawn: false,
            is_on_its_way: Arc::default(),
        });
        let story = WatchPage::new(OutputTerminal::of_stderr());
        Self { story, print: if all_at_terminal() { show } else { write_stderr }, below }
    }

    /// The story goes on with these events.
    pub(crate) fn go_on(&mut self, events: Vec<Value>) -> Print {
        if let Some(below) = &mut self.below {
            events.iter().for_each(|event| below.activity.see(event));
        }
        // The event of the answer reports how each request ended.
        let asks = |event: &Value| SeenEvent::<NoData>::of(event).is_question();
        let is_asked = events.iter().any(asks);
        let shown: Vec<Value> = events.into_iter().filter(|event| !asks(event)).collect();
        let mut text = self.story.write(&shown);
        if is_asked {
            // A question follows, and does not begin in the middle of a word.
            text += &self.story.finish();
        }
        self.put(text)
    }

    /// The story ends with its line.
    pub(crate) fn finish(&mut self) -> Print {
        let text = self.story.finish();
        self.put(text)
    }

    fn put(&mut self, text: String) -> Print {
        let print = self.print;
        let was_drawn = self.below.as_mut().is_some_and(|below| std::mem::take(&mut below.is_drawn));
        Box::new(move || {
            if was_drawn {
                write_stderr(ERASE);
            }
            print(&text);
        })
    }

    /// Shows the word that was held back, else what the agent is doing now. `None` where there is no place for the line.
    pub(crate) fn tick(&mut self) -> Option<Print> {
        let held = self.story.release();
        if !held.is_empty() {
            return Some(self.put(held));
        }
        let below = self.below.as_mut().filter(|_| self.story.is_at_line_start())?;
        if below.is_on_its_way.swap(true, Ordering::AcqRel) {
            return None;
        }
        below.is_drawn = true;
        let line = format!("{ERASE}{}", below.activity.line(below.begun.elapsed(), width()));
        let is_on_its_way = Arc::clone(&below.is_on_its_way);
        Some(Box::new(move || {
            write_stderr(&line);
            is_on_its_way.store(false, Ordering::Release);
        }))
    }
}
