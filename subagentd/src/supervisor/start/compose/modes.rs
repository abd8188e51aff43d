//! Ranks session modes by how much an agent asks in them. A task may not run in a mode that asks
//! less than its parent's (M3). Only the agent knows what it does in a mode, so only known names
//! are compared, and anything else is refused.

use subagent_config::agents::Definition;
use subagent_config::start::agent::lacks;
use subagent_protocol::options::Options;
use subagent_protocol::{Code, Error, Result};

use super::parent::mode_of;

/// Mode names in lower case without `-` and `_`, starting with those that ask most.
const MODES: [&[&str]; 5] = [
    // Modes that change nothing or ask about everything.
    &["plan", "readonly", "architect", "ask"],
    // Default modes of agents.
    &["default", "manual", "normal", "build", "code"],
    // Modes that change files of the workspace without asking.
    &["acceptedits", "autoedit", "workspacewrite"],
    // Modes in which the agent, or another model, decides what to ask.
    &["auto", "agent"],
    &["bypasspermissions", "yolo", "fullaccess", "agentfullaccess", "dangerfullaccess"],
];
/// Rank of a session without a chosen mode.
const UNCHOSEN: usize = 1;

fn rank(mode: Option<&str>) -> Option<usize> {
    let Some(mode) = mode else { return Some(UNCHOSEN) };
    let folded: String =
        mode.chars().filter(|char| !matches!(char, '-' | '_')).flat_map(char::to_lowercase).collect();
    MODES.iter().position(|names| names.contains(&folded.as_str()))
}

/// Checks that a session in the mode `wanted` asks at least as much as one in `parents`.
///
/// # Errors
/// The reason if it asks less, or if that is unknown.
fn compare(wanted: Option<&str>, parents: Option<&str>, same_agent: bool) -> Result<(), String> {
    if wanted == parents && (same_agent || wanted.is_none()) {
        return Ok(());
    }
    let shown = |mode: Option<&str>| {
        mode.map_or_else(|| "none that was chosen".to_owned(), |mode| format!("`{mode}`"))
    };
    let (its, that) = (shown(wanted), shown(parents));
    match (rank(wanted), rank(parents)) {
        // No mode asks more than the first row.
        (Some(0), _) => Ok(()),
        (Some(own), Some(parent)) if own <= parent => Ok(()),
        (Some(_), Some(_)) => Err(format!(
            "its session's mode is {its}, in which it would ask less than its parent, whose mode is {that}"
        )),
        _ => Err(format!(
            "its session's mode is {its}, and its parent's is {that}; which of them asks less is not known"
        )),
    }
}

/// Checks that a task's session asks at least as much as its parent's.
///
/// # Errors
/// `AGENT_NOT_USABLE{agent,key,reason,mode,parentMode}`.
pub(crate) fn no_wider(
    definition: Option<&Definition>,
    options: &Options,
    parents: &Options,
    same_agent: bool,
) -> Result<()> {
    let (wanted, parents) = (mode_of(options), mode_of(parents));
    compare(wanted.as_deref(), parents.as_deref(), same_agent).map_err(|reason| {
        let error = match definition {
            Some(definition) => lacks(definition, "permissionMode", reason),
            None => Error::new(Code::AgentNotUsable, reason.clone()).with("reason", reason),
        };
        error
            .with("mode", wanted)
            .with("parentMode", parents)
            .recommend("give the definition a permissionMode that asks as much, for example plan")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn m3_a_mode_in_which_less_is_asked_or_that_cannot_be_compared_is_refused() {
        for (wanted, parents, same, fits) in [
            (None, None, true, true),
            (None, None, false, true),
            (Some("plan"), None, true, true),
            (Some("plan"), Some("bold"), false, true),
            (Some("acceptEdits"), None, true, false),
            (Some("acceptEdits"), Some("acceptEdits"), true, true),
            (Some("auto_edit"), Some("acceptEdits"), false, true),
            (Some("default"), Some("acceptEdits"), true, true),
            (Some("bypassPermissions"), Some("auto"), true, false),
            (Some("read-only"), Some("plan"), false, true),
            (None, Some("plan"), false, false),
            (None, Some("yolo"), false, true),
            (Some("bold"), Some("bold"), true, true),
            (Some("bold"), Some("bold"), false, false),
            (Some("bold"), Some("yolo"), true, false),
            (None, Some("bold"), false, false),
        ] {
            assert_eq!(compare(wanted, parents, same).is_ok(), fits, "{wanted:?} below {parents:?}");
        }
    }

    #[test]
    fn the_table_is_an_order() {
        let all = MODES.concat();
        for one in &all {
            assert_eq!(compare(Some(one), Some(one), false), Ok(()));
            assert_eq!(all.iter().filter(|other| *other == one).count(), 1);
            for other in &all {
                let both =
                    [(one, other), (other, one)].map(|(a, b)| compare(Some(a), Some(b), false).is_ok());
                assert!(both.contains(&true), "one of them asks less: {one}, {other}");
            }
        }
    }
}
