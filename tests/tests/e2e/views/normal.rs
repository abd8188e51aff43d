//! The content of a screen without parts that vary between runs.

use subagent_tests::harness::TestSandbox;

/// The prefixes of ids. Their other characters become zeros, in the same number.
const IDS: &[&str] = &["w_", "turn_", "ap_", "el_", "ev_", "ctl_", "sandbox-", "task_", "hs_"];

/// Returns the content of a screen with ids, times and pids replaced.
pub(in super::super) fn normal(sandbox: &TestSandbox, lines: &[String]) -> String {
    let folder = sandbox.executable("subagent");
    let folder = folder.strip_suffix("/subagent").unwrap_or(&folder);
    let lines = lines.iter().map(|line| one(&line.replace(folder, "/bin")));
    lines.collect::<Vec<_>>().join("\n").trim_end().to_owned()
}

fn one(line: &str) -> String {
    let indent = &line[..line.len() - line.trim_start().len()];
    let mut cells: Vec<String> =
        line.trim().split("  ").map(str::trim).filter(|cell| !cell.is_empty()).map(cell).collect();
    // Whether a built-in agent is installed depends on the machine.
    if cells.len() > 2 && cells[2] == "built-in" {
        cells[1] = "STATE".to_owned();
    }
    format!("{indent}{}", cells.join("  "))
}

fn cell(cell: &str) -> String {
    let cell = cell.split("since ").next().unwrap_or(cell);
    if cell == "just now" || cell.ends_with(" ago") {
        return "AGO".to_owned();
    }
    if cell.starts_with("in ") && cell.ends_with('s') {
        return "IN".to_owned();
    }
    if cell.ends_with(" MB") || cell.ends_with(" kB") {
        return "BYTES".to_owned();
    }
    cell.split(' ').map(word).collect::<Vec<_>>().join(" ")
}

fn word(word: &str) -> String {
    // The position of a cut depends on the width of neighboring times.
    if word.ends_with('…') {
        return "…".to_owned();
    }
    let seconds = word.strip_suffix('s').is_some_and(|number| number.parse::<u32>().is_ok());
    if seconds {
        return "Ns".to_owned();
    }
    let mut word = IDS.iter().fold(word.to_owned(), |word, prefix| without_id(&word, prefix));
    let number = word.trim_end_matches([',', '.', ';']).to_owned();
    if number.len() > 2 && number.chars().all(|c| c.is_ascii_digit()) {
        word = word.replace(&number, "N");
    }
    // Sessions and sockets.
    for part in word.clone().split(|c: char| !c.is_ascii_hexdigit()) {
        if part.len() >= 16 {
            word = word.replace(part, "HEX");
        }
    }
    word
}

/// Returns the word with zeros in the id after this prefix.
fn without_id(word: &str, prefix: &str) -> String {
    let Some(at) = word.find(prefix).map(|at| at + prefix.len()) else { return word.to_owned() };
    let (before, rest) = word.split_at(at);
    let id: String = rest.chars().take_while(char::is_ascii_alphanumeric).collect();
    match id.len() == 10 {
        true => format!("{before}{}{}", "0".repeat(id.len()), &rest[id.len()..]),
        false => word.to_owned(),
    }
}

/// Returns the columns of a line: East Asian characters take two.
pub(super) fn width(line: &str) -> usize {
    let wide = |c: char| matches!(c, '\u{1100}'..='\u{115f}' | '\u{2e80}'..='\u{a4cf}' | '\u{ac00}'..='\u{d7a3}' | '\u{f900}'..='\u{faff}' | '\u{ff00}'..='\u{ff60}');
    line.chars().map(|c| if wide(c) { 2 } else { 1 }).sum()
}
