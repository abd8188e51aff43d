//! What was removed.

use serde_json::Value;

use super::view::{PageRenderer, items, named, word};
use crate::output::style::Style;
use crate::output::table::Table;

pub(super) fn removed(view: &mut PageRenderer, data: &Value) -> Option<()> {
    data["workerId"].as_str()?;
    view.page.word(Style::Strong, named(data)).plain("  ").word(Style::Dim, "removed").end();
    Some(())
}

pub(super) fn pruned(view: &mut PageRenderer, data: &Value) -> Option<()> {
    let workers = items(data)?;
    let leftovers = data["leftovers"].as_array()?;
    let mut table = Table::new(&["WORKER", "LABEL", "EVENTS", "SIZE", "STOPPED"]);
    for item in workers {
        let (events, size) = (item["events"].to_string(), bytes(&item["bytes"]));
        let stopped = view.ago(&item["stoppedAt"]);
        table.row([
            (Style::Strong, word(item, "workerId")),
            (Style::Plain, word(item, "label")),
            (Style::Plain, &events),
            (Style::Plain, &size),
            (Style::Dim, &stopped),
        ]);
    }
    if !workers.is_empty() {
        view.put(&table);
        view.page.end();
    }
    for path in leftovers {
        view.page.word(Style::Plain, path.as_str()?).end();
    }
    if !leftovers.is_empty() {
        view.page.end();
    }
    let verb = if data["dryRun"] == true { "Would remove" } else { "Removed" };
    let (count, keys) = (workers.len() as u64, data["keys"].as_u64()?);
    if count == 0 && keys == 0 && leftovers.is_empty() {
        view.page.plain("Nothing is that old.").end();
        return Some(());
    }
    let said = format!(
        "{verb} {} with {} ({}), {}, {}.",
        counted(count, "worker"),
        counted(data["events"].as_u64()?, "event"),
        bytes(&data["bytes"]),
        counted(keys, "key"),
        counted(leftovers.len() as u64, "leftover"),
    );
    view.page.sentence(Style::Plain, "", "", &said).end();
    Some(())
}

pub(super) fn counted(number: u64, what: &str) -> String {
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}

pub(super) fn bytes(value: &Value) -> String {
    const UNITS: [&str; 4] = ["kB", "MB", "GB", "TB"];
    let number = value.as_u64().unwrap_or(0);
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
    use serde_json::json;

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
            assert_eq!(bytes(&json!(number)), shown);
        }
    }
}
