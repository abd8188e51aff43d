//! The list of workers: its sections or its tree, what is chosen of it, and which part is seen. Pure.

use std::collections::{HashMap, HashSet};

use subagent_model::{Group, Need, OverviewRow};
use subagent_protocol::ids::{RequestId, WorkerId};

use super::hosts::{BoardHosts, BoardWorker, HostIndex, RowPosition};

/// Deeper than any tree is.
const MAX_DEPTH: usize = 64;
/// Title of the hosts that do not answer.
const HOSTS: &str = "Hosts without an answer";
/// Of a text, this many bytes are compared with a filter.
const MAX_COMPARED: usize = 4096;

/// The list as a person has arranged it.
#[derive(Debug, Default)]
pub(super) struct List {
    /// Rows without this text are left out.
    pub(super) filter: String,
    /// Tasks below their workers, instead of sections.
    pub(super) is_tree: bool,
    /// The first entry that is seen.
    pub(super) top: usize,
    chosen: Option<SelectedRow>,
    /// Where that was last.
    place: usize,
    /// Whether a key has chosen it.
    is_typed: bool,
}

/// A row that is chosen: a worker, one of its questions, or a host that does not answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SelectedRow {
    pub(super) host: HostIndex,
    /// Absent for the host itself.
    pub(super) id: Option<WorkerId>,
    pub(super) request: Option<RequestId>,
}

impl SelectedRow {
    /// The worker that is chosen.
    pub(super) fn worker(&self) -> Option<BoardWorker> {
        Some(BoardWorker { host: self.host, id: self.id.clone()? })
    }
}

/// A line of the list.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ListEntry {
    /// The title of a section, and how many rows it has.
    Head(&'static str, usize),
    Item(ListRow),
    /// A host that does not answer.
    Host(HostIndex),
}

/// A worker, or one of its questions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ListRow {
    pub(super) at: RowPosition,
    /// Of the needs of that row.
    pub(super) need: Option<usize>,
    /// Before the name, in a tree.
    pub(super) branch: String,
}

impl ListRow {
    fn of(at: RowPosition, need: Option<usize>) -> Self {
        Self { at, need, branch: String::new() }
    }

    /// The row and the question that it shows.
    pub(super) fn find<'a>(&self, hosts: &'a BoardHosts) -> Option<(&'a OverviewRow, Option<&'a Need>)> {
        let row = hosts.row_at(self.at)?;
        Some((row, self.need.and_then(|need| row.needs.get(need))))
    }

    fn chosen(&self, hosts: &BoardHosts) -> Option<SelectedRow> {
        let (row, need) = self.find(hosts)?;
        Some(SelectedRow {
            host: self.at.host,
            id: Some(row.worker_id().clone()),
            request: need.map(|need| need.request_id.clone()),
        })
    }
}

impl ListEntry {
    fn chosen(&self, hosts: &BoardHosts) -> Option<SelectedRow> {
        match self {
            Self::Head(..) => None,
            Self::Item(item) => item.chosen(hosts),
            Self::Host(host) => Some(SelectedRow { host: *host, id: None, request: None }),
        }
    }
}

impl List {
    /// The lines of the list.
    pub(super) fn entries(&self, hosts: &BoardHosts) -> Vec<ListEntry> {
        let wanted = self.filter.to_lowercase();
        let is_wanted = |at: RowPosition, row: &OverviewRow| {
            wanted.is_empty() || fits(row, &hosts.called(at.host, row), &wanted)
        };
        let rows = hosts.rows().filter(|(at, row)| is_wanted(*at, row));
        let rows: Vec<RowPosition> = rows.map(|(at, _)| at).collect();
        let silent = hosts.silent().filter(|(_, host)| host.name.to_lowercase().contains(&wanted));
        let silent: Vec<ListEntry> = silent.map(|(host, _)| ListEntry::Host(host)).collect();
        if self.is_tree { tree(hosts, &rows, silent) } else { sections(hosts, &rows, silent) }
    }

    pub(super) fn chosen(&self) -> Option<&SelectedRow> {
        self.chosen.as_ref()
    }

