//! A row of the list: which columns it has in a window of some width, and what stands in them. Pure.

use std::collections::HashMap;
use std::time::Duration;

use ratatui::text::{Line, Span};
use subagent_model::{Group, Need, OverviewRow};
use subagent_protocol::api::{UNLABELED, UNLABELED_RUN, UsageSums};
use subagent_protocol::budget::{Money, micros};
use subagent_protocol::state::WorkerState;
use subagent_protocol::time::Timestamp;
use unicode_width::UnicodeWidthStr as _;

use super::super::board::state_word;
use super::super::changed::ChangeCounts;
use super::super::hosts::{BoardConnection, BoardHost, BoardHosts, BoardWorker};
use super::super::list::{ListEntry, ListRow};
use super::{age, part, span};
use crate::output::ago::age_lasts;
use crate::output::human;
use crate::output::page::shorten;
use crate::output::short;
use crate::output::style::Style;

/// What is known of the changes of all workers.
#[derive(Clone, Copy)]
pub(super) struct KnownChanges<'a> {
    pub(super) counts: &'a ChangeCounts,
    /// The number of files that other workers have changed too.
    pub(super) shared: &'a HashMap<BoardWorker, usize>,
}

/// Before each name: whether the row is chosen.
const MARK: usize = 2;
/// Spaces between two columns of the list.
const GAP: usize = 2;
/// The columns of an age.
const AGE: usize = 4;
/// What is asked or done has at least this many columns, before others get any.
const MIN_TEXT: usize = 16;
/// The widest that a name gets, as a part of the window.
const NAME_PART: usize = 3;
/// In a narrower window the title of a section stands for the state of its questions.
const NARROW: usize = 80;

/// The widths of the columns; 0 for one that is not there.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Columns {
    name: usize,
    state: usize,
    age: usize,
    text: usize,
    lines: usize,
    usage: usize,
    is_narrow: bool,
}

impl Columns {
    /// The columns of a list in a window.
    pub(super) fn of(
        entries: &[ListEntry],
        hosts: &BoardHosts,
        changes: KnownChanges<'_>,
        width: usize,
    ) -> Self {
        let mut columns = Self { is_narrow: width < NARROW, ..Self::default() };
        let items = || {
            entries.iter().filter_map(|entry| match entry {
                ListEntry::Item(item) => Some((item, item.find(hosts)?)),
                ListEntry::Head(..) | ListEntry::Host(_) => None,
            })
        };
        let widest = |cell: &dyn Fn(&ListRow, &OverviewRow, Option<&Need>) -> usize| {
            items().map(|(item, (row, need))| cell(item, row, need)).max().unwrap_or(0)
        };
        let room = width.saturating_sub(MARK);
        let silent = || {
            entries.iter().filter_map(|entry| match entry {
                ListEntry::Host(host) => hosts.get(*host),
                ListEntry::Item(_) | ListEntry::Head(..) => None,
            })
        };
        let called = |item: &ListRow, row: &OverviewRow| part(&hosts.called(item.at.host, row)).width();
        columns.name = widest(&|item, row, _| item.branch.width() + called(item, row));
        let hosts_name = silent().map(|host| host_name(host).width()).max().unwrap_or(0);
        columns.name = columns.name.max(hosts_name);
        columns.name = columns.name.clamp(1, (room / NAME_PART).max(8)).min(room);
        let mut left = room - columns.name;
        // What has to give way first stands last.
        let is_narrow = columns.is_narrow;
        let hosts_state = silent().map(|host| host.reached().0.width()).max().unwrap_or(0);
        let states = widest(&|item, row, need| state(item, row, need, is_narrow).width());
        let wanted = [
            (&mut columns.age, AGE),
            (&mut columns.state, states.max(hosts_state)),
            (&mut columns.lines, widest(&|item, row, _| lines(item, row, changes).1.width())),
            (&mut columns.usage, widest(&|_, row, _| usage(&row.snapshot.usage).width())),
        ];
        for (column, wanted) in wanted {
            if wanted > 0 && left >= wanted + GAP + MIN_TEXT + GAP {
                *column = wanted;
                left -= wanted + GAP;
            }
        }
        columns.text = left.saturating_sub(GAP);
        columns
    }

