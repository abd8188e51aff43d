//! Parses a file or an entry of `--agents` into a [`Definition`]. Pure.

use serde_json::{Map, Value};
use subagent_protocol::sandbox::FileSystem;

use super::front::{self, DefinitionFile};
use super::keys::KeyPositions;
use super::lists;
use super::problem::DefinitionProblem;
use super::{AgentMode, Definition, DefinitionSource, MAX_BYTES, MAX_NAME_CHARS, McpServerRef, is_name};
use crate::check::{CheckResult, LONGEST_SECONDS, Violation, mapping, mismatch, refuse};
use crate::error::FieldPath;
use crate::hooks;
use crate::mcp;
use crate::memory::{DEFAULT_LINES, MAX_LINES, MemorySettings, Scope};
use crate::policy::{self, Rule, RuleAction};
use crate::result_schema::ResultSchema;
use crate::sandbox::{self, Profile};
use crate::section::Section;
use crate::worktrees::{self, Isolation};

/// Maximum value of `maxSteps`.
const MAX_STEPS: u64 = 1_000_000;

/// The result of reading a file.
#[derive(Debug)]
pub enum Reading {
    /// A definition of an agent.
    Definition(Box<Definition>),
    /// Another file, with the reason for this decision.
    Other(DefinitionProblem),
}

/// Reads a file; `stem` is its name without the extension.
///
/// # Errors
/// The problem and its position.
pub fn read(bytes: &[u8], stem: &str, source: DefinitionSource) -> Result<Reading, DefinitionProblem> {
    let DefinitionFile { document, keys, body, note } = front::split(bytes)?;
    let mut reading = of_document(&document, &keys, stem, &body, source)?;
    hash_hooks(&mut reading, bytes);
    if let (Reading::Definition(definition), Some(note)) = (&mut reading, note) {
        definition.notes.push(note);
    }
    Ok(reading)
}

/// Reads an entry of `--agents`. Its `prompt` is the body.
pub(super) fn of_entry(
    name: &str,
    entry: &Value,
    source: DefinitionSource,
) -> Result<Reading, DefinitionProblem> {
    let body = match &entry["prompt"] {
        Value::Null => String::new(),
        Value::String(prompt) => prompt.clone(),
        _ => return Err(DefinitionProblem::error("`prompt` must be a string").of_key("prompt")),
    };
    if body.len() > MAX_BYTES {
        return Err(DefinitionProblem::error(format!(
            "its prompt is larger than {MAX_BYTES} bytes; shorten it"
        )));
    }
    let mut entry = entry.clone();
    if let Some(object) = entry.as_object_mut() {
        object.remove("prompt");
    }
    let text = entry.to_string();
    let mut reading = of_document(&entry, &KeyPositions::default(), name, &body, source)?;
    hash_hooks(&mut reading, text.as_bytes());
    Ok(reading)
}

/// The user trusts hooks by the hash of the whole file.
fn hash_hooks(reading: &mut Reading, bytes: &[u8]) {
    if let Reading::Definition(definition) = reading
        && !definition.hooks.entries.is_empty()
    {
        definition.hooks.sha256 = hooks::content_hash(bytes);
    }
}

fn of_document(
    document: &Value,
    keys: &KeyPositions,
    stem: &str,
    body: &str,
    source: DefinitionSource,
) -> Result<Reading, DefinitionProblem> {
    let located = |found: Violation| {
        let place = renamed(found.place);
        let key = key_of(&place).to_owned();
        let agent = document.as_object().and_then(|front| name(&Section::root(front), stem).ok());
        DefinitionProblem::error(format!("{place} {}", found.problem))
            .at(keys.of_place(&place))
            .of_key(&key)
            .of_agent(agent)
    };
    let empty = Map::new();
    let front = &Section::root(match document {
        Value::Null => &empty,
        other => mapping(other, || "front matter".to_owned()).map_err(located)?,
    });
    let description = front.text("description").map_err(located)?;
    let Some(description) = description else {
        return Ok(Reading::Other(DefinitionProblem::note(
            "has no `description` and is not taken for an agent",
        )));
    };
    if let Some(key) = DISABLES.iter().find(|key| front.value(key) == Some(&Value::Bool(true))) {
        let note = DefinitionProblem::note(format!("is disabled (`{key}: true`)"));
        return Ok(Reading::Other(note.at(keys.of(&[*key]))));
    }
    definition(front, keys, stem, description, source)
        .map(|definition| {
            let mut definition = Definition { prompt: body.trim().to_owned(), ..definition };
            if definition.prompt.is_empty() && front.value("prompt").is_some() {
                let what = "the prompt is the text below the front matter, not `prompt`; write it there";
                definition
                    .refusals
                    .push(DefinitionProblem::error(what).at(keys.of(&["prompt"])).of_key("prompt"));
            } else if definition.prompt.is_empty() {
                definition.notes.push(DefinitionProblem::note("has no prompt below its front matter"));
            }
            Reading::Definition(Box::new(definition))
        })
        .map_err(located)
}

