//! `hook test`: what the hooks of an event say.

use crate::args::hooks::HookTest;
use crate::context::Context;
use crate::failure::{Failure, Result};
use crate::output::Outcome;

pub(super) fn run(args: HookTest, _: &Context) -> Result<Outcome> {
    Err(Failure::internal(format!("not yet: {}", args.event)))
}
