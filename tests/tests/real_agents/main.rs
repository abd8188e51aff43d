//! The real agents through the whole product, with a local model server. Clearly reported as
//! skipped where they are not installed; `SUBAGENT_REQUIRE_REAL_AGENTS=1` makes that a failure.

// Every case runs with every agent. Common behavior is asserted in the case. Differing behavior is
// the case's return value, which is compared with the table in `docs/agents.md`; `UPDATE_AGENTS=1`
// rewrites the table. A new case is a function in one of the modules and a line in [`CASES`]; a
// new agent goes into `subagent_tests::real_agent`.

#![allow(clippy::unwrap_used, clippy::panic, reason = "all of this is a test")]

mod choices;
mod clients;
mod crew;
mod definition_rules;
mod delegation;
mod example;
mod files;
mod hooks;
mod lives;
mod parking;
mod rules;
mod story;
mod table;
mod turns;
mod worktrees;
mod world;

use subagent_testkit::times;
use subagent_tests::harness::crowd;
use subagent_tests::real_agent::{AGENTS, RealAgent};

use world::RealAgentWorld;

/// Agents mostly wait: four at once keep two cores busy.
const AT_ONCE: usize = 4;

/// Its start takes 8 s. Some parts run only if `SUBAGENT_FAULTS` requests a long run.
const SLOW: &str = "openhands";

/// The name of its row in the table, and its function, which returns the agent's cell.
type RealAgentCase = (&'static str, fn(&RealAgentWorld) -> String);

/// The cases of each agent; those of one part share a worker, one after another.
const CASES: [(&str, &[RealAgentCase]); 3] = [
    (
        "lives",
        &[
            ("five turns in a row", lives::five_turns),
            ("two workers at once", lives::two_workers),
            ("the daemon is killed in a turn", lives::daemon_killed),
            ("runtime and agent are killed", lives::all_killed),
            ("`session list`", lives::listed),
            ("`worker start --resume`", lives::taken_up),
            ("`session delete`", lives::deleted),
            ("hibernation", lives::hibernates),
        ],
    ),
    (
        "choices",
        &[
            ("`launcher probe --handshake`", choices::handshake),
            ("told after a turn", choices::usage),
            ("a text attached", files::text_attached),
            ("an image attached", files::image_attached),
            ("files through the client", files::through_client),
            ("a file outside of the workspace", files::outside),
            ("commands through the client", files::commands),
            ("mode and model at the start", choices::at_start),
            ("mode and model while it is idle", choices::idle),
            ("a mode or model that there is not", choices::unknown),
            ("a mode or model that there is not, at the start", choices::unknown_at_start),
            ("a mode while it works", choices::in_turn),
        ],
    ),
    (
        "turns",
        &[
            ("version", RealAgentWorld::version),
            ("a text turn", turns::text),
            ("a shell command, allowed", turns::command_allowed),
            ("a shell command, denied", turns::command_denied),
            ("an edit, allowed", turns::edit_allowed),
            ("an edit, denied", turns::edit_denied),
            ("a tool of an MCP server", turns::mcp),
            ("a permission request for a command says", rules::command),
            ("a permission request for an edit says", rules::edited),
            ("a permission request for a tool of an MCP server says", rules::mcp),
            ("the tool `echo` of an MCP server `echo` is called", rules::mcp_name),
            ("its own tools that a rule for all tools of a server asks about", rules::taken_for_mcp),
            ("a denied command is reported as", rules::denied),
            ("a command that a rule denies", rules::denied_by_rule),
            ("cancel during text", turns::cancel_text),
            ("cancel with an open permission request", turns::cancel_question),
            ("cancel during a command", turns::cancel_command),
            ("the provider answers 400", turns::bad_request),
            ("the provider answers 429", turns::too_many),
            ("the provider answers 500", turns::server_error),
            ("the stream breaks off", turns::cut),
            // The last: an agent may print nothing more after a cancel here.
            ("a subagent of the agent asks", turns::subagent_asks),
        ],
    ),
];

#[test]
fn every_case_with_every_agent() {
    let installed: Vec<_> = AGENTS.into_iter().filter(|agent| RealAgent::is_installed(agent)).collect();
    // The slowest first, so that nothing waits for it alone.
    let cases: Vec<_> = installed
        .iter()
        .rev()
        .flat_map(|agent| CASES.iter().map(move |part| (*agent, part)))
        .filter(|(agent, (part, _))| *agent != SLOW || *part == "turns" || times(1) > 1)
        .collect();
    crowd(
        "real agents",
        AT_ONCE,
        &cases,
        |(agent, (part, _))| format!("{agent}.{part}"),
        |(agent, (_, rows))| {
            let world = RealAgentWorld::new(agent);
            let cells: Vec<_> = rows.iter().map(|(row, case)| (*row, world.case(row, *case))).collect();
            world.finish();
            table::compare(agent, &cells);
        },
    );
}