    /// The row of a worker or of one of its questions.
    pub(super) fn line(
        &self,
        item: &ListRow,
        hosts: &BoardHosts,
        changes: KnownChanges<'_>,
        is_chosen: bool,
        now: Timestamp,
    ) -> Line<'static> {
        let Some(found) = item.find(hosts) else { return Line::default() };
        let (row, need) = found;
        let mut cells = Cells { spans: vec![Span::raw(if is_chosen { "> " } else { "  " })] };
        let name = format!("{}{}", item.branch, part(&hosts.called(item.at.host, row)));
        cells.left(Style::Strong, &name, self.name);
        let state_style = Style::of_state(row.state.as_str());
        // The text takes the room of a state that its section has said.
        let state = state(item, row, need, self.is_narrow);
        let more = if state.is_empty() && self.state > 0 { self.state + GAP } else { 0 };
        cells.left(state_style, &state, self.state - more.min(self.state));
        cells.right(Style::Dim, &age(time(&found), now), self.age);
        let (style, text) = text(row, need, now);
        cells.left(style, &text, self.text + more);
        let (style, text) = lines(item, row, changes);
        cells.right(style, &text, self.lines);
        cells.right(Style::Dim, &usage(&row.snapshot.usage), self.usage);
        Line::from(cells.spans)
    }

    /// The row of a host that does not answer: the age of its last answer, and why.
    pub(super) fn host(&self, host: &BoardHost, is_chosen: bool, now: Timestamp) -> Line<'static> {
        let mut cells = Cells { spans: vec![Span::raw(if is_chosen { "> " } else { "  " })] };
        let (word, why) = host.reached();
        cells.left(Style::Strong, &host_name(host), self.name);
        let style = if host.link == BoardConnection::Connecting { Style::Dim } else { Style::Bad };
        cells.left(style, word, self.state);
        let answered = host.answered.map_or_else(|| "-".to_owned(), |answered| age(answered, now));
        cells.right(Style::Dim, &answered, self.age);
        // The other columns are those of workers.
        let others = [self.lines, self.usage].into_iter().filter(|width| *width > 0);
        let room = self.text + others.map(|width| width + GAP).sum::<usize>();
        cells.left(style, &part(why), room);
        Line::from(cells.spans)
    }
}

/// The cells of a row.
struct Cells {
    spans: Vec<Span<'static>>,
}

impl Cells {
    fn left(&mut self, style: Style, text: &str, width: usize) {
        self.cell(style, text, width, false);
    }

    fn right(&mut self, style: Style, text: &str, width: usize) {
        self.cell(style, text, width, true);
    }

    fn cell(&mut self, style: Style, text: &str, width: usize, is_right: bool) {
        if width == 0 {
            return;
        }
        let text = shorten_with_branch(text, width);
        let fill = " ".repeat(width.saturating_sub(text.width()));
        if self.spans.len() > 1 {
            self.spans.push(Span::raw(" ".repeat(GAP)));
        }
        let text = span(style, text);
        let cell = if is_right { [Span::raw(fill), text] } else { [text, Span::raw(fill)] };
        self.spans.extend(cell);
    }
}

/// The text in this width; its indent stays.
fn shorten_with_branch(text: &str, width: usize) -> String {
    let indent = text.len() - text.trim_start().len();
    let indent = &text[..indent];
    format!("{indent}{}", shorten(text, width.saturating_sub(indent.width())))
}

/// What the age of a row is the age of: the question, else the last event.
pub(super) fn time((row, need): &(&OverviewRow, Option<&Need>)) -> Timestamp {
    need.map(|need| need.since).or(row.last_event_at).unwrap_or(row.since)
}