    pub(super) fn choose(&mut self, worker: BoardWorker) {
        self.chosen = Some(SelectedRow { host: worker.host, id: Some(worker.id), request: None });
    }

    /// Finds what is chosen in new entries. What is gone leaves its place to a neighbor.
    pub(super) fn settle(&mut self, entries: &[ListEntry], hosts: &BoardHosts) {
        let items = || {
            let item = |(at, entry): (usize, &ListEntry)| Some((at, entry.chosen(hosts)?));
            entries.iter().enumerate().filter_map(item)
        };
        // A host that was there first does not keep the keys from the workers.
        let is_early = |chosen: &&SelectedRow| chosen.id.is_none() && !self.is_typed;
        let first = || items().find(|(_, item)| item.id.is_some());
        let early = self.chosen.as_ref().filter(is_early).and_then(|_| first());
        let known = self.chosen.as_ref().and_then(|chosen| {
            let same = items().find(|(_, item)| item == chosen);
            // Behind an answer comes the next question, not what its worker does then.
            let answered = chosen.request.is_some() && !self.is_tree;
            let next = || items().rfind(|(at, item)| item.request.is_some() && *at <= self.place);
            let is_there = items().any(|(_, item)| item.worker() == chosen.worker());
            // The row of its host is all that is left of a worker there.
            let of_host = || items().find(|(_, item)| item.id.is_none() && item.host == chosen.host);
            let left = || if is_there { None } else { of_host() };
            same.or_else(left)
                .or_else(|| if answered { next() } else { None })
                .or_else(|| items().find(|(_, item)| item.worker() == chosen.worker()))
        });
        let near = || items().min_by_key(|(at, _)| (at.abs_diff(self.place), *at));
        match early.or(known).or_else(near) {
            Some((place, chosen)) => (self.place, self.chosen) = (place, Some(chosen)),
            None => (self.place, self.chosen) = (0, None),
        }
    }

    /// Chooses the row that is this number of rows further down; up if it is negative.
    pub(super) fn step(&mut self, by: isize, entries: &[ListEntry], hosts: &BoardHosts) {
        let places: Vec<usize> =
            (0..entries.len()).filter(|at| !matches!(entries.get(*at), Some(ListEntry::Head(..)))).collect();
        let now = places.partition_point(|place| *place < self.place);
        let last = places.len().saturating_sub(1);
        let next = now.saturating_add_signed(by).min(last);
        if let Some(place) = places.get(next) {
            self.choose_at(*place, entries, hosts);
        }
    }

    /// Chooses the next question behind what is chosen, else the first one.
    pub(super) fn next_question(&mut self, entries: &[ListEntry], hosts: &BoardHosts) {
        let asks = |at: &usize| match entries.get(*at) {
            Some(ListEntry::Item(item)) => {
                item.find(hosts).is_some_and(|(row, need)| need.is_some() || row.group() == Group::Needs)
            }
            _ => false,
        };
        let behind = (self.place + 1..entries.len()).find(asks);
        if let Some(place) = behind.or_else(|| (0..entries.len()).find(asks)) {
            self.choose_at(place, entries, hosts);
        }
    }

    fn choose_at(&mut self, place: usize, entries: &[ListEntry], hosts: &BoardHosts) {
        if let Some(chosen) = entries.get(place).and_then(|entry| entry.chosen(hosts)) {
            (self.place, self.chosen, self.is_typed) = (place, Some(chosen), true);
        }
    }

    /// Where what is chosen stands.
    pub(super) fn place(&self) -> usize {
        self.place
    }

    /// Moves the part that is seen, so that what is chosen is in it.
    pub(super) fn scroll(&mut self, entries: &[ListEntry], height: usize) {
        // The title above the first row comes along.
        let lowest = (self.place + 1).saturating_sub(height);
        let highest = if self.place == 1 { 0 } else { self.place }.max(lowest);
        let last = entries.len().saturating_sub(height);
        self.top = self.top.clamp(lowest, highest).min(last.max(lowest));
    }
}

