//! A board on a screen. Pure: the board and a time in, cells out.

mod row;
#[cfg(test)]
mod tests;

use std::time::Duration;

use ratatui::buffer::Buffer;
use ratatui::layout::{Position, Rect};
use ratatui::style::{Modifier, Style as Look};
use ratatui::text::{Line, Span};
use subagent_model::Group;
use subagent_protocol::clean::one_line;
use subagent_protocol::time::Timestamp;
use unicode_width::UnicodeWidthStr as _;

use super::board::{Board, HIDDEN_RULE};
use super::hosts::{BoardConnection, BoardHosts};
use super::list::{List, ListEntry};
use super::prompt::BoardPrompt;
use super::styled::{self, look};
use super::view::{BoardView, TextView};
use super::{changed, help};
use crate::output::ago::{age, age_lasts};
use crate::output::human;
use crate::output::page::shorten;
use crate::output::style::Style;
use crate::output::terminal::OutputTerminal;
use row::{Columns, KnownChanges};

/// Of a text that is shown in a line, at most this many bytes are looked at.
const MAX_LINE_BYTES: usize = 4096;
/// The question that is asked has at most this part of the screen.
const QUESTION_PART: usize = 2;

/// What a screen needs besides its cells.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Drawn {
    /// Where a person types.
    pub(super) cursor: Option<Position>,
    /// After which time it would look different by itself.
    pub(super) lasts: Option<Duration>,
}

pub(super) fn draw(board: &mut Board, buffer: &mut Buffer, now: Timestamp) -> Drawn {
    let mut canvas = Canvas { area: buffer.area, buffer, colour: board.colour };
    let (width, height) = (usize::from(canvas.area.width), usize::from(canvas.area.height));
    if width == 0 || height == 0 {
        return Drawn::default();
    }
    canvas.put(0, &title(board, width));
    // Unless all of it is drawn below.
    board.asked.hide_rule(true);
    let below = below(board, width, height, now);
    let body = height.saturating_sub(1 + below.len());
    board.body = (width, body);
    let mut lasts = body_lines(board, &mut canvas, now);
    for (line, at) in below.iter().zip(height.saturating_sub(below.len())..) {
        canvas.put(at, line);
    }
    if let Some(until) = board.asked.deaf_until(now) {
        let deaf = Duration::from_millis(u64::try_from(until.0 - now.0).unwrap_or(0));
        lasts = Some(lasts.map_or(deaf, |lasts| lasts.min(deaf)));
    }
    Drawn { cursor: cursor(board, width, height), lasts }
}

/// The cells that are drawn on.
struct Canvas<'a> {
    area: Rect,
    buffer: &'a mut Buffer,
    colour: bool,
}

impl Canvas<'_> {
    /// Draws a line in this row. What is too wide is cut.
    fn put(&mut self, at: usize, line: &Line<'_>) {
        let Ok(row) = u16::try_from(at) else { return };
        if row >= self.area.height {
            return;
        }
        let plain = Line::from(line.to_string());
        let line = if self.colour { line } else { &plain };
        self.buffer.set_line(self.area.x, self.area.y + row, line, self.area.width);
    }

    /// Marks the row that is chosen.
    fn choose(&mut self, at: usize) {
        let Ok(row) = u16::try_from(at) else { return };
        if self.colour && row < self.area.height {
            let area = Rect { y: self.area.y + row, height: 1, ..self.area };
            self.buffer.set_style(area, Look::new().add_modifier(Modifier::REVERSED));
        }
    }
}

/// A text of an agent or a person as a part of a line.
fn part(text: &str) -> String {
    one_line(&text[..text.floor_char_boundary(MAX_LINE_BYTES)])
}

fn span(style: Style, text: impl Into<String>) -> Span<'static> {
    Span::styled(text.into(), look(style))
}

fn line(style: Style, text: impl Into<String>) -> Line<'static> {
    Line::from(span(style, text))
}

/// The first line: where this is, how much there is to do, and whether the daemon is there.
fn title(board: &Board, width: usize) -> Line<'static> {
    let (style, right) = match board.hosts.only().map(|host| (&host.link, &host.workers)) {
        None => (Style::Plain, summary(&board.hosts)),
        Some((BoardConnection::Unused, _)) => (Style::Dim, "no daemon".to_owned()),
        Some((BoardConnection::Connecting, None)) => (Style::Dim, "connecting".to_owned()),
        Some((BoardConnection::Lost, _)) => (Style::Attention, "connection lost, connecting".to_owned()),
        Some((BoardConnection::Unreachable(_), _)) => (Style::Bad, "no connection".to_owned()),
        Some((_, Some(_))) => (Style::Plain, summary(&board.hosts)),
        Some((BoardConnection::Connected, None)) => (Style::Dim, "connected".to_owned()),
    };
    let left = match &board.view {
        BoardView::List => part(&board.place),
        BoardView::Story(story) => board.called(&story.worker).unwrap_or_default(),
        BoardView::Text(page) => part(&page.title),
        BoardView::Help(..) => "keys".to_owned(),
    };
    let right = shorten(&right, width);
    let left = shorten(&format!("subagent  {left}"), width.saturating_sub(right.width() + 2));
    let gap = width.saturating_sub(left.width() + right.width());
    Line::from(vec![span(Style::Strong, left), Span::raw(" ".repeat(gap)), span(style, right)])
}