/// Translates the config key `permissions` in a place to the definition's `permission`.
fn renamed(place: FieldPath) -> FieldPath {
    place.map(|text| match text.strip_prefix("permissions") {
        Some(rest) if rest.is_empty() || rest.starts_with('.') => format!("permission{rest}"),
        _ => text,
    })
}

fn key_of(place: &FieldPath) -> &str {
    match place {
        FieldPath::Field(field) | FieldPath::Element { field, .. } | FieldPath::Entry { field, .. } => {
            field.split('.').next().unwrap_or_default()
        }
        _ => "",
    }
}

/// The keys with a meaning. All others are kept as unknown.
const KNOWN: &[&str] = &[
    "name",
    "description",
    "mode",
    "launcher",
    "placement",
    "model",
    "permission",
    "tools",
    "disallowedTools",
    "permissionMode",
    "maxSteps",
    "maxTurns",
    "steps",
    "timeoutSeconds",
    "preApproved",
    "skills",
    "mcpServers",
    "hooks",
    "memory",
    "memoryLines",
    "background",
    "isolation",
    "filesystem",
    "sandbox",
    "writeBack",
    "inspectable",
    "caller",
    "resultSchema",
    "resultMaxTokens",
    "disable",
    "disabled",
];

/// Keys of several products for the maximum number of steps. The first present key counts.
const STEPS: [&str; 3] = ["maxSteps", "maxTurns", "steps"];

/// Keys that disable a file.
const DISABLES: [&str; 2] = ["disable", "disabled"];

/// The keys that limit an agent.
const LIMITS: &[&str] = &[
    "permission",
    "tools",
    "disallowedTools",
    "permissionMode",
    "isolation",
    "filesystem",
    "sandbox",
    "writeBack",
    "hooks",
];

/// Returns the limiting key that a misspelled key resembles. An agent must not run without a limit that its
/// author believes to be set.
fn limit(key: &str) -> Option<&'static str> {
    let plain = |key: &str| key.to_lowercase().replace(['-', '_', ' '], "").trim_end_matches('s').to_owned();
    let wanted = plain(key);
    LIMITS.iter().copied().find(|limit| plain(limit) == wanted)
}

