//! `doctor`: looks at everything here and says what to do. Starts no daemon and makes no state dir.

use std::path::Path;

use clap::Args;
use serde_json::json;
use subagent_protocol::Code;
use subagentd::lifecycle::refuse_below_guard;

use crate::command_line::flags::{CwdFlag, JsonFlag};
use crate::context::{CliContext, path_value};
use crate::doctor::{self, ExaminedStateDir, Finding, FindingStatus};
use crate::failure::{Failure, Result};
use crate::output::{CliOutcome, text};

/// Find problems of this installation, and say what to do about them
///
/// It looks at processes, database, journals, versions, permissions, disk, config and the system itself, also without a
/// daemon; it starts none and changes nothing. With --fix it ends processes that no daemon knows, removes sockets and
/// environments without a worker, and makes private what should be. Exits with 0 when no problem is left, else with 1.
/// Outside of a workspace it looks at what does not belong to one, and says how one is made.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  subagent doctor
  subagent doctor --fix --json")]
pub(crate) struct DoctorArgs {
    /// Mend what needs no decision
    #[arg(long)]
    pub(crate) fix: bool,
    #[command(flatten)]
    pub(crate) cwd: CwdFlag,
    #[command(flatten)]
    pub(crate) json: JsonFlag,
}

pub(super) fn run(args: &DoctorArgs, context: &CliContext) -> Result<CliOutcome> {
    let place = place(args.cwd.cwd.as_deref(), context)?;
    if args.fix {
        refuse_below_guard("doctor --fix").map_err(|error| {
            Failure::from(error)
                .recommend("run it without --fix, and tell the person or program that manages this worker")
        })?;
    }
    let state_dir = (!place.outside).then(|| path_value(&place.state_dir));
    let found = doctor::examine(&context.env, args.cwd.cwd.clone(), place, args.fix);
    let count = |status| found.iter().filter(|finding| finding.status == status).count();
    let problems = count(FindingStatus::Problem);
    let data = json!({
        "stateDir": state_dir,
        "healthy": problems == 0,
        "counts": {
            "problem": problems, "warning": count(FindingStatus::Warning),
            "fixed": count(FindingStatus::Fixed), "ok": count(FindingStatus::Ok),
        },
        "findings": found,
    });
    let lines: Vec<String> = found.iter().map(line).collect();
    let code = u8::from(problems > 0);
    Ok(CliOutcome::Judged { kind: "doctor.report", data, text: lines.join("\n"), code })
}

/// Everything that is found without changing anything.
pub(crate) fn findings(cwd: Option<&Path>, context: &CliContext) -> Result<Vec<Finding>> {
    let place = place(cwd, context)?;
    Ok(doctor::examine(&context.env, cwd.map(Path::to_owned), place, false))
}

/// Where to look. Outside of a workspace there is much to look at, too: it is the first command of many.
fn place(cwd: Option<&Path>, context: &CliContext) -> Result<ExaminedStateDir> {
    match context.workspace(cwd) {
        Ok(found) => Ok(ExaminedStateDir { state_dir: found.state_dir, outside: false }),
        Err(failure) if failure.is(Code::WorkspaceRootNotFound) => {
            let here = context.workspace(Some(&context.env.cwd))?;
            Ok(ExaminedStateDir { state_dir: here.state_dir, outside: true })
        }
        Err(failure) => Err(failure),
    }
}

/// A line for a script: status, id, what was seen, what to do.
pub(crate) fn line(finding: &Finding) -> String {
    let Finding { id, status, seen, action, .. } = finding;
    let item = json!({"id": id, "status": status, "seen": seen, "action": action});
    text::rows(&json!({"items": [item]}), &["status", "id", "seen", "action"], "").trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::doctor::CheckedPart;
    use crate::output::json as one_line;

    #[test]
    fn a_finding_is_one_line_and_its_json_names_everything() {
        let finding = Finding::problem(CheckedPart::Disk, "disk.stateDir", "a\nb").advise("`c`");
        assert_eq!(line(&finding), "problem\tdisk.stateDir\ta b\t`c`");
        assert_eq!(line(&Finding::ok(CheckedPart::Disk, "disk.stateDir", "x")), "ok\tdisk.stateDir\tx");
        let json: Value = serde_json::to_value(&finding).unwrap_or_default();
        assert_eq!(
            one_line::line(json),
            r#"{"action": "`c`", "group": "disk", "id": "disk.stateDir", "seen": "a\nb", "status": "problem"}"#
        );
    }
}