/// How many workers there are of each kind, and how many hosts that do not answer.
fn summary(hosts: &BoardHosts) -> String {
    let count = |group: Group| hosts.rows().filter(|(_, row)| row.group() == group).count();
    let parts = [(Group::Needs, "need you"), (Group::Working, "working"), (Group::Done, "done")];
    let [needs, working, done] = parts.map(|(group, word)| (count(group), word));
    let parts = [needs, working, done, (hosts.silent().count(), "silent")];
    let shown = parts.iter().filter(|(count, _)| *count > 0).map(|(count, word)| format!("{count} {word}"));
    shown.collect::<Vec<_>>().join(" · ")
}

/// The lines below the body: what is chosen in full, what was said last, and the keys.
fn below(board: &mut Board, width: usize, height: usize, now: Timestamp) -> Vec<Line<'static>> {
    let mut lines = Vec::new();
    // In a window that is too low for all, the list comes first.
    if height >= 8 && !matches!(board.view, BoardView::Text(_) | BoardView::Help(..)) {
        lines.extend(chosen(board, width, height / QUESTION_PART, now));
    }
    if height >= 3 {
        lines.push(said(board, width));
    }
    if height >= 2 {
        lines.push(keys(board, width));
    }
    lines
}

/// The question that is chosen, else the worker.
fn chosen(board: &mut Board, width: usize, room: usize, now: Timestamp) -> Vec<Line<'static>> {
    let rule = line(Style::Dim, "─".repeat(width));
    let mut lines = vec![rule];
    if board.asked.shown().is_some() {
        // The rule is laid out before it is asked for: keys may come faster than pictures.
        let rule = board.asked.rule().map(|rule| {
            let text = human::rule_to_make(rule, OutputTerminal { width, colour: true });
            styled::lines(&text, width)
        });
        // A line above it, and the keys below it.
        let is_hidden = rule.as_ref().is_some_and(|rule| rule.len() + 2 > room);
        board.asked.hide_rule(is_hidden);
        if let Some(rule) = rule.filter(|_| board.asked.rule_to_make().is_some()) {
            match is_hidden {
                true => lines.push(line(Style::Attention, format!("  {HIDDEN_RULE}"))),
                false => lines.extend(rule),
            }
            lines.push(answers(board, width, now));
            return lines;
        }
        // Of a long question the beginning.
        lines.extend(board.asked.lines(width).iter().take(room).cloned());
        let numbered = board.asked.numbered();
        let options = numbered.iter().zip(1..).map(|((label, _), number)| {
            Line::from(vec![span(Style::Strong, format!("  {number}  ")), span(Style::Plain, part(label))])
        });
        let (options, keys) = (options.collect::<Vec<_>>(), answers(board, width, now));
        let left = room.saturating_sub(options.len() + 1).max(2);
        if lines.len() > left {
            lines.truncate(left - 1);
            let more =
                if matches!(board.view, BoardView::List) { "  ... Enter shows all of it" } else { "  ..." };
            lines.push(line(Style::Dim, more));
        }
        lines.extend(options);
        lines.push(keys);
        return lines;
    }
    if let Some(host) = board.silent() {
        let (word, short) = host.reached();
        lines.push(line(Style::Dim, part(&format!("{}  {word}", host.name))));
        let why = match &host.link {
            BoardConnection::Unreachable(why) => part(&why.sentence),
            _ => part(short),
        };
        let why = human::prose(&why, OutputTerminal { width, colour: false });
        lines.extend(styled::lines(&why, width).into_iter().take(room.saturating_sub(2).max(1)));
        return lines;
    }
    let Some((_, row)) = board.current() else { return Vec::new() };
    if board.shown_request().is_some() {
        lines.push(line(Style::Dim, "the question is on its way"));
        return lines;
    }
    let snapshot = &row.snapshot;
    let mut facts = vec![snapshot.launcher.as_str(), snapshot.label.as_str(), snapshot.cwd.as_str()];
    facts.retain(|fact| !matches!(*fact, "" | "worker" | "run"));
    lines.push(line(Style::Dim, part(&facts.join("  "))));
    if let Some(error) = &row.last_error {
        lines.push(line(Style::Bad, part(error)));
    }
    lines
}

