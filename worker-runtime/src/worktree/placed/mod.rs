//! A worktree whose worker is on another machine. The one here is a mirror: each operation first
//! exchanges states with the one there, then runs here. Must not change anything that only one side
//! knows.

mod change;
mod exchange;
mod link;
mod state;
pub(super) mod there;

#[cfg(test)]
mod tests;

use subagent_protocol::time::Timestamp;
use subagent_protocol::worktree::{
    AfterLanding, Contents, Operation, PlacedWorktree, Setup, Worktree, WorktreeResult,
};
use subagent_protocol::{Code, Error};

use self::exchange::{Forgotten, WorktreeExchange};
use super::work::OperationContext;
use super::{carried_out, look};

/// Carries out an operation, also on a worktree whose worker is on another machine.
pub(super) fn answer(work: &OperationContext<'_>, operation: Operation) -> Result<WorktreeResult, Error> {
    let placed = |worktree: &Worktree| {
        worktree.placed.clone().map(|placed| (Worktree { placed: None, ..worktree.clone() }, placed))
    };
    let worktree = match &operation {
        Operation::Create { worktree, .. }
        | Operation::Setup { worktree, .. }
        | Operation::Look { worktree }
        | Operation::Remove { worktree }
        | Operation::Discard { worktree, .. }
        | Operation::GiveUp { worktree, .. }
        | Operation::Land { worktree, .. }
        | Operation::Merge { worktree, .. } => worktree,
        _ => return carried_out(work, operation),
    };
    match (placed(worktree), operation) {
        (Some((worktree, placed)), operation) => on_both(work, operation, worktree, &placed),
        // From another machine, whose paths may begin with the home here.
        (None, Operation::Setup { worktree, setup }) => {
            carried_out(work, Operation::Setup { worktree: there::expanded(&worktree)?, setup })
        }
        (None, operation) => carried_out(work, operation),
    }
}

/// Carries out an operation on the mirror and on the worktree there.
fn on_both(
    work: &OperationContext<'_>,
    operation: Operation,
    worktree: Worktree,
    placed: &PlacedWorktree,
) -> Result<WorktreeResult, Error> {
    let mirror = worktree.clone();
    let exchange = WorktreeExchange::new(work, &mirror, placed)?;
    match operation {
        Operation::Create { setup, .. } => {
            let _ = carried_out(work, Operation::Create { worktree, setup: Setup::default() })?;
            exchange.create(&of_there(setup))?;
            Ok(WorktreeResult::Ready)
        }
        Operation::Setup { setup, .. } => {
            let _ = exchange.run()?;
            exchange.ask(&Operation::Setup { worktree: exchange.there(), setup: of_there(setup) })
        }
        Operation::Remove { .. } => remove(work, &exchange, worktree),
        Operation::Discard { time, .. } => discard(work, &exchange, worktree, time),
        Operation::GiveUp { time, .. } => {
            // What an exchange that was killed had fetched is in the mirror then.
            exchange.recover();
            carried_out(work, Operation::Discard { worktree, time })
        }
        Operation::Land { landing, .. } => {
            let (then, time) = (landing.then, landing.time());
            landed(work, &exchange, then, time, Operation::Land { worktree, landing })
        }
        Operation::Merge { landing, .. } => {
            let (then, time) = (landing.then, landing.time());
            landed(work, &exchange, then, time, Operation::Merge { worktree, landing })
        }
        _ => {
            let stays = exchange.run()?;
            Ok(with_those_there(carried_out(work, Operation::Look { worktree })?, stays))
        }
    }
}

/// What of a setup is done there. Files that git does not know are not sent.
fn of_there(setup: Setup) -> Setup {
    Setup { copy: Vec::new(), ..setup }
}

/// Lands or merges the mirror.
fn landed(
    work: &OperationContext<'_>,
    exchange: &WorktreeExchange<'_>,
    then: AfterLanding,
    time: Timestamp,
    operation: Operation,
) -> Result<WorktreeResult, Error> {
    let _ = exchange.run()?;
    if then == AfterLanding::Remove {
        // No worker is there any more, and all that it made is here.
        let _ = exchange.forget(Some(time))?;
        return carried_out(work, operation);
    }
    let landed = carried_out(work, operation);
    // Its worker goes on with what was landed, or committed for a landing that was refused. If this
    // fails, the next operation does it.
    let _ = exchange.run();
    landed
}

/// Removes the worktree there and the mirror, if nothing would be lost with either.
fn remove(
    work: &OperationContext<'_>,
    exchange: &WorktreeExchange<'_>,
    worktree: Worktree,
) -> Result<WorktreeResult, Error> {
    let stays = exchange.run()?;
    let contents = work_in(work, &worktree)?;
    if stays > 0 || !contents.is_clean() {
        return Ok(with_those_there(WorktreeResult::Found(contents), stays));
    }
    match exchange.forget(None)? {
        Forgotten::Stays(contents) => Ok(WorktreeResult::Found(contents)),
        _ => carried_out(work, Operation::Remove { worktree }),
    }
}

/// Discards both sides. Returns the ref here, or the one there if only that side has something to keep.
fn discard(
    work: &OperationContext<'_>,
    exchange: &WorktreeExchange<'_>,
    worktree: Worktree,
    time: Timestamp,
) -> Result<WorktreeResult, Error> {
    match exchange.run() {
        // Each side keeps its own.
        Err(error) if error.code == Code::WorktreeBusy || error.code == Code::WorktreeNotFound => {}
        ran => drop(ran?),
    }
    let there = match exchange.forget(Some(time))? {
        Forgotten::Kept(name) => Some(name),
        _ => None,
    };
    match carried_out(work, Operation::Discard { worktree, time })? {
        WorktreeResult::Discarded(None) => Ok(WorktreeResult::Discarded(there)),
        other => Ok(other),
    }
}

fn work_in(work: &OperationContext<'_>, worktree: &Worktree) -> Result<Contents, Error> {
    super::exclusively(work, "look", worktree, |work| look::look(work, worktree))
}

/// Adds what stays there to the ignored files of the mirror.
fn with_those_there(result: WorktreeResult, stays: u64) -> WorktreeResult {
    match result {
        WorktreeResult::Found(contents) => {
            WorktreeResult::Found(Contents { ignored: contents.ignored.saturating_add(stays), ..contents })
        }
        other => other,
    }
}
