//! The list of workers: its sections or its tree, what is chosen of it, and which part is seen. Pure.

use std::collections::{HashMap, HashSet};

use subagent_model::{Group, Need, OverviewRow, Workers};
use subagent_protocol::ids::{RequestId, WorkerId};

/// Deeper than any tree is.
const MAX_DEPTH: usize = 64;
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
}

/// A row that is chosen: a worker, or one of its questions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SelectedRow {
    pub(super) worker: WorkerId,
    pub(super) request: Option<RequestId>,
}

/// A line of the list.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ListEntry {
    /// The title of a section, and how many rows it has.
    Head(&'static str, usize),
    Item(ListRow),
}

/// A worker, or one of its questions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ListRow {
    /// Of the rows of `Workers`.
    pub(super) row: usize,
    /// Of the needs of that row.
    pub(super) need: Option<usize>,
    /// Before the name, in a tree.
    pub(super) branch: String,
}

impl ListRow {
    fn of(row: usize, need: Option<usize>) -> Self {
        Self { row, need, branch: String::new() }
    }

    /// The row and the question that it shows.
    pub(super) fn find<'a>(&self, workers: &'a Workers) -> Option<(&'a OverviewRow, Option<&'a Need>)> {
        let row = workers.rows().get(self.row)?;
        Some((row, self.need.and_then(|need| row.needs.get(need))))
    }

    fn chosen(&self, workers: &Workers) -> Option<SelectedRow> {
        let (row, need) = self.find(workers)?;
        Some(SelectedRow {
            worker: row.worker_id().clone(),
            request: need.map(|need| need.request_id.clone()),
        })
    }
}

impl List {
    /// The lines of the list.
    pub(super) fn entries(&self, workers: &Workers) -> Vec<ListEntry> {
        let wanted = self.filter.to_lowercase();
        let rows: Vec<usize> = (0..workers.rows().len())
            .filter(|row| wanted.is_empty() || workers.rows().get(*row).is_some_and(|row| fits(row, &wanted)))
            .collect();
        if self.is_tree { tree(workers, &rows) } else { sections(workers, &rows) }
    }

    pub(super) fn chosen(&self) -> Option<&SelectedRow> {
        self.chosen.as_ref()
    }

    pub(super) fn choose(&mut self, worker: WorkerId) {
        self.chosen = Some(SelectedRow { worker, request: None });
    }

    /// Finds what is chosen in new entries. What is gone leaves its place to a neighbor.
    pub(super) fn settle(&mut self, entries: &[ListEntry], workers: &Workers) {
        let items = || {
            let item = |(at, entry): (usize, &ListEntry)| match entry {
                ListEntry::Item(item) => Some((at, item.chosen(workers)?)),
                ListEntry::Head(..) => None,
            };
            entries.iter().enumerate().filter_map(item)
        };
        let known = self.chosen.as_ref().and_then(|chosen| {
            let same = items().find(|(_, item)| item == chosen);
            // Behind an answer comes the next question, not what its worker does then.
            let answered = chosen.request.is_some() && !self.is_tree;
            let next = || items().rfind(|(at, item)| item.request.is_some() && *at <= self.place);
            same.or_else(|| if answered { next() } else { None })
                .or_else(|| items().find(|(_, item)| item.worker == chosen.worker))
        });
        let near = || items().min_by_key(|(at, _)| (at.abs_diff(self.place), *at));
        match known.or_else(near) {
            Some((place, chosen)) => (self.place, self.chosen) = (place, Some(chosen)),
            None => (self.place, self.chosen) = (0, None),
        }
    }

    /// Chooses the row that is this number of rows further down; up if it is negative.
    pub(super) fn step(&mut self, by: isize, entries: &[ListEntry], workers: &Workers) {
        let places: Vec<usize> =
            (0..entries.len()).filter(|at| matches!(entries.get(*at), Some(ListEntry::Item(_)))).collect();
        let now = places.partition_point(|place| *place < self.place);
        let last = places.len().saturating_sub(1);
        let next = now.saturating_add_signed(by).min(last);
        if let Some(place) = places.get(next) {
            self.choose_at(*place, entries, workers);
        }
    }

