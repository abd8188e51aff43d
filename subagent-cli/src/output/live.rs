//! The line on stderr that says what an agent is doing while a command waits for it, and is erased at the end.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;
use subagent_protocol::clean::one_line;
use subagent_protocol::event::SeenEvent;
use subagent_protocol::lenient::{self, Lenient};

use super::ago::elapsed;
use super::page::shorten;
use super::rule::path_of;
use super::{terminal, write_stderr};

/// Takes a line away.
pub const ERASE: &str = "\r\u{1b}[2K";

/// The maximum number of questions, of tool calls and of files that are remembered.
const MOST: usize = 10_000;

/// The data of an event, as far as it tells what an agent is doing.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct TurnActivity<'a> {
    request_id: Option<&'a str>,
    kind: Option<&'a str>,
    tool_call_id: Option<&'a str>,
    title: Option<&'a str>,
    status: Option<&'a str>,
    #[serde(borrow, deserialize_with = "lenient::or_default")]
    locations: Vec<Lenient<TouchedPath<'a>>>,
    #[serde(deserialize_with = "lenient::or_default")]
    content: Vec<Lenient<TouchedPath<'a>>>,
}

/// A place or a diff of a tool call.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct TouchedPath<'a> {
    #[serde(borrow)]
    path: Lenient<&'a str>,
}

/// What an agent is doing, as far as its events tell.
#[derive(Debug, Default)]
pub struct LiveActivity {
    state: Option<&'static str>,
    /// What its agent waits for while it is started.
    starting: Option<String>,
    doing: Option<String>,
    titles: HashMap<String, String>,
    files: BTreeSet<String>,
    /// The tasks below that ask something, by request.
    asking: BTreeMap<String, String>,
}

impl LiveActivity {
    /// That of a worker that has just been given a turn.
    #[must_use]
    pub fn of_turn() -> Self {
        Self { state: Some("running"), ..Self::default() }
    }

    /// The same of a worker whose agent is started for the turn: what that waits for.
    #[must_use]
    pub fn of_start(what: String) -> Self {
        Self { starting: Some(what), ..Self::of_turn() }
    }

    /// Whether a turn is known to be open.
    #[must_use]
    pub fn is_of_turn(&self) -> bool {
        self.state.is_some_and(|state| state != "idle")
    }

    /// Takes an event into account.
    pub fn see(&mut self, event: &Value) {
        let event: SeenEvent<'_, TurnActivity<'_>> = SeenEvent::of(event);
        let (event_type, kind) = (event.kind, event.data.kind.unwrap_or_default());
        if let Some(path) = event.task().and_then(path_of) {
            return self.see_below(event.data.request_id.unwrap_or_default(), event_type, path);
        }
        if !matches!((event_type, kind), ("turn.started" | "message.sent", _) | (_, "noise")) {
            self.starting = None;
        }
        match event_type {
            "turn.started" | "message.sent" => self.goes_on(None),
            "progress.message" => self.goes_on(Some("writing".to_owned())),
            "approval.requested" => self.state = Some("waiting for an approval"),
            "elicitation.requested" => self.state = Some("waiting for an answer"),
            "approval.decided" | "elicitation.answered" => self.goes_on(None),
            "turn.completed" | "turn.failed" | "turn.canceled" => {
                (self.state, self.doing) = (Some("idle"), None);
            }
            "progress.update" => match kind {
                "thought" => self.goes_on(Some("thinking".to_owned())),
                "tool_call" | "tool_call_update" => self.tool(&event.data),
                _ => {}
            },
            _ => {}
        }
    }

    /// A question of a task, or what became of it.
    fn see_below(&mut self, request: &str, event_type: &str, path: String) {
        if !matches!(event_type, "approval.requested" | "elicitation.requested") {
            self.asking.remove(request);
        } else if self.asking.len() < MOST {
            self.asking.insert(request.to_owned(), path);
        }
    }

    fn goes_on(&mut self, doing: Option<String>) {
        (self.state, self.doing) = (Some("running"), doing);
    }

    fn tool(&mut self, call: &TurnActivity<'_>) {
        let (id, title) = (call.tool_call_id.unwrap_or_default(), call.title.unwrap_or_default());
        if !title.is_empty() && (self.titles.len() < MOST || self.titles.contains_key(id)) {
            self.titles.insert(id.to_owned(), title.to_owned());
        }
        let touched = call.locations.iter().chain(&call.content).filter_map(|touched| touched.0.as_ref());
        for path in touched.filter_map(|touched| touched.path.0) {
            if self.files.len() < MOST {
                self.files.insert(path.to_owned());
            }
        }
        let ended = matches!(call.status, Some("completed" | "failed" | "unknown"));
        let doing = if ended { None } else { self.titles.get(id).map(|title| format!("tool: {title}")) };
        // A question stands until it is answered.
        if !self.state.is_some_and(|state| state.starts_with("waiting for")) {
            self.goes_on(doing);
        }
    }

    /// The line, at most so wide.
    #[must_use]
    pub fn line(&self, since: Duration, width: usize) -> String {
        let files = match self.files.len() {
            0 => None,
            1 => Some("1 file".to_owned()),
            more => Some(format!("{more} files")),
        };
        let state = self.starting.as_deref().or(self.state).unwrap_or("waiting");
        let asking = self.asking.values().next().map(|path| format!(" · {} asks", one_line(path)));
        let before = format!("{state} · {}{}", elapsed(since), asking.unwrap_or_default());
        let after = files.map(|files| format!(" · {files}")).unwrap_or_default();
        let Some(doing) = &self.doing else { return shorten(&format!("{before}{after}"), width) };
        // The title is cut before what stands behind it.
        let left = width.saturating_sub(before.chars().count() + after.chars().count() + 3);
        shorten(&format!("{before} · {}{after}", shorten(doing, left)), width)
    }
}