fn state(item: &ListRow, row: &OverviewRow, need: Option<&Need>, is_narrow: bool) -> String {
    let is_said = need.is_some() && item.branch.is_empty() && row.state == WorkerState::WaitingApproval;
    if is_said && is_narrow { String::new() } else { state_word(row.state) }
}

/// What a worker asks, does, or ended with.
fn text(row: &OverviewRow, need: Option<&Need>, now: Timestamp) -> (Style, String) {
    if let Some(since) = row.unreachable_since {
        return (Style::Bad, format!("unreachable for {}", age(since, now)));
    }
    if let Some(need) = need {
        return (Style::Attention, part(&need.subject));
    }
    let queued = match (row.waiting, row.is_paused) {
        (0, _) => String::new(),
        (waiting, false) => format!("{waiting} queued  "),
        (waiting, true) => format!("{waiting} queued, paused  "),
    };
    let (style, text) = match (row.group(), &row.last_error) {
        (Group::Done, Some(error)) => (Style::Bad, part(error)),
        (Group::Done, None) => (Style::Dim, label(row)),
        (Group::Working | Group::Needs, _) => (Style::Plain, doing(row).unwrap_or_else(|| label(row))),
    };
    let parked = row.parked_until.map(|until| format!("parked ({} left)  ", age(now, until)));
    (style, parked.unwrap_or_default() + &queued + &text)
}

/// After which time the text of an unreachable worker is another one.
pub(super) fn unreachable_lasts(row: &OverviewRow, now: Timestamp) -> Option<Duration> {
    Some(age_lasts(row.unreachable_since?, now))
}

/// After which time the text of a parked worker is another one.
pub(super) fn parked_lasts(row: &OverviewRow, now: Timestamp) -> Option<Duration> {
    let left = u64::try_from(row.parked_until?.0.checked_sub(now.0)?).ok()?;
    let unit = if left < 60_000 { 1000 } else { 60_000 };
    (left > 0).then(|| Duration::from_millis(left % unit + 1))
}

fn doing(row: &OverviewRow) -> Option<String> {
    Some(part(&human::doing(&row.doing()?))).filter(|text| !text.is_empty())
}

/// The label, or the name of the task, if one was chosen.
fn label(row: &OverviewRow) -> String {
    let label =
        Some(row.snapshot.label.as_str()).filter(|label| !matches!(*label, UNLABELED | UNLABELED_RUN));
    let task = row.snapshot.task.as_ref().map(|task| task.name.as_str());
    part(label.or(task).unwrap_or_default())
}

fn host_name(host: &BoardHost) -> String {
    format!("{}/", part(&host.name))
}

/// The changed lines. Files that another live worker has changed too are marked.
fn lines(item: &ListRow, row: &OverviewRow, changes: KnownChanges<'_>) -> (Style, String) {
    let worker = BoardWorker { host: item.at.host, id: row.worker_id().clone() };
    let shared = changes.shared.get(&worker).copied();
    let lines = match changes.counts.get(&worker) {
        Some(Some(changed)) if changed.lines != (0, 0) => short::lines(changed.lines.0, changed.lines.1),
        _ => String::new(),
    };
    match shared {
        Some(shared) => (Style::Attention, format!("{lines} !{shared}").trim_start().to_owned()),
        None => (Style::Plain, lines),
    }
}

/// The cost, else the tokens; nothing if neither was reported.
fn usage(sums: &UsageSums) -> String {
    let amounts = sums.cost.used.as_deref().unwrap_or_default();
    let cost: Vec<String> = amounts
        .iter()
        .filter_map(|of| Some(Money { micros: micros(of.amount)?, currency: part(&of.currency) }))
        .map(|money| short::money(&money))
        .collect();
    match (cost.is_empty(), sums.tokens.used) {
        (false, _) => cost.join(" + "),
        (true, Some(tokens)) if tokens > 0 => short::count(tokens),
        _ => String::new(),
    }
}
