//! What was removed.

use subagent_protocol::api::{Pruned, WorkerRemoved};

use super::view::{Named, PageRenderer, called};
use crate::output::style::Style;
use crate::output::table::Table;

pub(super) fn removed(view: &mut PageRenderer, removed: &Named<WorkerRemoved>) {
    let name = called(&removed.name, removed.of.worker_id.as_str());
    view.page.word(Style::Strong, name).plain("  ").word(Style::Dim, "removed").end();
}

pub(super) fn pruned(view: &mut PageRenderer, pruned: &Pruned) {
    let (workers, leftovers) = (&pruned.items, &pruned.leftovers);
    let mut table = Table::new(&["WORKER", "LABEL", "EVENTS", "SIZE", "STOPPED"]);
    for item in workers {
        table.row([
            (Style::Strong, item.worker_id.as_str()),
            (Style::Plain, &item.label),
            (Style::Plain, &item.events.to_string()),
            (Style::Plain, &bytes(item.bytes)),
            (Style::Dim, &view.ago(item.stopped_at)),
        ]);
    }
    if !workers.is_empty() {
        view.put(&table);
        view.page.end();
    }
    for path in leftovers {
        view.page.word(Style::Plain, path).end();
    }
    if !leftovers.is_empty() {
        view.page.end();
    }
    if workers.is_empty() && pruned.keys == 0 && leftovers.is_empty() {
        view.page.plain("Nothing is that old.").end();
        return;
    }
    let said = format!(
        "{} {} with {} ({}), {}, {}.",
        if pruned.dry_run { "Would remove" } else { "Removed" },
        counted(workers.len() as u64, "worker"),
        counted(pruned.events, "event"),
        bytes(pruned.bytes),
        counted(pruned.keys, "key"),
        counted(leftovers.len() as u64, "leftover"),
    );
    view.page.sentence(Style::Plain, "", "", &said).end();
}

pub(super) fn counted(number: u64, what: &str) -> String {
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}

pub(super) fn bytes(number: u64) -> String {
    const UNITS: [&str; 4] = ["kB", "MB", "GB", "TB"];
    if number < 1000 {
        return format!("{number} B");
    }
    let (mut tenths, mut unit) = (number / 100, 0);
    while tenths >= 10_000 && unit + 1 < UNITS.len() {
        tenths /= 1000;
        unit += 1;
    }
    format!("{}.{} {}", tenths / 10, tenths % 10, UNITS[unit])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_a_unit() {
        for (number, shown) in [
            (0, "0 B"),
            (999, "999 B"),
            (1_000, "1.0 kB"),
            (999_999, "999.9 kB"),
            (1_000_000, "1.0 MB"),
            (12_345_678_901, "12.3 GB"),
            (u64::MAX, "18446744.0 TB"),
        ] {
            assert_eq!(bytes(number), shown);
        }
    }
}
