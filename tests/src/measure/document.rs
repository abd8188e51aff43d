//! A report as text: the tables of `docs/performance.md`, which also suit a terminal.

use std::fmt::Write;

use super::report::{Outcome, Report, Row};

/// The mark before the measured part of the document.
pub const BEGIN: &str =
    "<!-- Measured. What stands below, up to the next mark, is written by `cargo bench`. -->";
/// The mark after the measured part.
pub const END: &str = "<!-- The end of what was measured. -->";

/// Returns the tables of a report.
#[must_use]
pub fn table(report: &Report) -> String {
    let mut text = String::new();
    let about = report.about.iter().map(|(name, value)| vec![name.clone(), value.clone()]);
    lines(&mut text, &["", ""], about.collect());
    text.push_str("\n### Targets\n\n");
    let targets = report.rows.iter().flat_map(targets_of).collect();
    lines(&mut text, &["row", "target", "measured", ""], targets);
    text.push_str("\n### Figures\n\n");
    let figures = report.rows.iter().flat_map(figures_of).collect();
    lines(&mut text, &["row", "what", "runs", "median", "min to max", "p99"], figures);
    let notes: Vec<String> = report.rows.iter().flat_map(notes_of).collect();
    if !notes.is_empty() {
        write!(text, "\n{}\n", notes.join("\n")).unwrap_or_default();
    }
    text
}

fn targets_of(row: &Row) -> Vec<Vec<String>> {
    let line = |target: &super::report::Target| {
        let (measured, verdict) = match &target.outcome {
            Outcome::Met(found) => (found.as_str(), "met"),
            Outcome::Missed(found) => (found.as_str(), "**missed**"),
            Outcome::Unmeasured(why) => (why.as_str(), "not measured"),
        };
        [row.name, &target.wanted, measured, verdict].map(str::to_owned).to_vec()
    };
    row.targets.iter().map(line).collect()
}

fn figures_of(row: &Row) -> Vec<Vec<String>> {
    let line = |figure: &super::report::Figure| {
        let (summary, show) = (figure.summary, |value| figure.unit.show(value));
        let single = summary.count == 1;
        let spread =
            if single { String::new() } else { format!("{} to {}", show(summary.min), show(summary.max)) };
        // With fewer values, the 99th percentile is the maximum.
        let p99 = if summary.count < 100 { String::new() } else { show(summary.p99) };
        vec![
            row.name.to_owned(),
            figure.what.clone(),
            summary.count.to_string(),
            show(summary.median),
            spread,
            p99,
        ]
    };
    row.figures.iter().map(line).collect()
}

fn notes_of(row: &Row) -> Vec<String> {
    row.notes.iter().map(|note| format!("- `{}`: {note}", row.name)).collect()
}

/// Writes a table with columns as wide as their content.
fn lines(text: &mut String, head: &[&str], rows: Vec<Vec<String>>) {
    let head: Vec<String> = head.iter().map(|name| (*name).to_owned()).collect();
    let rows: Vec<Vec<String>> =
        rows.into_iter().map(|row| row.iter().map(|cell| cell.replace('|', "\\|")).collect()).collect();
    let all = || std::iter::once(&head).chain(&rows);
    let wide = |column: usize| {
        all().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max().unwrap_or(0).max(1)
    };
    let widths: Vec<usize> = (0..head.len()).map(wide).collect();
    for (index, row) in all().enumerate() {
        for (cell, width) in row.iter().zip(&widths) {
            // Writing to a string cannot fail.
            write!(text, "| {cell:width$} ").unwrap_or_default();
        }
        text.push_str("|\n");
        if index == 0 {
            for width in &widths {
                write!(text, "|{}", "-".repeat(width + 2)).unwrap_or_default();
            }
            text.push_str("|\n");
        }
    }
}

/// Returns the document with `measured` between its marks; `None` unless both marks exist in order.
#[must_use]
pub fn put(document: &str, measured: &str) -> Option<String> {
    let (before, rest) = document.split_once(BEGIN)?;
    let (_, after) = rest.split_once(END)?;
    Some(format!("{before}{BEGIN}\n\n{}\n\n{END}{after}", measured.trim()))
}

#[cfg(test)]
mod tests {
    use super::super::report::Unit;
    use super::*;

    fn report() -> Report {
        let mut row = Row::new("list", "a command");
        row.figure("ours", Unit::Millis, &[2.0, 1.0, 9.0]);
        row.figure("many", Unit::Count, &[5.0; 100]);
        row.figure("once", Unit::Seconds, &[1.5]);
        row.at_most("at most 3 ms", Unit::Millis, 3.0, 2.0);
        row.at_most("at most 1 ms", Unit::Millis, 1.0, 2.0);
        row.unmeasured("1/25 of the reference", "the reference is not installed");
        row.note("a note");
        Report { about: vec![("kernel".to_owned(), "6.18".to_owned())], rows: vec![row] }
    }

    fn cells(text: &str, line: &str) -> Vec<String> {
        let found = text.lines().find(|found| found.contains(line)).unwrap();
        found.trim_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect()
    }

    #[test]
    fn every_target_is_reported_with_what_became_of_it() {
        let text = table(&report());
        assert_eq!(cells(&text, "at most 3 ms"), ["list", "at most 3 ms", "2.00 ms", "met"]);
        assert_eq!(cells(&text, "at most 1 ms"), ["list", "at most 1 ms", "2.00 ms", "**missed**"]);
        let missing = ["list", "1/25 of the reference", "the reference is not installed", "not measured"];
        assert_eq!(cells(&text, "1/25"), missing);
        assert!(text.contains("- `list`: a note"), "{text}");
        assert_eq!(cells(&text, "kernel"), ["kernel", "6.18"]);
    }

    #[test]
    fn a_spread_is_reported_of_several_and_the_99th_of_many() {
        let text = table(&report());
        assert_eq!(cells(&text, "ours"), ["list", "ours", "3", "2.00 ms", "1.00 ms to 9.00 ms", ""]);
        assert_eq!(cells(&text, "many"), ["list", "many", "100", "5", "5 to 5", "5"]);
        assert_eq!(cells(&text, "once"), ["list", "once", "1", "1.50 s", "", ""]);
    }

    #[test]
    fn all_lines_of_a_table_are_as_long() {
        let text = table(&report());
        let block: Vec<&str> = text.lines().skip_while(|line| !line.contains("row")).collect();
        let block: Vec<usize> =
            block.iter().take_while(|line| line.starts_with('|')).map(|line| line.chars().count()).collect();
        assert!(block.len() > 3 && block.iter().all(|length| *length == block[0]), "{text}");
    }

    #[test]
    fn only_what_stands_between_the_marks_is_replaced() {
        let document = format!("before\n{BEGIN}\nold\n{END}\nafter\n");
        let new = put(&document, "new\n").unwrap();
        assert_eq!(new, format!("before\n{BEGIN}\n\nnew\n\n{END}\nafter\n"));
        assert_eq!(put(&new, "new").unwrap(), new);
        assert_eq!(put("no marks", "new"), None);
        assert_eq!(put(&format!("{END} {BEGIN}"), "new"), None);
    }
}
