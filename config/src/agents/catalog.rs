//! Collects all agent definitions of a workspace and decides which one a name selects.

use std::path::{Path, PathBuf};

use serde_json::Value;

use super::folder::{self, ScannedFile};
use super::problem::DefinitionProblem;
use super::read::of_entry;
use super::{AgentMode, Definition, DefinitionSource, Reading, builtin, read, skills};
use crate::environment::Environment;
use crate::memory::Folder;

/// The value of `--agents`: a JSON object from names to definitions.
#[derive(Debug, Clone, Default)]
pub struct GivenAgents(Vec<(String, Value)>);

impl GivenAgents {
    /// # Errors
    /// The reason why the text is rejected: too long, not JSON, or not an object.
    pub fn parse(text: &str) -> Result<Self, String> {
        if text.len() > super::MAX_BYTES {
            return Err(format!("is longer than {} bytes", super::MAX_BYTES));
        }
        let document = crate::syntax::parse_json_strictly(text).map_err(|found| found.problem)?;
        match document {
            Value::Object(entries) => Ok(Self(entries.into_iter().collect())),
            _ => Err("must be an object of names and definitions".to_owned()),
        }
    }
}

/// A definition that another definition of the same name hides.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShadowedDefinition {
    /// The name as written in the hidden definition.
    pub name: String,
    /// The origin of the hidden definition.
    pub source: DefinitionSource,
}

/// A definition that its name selects.
#[derive(Debug, Clone, PartialEq)]
pub struct CatalogEntry {
    /// The selected definition itself.
    pub definition: Definition,
    /// The definitions that this one hides.
    pub hides: Vec<ShadowedDefinition>,
    /// Index into [`Catalog::refused`] of the unreadable file that precedes this definition under the same
    /// name. That file makes the name unusable.
    pub behind: Option<usize>,
}

/// A file that may be a definition and cannot be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnreadableDefinition {
    /// The name that the definition would have.
    pub name: String,
    /// The origin of the file.
    pub source: DefinitionSource,
    /// The reason for the refusal.
    pub problem: DefinitionProblem,
}

/// All definitions that a caller in one workspace can name.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Catalog {
    /// The effective definitions, sorted by name; case is ignored.
    pub found: Vec<CatalogEntry>,
    /// The files that cannot be read, in order of precedence.
    pub refused: Vec<UnreadableDefinition>,
    /// Problems of folders, and of files that are not definitions.
    pub others: Vec<(DefinitionSource, DefinitionProblem)>,
}

impl Catalog {
    /// Searches `--agents`, the workspace, the user's folders and the built-in definitions, in this order.
    #[must_use]
    pub fn find(given: &GivenAgents, workspace: &Path, env: &Environment) -> Self {
        let mut catalog = Self::default();
        for (name, entry) in &given.0 {
            catalog.add(name, DefinitionSource::Command, of_entry(name, entry, DefinitionSource::Command));
        }
        let own = [workspace.join(".agents/agents"), workspace.join(".agents/subagents")];
        let mut project: Vec<PathBuf> = own.into_iter().filter(|folder| folder.is_dir()).collect();
        if project.is_empty() {
            project.push(workspace.join(".claude/agents"));
        }
        for folder in project {
            catalog.add_folder(&folder, DefinitionSource::Project);
        }
        for folder in env
            .home
            .iter()
            .flat_map(|home| [home.join(".config/subagent/agents"), home.join(".claude/agents")])
        {
            // The home is already searched if it is the workspace.
            if !catalog.knows_folder(&folder) {
                catalog.add_folder(&folder, DefinitionSource::User);
            }
        }
        for definition in builtin::all() {
            catalog.place(definition);
        }
        catalog.found.sort_by_key(|found| folded(&found.definition.name));
        catalog
    }

    /// The agents that accept tasks, by name.
    pub fn callable(&self) -> impl Iterator<Item = &Definition> {
        let found = self.found.iter().filter(|found| found.behind.is_none()).map(|found| &found.definition);
        found.filter(|definition| definition.mode != AgentMode::Primary && definition.refusals.is_empty())
    }