/// The keys that answer the question.
fn answers(board: &Board, width: usize, now: Timestamp) -> Line<'static> {
    let mut text = String::new();
    for key in board.asked.keys(now) {
        if text.width() + 2 + key.width() < width || text.is_empty() {
            text.push_str(if text.is_empty() { "" } else { "  " });
            text.push_str(key);
        }
    }
    line(Style::Strong, text)
}

/// What a person is asked for, or what was said last.
fn said(board: &Board, width: usize) -> Line<'static> {
    if let Some(prompt) = &board.prompt {
        let (label, room) = label(&prompt.label(), width);
        let text = prompt.editor().map(|editor| editor.shown(room).0).unwrap_or_default();
        return Line::from(vec![span(Style::Attention, label), Span::raw(text)]);
    }
    let paused = || board.hosts.all().find_map(|(_, host)| host.paused.as_ref());
    match (&board.notice, board.hosts.only().map(|host| &host.link)) {
        (Some((style, text)), _) => line(*style, shorten(&part(text), width)),
        (None, Some(BoardConnection::Unreachable(why))) => {
            line(Style::Bad, shorten(&part(&why.sentence), width))
        }
        _ if !board.list.filter.is_empty() && matches!(board.view, BoardView::List) => line(
            Style::Attention,
            shorten(&format!("only with \"{}\"; Esc shows all", board.list.filter), width),
        ),
        _ => match paused() {
            Some(text) => line(Style::Attention, shorten(&part(text), width)),
            None => Line::default(),
        },
    }
}

/// What stands before a text that is typed, and how many columns are left for that.
fn label(label: &str, width: usize) -> (String, usize) {
    let label = match label.strip_suffix(' ') {
        Some(label) => shorten(label, width.saturating_sub(12).max(width / 2)) + " ",
        None => shorten(label, width),
    };
    let room = width.saturating_sub(label.width());
    (label, room)
}

fn cursor(board: &Board, width: usize, height: usize) -> Option<Position> {
    let editor = board.prompt.as_ref()?.editor()?;
    let (label, room) = label(&board.prompt.as_ref()?.label(), width);
    let column = (label.width() + editor.shown(room).1).min(width - 1);
    let row = height.checked_sub(2).filter(|_| height >= 3)?;
    Some(Position { x: u16::try_from(column).ok()?, y: u16::try_from(row).ok()? })
}

/// The keys of the view, the most important ones first.
fn keys(board: &Board, width: usize) -> Line<'static> {
    let keys: &[(&str, &str)] = match (&board.prompt, &board.view) {
        (Some(BoardPrompt::Stop(..)), _) => &[("y", "stop it"), ("any key", "leave it")],
        (Some(BoardPrompt::Cancel(..)), _) => &[("y", "cancel it"), ("any key", "leave it")],
        (Some(_), _) => &[("Enter", "done"), ("Esc", "leave")],
        (None, BoardView::List) => &[
            ("?", "keys"),
            ("q", "quit"),
            ("Enter", "story"),
            ("d", "diff"),
            ("s", "send"),
            ("c", "cancel"),
            ("x", "stop"),
            ("w", "run"),
            ("/", "filter"),
            ("t", if board.list.is_tree { "list" } else { "tree" }),
        ],
        (None, BoardView::Story(story)) => &[
            ("?", "keys"),
            ("q", "back"),
            ("G", if story.follows() { "follows" } else { "to the end" }),
            ("d", "diff"),
            ("s", "send"),
            ("c", "cancel"),
            ("x", "stop"),
        ],
        (None, BoardView::Text(_) | BoardView::Help(..)) => {
            &[("q", "back"), ("PgDn", "on"), ("g", "first"), ("G", "last")]
        }
    };
    let mut spans = Vec::new();
    let mut left = width;
    for (key, what) in keys {
        let needed = key.width() + what.width() + 1;
        let gap = if spans.is_empty() { 0 } else { 2 };
        let Some(rest) = left.checked_sub(needed + gap) else { break };
        left = rest;
        spans.push(Span::raw(" ".repeat(gap)));
        spans.push(span(Style::Strong, *key));
        spans.push(span(Style::Dim, format!(" {what}")));
    }
    Line::from(spans)
}

