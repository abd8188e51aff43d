//! The stream of a placed runtime, from its worker's actor.

use std::io;

use subagent_protocol::state::Desired;

use crate::supervisor::runtimes::link::RuntimeConnection;
use crate::supervisor::runtimes::place::{DialPosition, RuntimePlace};
use crate::supervisor::worker::actor::Actor;

fn position(actor: &Actor) -> DialPosition {
    DialPosition {
        cursor: actor.journal.cursor,
        generation: actor.shared.generation(),
        incarnation: actor.runtime.incarnation,
    }
}

/// Opens a stream with a connection to the runtime. `dial` connects in the background.
pub(super) fn connect(actor: &mut Actor, desired: Desired) -> io::Result<RuntimeConnection> {
    let (at, process) = (position(actor), actor.runtime.stored_process);
    let RuntimePlace::Placed(placed) = &mut actor.runtime.place else {
        return Err(io::Error::other("the worker is not placed"));
    };
    let (link, exit) = placed.connect(at, desired, process)?;
    if let Some(runtime) = &mut actor.runtime.live {
        runtime.exit = Some(exit);
    }
    Ok(link)
}

/// Returns whether no process of the agent is left, as far as is proved.
pub(super) fn is_guard_gone(actor: &mut Actor) -> bool {
    let at = position(actor);
    match &mut actor.runtime.place {
        RuntimePlace::Local => false,
        RuntimePlace::Placed(placed) => placed.is_guard_gone(at),
    }
}
