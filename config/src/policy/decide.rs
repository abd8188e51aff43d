//! Applies the rules to a call. Pure: the caller passes a function that resolves paths.

mod any_agent;
mod execute;
mod granted;
mod listed;
mod memory;
mod node;
mod undeclared;

use std::path::{Path, PathBuf};

pub use listed::ToolList;

use super::address::Address;
use super::call::ToolCallDescription;
use super::glob::MatchResult;
use super::mcp_names;
use super::paths::{self, BaseFolders, Spelling, names_protected};
use super::rule::{Rule, RuleAction};
use super::shell::ShellText;
use super::tool::{self, ToolKind};
use super::{LayerKind, Node, Policy, Position};

/// The rule that decided a verdict.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MatchedRule {
    /// Name of the node with the rule.
    pub node: String,
    /// Distance of the node from the root.
    pub depth: usize,
    /// Layer of the rule.
    pub layer: LayerKind,
    /// File of the layer.
    pub source: Option<String>,
    /// The rule on one line.
    pub rule: String,
    /// Action of the rule.
    pub action: RuleAction,
    /// Position of the rule in the file.
    pub at: Option<Position>,
}

/// One part of a call with its verdict.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Judged {
    /// Kind of the part.
    pub kind: ToolKind,
    /// The command, path, URL or agent; `None` if it is unknown.
    pub subject: Option<String>,
    /// The action for this part.
    pub action: RuleAction,
    /// The deciding rule; `None` if no rule matches.
    pub by: Option<MatchedRule>,
    /// The reason, if it is not only a rule.
    pub note: Option<String>,
}

/// The verdict on a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallVerdict {
    /// The strictest action of all parts.
    pub action: RuleAction,
    /// The parts that were judged; at least one.
    pub judged: Vec<Judged>,
}

impl CallVerdict {
    fn of(judged: Vec<Judged>) -> Self {
        let action = judged.iter().map(|part| part.action).max().unwrap_or(RuleAction::Ask);
        Self { action, judged }
    }

    /// The first part with the action of the verdict.
    #[must_use]
    pub fn decisive(&self) -> Option<&Judged> {
        self.judged.iter().find(|part| part.action == self.action)
    }
}

/// The text that a pattern is matched against.
enum MatchedText<'a> {
    /// Unknown: only a rule without a pattern surely matches.
    Unknown,
    Text(&'a ShellText),
    Path(&'a Spelling),
    Word(&'a str),
    /// Any agent: asks whether at least one may be called.
    AnyAgent,
}

struct RuleQuery<'a> {
    kind: ToolKind,
    name: Option<&'a str>,
    /// Names and titles that may denote an MCP tool.
    labels: &'a [String],
    subject: MatchedText<'a>,
    /// Whether a part of the subject is unknown. Then an `allow` becomes an `ask`.
    doubt: bool,
    /// Whether it changes files that define permissions. Only a rule that names them can allow this.
    guarded: bool,
    /// Whether the shell opens the file for reading. A general `ask` does not apply to this.
    opened: bool,
}

#[derive(Clone)]
struct RuleDecision {
    action: RuleAction,
    by: Option<MatchedRule>,
    /// Pattern of the rule; `*` is general.
    pattern: String,
    note: Option<&'static str>,
}

impl Policy {
    /// Judges a call; `real` resolves symbolic links of a path.
    #[must_use]
    pub fn decide(&self, call: &ToolCallDescription, real: &dyn Fn(&Path) -> PathBuf) -> CallVerdict {
        Judge { policy: self, lenient: false }.decide(call, real)
    }

    /// Judges a client method that an agent calls. The client limits it to the workspace, so it is allowed
    /// if no rule is about its kind.
    #[must_use]
    pub fn decide_of_client(
        &self,
        call: &ToolCallDescription,
        real: &dyn Fn(&Path) -> PathBuf,
    ) -> CallVerdict {
        Judge { policy: self, lenient: true }.decide(call, real)
    }

    /// Whether a rule is about calls of this kind.
    #[must_use]
    pub fn is_about(&self, kind: ToolKind) -> bool {
        self.rules().any(|rule| rule.is_about(kind, None))
    }

    /// Whether a rule denies or asks for calls of this kind.
    #[must_use]
    pub fn restricts(&self, kind: ToolKind) -> bool {
        self.rules().any(|rule| rule.action > RuleAction::Allow && rule.is_about(kind, None))
    }

    /// Whether a definition's list of tools lacks some calls of this kind.
    #[must_use]
    pub fn leaves_out(&self, kind: ToolKind) -> bool {
        self.chain.iter().flat_map(|node| &node.listed).any(|listed| !listed.has_all_of(kind))
    }

    fn rules(&self) -> impl Iterator<Item = &Rule> {
        rules_of(&self.chain)
    }
}

fn rules_of(chain: &[Node]) -> impl Iterator<Item = &Rule> {
    chain.iter().flat_map(Node::layers).flat_map(|layer| &layer.rules)
}

struct Judge<'a> {
    policy: &'a Policy,
    /// Whether kinds without rules are allowed.
    lenient: bool,
}

