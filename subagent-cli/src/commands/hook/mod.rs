//! `hook`: the hooks that apply, what they say, and which files are trusted.

mod list;
mod test;
mod trust;
pub(crate) mod untrusted;

use clap::Subcommand;
use subagent_config::agents::Catalog;
use subagent_config::start::agent::{given, named};
use subagent_config::start::hooks::{self, HookSource};
use subagent_config::workspace;

use crate::command_line::flags::{ConfigFlag, CwdFlag};
use crate::context::CliContext;
use crate::failure::Result;
use crate::output::CliOutcome;

/// `subagent hook ...`
#[derive(Debug, Subcommand)]
#[command(defer = true)]
pub(crate) enum HookCommand {
    List(list::HookListArgs),
    Test(Box<test::HookTestArgs>),
    Trust(trust::HookTrustArgs),
}

impl HookCommand {
    pub(crate) fn run(self, context: &CliContext) -> Result<CliOutcome> {
        match self {
            Self::List(args) => list::run(&args, context),
            Self::Test(args) => test::run(*args, context),
            Self::Trust(args) => trust::run(&args, context),
        }
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