fn definition(
    front: &Section<'_>,
    keys: &KeyPositions,
    stem: &str,
    description: String,
    source: DefinitionSource,
) -> CheckResult<Definition> {
    let (mut refusals, mut notes) = (Vec::new(), Vec::new());
    let rules = rules(front, keys, &mut refusals, &mut notes)?;
    let mut listed = Vec::new();
    for name in &lists::tools(front.value("tools"))?.only {
        match lists::rule(name, RuleAction::Allow) {
            Ok(rule) => listed.push(rule.at(keys.of(&["tools"]))),
            Err(problem) => return refuse(FieldPath::Field("tools".to_owned()), problem),
        }
    }
    notes.extend(notes_of(&listed, "tools", keys));
    let hooks = hooks::of_definition(front.given, keys)?;
    notes.extend(hooks.ignored.iter().map(|ignored| {
        let what = format!("`{}` is not carried out: {}", ignored.key, ignored.reason);
        DefinitionProblem::note(what).at(ignored.at).of_key("hooks")
    }));
    let required_servers = required_servers(front);
    if !required_servers.is_empty() {
        let what = "only the agent knows whether a server starts: `required` is not enforced";
        notes.push(DefinitionProblem::note(what).at(keys.of(&["mcpServers"])).of_key("mcpServers"));
    }
    let (isolation, sandbox) = (worktrees::isolation(front)?, sandbox(front)?);
    let has_own_files = isolation.is_some_and(|isolation| isolation != Isolation::None)
        || sandbox.filesystem == Some(FileSystem::Isolated);
    let (write_back, note) = write_back(front, has_own_files)?;
    notes.extend(note.map(|note| note.at(keys.of(&["writeBack"])).of_key("writeBack")));
    let unknown: Map<String, Value> = front
        .given
        .iter()
        .filter(|(key, _)| !KNOWN.contains(&key.as_str()))
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect();
    for key in unknown.keys() {
        let (list, problem) = match limit(key) {
            Some(meant) => {
                let what = format!(
                    "`{key}` means nothing here, and `{meant}` limits what an agent may do; write that"
                );
                (&mut refusals, DefinitionProblem::error(what))
            }
            None => (&mut notes, DefinitionProblem::note(format!("`{key}` means nothing here and is kept"))),
        };
        list.push(problem.at(keys.of(&[key])).of_key(key));
    }
    Ok(Definition {
        name: name(front, stem)?,
        description,
        source,
        mode: mode(front)?,
        launcher: front.text("launcher")?,
        placement: front.text("placement")?,
        model: front.text("model")?.filter(|model| model != "inherit"),
        rules,
        tools: listed,
        permission_mode: front.text("permissionMode")?,
        max_steps: max_steps(front)?,
        timeout_seconds: seconds(front, "timeoutSeconds")?,
        pre_approved: pre_approved(front, keys)?,
        skills: lists::names(front.value("skills"), "skills")?,
        memory: memory(front)?,
        mcp_servers: mcp_servers(front)?,
        required_servers,
        background: front.flag("background")?.unwrap_or(false),
        inspectable: front.flag("inspectable")?.unwrap_or(true),
        caller_is_agent: word(front, "caller", &["agent", "user"])?.as_deref() == Some("agent"),
        result_schema: schema(front)?,
        result_max_tokens: whole(front, "resultMaxTokens", 1..=MAX_STEPS)?,
        hooks,
        write_back,
        isolation,
        sandbox,
        unknown,
        prompt: String::new(),
        refusals,
        notes,
    })
}

fn name(front: &Section<'_>, stem: &str) -> CheckResult<String> {
    let name = front.text("name")?.unwrap_or_else(|| stem.to_owned());
    if !is_name(&name) {
        let what = format!("must be 1 to {MAX_NAME_CHARS} letters, digits and `-`, not `{name}`");
        return refuse(FieldPath::Field("name".to_owned()), what);
    }
    Ok(name)
}

fn word(front: &Section<'_>, key: &str, words: &[&str]) -> CheckResult<Option<String>> {
    match front.text(key)? {
        Some(word) if !words.contains(&word.as_str()) => {
            refuse(FieldPath::Field(key.to_owned()), format!("must be {}, not `{word}`", words.join(", ")))
        }
        word => Ok(word),
    }
}

fn mode(front: &Section<'_>) -> CheckResult<AgentMode> {
    let word = word(front, "mode", &AgentMode::ALL.map(AgentMode::as_str))?;
    Ok(AgentMode::ALL.into_iter().find(|mode| Some(mode.as_str()) == word.as_deref()).unwrap_or_default())
}

fn max_steps(front: &Section<'_>) -> CheckResult<Option<u64>> {
    let mut all = STEPS.iter().map(|key| whole(front, key, 1..=MAX_STEPS));
    // Every key is checked, so an invalid one is an error even if another one counts.
    all.try_fold(None, |first, steps| Ok(first.or(steps?)))
}

fn whole(front: &Section<'_>, key: &str, range: std::ops::RangeInclusive<u64>) -> CheckResult<Option<u64>> {
    let place = || FieldPath::Field(key.to_owned());
    match front.value(key) {
        None => Ok(None),
        Some(Value::Number(number)) => match number.as_u64().filter(|number| range.contains(number)) {
            Some(number) => Ok(Some(number)),
            None => refuse(place(), format!("must be a whole number, {} to {}", range.start(), range.end())),
        },
        Some(other) => mismatch(place(), "a whole number", other),
    }
}