impl Judge<'_> {
    /// Judges all descriptions of the call.
    fn decide(&self, call: &ToolCallDescription, real: &dyn Fn(&Path) -> PathBuf) -> CallVerdict {
        CallVerdict::of(call.readings().iter().flat_map(|reading| self.reading(reading, real)).collect())
    }

    fn reading(&self, call: &ToolCallDescription, real: &dyn Fn(&Path) -> PathBuf) -> Vec<Judged> {
        let name = call.name.as_deref();
        let mut judged = Vec::new();
        for kind in call.kinds() {
            match kind {
                ToolKind::Execute => match &call.command {
                    _ if call.unread_command => {
                        judged.push(self.unknown(kind, name, "what it runs cannot be read"));
                        self.commands(call, real, &mut judged);
                    }
                    Some(_) => self.commands(call, real, &mut judged),
                    None => judged.push(self.unknown(kind, name, "its command is not reported")),
                },
                ToolKind::Read | ToolKind::Edit | ToolKind::Delete | ToolKind::Move | ToolKind::Search => {
                    let paths: Vec<&String> = match kind.changes_files() {
                        true => call.paths.iter().chain(&call.changed).collect(),
                        false => call.paths.iter().collect(),
                    };
                    if paths.is_empty() || call.more {
                        judged.push(self.unknown(kind, name, "its files are not all reported"));
                    }
                    judged.extend(paths.into_iter().map(|path| self.path(kind, name, path, real)));
                }
                ToolKind::Fetch if call.urls.is_empty() => judged.push(self.word(kind, name, None)),
                ToolKind::Fetch => {
                    if call.more {
                        judged.push(self.unknown(kind, name, "its addresses are not all reported"));
                    }
                    judged.extend(call.urls.iter().map(|url| self.address(name, url)));
                }
                ToolKind::Task if tool::is_about_any_agent(name) && call.agent.is_none() && !call.more => {
                    let answer = self.answer(&RuleQuery::of(kind, name, MatchedText::AnyAgent));
                    judged.push(answer.judged(kind, name.map(str::to_owned)));
                }
                ToolKind::Task if call.more => {
                    judged.push(self.doubtful(kind, name, "the called agent is not clear"));
                }
                ToolKind::Task => judged.push(self.word(kind, name, call.agent.as_deref())),
                ToolKind::Think | ToolKind::Other => {
                    let query =
                        RuleQuery { labels: &call.labels, ..RuleQuery::of(kind, name, MatchedText::Unknown) };
                    judged.push(self.answer(&query).judged(kind, name.map(str::to_owned)));
                }
                ToolKind::Todo => judged.push(self.todo(name)),
            }
        }
        judged.extend(self.denied_by_label(call));
        // The tool's name alone grants nothing; the kind that the agent reports must be allowed too.
        let named = name.is_some_and(|name| name.starts_with("mcp__"));
        // Codex reports all MCP tools as `execute`.
        let vague = |kind| matches!(kind, ToolKind::Other | ToolKind::Think | ToolKind::Execute);
        if named && call.kind.is_some_and(|kind| !vague(kind)) {
            judged.extend(self.reading(&call.unnamed(), real));
        }
        judged.extend(self.undeclared(call, real));
        judged.extend(self.unexamined(call));
        judged
    }

    /// Judges all commands of a call.
    fn commands(
        &self,
        call: &ToolCallDescription,
        real: &dyn Fn(&Path) -> PathBuf,
        judged: &mut Vec<Judged>,
    ) {
        let name = call.name.as_deref();
        for command in call.command.iter().chain(&call.other_commands) {
            self.execute(command, name, call.cwd.as_deref(), real, judged);
        }
        if call.more {
            judged.push(self.doubtful(ToolKind::Execute, name, "its command is not reported in full"));
        }
    }

    fn unknown(&self, kind: ToolKind, name: Option<&str>, note: &str) -> Judged {
        // The unknown file may define permissions.
        let doubt = kind.changes_files();
        self.noted(&RuleQuery { doubt, ..RuleQuery::of(kind, name, MatchedText::Unknown) }, note)
    }

    fn noted(&self, about: &RuleQuery<'_>, note: &str) -> Judged {
        Judged { note: Some(note.to_owned()), ..self.answer(about).judged(about.kind, None) }
    }

    /// An incomplete description never gives `allow`.
    fn doubtful(&self, kind: ToolKind, name: Option<&str>, note: &str) -> Judged {
        self.noted(&RuleQuery { doubt: true, ..RuleQuery::of(kind, name, MatchedText::Unknown) }, note)
    }

    fn word(&self, kind: ToolKind, name: Option<&str>, word: Option<&str>) -> Judged {
        let subject = word.map_or(MatchedText::Unknown, MatchedText::Word);
        let shown = word.or(name).map(str::to_owned);
        self.answer(&RuleQuery::of(kind, name, subject)).judged(kind, shown)
    }

    /// Judges a todo list. A task has one piece of work, so it is denied. The denial has no rule, so that
    /// an agent that keeps a list without asking causes no violation.
    fn todo(&self, name: Option<&str>) -> Judged {
        let judged = self.word(ToolKind::Todo, name, None);
        if judged.action == RuleAction::Deny || !self.policy.chain.last().is_some_and(|node| node.is_task) {
            return judged;
        }
        let note = Some("a task keeps no list of what is to do".to_owned());
        Judged { action: RuleAction::Deny, by: None, note, ..judged }
    }

    /// Denies a call of another kind whose name or title denotes a denied MCP tool.
    fn denied_by_label(&self, call: &ToolCallDescription) -> Option<Judged> {
        let labels: Vec<String> =
            call.labels.iter().filter(|label| mcp_names::says_mcp(label)).cloned().collect();
        let vague = call.kinds().iter().any(|kind| matches!(kind, ToolKind::Other | ToolKind::Think));
        let nodes = self.policy.chain.iter().enumerate().filter(|_| !vague && !labels.is_empty());
        let mut answer =
            nodes.filter_map(|(depth, node)| Some(node.by_labels(&labels)?.at(depth))).reduce(stricter)?;
        if self.policy.chain.iter().any(Node::never_asks) {
            answer.action = RuleAction::Deny;
        }
        Some(answer.judged(ToolKind::Other, labels.first().cloned()))
    }

    /// Judges a URL. An unreadable one is never allowed.
    fn address(&self, name: Option<&str>, written: &str) -> Judged {
        let ask = |text: &String| self.answer(&RuleQuery::of(ToolKind::Fetch, name, MatchedText::Word(text)));
        let shown = Some(written.to_owned());
        let Some(address) = Address::read(written) else {
            let query =
                RuleQuery { doubt: true, ..RuleQuery::of(ToolKind::Fetch, name, MatchedText::Word(written)) };
            let note = Some("this is not a readable address".to_owned());
            return Judged { note, ..self.answer(&query).judged(ToolKind::Fetch, shown) };
        };
        let weakest = address.same.iter().map(ask).min_by_key(|answer| answer.action);
        let spellings = address.same.iter().chain(&address.also);
        let restricted = spellings.filter_map(|text| {
            self.restricted(&RuleQuery::of(ToolKind::Fetch, name, MatchedText::Word(text)))
        });
        // Answers by a rule precede defaults.
        let (said, unsaid): (Vec<_>, Vec<_>) =
            weakest.into_iter().chain(restricted).partition(|answer| answer.by.is_some());
        strictest(said.into_iter().chain(unsaid)).judged(ToolKind::Fetch, shown)
    }

    fn path(
        &self,
        kind: ToolKind,
        name: Option<&str>,
        path: &str,
        real: &dyn Fn(&Path) -> PathBuf,
    ) -> Judged {
        self.known_path(&RuleQuery::of(kind, name, MatchedText::Unknown), path, real)
    }

    /// Judges a path together with other facts of the query.
    fn known_path(&self, about: &RuleQuery<'_>, path: &str, real: &dyn Fn(&Path) -> PathBuf) -> Judged {
        let RuleQuery { kind, name, opened, .. } = *about;
        let places = &self.policy.places;
        let spellings = places.spellings(path, real);
        let answers = spellings.iter().map(|spelling| {
            // An agent's notes grant no permissions, so they are not guarded.
            let notes =
                self.policy.chain.last().is_some_and(|node| memory::keeps_notes(node, kind, spelling));
            let guarded = (places.is_protected(kind, spelling) || self.is_source(kind, spelling)) && !notes;
            let doubt = paths::is_of_a_process(&spelling.absolute);
            self.answer(&RuleQuery {
                guarded,
                doubt,
                opened,
                ..RuleQuery::of(kind, name, MatchedText::Path(spelling))
            })
        });
        strictest(answers).judged(kind, Some(path.to_owned()))
    }

    /// Whether the change affects a file that contains rules of this policy.
    fn is_source(&self, kind: ToolKind, path: &Spelling) -> bool {
        let sources =
            || self.policy.chain.iter().flat_map(Node::layers).filter_map(|layer| layer.source.as_ref());
        // Moving or deleting a folder affects all files in it.
        let takes_along = matches!(kind, ToolKind::Delete | ToolKind::Move);
        let changes = |source: &String| {
            let (source, path) = (Path::new(source), Path::new(&path.absolute));
            source == path || (takes_along && source.starts_with(path))
        };
        kind.changes_files() && sources().any(changes)
    }

    /// Returns the strictest answer of all nodes. A node that never asks turns remaining questions into a
    /// grant or a denial.
    fn answer(&self, query: &RuleQuery<'_>) -> RuleDecision {
        let Policy { places, chain } = self.policy;
        let mut held: Option<RuleDecision> = None;
        for (depth, node) in chain.iter().enumerate() {
            let above = held.clone();
            let own = memory::in_memory(node, query, node.answer(places, query));
            let own = own.filter(|own| !(query.opened && own.asks_for_everything()));
            let own = own.map(|own| query.limits(own).at(depth));
            held = above.iter().cloned().chain(own).reduce(stricter);
            if node.granted.is_some() {
                let asked = held.unwrap_or_else(|| self.default_answer(query, depth + 1));
                let parent = || above.unwrap_or_else(|| self.default_answer(query, depth)).action;
                // The root node's grants come from the owner.
                let may_grant = || depth == 0 || parent() == RuleAction::Allow;
                held = Some(granted::instead_of_asking(node, places, query, asked, depth, may_grant));
            }
        }
        held.unwrap_or_else(|| self.default_answer(query, chain.len()))
    }

    /// Returns the strictest restriction by rules that name the subject, which is a text that may be part
    /// of the call.
    fn restricted(&self, query: &RuleQuery<'_>) -> Option<RuleDecision> {
        let Policy { places, chain } = self.policy;
        let mut held: Option<RuleDecision> = None;
        for (depth, node) in chain.iter().enumerate() {
            let above = held.clone();
            let own =
                node.by_rules(places, query).filter(RuleDecision::restricts_itself).map(|own| own.at(depth));
            held = above.iter().cloned().chain(own).reduce(stricter);
            if let Some(asked) =
                held.clone().filter(|held| node.granted.is_some() && held.action == RuleAction::Ask)
            {
                let may_grant = || above.is_none();
                held = Some(granted::instead_of_asking(node, places, query, asked, depth, may_grant))
                    .filter(|answer| answer.action > RuleAction::Allow);
            }
        }
        held
    }

    /// Returns the default for a call without a matching rule in the first `nodes` nodes.
    fn default_answer(&self, query: &RuleQuery<'_>, nodes: usize) -> RuleDecision {
        let about = |kind| rules_of(&self.policy.chain[..nodes]).any(|rule| rule.is_about(kind, None));
        let (action, note) = match query.kind {
            ToolKind::Task => (RuleAction::Deny, "no rule allows tasks"),
            kind if self.lenient && !about(kind) => (RuleAction::Allow, "no rule is about it"),
            _ => (RuleAction::Ask, "no rule fits"),
        };
        query.limits(RuleDecision { action, by: None, pattern: String::new(), note: Some(note) })
    }
}

