//! The table in `docs/agents.md`: what the suite found must be what stands there.

use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::{env, fs};

use subagent_tests::real_agent::AGENTS;

/// With 1 the table is written instead of compared.
const UPDATE: &str = "UPDATE_AGENTS";
/// Several agents are compared at the same time.
static WRITING: Mutex<()> = Mutex::new(());

fn document() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).with_file_name("docs").join("agents.md")
}

fn cells(line: &str) -> Option<Vec<String>> {
    let inner = line.strip_prefix("| ")?.strip_suffix(" |")?;
    Some(inner.split(" | ").map(str::to_owned).collect())
}

/// Compares what an agent did with its column.
pub(crate) fn compare(agent: &str, found: &[(&str, String)]) {
    let _one = WRITING.lock().unwrap();
    let text = fs::read_to_string(document()).unwrap();
    let column = 1 + AGENTS.iter().position(|name| *name == agent).unwrap();
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    let mut wrong = Vec::new();
    for (row, cell) in found {
        let place = lines.iter_mut().find_map(|line| Some((cells(line)?, line)).filter(|(cells, _)| cells[0] == *row));
        let Some((mut cells, line)) = place else {
            wrong.push(format!("there is no row {row:?}; it needs `| {row}{} |`", " | ?".repeat(AGENTS.len())));
            continue;
        };
        if cells[column] != *cell {
            wrong.push(format!("{row}: the table has {:?}, but it was {cell:?}", cells[column]));
            cells[column].clone_from(cell);
            *line = format!("| {} |", cells.join(" | "));
        }
    }
    if env::var_os(UPDATE).is_some_and(|value| value == "1") {
        return fs::write(document(), lines.join("\n") + "\n").unwrap();
    }
    assert!(wrong.is_empty(), "docs/agents.md, {agent} ({UPDATE}=1 writes it):\n{}", wrong.join("\n"));
}