    /// Reads the named files and folders without any search. Serves `agent validate`.
    #[must_use]
    pub fn of_paths(paths: &[PathBuf]) -> Self {
        let mut catalog = Self::default();
        for path in paths {
            if path.is_dir() {
                catalog.add_folder(path, DefinitionSource::Project);
            } else {
                catalog.add_file(folder::of_path(path.clone()), DefinitionSource::Project);
            }
        }
        catalog.found.sort_by_key(|found| folded(&found.definition.name));
        catalog
    }

    /// Records missing skills, unreadable skills and unreadable memory of all definitions, as a start
    /// would.
    pub fn look_at_files(&mut self, workspace: &Path, env: &Environment) {
        for definition in self.found.iter_mut().map(|found| &mut found.definition) {
            if let Err(reason) = skills::load(definition, workspace, env) {
                definition.refusals.push(DefinitionProblem::error(reason).of_key("skills"));
            }
            let Some(memory) = definition.memory else { continue };
            let folder = Folder::of(memory.scope, &definition.name, workspace, env);
            if let Err(reason) = folder.and_then(|folder| folder.notes(memory.lines)) {
                definition.refusals.push(DefinitionProblem::error(reason).of_key("memory"));
            }
        }
    }

    /// Returns the definition with this name; case is ignored. An unreadable file blocks the definitions
    /// that it would hide. Otherwise another agent would run with other rules.
    ///
    /// # Errors
    /// The unreadable file, or `None` if no agent has this name.
    pub fn named(&self, name: &str) -> Result<&CatalogEntry, Option<&UnreadableDefinition>> {
        let wanted = folded(name);
        match self.found.iter().find(|found| folded(&found.definition.name) == wanted) {
            Some(CatalogEntry { behind: Some(file), .. }) => Err(self.refused.get(*file)),
            Some(found) => Ok(found),
            None => Err(self.refused_as(&wanted).and_then(|file| self.refused.get(file))),
        }
    }

    fn refused_as(&self, wanted: &str) -> Option<usize> {
        self.refused.iter().position(|refused| folded(&refused.name) == wanted)
    }

    /// The names of the effective definitions.
    #[must_use]
    pub fn names(&self) -> Vec<String> {
        self.found.iter().map(|found| found.definition.name.clone()).collect()
    }

    fn knows_folder(&self, folder: &Path) -> bool {
        let is_in = |source: &DefinitionSource| source.path().and_then(|path| path.parent()) == Some(folder);
        self.found.iter().any(|found| is_in(&found.definition.source))
            || self.refused.iter().any(|refused| is_in(&refused.source))
    }

    fn add_folder(&mut self, folder: &Path, source: fn(PathBuf) -> DefinitionSource) {
        for read in folder::files(folder, &mut self.others, source) {
            self.add_file(read, source);
        }
    }

    fn add_file(&mut self, file: ScannedFile, source: fn(PathBuf) -> DefinitionSource) {
        let from = source(file.path);
        let reading = file.bytes.and_then(|bytes| read(&bytes, &file.stem, from.clone()));
        self.add(&file.stem, from, reading);
    }

    fn add(&mut self, name: &str, source: DefinitionSource, reading: Result<Reading, DefinitionProblem>) {
        match reading {
            Ok(Reading::Definition(definition)) => self.place(*definition),
            Ok(Reading::Other(note)) => self.others.push((source, note)),
            Err(problem) => {
                let name = problem.agent.clone().unwrap_or_else(|| name.to_owned());
                self.refused.push(UnreadableDefinition { name, source, problem });
            }
        }
    }

    /// Adds a definition. Callers add definitions and refused files in order of precedence.
    fn place(&mut self, definition: Definition) {
        let wanted = folded(&definition.name);
        match self.found.iter_mut().find(|found| folded(&found.definition.name) == wanted) {
            Some(found) => {
                let first = &found.definition;
                if first.source.level() == definition.source.level() {
                    let what = format!(
                        "{} has the name `{}` as well; it is not used",
                        definition.source.text(),
                        definition.name
                    );
                    found.definition.notes.push(DefinitionProblem::note(what));
                }
                found.hides.push(ShadowedDefinition { name: definition.name, source: definition.source });
            }
            None => {
                let behind = self.refused_as(&wanted);
                self.found.push(CatalogEntry { definition, hides: Vec::new(), behind });
            }
        }
    }
}

/// Names that differ only in case are the same name.
fn folded(name: &str) -> String {
    name.to_lowercase()
}