impl<'a> RuleQuery<'a> {
    fn of(kind: ToolKind, name: Option<&'a str>, subject: MatchedText<'a>) -> Self {
        Self { kind, name, labels: &[], subject, doubt: false, guarded: false, opened: false }
    }

    /// Limits an `allow` by the unknown parts and protected files of the query.
    fn limits(&self, answer: RuleDecision) -> RuleDecision {
        if answer.action > RuleAction::Allow {
            return answer;
        }
        if self.guarded && !names_protected(&answer.pattern) {
            let note = "files that say what agents may do are changed only with a rule that names them";
            return RuleDecision {
                action: RuleAction::Ask,
                by: None,
                pattern: String::new(),
                note: Some(note),
            };
        }
        match self.doubt {
            true => RuleDecision { action: RuleAction::Ask, ..answer },
            false => answer,
        }
    }
}

impl RuleDecision {
    fn judged(self, kind: ToolKind, subject: Option<String>) -> Judged {
        Judged { kind, subject, action: self.action, by: self.by, note: self.note.map(str::to_owned) }
    }

    /// Whether the deciding rule is a `deny` of the user file.
    fn is_users_deny(&self) -> bool {
        self.by.as_ref().is_some_and(|by| by.layer == LayerKind::User && by.action == RuleAction::Deny)
    }