/// Reads a number of seconds. Zero means unlimited.
fn seconds(front: &Section<'_>, key: &str) -> CheckResult<Option<f64>> {
    let place = || FieldPath::Field(key.to_owned());
    match front.value(key) {
        None => Ok(None),
        Some(Value::Number(number)) => match number.as_f64() {
            Some(seconds) if (0.0..=LONGEST_SECONDS).contains(&seconds) => Ok(Some(seconds)),
            _ => refuse(place(), "must be seconds, 0 (no limit) to a year"),
        },
        Some(other) => mismatch(place(), "a number of seconds", other),
    }
}

fn schema(front: &Section<'_>) -> CheckResult<Option<Value>> {
    match front.value("resultSchema") {
        None => Ok(None),
        Some(schema @ (Value::Object(_) | Value::Bool(_))) => match ResultSchema::bounded(schema) {
            Ok(_) => Ok(Some(schema.clone())),
            Err(problem) => refuse(FieldPath::Field("resultSchema".to_owned()), problem.to_string()),
        },
        Some(other) => mismatch(FieldPath::Field("resultSchema".to_owned()), "a JSON Schema", other),
    }
}

fn memory(front: &Section<'_>) -> CheckResult<Option<MemorySettings>> {
    const NONE: &str = "none";
    let lines = whole(front, "memoryLines", 1..=MAX_LINES)?.unwrap_or(DEFAULT_LINES);
    if front.value("memory") == Some(&Value::Bool(false)) {
        return Ok(None);
    }
    let [user, project, local] = Scope::ALL.map(Scope::as_str);
    let scope = word(front, "memory", &[user, project, local, NONE])?;
    Ok(scope.and_then(|scope| Scope::parse(&scope)).map(|scope| MemorySettings { scope, lines }))
}

/// Combines the limits of the keys `filesystem` and `sandbox`.
fn sandbox(front: &Section<'_>) -> CheckResult<Profile> {
    let own = match front.value("sandbox") {
        None => Profile::default(),
        Some(value) => sandbox::profile(value, "sandbox")?,
    };
    let files = sandbox::filesystem(front)?;
    match (files, own.filesystem) {
        (Some(one), Some(other)) if one != other => refuse(
            FieldPath::Field("filesystem".to_owned()),
            "differs from the one in `sandbox`; write one of them",
        ),
        (files, other) => Ok(Profile { filesystem: files.or(other), ..own }),
    }
}

/// The key `writeBack`. Only an agent with files of its own has some to give.
fn write_back(front: &Section<'_>, has_own_files: bool) -> CheckResult<(bool, Option<DefinitionProblem>)> {
    const KEY: &str = "writeBack";
    let wanted = match front.value(KEY) {
        Some(Value::Bool(false)) => false,
        _ => word(front, KEY, &["auto", "none"])?.as_deref() == Some("auto"),
    };
    let what = "`writeBack: auto` is for an agent with `filesystem: isolated` or `isolation: worktree`";
    Ok((wanted && has_own_files, (wanted && !has_own_files).then(|| DefinitionProblem::note(what))))
}

/// Returns the rules of `permission`, then those of the disallowed tools, so that no rule of the definition
/// loosens the latter.
fn rules(
    front: &Section<'_>,
    keys: &KeyPositions,
    refusals: &mut Vec<DefinitionProblem>,
    notes: &mut Vec<DefinitionProblem>,
) -> CheckResult<Vec<Rule>> {
    let value = front.value("permission");
    let mut rules = policy::rules(value)?.unwrap_or_default();
    if let Some(Value::Object(tools)) = value {
        let places = tools.iter().flat_map(|(tool, answer)| match answer {
            Value::Object(patterns) => {
                patterns.keys().map(|pattern| keys.of(&["permission", tool, pattern])).collect::<Vec<_>>()
            }
            _ => vec![keys.of(&["permission", tool])],
        });
        rules = rules.into_iter().zip(places).map(|(rule, at)| rule.at(at)).collect();
        notes.extend(notes_of(&rules, "permission", keys));
    }
    // A definition denies tasks unless it allows them itself.
    let task = Rule::new("task", None, RuleAction::Deny);
    rules.insert(0, task.or_else(|found| refuse(FieldPath::Field("permission".to_owned()), found.problem))?);
    // `tools: {write: false}` equals `disallowedTools: write`.
    let denied = [
        ("tools", lists::tools(front.value("tools"))?.denied),
        ("disallowedTools", lists::names(front.value("disallowedTools"), "disallowedTools")?),
    ];
    for (key, names) in denied {
        for name in names {
            let at = keys.of(&[key, &name]);
            match lists::rule(&name, RuleAction::Deny) {
                Ok(rule) => rules.push(rule.at(at)),
                Err(problem) => refusals.push(DefinitionProblem::error(problem).at(at).of_key(key)),
            }
        }
    }
    Ok(rules)
}