/// Whether a row has a text, which is in lower case, in what is seen of it.
fn fits(row: &OverviewRow, name: &str, wanted: &str) -> bool {
    let snapshot = &row.snapshot;
    let own = [name, &snapshot.label, &snapshot.launcher, row.state.as_str()];
    let asked = row.needs.iter().map(|need| need.subject.as_str());
    let task = snapshot.task.iter().map(|task| task.name.as_str());
    let compared = |text: &str| text[..text.floor_char_boundary(MAX_COMPARED)].to_lowercase();
    own.into_iter().chain(asked).chain(task).any(|text| compared(text).contains(wanted))
}

fn sections(hosts: &BoardHosts, shown: &[RowPosition], silent: Vec<ListEntry>) -> Vec<ListEntry> {
    let rows = || shown.iter().filter_map(|at| Some((*at, hosts.row_at(*at)?)));
    let mut needs: Vec<_> = rows()
        .filter(|(_, row)| row.group() == Group::Needs)
        .flat_map(|(at, row)| {
            let asked = row.needs.iter().enumerate();
            let asked = asked.map(move |(need, asked)| (asked.since, ListRow::of(at, Some(need))));
            // A worker that waits for something that is not in the snapshot.
            let without = row.needs.is_empty().then(|| (row.since, ListRow::of(at, None)));
            asked.chain(without)
        })
        .collect();
    needs.sort_by_key(|(since, item)| (*since, item.at, item.need));
    let of = |group: Group| rows().filter(move |(_, row)| row.group() == group);
    let working = of(Group::Working).map(|(at, _)| ListRow::of(at, None));
    let mut done: Vec<_> = of(Group::Done).map(|(at, row)| (row.since, ListRow::of(at, None))).collect();
    done.sort_by_key(|(since, item)| (std::cmp::Reverse(*since), item.at));
    let sections = [
        ("Needs you", needs.into_iter().map(|(_, item)| ListEntry::Item(item)).collect()),
        (HOSTS, silent),
        ("Working", working.map(ListEntry::Item).collect()),
        ("Done", done.into_iter().map(|(_, item)| ListEntry::Item(item)).collect::<Vec<_>>()),
    ];
    let shown = sections.into_iter().filter(|(_, items)| !items.is_empty());
    shown.flat_map(|(title, items)| titled(title, items)).collect()
}

fn titled(title: &'static str, entries: Vec<ListEntry>) -> impl Iterator<Item = ListEntry> {
    std::iter::once(ListEntry::Head(title, entries.len())).chain(entries)
}

/// Workers, and the tasks that they have given below them; those that wait for their owner come first.
fn tree(hosts: &BoardHosts, shown: &[RowPosition], silent: Vec<ListEntry>) -> Vec<ListEntry> {
    let rows = || shown.iter().filter_map(|at| Some((*at, hosts.row_at(*at)?)));
    let known: HashMap<(HostIndex, &WorkerId), RowPosition> =
        rows().map(|(at, row)| ((at.host, row.worker_id()), at)).collect();
    let mut below: HashMap<RowPosition, Vec<RowPosition>> = HashMap::new();
    let mut roots = Vec::new();
    for (at, row) in rows() {
        let task = row.snapshot.task.as_ref();
        let parent = task.and_then(|task| known.get(&(at.host, task.parent.as_ref()?)));
        match parent {
            // The oldest task first: rows are the newest first.
            Some(parent) => below.entry(*parent).or_default().insert(0, at),
            None => roots.push(at),
        }
    }
    let mut grown = Grown { hosts, below: &below, seen: HashSet::new(), items: Vec::new() };
    let mut urgent: Vec<(Group, RowPosition)> =
        roots.into_iter().map(|root| (grown.group(root, MAX_DEPTH), root)).collect();
    urgent.sort_by_key(|(group, root)| (*group, *root));
    for (_, root) in urgent {
        grown.add(root, "", "", MAX_DEPTH);
    }
    // Those of a circle are below no root.
    for at in shown {
        grown.add(*at, "", "", MAX_DEPTH);
    }
    let items = grown.items.into_iter().map(ListEntry::Item).collect();
    let shown = [(HOSTS, silent), ("Workers and their tasks", items)].into_iter();
    let shown = shown.filter(|(_, entries): &(_, Vec<ListEntry>)| !entries.is_empty());
    shown.flat_map(|(title, entries)| titled(title, entries)).collect()
}

