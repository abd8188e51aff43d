//! `hook`: the hooks that apply, what they say, and which files are trusted.

mod list;
mod test;
mod trust;
pub(super) mod untrusted;

use subagent_config::agents::Catalog;
use subagent_config::start::agent::{given, named};
use subagent_config::start::hooks::{self, HookSource};
use subagent_config::workspace;

use crate::args::hooks::HookCommand;
use crate::args::{ConfigFlag, CwdFlag};
use crate::context::CliContext;
use crate::failure::Result;
use crate::output::CliOutcome;

pub(crate) fn run(command: HookCommand, context: &CliContext) -> Result<CliOutcome> {
    match command {
        HookCommand::List(args) => list::run(&args, context),
        HookCommand::Test(args) => test::run(*args, context),
        HookCommand::Trust(args) => trust::run(&args, context),
    }
}

/// The hooks of files that apply in a place; with the name of the agent for those of definitions.
fn of_place(
    config: &ConfigFlag,
    cwd: &CwdFlag,
    agent: DefinitionFilter<'_>,
    context: &CliContext,
) -> Result<Vec<(HookSource, Option<String>)>> {
    let loaded = context.config(config.config.as_deref(), cwd.cwd.as_deref())?;
    let folder = workspace::resolve_cwd(cwd.cwd.as_deref(), &context.env)?;
    let root =
        context.workspace(cwd.cwd.as_deref()).map_or_else(|_| folder.clone(), |workspace| workspace.root);
    let files = hooks::of_files(&loaded, &[&root, &folder], &context.env)?;
    let mut found: Vec<(HookSource, Option<String>)> =
        files.into_iter().map(|origin| (origin, None)).collect();
    let catalog = Catalog::find(&given(None)?, &root, &context.env);
    let definitions = match agent {
        DefinitionFilter::None => Vec::new(),
        DefinitionFilter::All => catalog.found.iter().collect(),
        DefinitionFilter::Named(name) => vec![named(&catalog, name)?],
    };
    found.extend(
        definitions
            .into_iter()
            .map(|found| (hooks::of_definition(&found.definition), Some(found.definition.name.clone()))),
    );
    found.retain(|(origin, _)| !origin.hooks.entries.is_empty());
    Ok(found)
}

/// Which definitions are looked at.
#[derive(Clone, Copy)]
enum DefinitionFilter<'a> {
    None,
    All,
    Named(&'a str),
}