    fn at(mut self, depth: usize) -> Self {
        if let Some(by) = &mut self.by {
            by.depth = depth;
        }
        self
    }

    /// Whether a specific rule (pattern other than `*`) restricts it.
    fn restricts_itself(&self) -> bool {
        self.action > RuleAction::Allow && self.by.is_some() && self.pattern != "*"
    }

    /// Whether the general rule `*` asks.
    fn asks_for_everything(&self) -> bool {
        self.action == RuleAction::Ask && self.by.as_ref().is_some_and(|by| by.rule == "*")
    }

    /// Whether a specific rule denies it.
    fn denies_itself(&self) -> bool {
        self.action == RuleAction::Deny && self.pattern != "*"
    }
}

/// Returns the stricter of two answers, the first if they are equal. Of two denials, the specific one wins,
/// because wrapper commands ignore a general denial.
fn stricter(held: RuleDecision, next: RuleDecision) -> RuleDecision {
    let names = next.denies_itself() && !held.denies_itself();
    if next.action > held.action || (next.action == held.action && names) { next } else { held }
}

fn strictest(answers: impl Iterator<Item = RuleDecision>) -> RuleDecision {
    let nothing = || RuleDecision {
        action: RuleAction::Ask,
        by: None,
        pattern: String::new(),
        note: Some("no rule fits"),
    };
    answers.reduce(stricter).unwrap_or_else(nothing)
}