/// A tree that grows. What is stored may be a circle.
struct Grown<'a> {
    hosts: &'a BoardHosts,
    below: &'a HashMap<RowPosition, Vec<RowPosition>>,
    seen: HashSet<RowPosition>,
    items: Vec<ListRow>,
}

impl Grown<'_> {
    fn children(&self, of: RowPosition, levels: usize) -> &[RowPosition] {
        let found = self.below.get(&of).filter(|_| levels > 0);
        found.map(Vec::as_slice).unwrap_or_default()
    }

    /// The most urgent group of a worker and of all below it.
    fn group(&self, of: RowPosition, levels: usize) -> Group {
        let own = self.hosts.row_at(of).map_or(Group::Done, OverviewRow::group);
        let below = self.children(of, levels).iter().map(|child| self.group(*child, levels - 1));
        below.fold(own, Group::min)
    }

    fn add(&mut self, at: RowPosition, branch: &str, indent: &str, levels: usize) {
        if !self.seen.insert(at) {
            return;
        }
        let need = self.hosts.row_at(at).and_then(|row| (!row.needs.is_empty()).then_some(0));
        self.items.push(ListRow { at, need, branch: branch.to_owned() });
        let children = self.children(at, levels).to_vec();
        let last = children.len().saturating_sub(1);
        for (number, child) in children.into_iter().enumerate() {
            let (sign, further) = if number == last { ("└─ ", "   ") } else { ("├─ ", "│  ") };
            self.add(child, &format!("{indent}{sign}"), &format!("{indent}{further}"), levels - 1);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use subagent_model::Workers;
    use subagent_protocol::event::Event;

    use super::super::fixture::{
        HERE, and, asking, at, event, id, request, running, shop, snapshot, task_of, worker,
    };
    use super::super::hosts::{BoardConnection, BoardHost};
    use super::*;

    fn workers(items: Vec<Value>) -> BoardHosts {
        let mut host = BoardHost::new("local", false, BoardConnection::Connected);
        host.workers = Some(Workers::new(&snapshot(items)));
        BoardHosts::one(host)
    }

    fn apply(hosts: &mut BoardHosts, event: &Event) {
        hosts.get_mut(HERE).unwrap().workers.as_mut().unwrap().apply(event);
    }

    fn shown(list: &List, workers: &BoardHosts) -> Vec<String> {
        let entry = |entry: &ListEntry| match entry {
            ListEntry::Head(title, count) => format!("{title} {count}"),
            ListEntry::Host(host) => format!("{}/", workers.get(*host).unwrap().name),
            ListEntry::Item(item) => {
                let (row, need) = item.find(workers).unwrap();
                let asked = need.map(|need| format!(" {}", need.request_id)).unwrap_or_default();
                format!("{}{}{asked}", item.branch, row.snapshot.name)
            }
        };
        list.entries(workers).iter().map(entry).collect()
    }

    fn settled(list: &mut List, workers: &BoardHosts) {
        let entries = list.entries(workers);
        list.settle(&entries, workers);
    }

    #[test]
    fn questions_come_first_and_the_oldest_of_them_before_the_others() {
        let expected = [
            "Needs you 2",
            "claude-1 ap_0000000002",
            "codex-1 ap_0000000001",
            "Working 2",
            "docs",
            "tests",
            "Done 3",
            "codex-2",
            "broken",
            "old",
        ];
        assert_eq!(shown(&List::default(), &workers(shop())), expected);
        assert!(shown(&List::default(), &workers(Vec::new())).is_empty());
    }

    #[test]
    fn a_filter_looks_at_what_is_seen() {
        let filtered = |text: &str| {
            let list = List { filter: text.to_owned(), ..List::default() };
            shown(&list, &workers(shop())).join(" ")
        };
        assert_eq!(filtered("LOGIN"), "Needs you 1 codex-1 ap_0000000001 Done 1 codex-2");
        assert_eq!(filtered("rm -rf"), "Needs you 1 claude-1 ap_0000000002");
        assert_eq!(filtered("flaky"), "Working 1 tests");
        assert_eq!(filtered("stopped"), "Done 1 old");
        assert_eq!(filtered("nothing of it"), "");
    }

    #[test]
    fn a_tree_has_tasks_below_their_workers_and_urgent_ones_first() {
        let list = List { is_tree: true, ..List::default() };
        let items = vec![
            worker(1, "one", json!({})),
            worker(2, "two", running("x")),
            worker(3, "deep", and(asking(1, 3, "rm", 9), task_of(5, "t"))),
            worker(4, "last", task_of(2, "t")),
            worker(5, "first", task_of(2, "t")),
            worker(6, "orphan", task_of(9, "t")),
        ];
        let expected = [
            "Workers and their tasks 6",
            "two",
            "├─ first",
            "│  └─ deep ap_0000000001",
            "└─ last",
            "one",
            "orphan",
        ];
        assert_eq!(shown(&list, &workers(items)), expected);
    }

    #[test]
    fn a_circle_of_tasks_has_an_end() {
        let list = List { is_tree: true, ..List::default() };
        let items = vec![worker(1, "one", task_of(2, "t")), worker(2, "two", task_of(1, "t"))];
        assert_eq!(shown(&list, &workers(items)), ["Workers and their tasks 2", "one", "└─ two"]);
    }

    #[test]
    fn what_is_chosen_stays_chosen_wherever_it_goes() {
        let (mut list, mut workers) = (List::default(), workers(shop()));
        settled(&mut list, &workers);
        assert_eq!(list.chosen().unwrap().request, Some(request(2)), "the oldest question");
        list.choose(at(4));
        settled(&mut list, &workers);
        let asked = json!({"requestId": request(7), "title": "sudo"});
        apply(&mut workers, &event(1, 4, "approval.requested", asked));
        settled(&mut list, &workers);
        assert_eq!(
            list.chosen(),
            Some(&SelectedRow { host: HERE, id: Some(id(4)), request: Some(request(7)) })
        );
    }

    #[test]
    fn behind_an_answer_comes_the_next_question_then_the_worker() {
        let (mut list, mut workers) = (List::default(), workers(shop()));
        settled(&mut list, &workers);
        let decided = |number: u32| json!({"requestId": request(number)});
        apply(&mut workers, &event(1, 2, "approval.decided", decided(2)));
        settled(&mut list, &workers);
        assert_eq!(list.chosen().unwrap().request, Some(request(1)));
        apply(&mut workers, &event(2, 1, "approval.decided", decided(1)));
        settled(&mut list, &workers);
        assert_eq!(list.chosen(), Some(&SelectedRow { host: HERE, id: Some(id(1)), request: None }));
    }

    #[test]
    fn keys_walk_over_titles() {
        let (mut list, workers) = (List::default(), workers(shop()));
        let entries = list.entries(&workers);
        list.settle(&entries, &workers);
        let name = |list: &List| list.chosen().unwrap().id.clone().unwrap();
        for (by, expected) in
            [(1, 1), (1, 3), (1, 4), (-1, 3), (isize::MAX, 7), (1, 7), (isize::MIN, 2), (-1, 2)]
        {
            list.step(by, &entries, &workers);
            assert_eq!(name(&list), id(expected), "{by}");
        }
        list.next_question(&entries, &workers);
        assert_eq!(name(&list), id(1));
        list.next_question(&entries, &workers);
        assert_eq!(name(&list), id(2), "from the last one to the first");
    }

    #[test]
    fn the_chosen_row_is_seen_in_every_window() {
        let (mut list, workers) = (List::default(), workers(shop()));
        let entries = list.entries(&workers);
        list.settle(&entries, &workers);
        for height in [1, 2, 3, 5, 20] {
            for by in [isize::MIN, 1, 1, 1, -1, isize::MAX, -1, -1, -1, -1, -1, -1] {
                list.step(by, &entries, &workers);
                list.scroll(&entries, height);
                assert!((list.top..list.top + height).contains(&list.place()), "{height}: {list:?}");
                assert!(
                    list.top == 0 || list.top + height <= entries.len().max(height),
                    "{height}: {list:?}"
                );
            }
        }
        list.step(isize::MIN, &entries, &workers);
        list.scroll(&entries, 5);
        assert_eq!(list.top, 0, "with the title above it");
    }
}