    /// Chooses the next question behind what is chosen, else the first one.
    pub(super) fn next_question(&mut self, entries: &[ListEntry], workers: &Workers) {
        let asks = |at: &usize| match entries.get(*at) {
            Some(ListEntry::Item(item)) => {
                item.find(workers).is_some_and(|(row, need)| need.is_some() || row.group() == Group::Needs)
            }
            _ => false,
        };
        let behind = (self.place + 1..entries.len()).find(asks);
        if let Some(place) = behind.or_else(|| (0..entries.len()).find(asks)) {
            self.choose_at(place, entries, workers);
        }
    }

    fn choose_at(&mut self, place: usize, entries: &[ListEntry], workers: &Workers) {
        if let Some(ListEntry::Item(item)) = entries.get(place) {
            (self.place, self.chosen) = (place, item.chosen(workers));
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
fn fits(row: &OverviewRow, wanted: &str) -> bool {
    let snapshot = &row.snapshot;
    let own = [snapshot.name.as_str(), &snapshot.label, &snapshot.launcher, row.state.as_str()];
    let asked = row.needs.iter().map(|need| need.subject.as_str());
    let task = snapshot.task.iter().map(|task| task.name.as_str());
    let compared = |text: &str| text[..text.floor_char_boundary(MAX_COMPARED)].to_lowercase();
    own.into_iter().chain(asked).chain(task).any(|text| compared(text).contains(wanted))
}

fn sections(workers: &Workers, shown: &[usize]) -> Vec<ListEntry> {
    let rows = || shown.iter().filter_map(|at| Some((*at, workers.rows().get(*at)?)));
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
    needs.sort_by_key(|(since, item)| (*since, item.row, item.need));
    let of = |group: Group| rows().filter(move |(_, row)| row.group() == group);
    let working: Vec<ListRow> = of(Group::Working).map(|(at, _)| ListRow::of(at, None)).collect();
    let mut done: Vec<_> = of(Group::Done).map(|(at, row)| (row.since, ListRow::of(at, None))).collect();
    done.sort_by_key(|(since, item)| (std::cmp::Reverse(*since), item.row));
    let sections = [
        ("Needs you", needs.into_iter().map(|(_, item)| item).collect()),
        ("Working", working),
        ("Done", done.into_iter().map(|(_, item)| item).collect::<Vec<_>>()),
    ];
    let shown = sections.into_iter().filter(|(_, items)| !items.is_empty());
    shown.flat_map(|(title, items)| titled(title, items)).collect()
}

fn titled(title: &'static str, items: Vec<ListRow>) -> impl Iterator<Item = ListEntry> {
    let head = ListEntry::Head(title, items.len());
    std::iter::once(head).chain(items.into_iter().map(ListEntry::Item))
}

/// Workers, and the tasks that they have given below them; those that wait for their owner come first.
fn tree(workers: &Workers, shown: &[usize]) -> Vec<ListEntry> {
    let rows = || shown.iter().filter_map(|at| Some((*at, workers.rows().get(*at)?)));
    let known: HashMap<&WorkerId, usize> = rows().map(|(at, row)| (row.worker_id(), at)).collect();
    let mut below: HashMap<usize, Vec<usize>> = HashMap::new();
    let mut roots = Vec::new();
    for (at, row) in rows() {
        let parent = row.snapshot.task.as_ref().and_then(|task| known.get(task.parent.as_ref()?));
        match parent {
            // The oldest task first: rows are the newest first.
            Some(parent) => below.entry(*parent).or_default().insert(0, at),
            None => roots.push(at),
        }
    }
    let mut grown = Grown { workers, below: &below, seen: HashSet::new(), items: Vec::new() };
    let mut urgent: Vec<(Group, usize)> =
        roots.into_iter().map(|root| (grown.group(root, MAX_DEPTH), root)).collect();
    urgent.sort_by_key(|(group, root)| (*group, *root));
    for (_, root) in urgent {
        grown.add(root, "", "", MAX_DEPTH);
    }
    // Those of a circle are below no root.
    for at in shown {
        grown.add(*at, "", "", MAX_DEPTH);
    }
    let items = grown.items;
    if items.is_empty() { Vec::new() } else { titled("Workers and their tasks", items).collect() }
}

/// A tree that grows. What is stored may be a circle.
struct Grown<'a> {
    workers: &'a Workers,
    below: &'a HashMap<usize, Vec<usize>>,
    seen: HashSet<usize>,
    items: Vec<ListRow>,
}

impl Grown<'_> {
    fn children(&self, of: usize, levels: usize) -> &[usize] {
        let found = self.below.get(&of).filter(|_| levels > 0);
        found.map(Vec::as_slice).unwrap_or_default()
    }

    /// The most urgent group of a worker and of all below it.
    fn group(&self, of: usize, levels: usize) -> Group {
        let own = self.workers.rows().get(of).map_or(Group::Done, OverviewRow::group);
        let below = self.children(of, levels).iter().map(|child| self.group(*child, levels - 1));
        below.fold(own, Group::min)
    }

    fn add(&mut self, at: usize, branch: &str, indent: &str, levels: usize) {
        if !self.seen.insert(at) {
            return;
        }
        let need = self.workers.rows().get(at).and_then(|row| (!row.needs.is_empty()).then_some(0));
        self.items.push(ListRow { row: at, need, branch: branch.to_owned() });
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

    use super::super::fixture::{and, asking, event, id, request, running, shop, snapshot, task_of, worker};
    use super::*;

    fn workers(items: Vec<Value>) -> Workers {
        Workers::new(&snapshot(items))
    }

    fn shown(list: &List, workers: &Workers) -> Vec<String> {
        let entry = |entry: &ListEntry| match entry {
            ListEntry::Head(title, count) => format!("{title} {count}"),
            ListEntry::Item(item) => {
                let (row, need) = item.find(workers).unwrap();
                let asked = need.map(|need| format!(" {}", need.request_id)).unwrap_or_default();
                format!("{}{}{asked}", item.branch, row.snapshot.name)
            }
        };
        list.entries(workers).iter().map(entry).collect()
    }

    fn settled(list: &mut List, workers: &Workers) {
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
        list.choose(id(4));
        settled(&mut list, &workers);
        let asked = json!({"requestId": request(7), "title": "sudo"});
        workers.apply(&event(1, 4, "approval.requested", asked));
        settled(&mut list, &workers);
        assert_eq!(list.chosen(), Some(&SelectedRow { worker: id(4), request: Some(request(7)) }));
    }

    #[test]
    fn behind_an_answer_comes_the_next_question_then_the_worker() {
        let (mut list, mut workers) = (List::default(), workers(shop()));
        settled(&mut list, &workers);
        let decided = |number: u32| json!({"requestId": request(number)});
        workers.apply(&event(1, 2, "approval.decided", decided(2)));
        settled(&mut list, &workers);
        assert_eq!(list.chosen().unwrap().request, Some(request(1)));
        workers.apply(&event(2, 1, "approval.decided", decided(1)));
        settled(&mut list, &workers);
        assert_eq!(list.chosen(), Some(&SelectedRow { worker: id(1), request: None }));
    }

    #[test]
    fn keys_walk_over_titles() {
        let (mut list, workers) = (List::default(), workers(shop()));
        let entries = list.entries(&workers);
        list.settle(&entries, &workers);
        let name = |list: &List| list.chosen().unwrap().worker.clone();
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
