//! `docs/agents.md`: its table must match the results of the suite, and its launchers must work.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::{env, fs};

use subagent_tests::harness::TestSandbox;
use subagent_tests::model_server::ModelServer;
use subagent_tests::real_agent::{AGENTS, RealAgent};

use super::CASES;

/// `1` writes the table instead of comparing it.
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

/// Compares an agent's behavior with its column.
pub(crate) fn compare(agent: &str, found: &[(&str, String)]) {
    // A failed comparison leaves nothing inconsistent here.
    let _one = WRITING.lock().unwrap_or_else(PoisonError::into_inner);
    let text = fs::read_to_string(document()).unwrap();
    let column = 1 + AGENTS.iter().position(|name| *name == agent).unwrap();
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    let mut wrong = Vec::new();
    for (row, cell) in found {
        let place = lines
            .iter_mut()
            .find_map(|line| Some((cells(line)?, line)).filter(|(cells, _)| cells[0] == *row));
        let Some((mut cells, line)) = place else {
            wrong.push(format!(
                "there is no row {row:?}; it needs `| {row}{} |`",
                " | ?".repeat(AGENTS.len())
            ));
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

/// Returns the table's cell of an agent; `None` while the table is rewritten.
pub(crate) fn expected(agent: &str, row: &str) -> Option<String> {
    if env::var_os(UPDATE).is_some_and(|value| value == "1") {
        return None;
    }
    let column = 1 + AGENTS.iter().position(|name| *name == agent)?;
    let text = fs::read_to_string(document()).ok()?;
    rows(&text).into_iter().find(|cells| cells[0] == row)?.get(column).cloned()
}

/// Returns the rows of the table, with their cells.
fn rows(text: &str) -> Vec<Vec<String>> {
    let table = text
        .lines()
        .skip_while(|line| !line.starts_with("| what | "))
        .take_while(|line| line.starts_with('|'));
    // After the head and the line below it.
    table.filter_map(cells).skip(1).collect()
}

/// Returns the blocks of YAML, in order.
fn launchers(text: &str) -> Vec<String> {
    let blocks = text.split("```yaml\n").skip(1);
    blocks.map(|block| block.split("```").next().unwrap().to_owned()).collect()
}

#[test]
fn the_table_has_every_case_and_no_other() {
    let rows = rows(&fs::read_to_string(document()).unwrap());
    let wanted: BTreeSet<&str> =
        CASES.iter().flat_map(|(_, cases)| cases.iter().map(|(row, _)| *row)).collect();
    let found: BTreeSet<&str> = rows.iter().map(|cells| cells[0].as_str()).collect();
    assert_eq!(found, wanted);
    for cells in rows {
        assert_eq!(cells.len(), 1 + AGENTS.len(), "{cells:?}");
        assert!(cells.iter().all(|cell| cell != "?"), "{UPDATE}=1 has to be run: {cells:?}");
    }
}

#[test]
fn each_launcher_in_the_document_works_and_sets_only_what_was_tried() {
    let blocks = launchers(&fs::read_to_string(document()).unwrap());
    assert_eq!(blocks.len(), AGENTS.len());
    let models = ModelServer::start().unwrap();
    let sandbox = TestSandbox::new();
    for (name, block) in AGENTS.into_iter().zip(blocks) {
        let file = sandbox.file(&format!("{name}.yaml"));
        fs::write(&file, &block).unwrap();
        let show = ["launcher", "show", name, "--config", file.to_str().unwrap()];
        let shown = sandbox.run(&show).data_of("launcher.shown");
        if !RealAgent::is_installed(name) {
            continue;
        }
        let agent = RealAgent::new(name, &models);
        for variable in shown["env"].as_object().unwrap().keys() {
            let value =
                agent.env.get(variable).unwrap_or_else(|| panic!("{name} is not driven with {variable}"));
            let lines = [format!("      {variable}: {value}"), format!("      {variable}: \"{value}\"")];
            assert!(
                block.lines().any(|line| lines.iter().any(|wanted| line == wanted)),
                "{name}: {variable}"
            );
        }
    }
    sandbox.finish();
}
