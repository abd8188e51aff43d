//! `mcp`: serves tasks to an MCP client.

use crate::args::tasks::Mcp;
use crate::context::Context;
use crate::failure::Result;
use crate::mcp;
use crate::output::Outcome;
use crate::tasks::Wish;

pub(super) fn run(args: Mcp, context: &Context) -> Result<Outcome> {
    let wish = Wish { cwd: args.cwd, config: args.config.config, ..Wish::default() };
    mcp::run(wish, args.prefix, context)
}