/// The line on the terminal. It is erased when this is dropped.
#[derive(Debug, Default)]
pub struct StatusLine {
    drawn: String,
}

impl StatusLine {
    /// A line, if stderr is a terminal that can have one.
    #[must_use]
    pub fn on_stderr() -> Option<Self> {
        terminal::can_redraw_stderr().then(Self::default)
    }

    /// Replaces the line by this activity and its duration.
    pub fn draw(&mut self, activity: &LiveActivity, since: Duration) {
        self.put(activity.line(since, width()));
    }

    /// Shows what is waited for, and for how long.
    pub fn show(&mut self, what: &str, since: Duration) {
        let since = format!(" · {}", elapsed(since));
        let left = width().saturating_sub(since.chars().count());
        self.put(shorten(what, left) + &since);
    }

    fn put(&mut self, text: String) {
        if text != self.drawn {
            write_stderr(&format!("{ERASE}{text}"));
            self.drawn = text;
        }
    }

    /// Erases the line from the terminal.
    pub fn erase(&mut self) {
        if !std::mem::take(&mut self.drawn).is_empty() {
            write_stderr(ERASE);
        }
    }
}

/// The width of a line. The last column stays free: some terminals go to the next line with it.
#[must_use]
pub fn width() -> usize {
    terminal::stderr_width().saturating_sub(1)
}

impl Drop for StatusLine {
    fn drop(&mut self) {
        self.erase();
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn after(events: &[Value]) -> String {
        let mut activity = LiveActivity::default();
        events.iter().for_each(|event| activity.see(event));
        activity.line(Duration::from_secs(72), 80)
    }

    fn update(data: Value) -> Value {
        json!({"type": "progress.update", "data": data})
    }

    #[test]
    fn the_line_says_what_is_going_on() {
        assert_eq!(after(&[]), "waiting · 1m 12s");
        assert_eq!(LiveActivity::of_turn().line(Duration::ZERO, 60), "running · 0s");
        assert_eq!(after(&[json!({"type": "turn.started", "data": {}})]), "running · 1m 12s");
        let started = update(json!({
            "kind": "tool_call", "toolCallId": "1", "title": "Edit\u{1b}[2J src/a.rs", "status": "pending",
            "locations": [{"path": "src/a.rs"}],
        }));
        assert_eq!(after(std::slice::from_ref(&started)), "running · 1m 12s · tool: Edit src/a.rs · 1 file");
        let more = update(json!({
            "kind": "tool_call_update", "toolCallId": "1", "status": "in_progress",
            "content": [{"type": "diff", "path": "src/b.rs"}, {"type": "diff", "path": "src/a.rs"}],
        }));
        assert_eq!(after(&[started.clone(), more]), "running · 1m 12s · tool: Edit src/a.rs · 2 files");
        let ended = update(json!({"kind": "tool_call_update", "toolCallId": "1", "status": "completed"}));
        assert_eq!(after(&[started.clone(), ended]), "running · 1m 12s · 1 file");
        let asked = json!({"type": "approval.requested", "data": {}});
        assert_eq!(
            after(&[started.clone(), asked]),
            "waiting for an approval · 1m 12s · tool: Edit src/a.rs · 1 file"
        );
        let thought = update(json!({"kind": "thought", "text": "hm"}));
        assert_eq!(after(&[started, thought]), "running · 1m 12s · thinking · 1 file");
    }

    #[test]
    fn a_start_is_shown_until_the_agent_does_something() {
        let mut activity = LiveActivity::of_start("starting codex (npx fetches x)".to_owned());
        for (event, shown) in [
            (json!({"type": "message.sent", "data": {}}), "starting codex (npx fetches x) · 3s"),
            (update(json!({"kind": "noise"})), "starting codex (npx fetches x) · 3s"),
            (json!({"type": "worker.restarted", "data": {}}), "running · 3s"),
        ] {
            activity.see(&event);
            assert_eq!(activity.line(Duration::from_secs(3), 80), shown);
        }
    }

    #[test]
    fn a_task_that_asks_is_named_until_it_is_answered() {
        let of_task = |event_type: &str| json!({"type": event_type, "path": ["root", "docs"], "data": {"requestId": "ap_1"}});
        let asked = of_task("approval.requested");
        assert_eq!(after(std::slice::from_ref(&asked)), "waiting · 1m 12s · root › docs asks");
        assert_eq!(after(&[asked, of_task("approval.decided")]), "waiting · 1m 12s");
    }

    #[test]
    fn a_long_title_is_cut_and_the_rest_is_not() {
        let mut activity = LiveActivity::default();
        activity.see(&update(json!({
            "kind": "tool_call", "toolCallId": "1", "title": "x".repeat(99), "locations": [{"path": "a"}],
        })));
        let line = activity.line(Duration::ZERO, 40);
        assert_eq!((line.chars().count(), line.ends_with("x… · 1 file")), (40, true), "{line}");
        assert_eq!(activity.line(Duration::ZERO, 5), "runn…");
    }
}