fn notes_of(rules: &[Rule], key: &str, keys: &KeyPositions) -> Vec<DefinitionProblem> {
    let note = |rule: &Rule| {
        let at = rule.at.or_else(|| keys.of(&[key]));
        rule.note().map(|note| DefinitionProblem::note(note).at(at).of_key(key))
    };
    rules.iter().filter_map(note).collect()
}

fn pre_approved(front: &Section<'_>, keys: &KeyPositions) -> CheckResult<Vec<Rule>> {
    const KEY: &str = "preApproved";
    let read = |name: &String| {
        lists::rule(name, RuleAction::Allow)
            .map(|rule| rule.at(keys.of(&[KEY])))
            .or_else(|problem| refuse(FieldPath::Field(KEY.to_owned()), problem))
    };
    lists::names(front.value(KEY), KEY)?.iter().map(read).collect()
}

/// Reads a list of names and mappings, or one mapping. A server that is `null` is a server of the config.
fn mcp_servers(front: &Section<'_>) -> CheckResult<Vec<McpServerRef>> {
    const KEY: &str = "mcpServers";
    let inline = |entries: &Map<String, Value>, wishes: &mut Vec<McpServerRef>| -> CheckResult<()> {
        for (name, server) in entries {
            match server {
                Value::Null => wishes.push(McpServerRef::Named(name.clone())),
                Value::String(other) => wishes.push(McpServerRef::Named(other.clone())),
                server => {
                    let one = Map::from_iter([(
                        KEY.to_owned(),
                        Value::Object(Map::from_iter([(name.clone(), server.clone())])),
                    )]);
                    let read = mcp::servers(&Section::root(&one))?;
                    wishes.extend(read.into_iter().map(|(name, server)| McpServerRef::Inline(name, server)));
                }
            }
        }
        Ok(())
    };
    let mut wishes = Vec::new();
    match front.value(KEY) {
        None => {}
        Some(Value::Object(entries)) => inline(entries, &mut wishes)?,
        Some(Value::Array(items)) => {
            for (index, item) in items.iter().enumerate() {
                match item {
                    Value::String(name) if !name.trim().is_empty() => {
                        wishes.push(McpServerRef::Named(name.clone()))
                    }
                    Value::Object(entries) => inline(entries, &mut wishes)?,
                    other => {
                        let place = FieldPath::Element { field: KEY.to_owned(), index };
                        return mismatch(place, "the name of a server, or a mapping of a name to one", other);
                    }
                }
            }
        }
        Some(Value::String(line)) => {
            let names = lists::names(Some(&Value::String(line.clone())), KEY)?;
            wishes.extend(names.into_iter().map(McpServerRef::Named));
        }
        Some(other) => return mismatch(FieldPath::Field(KEY.to_owned()), "a list of servers", other),
    }
    Ok(wishes)
}

/// Returns the inline servers with `required: true`.
fn required_servers(front: &Section<'_>) -> Vec<String> {
    let required = |entries: &Map<String, Value>| -> Vec<String> {
        let wanted = entries.iter().filter(|(_, server)| server["required"] == true);
        wanted.map(|(name, _)| name.clone()).collect()
    };
    match front.value("mcpServers") {
        Some(Value::Object(entries)) => required(entries),
        Some(Value::Array(items)) => items.iter().filter_map(Value::as_object).flat_map(required).collect(),
        _ => Vec::new(),
    }
}