/// Draws what fills the screen; returns after which time it would look different.
fn body_lines(board: &mut Board, canvas: &mut Canvas<'_>, now: Timestamp) -> Option<Duration> {
    let (width, height) = board.body;
    match &mut board.view {
        BoardView::List => return list(board, canvas, now),
        BoardView::Story(story) => {
            let lines = match (story.is_empty(), story.has_failed()) {
                (true, true) => vec![line(Style::Attention, "no story came; scroll to fetch it again")],
                (true, false) => vec![line(Style::Dim, "the story is on its way")],
                (false, _) => story.window(width, height),
            };
            lines.iter().zip(1..).for_each(|(line, at)| canvas.put(at, line));
        }
        BoardView::Text(page) => text(page, canvas, width, height),
        BoardView::Help(top, _) => {
            let keys = help::LINES.iter().map(|(keys, _)| keys.width()).max().unwrap_or(0);
            for ((key, what), at) in help::LINES.iter().skip(*top).take(height).zip(1..) {
                let key = span(Style::Strong, format!("  {key:keys$}  "));
                canvas.put(at, &Line::from(vec![key, Span::raw(*what)]));
            }
        }
    }
    None
}

fn text(page: &mut TextView, canvas: &mut Canvas<'_>, width: usize, height: usize) {
    let top = page.top.min(page.lines(width).len().saturating_sub(1));
    page.top = top;
    let lines = page.lines(width).iter().skip(top).take(height);
    lines.zip(1..).for_each(|(line, at)| canvas.put(at, line));
}

fn list(board: &mut Board, canvas: &mut Canvas<'_>, now: Timestamp) -> Option<Duration> {
    let (width, height) = board.body;
    let entries = board.entries();
    if entries.is_empty() {
        empty(board, width).iter().zip(1..).for_each(|(line, at)| canvas.put(at, line));
        return None;
    }
    let Board { hosts, list, counts, .. } = board;
    list.scroll(&entries, height);
    let seen = seen(&entries, list.top, height);
    let shared = changed::shared(hosts, counts);
    let changes = KnownChanges { counts, shared: &shared };
    let columns = Columns::of(seen, hosts, changes, width);
    for ((entry, place), at) in seen.iter().zip(list.top..).zip(1..) {
        match entry {
            ListEntry::Head(title, count) => {
                let count = span(Style::Dim, format!("  {count}"));
                canvas.put(at, &Line::from(vec![span(Style::Strong, *title), count]));
            }
            ListEntry::Item(item) => {
                canvas.put(at, &columns.line(item, hosts, changes, is_chosen(list, place), now));
            }
            ListEntry::Host(host) => {
                let host = hosts.get(*host);
                let line = host.map(|host| columns.host(host, is_chosen(list, place), now));
                canvas.put(at, &line.unwrap_or_default());
            }
        }
        if is_chosen(list, place) && !matches!(entry, ListEntry::Head(..)) {
            canvas.choose(at);
        }
    }
    let lasts = seen.iter().filter_map(|entry| match entry {
        ListEntry::Item(item) => {
            let found = item.find(hosts)?;
            let age = age_lasts(row::time(&found), now);
            let texts = [row::parked_lasts(found.0, now), row::unreachable_lasts(found.0, now)];
            Some(texts.into_iter().flatten().fold(age, Duration::min))
        }
        ListEntry::Host(host) => Some(age_lasts(hosts.get(*host)?.answered?, now)),
        ListEntry::Head(..) => None,
    });
    lasts.min()
}

/// The entries that are seen. No others are laid out.
fn seen(entries: &[ListEntry], top: usize, height: usize) -> &[ListEntry] {
    entries.get(top..entries.len().min(top + height)).unwrap_or_default()
}

fn is_chosen(list: &List, place: usize) -> bool {
    list.chosen().is_some() && list.place() == place
}

/// What is said where there are no rows.
fn empty(board: &Board, width: usize) -> Vec<Line<'static>> {
    let is_unused = board.hosts.all().all(|(_, host)| host.link == BoardConnection::Unused);
    let text = match board.hosts.only() {
        Some(_) if is_unused => "Nothing was started in this workspace.",
        None if is_unused => "Nothing was started in the workspaces of these hosts.",
        Some(_) if !board.hosts.have_answered() => {
            return vec![line(Style::Dim, "The workers are on their way.")];
        }
        _ if !board.list.filter.is_empty() => return vec![line(Style::Dim, "No row has this text.")],
        _ => "No workers.",
    };
    let begin = ["Start one:  w here, or in a shell", "  subagent run -d AGENT 'WHAT TO DO'"];
    let lines = std::iter::once(text).chain(begin);
    lines.map(|text| line(Style::Plain, shorten_keeping_indent(text, width))).collect()
}

fn shorten_keeping_indent(text: &str, width: usize) -> String {
    let indent = text.len() - text.trim_start().len();
    " ".repeat(indent.min(width)) + &shorten(text, width.saturating_sub(indent))
}
