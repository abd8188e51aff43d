//! What the rules say of a call. Pure: where a path leads is asked through a function that is handed in.

mod any_agent;
mod execute;
mod granted;
mod listed;
mod memory;
mod undeclared;

use std::path::{Path, PathBuf};

pub use listed::Listed;

use super::address::{self, Address};
use super::call::Call;
use super::glob::{self, Fits};
use super::mcp_names;
use super::paths::{self, Places, Spelling, names_protected};
use super::rule::{Action, Rule};
use super::shell::Text;
use super::tool::{self, Kind};
use super::{Layer, LayerKind, Node, Policy, Position};

/// The rule that an answer is from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decider {
    /// The name of its node.
    pub node: String,
    /// How far from the root that is.
    pub depth: usize,
    /// Its layer.
    pub layer: LayerKind,
    /// The file of that layer.
    pub source: Option<String>,
    /// The rule on one line.
    pub rule: String,
    /// Its action.
    pub action: Action,
    /// Where in the file it stands.
    pub at: Option<Position>,
}

/// One part of a call, and what becomes of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Judged {
    /// What it does.
    pub kind: Kind,
    /// The command, path, address or agent; none if it is not known.
    pub subject: Option<String>,
    /// What becomes of it.
    pub action: Action,
    /// The rule that said so; none if no rule fits.
    pub by: Option<Decider>,
    /// Why, where that is no rule alone.
    pub note: Option<String>,
}

/// What becomes of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verdict {
    /// The strictest answer.
    pub action: Action,
    /// All parts of the call that were judged, never none.
    pub judged: Vec<Judged>,
}

impl Verdict {
    fn of(judged: Vec<Judged>) -> Self {
        let action = judged.iter().map(|part| part.action).max().unwrap_or(Action::Ask);
        Self { action, judged }
    }

    /// The first part that has the answer of the whole.
    #[must_use]
    pub fn decisive(&self) -> Option<&Judged> {
        self.judged.iter().find(|part| part.action == self.action)
    }
}

/// What a pattern is held against.
enum Subject<'a> {
    /// There is none: only rules without a pattern are surely about it.
    Unknown,
    Text(&'a Text),
    Path(&'a Spelling),
    Word(&'a str),
    /// Any of the agents: is there one that may be called?
    AnyAgent,
}

struct Query<'a> {
    kind: Kind,
    name: Option<&'a str>,
    /// Names and titles that may stand for a tool of an MCP server.
    labels: &'a [String],
    subject: Subject<'a>,
    /// Whether something about it is not known, so that nobody allows it without asking.
    doubt: bool,
    /// Whether it changes files that say what agents may do: only a rule that names them allows that.
    guarded: bool,
    /// Whether the shell opens it to read. A rule that asks for everything does not ask for this.
    opened: bool,
}

/// An answer, and who gave it.
#[derive(Clone)]
struct Answer {
    action: Action,
    by: Option<Decider>,
    /// The rule's own pattern, to see whether it names something itself.
    pattern: String,
    note: Option<&'static str>,
}

impl Policy {
    /// What becomes of a call; `real` says where a path leads.
    #[must_use]
    pub fn decide(&self, call: &Call, real: &dyn Fn(&Path) -> PathBuf) -> Verdict {
        Judge { policy: self, lenient: false }.decide(call, real)
    }

    /// What becomes of something that an agent asks of its client, which keeps it in the workspace by itself: where no rule
    /// is about its kind it is done.
    #[must_use]
    pub fn decide_of_client(&self, call: &Call, real: &dyn Fn(&Path) -> PathBuf) -> Verdict {
        Judge { policy: self, lenient: true }.decide(call, real)
    }

    /// Whether any rule is about calls of this kind.
    #[must_use]
    pub fn is_about(&self, kind: Kind) -> bool {
        self.rules().any(|rule| rule.is_about(kind, None))
    }

    /// Whether any rule denies or asks calls of this kind.
    #[must_use]
    pub fn restricts(&self, kind: Kind) -> bool {
        self.rules().any(|rule| rule.action > Action::Allow && rule.is_about(kind, None))
    }

    /// Whether a definition lists the only tools, and not everything of this kind is among them.
    #[must_use]
    pub fn leaves_out(&self, kind: Kind) -> bool {
        self.chain.iter().flat_map(|node| &node.listed).any(|listed| !listed.has_all_of(kind))
    }

    fn rules(&self) -> impl Iterator<Item = &Rule> {
        rules_of(&self.chain)
    }
}

fn rules_of(chain: &[Node]) -> impl Iterator<Item = &Rule> {
    chain.iter().flat_map(Node::layers).flat_map(|layer| &layer.rules)
}

/// The rules at work on one call.
struct Judge<'a> {
    policy: &'a Policy,
    /// Whether what no rule is about is done.
    lenient: bool,
}

impl Judge<'_> {
    /// The strictest answer to anything that was said of the call.
    fn decide(&self, call: &Call, real: &dyn Fn(&Path) -> PathBuf) -> Verdict {
        Verdict::of(call.readings().iter().flat_map(|reading| self.reading(reading, real)).collect())
    }

    fn reading(&self, call: &Call, real: &dyn Fn(&Path) -> PathBuf) -> Vec<Judged> {
        let name = call.name.as_deref();
        let mut judged = Vec::new();
        for kind in call.kinds() {
            match kind {
                Kind::Execute => match &call.command {
                    _ if call.unread_command => {
                        judged.push(self.unknown(kind, name, "what it runs cannot be read"));
                        self.commands(call, real, &mut judged);
                    }
                    Some(_) => self.commands(call, real, &mut judged),
                    None => judged.push(self.unknown(kind, name, "what it runs is not told")),
                },
                Kind::Read | Kind::Edit | Kind::Delete | Kind::Move | Kind::Search => {
                    let paths: Vec<&String> = match kind.changes_files() {
                        true => call.paths.iter().chain(&call.changed).collect(),
                        false => call.paths.iter().collect(),
                    };
                    if paths.is_empty() || call.more {
                        judged.push(self.unknown(kind, name, "which files it is about is not told in full"));
                    }
                    judged.extend(paths.into_iter().map(|path| self.path(kind, name, path, real)));
                }
                Kind::Fetch if call.urls.is_empty() => judged.push(self.word(kind, name, None)),
                Kind::Fetch => judged.extend(call.urls.iter().map(|url| self.address(name, url))),
                Kind::Task if tool::is_about_any_agent(name) && call.agent.is_none() && !call.more => {
                    let answer = self.answer(&Query::of(kind, name, Subject::AnyAgent));
                    judged.push(answer.judged(kind, name.map(str::to_owned)));
                }
                Kind::Task if call.more => {
                    judged.push(self.doubtful(kind, name, "which agent it calls is not told clearly"));
                }
                Kind::Task => judged.push(self.word(kind, name, call.agent.as_deref())),
                Kind::Think | Kind::Other => {
                    let query = Query { labels: &call.labels, ..Query::of(kind, name, Subject::Unknown) };
                    judged.push(self.answer(&query).judged(kind, name.map(str::to_owned)));
                }
                Kind::Todo => judged.push(self.todo(name)),
            }
        }
        judged.extend(self.denied_by_label(call));
        // A name alone widens nothing: what the agent says that it does must be allowed as well.
        let named = name.is_some_and(|name| name.starts_with("mcp__"));
        // Codex calls all tools of MCP servers `execute`.
        let vague = |kind| matches!(kind, Kind::Other | Kind::Think | Kind::Execute);
        if named && call.kind.is_some_and(|kind| !vague(kind)) {
            judged.extend(self.reading(&call.unnamed(), real));
        }
        judged.extend(self.undeclared(call, real));
        judged
    }

    /// The commands that a call holds.
    fn commands(&self, call: &Call, real: &dyn Fn(&Path) -> PathBuf, judged: &mut Vec<Judged>) {
        let name = call.name.as_deref();
        for command in call.command.iter().chain(&call.other_commands) {
            self.execute(command, name, call.cwd.as_deref(), real, judged);
        }
        if call.more {
            judged.push(self.doubtful(Kind::Execute, name, "what it runs is not told in full"));
        }
    }

    fn unknown(&self, kind: Kind, name: Option<&str>, note: &str) -> Judged {
        // It may be one of the files that say what agents may do.
        let doubt = kind.changes_files();
        self.noted(&Query { doubt, ..Query::of(kind, name, Subject::Unknown) }, note)
    }

    fn noted(&self, about: &Query<'_>, note: &str) -> Judged {
        Judged { note: Some(note.to_owned()), ..self.answer(about).judged(about.kind, None) }
    }

    /// What is not told in full is not allowed, whatever is told.
    fn doubtful(&self, kind: Kind, name: Option<&str>, note: &str) -> Judged {
        self.noted(&Query { doubt: true, ..Query::of(kind, name, Subject::Unknown) }, note)
    }

    fn word(&self, kind: Kind, name: Option<&str>, word: Option<&str>) -> Judged {
        let subject = word.map_or(Subject::Unknown, Subject::Word);
        let shown = word.or(name).map(str::to_owned);
        self.answer(&Query::of(kind, name, subject)).judged(kind, shown)
    }

    /// A list of what is to do. A task has one piece of work, and is denied it; no rule does that, so that it is no violation
    /// if an agent keeps one without asking.
    fn todo(&self, name: Option<&str>) -> Judged {
        let judged = self.word(Kind::Todo, name, None);
        if judged.action == Action::Deny || !self.policy.chain.last().is_some_and(|node| node.is_task) {
            return judged;
        }
        let note = Some("a task keeps no list of what is to do".to_owned());
        Judged { action: Action::Deny, by: None, note, ..judged }
    }

    /// A call of another kind whose name or title says that it is a tool of an MCP server which a rule denies.
    fn denied_by_label(&self, call: &Call) -> Option<Judged> {
        let labels: Vec<String> =
            call.labels.iter().filter(|label| mcp_names::says_mcp(label)).cloned().collect();
        let vague = call.kinds().iter().any(|kind| matches!(kind, Kind::Other | Kind::Think));
        let nodes = self.policy.chain.iter().enumerate().filter(|_| !vague && !labels.is_empty());
        let mut answer =
            nodes.filter_map(|(depth, node)| Some(node.by_labels(&labels)?.at(depth))).reduce(stricter)?;
        if self.policy.chain.iter().any(Node::never_asks) {
            answer.action = Action::Deny;
        }
        Some(answer.judged(Kind::Other, labels.first().cloned()))
    }

    /// An address; one that cannot be read is not allowed.
    fn address(&self, name: Option<&str>, written: &str) -> Judged {
        let ask = |text: &String| self.answer(&Query::of(Kind::Fetch, name, Subject::Word(text)));
        let shown = Some(written.to_owned());
        let Some(address) = Address::read(written) else {
            let query = Query { doubt: true, ..Query::of(Kind::Fetch, name, Subject::Word(written)) };
            let note = Some("this is no address that can be read".to_owned());
            return Judged { note, ..self.answer(&query).judged(Kind::Fetch, shown) };
        };
        let weakest = address.same.iter().map(ask).min_by_key(|answer| answer.action);
        let spellings = address.same.iter().chain(&address.also);
        let restricted =
            spellings.filter_map(|text| self.restricted(&Query::of(Kind::Fetch, name, Subject::Word(text))));
        // What a rule says goes before what none says.
        let (said, unsaid): (Vec<_>, Vec<_>) =
            weakest.into_iter().chain(restricted).partition(|answer| answer.by.is_some());
        strictest(said.into_iter().chain(unsaid)).judged(Kind::Fetch, shown)
    }

    fn path(&self, kind: Kind, name: Option<&str>, path: &str, real: &dyn Fn(&Path) -> PathBuf) -> Judged {
        self.known_path(&Query::of(kind, name, Subject::Unknown), path, real)
    }

    /// What becomes of a path, with what else is known of it.
    fn known_path(&self, about: &Query<'_>, path: &str, real: &dyn Fn(&Path) -> PathBuf) -> Judged {
        let Query { kind, name, opened, .. } = *about;
        let places = &self.policy.places;
        let spellings = places.spellings(path, real);
        let answers = spellings.iter().map(|spelling| {
            // The notes of the agent grant nothing, so they need no guard.
            let notes = self.policy.chain.last().is_some_and(|node| node.keeps_notes(kind, spelling));
            let guarded = (places.is_protected(kind, spelling) || self.is_source(kind, spelling)) && !notes;
            let doubt = paths::is_of_a_process(&spelling.absolute);
            self.answer(&Query { guarded, doubt, opened, ..Query::of(kind, name, Subject::Path(spelling)) })
        });
        strictest(answers).judged(kind, Some(path.to_owned()))
    }

    /// Whether a change of this path changes a file that rules are from.
    fn is_source(&self, kind: Kind, path: &Spelling) -> bool {
        let sources =
            || self.policy.chain.iter().flat_map(Node::layers).filter_map(|layer| layer.source.as_ref());
        // With a folder all in it is moved and removed.
        let takes_along = matches!(kind, Kind::Delete | Kind::Move);
        let changes = |source: &String| {
            let (source, path) = (Path::new(source), Path::new(&path.absolute));
            source == path || (takes_along && source.starts_with(path))
        };
        kind.changes_files() && sources().any(changes)
    }

    /// The strictest of the nodes that have a rule for it; a node that never asks takes what is left of questions.
    fn answer(&self, query: &Query<'_>) -> Answer {
        let Policy { places, chain } = self.policy;
        let mut held: Option<Answer> = None;
        for (depth, node) in chain.iter().enumerate() {
            let above = held.clone();
            let own = node.in_memory(query, node.answer(places, query));
            let own = own.filter(|own| !(query.opened && own.asks_for_everything()));
            let own = own.map(|own| query.limits(own).at(depth));
            held = above.iter().cloned().chain(own).reduce(stricter);
            if node.granted.is_some() {
                let asked = held.unwrap_or_else(|| self.nobody_answers(query, depth + 1));
                let parent = || above.unwrap_or_else(|| self.nobody_answers(query, depth)).action;
                // Who has nobody above it has it from the owner.
                let may_grant = || depth == 0 || parent() == Action::Allow;
                held = Some(node.instead_of_asking(places, query, asked, depth, may_grant));
            }
        }
        held.unwrap_or_else(|| self.nobody_answers(query, chain.len()))
    }

    /// What rules say that name what is done, and deny it or ask: of a text that may be part of the call.
    fn restricted(&self, query: &Query<'_>) -> Option<Answer> {
        let Policy { places, chain } = self.policy;
        let mut held: Option<Answer> = None;
        for (depth, node) in chain.iter().enumerate() {
            let above = held.clone();
            let own = node.by_rules(places, query).filter(Answer::restricts_itself).map(|own| own.at(depth));
            held = above.iter().cloned().chain(own).reduce(stricter);
            if let Some(asked) =
                held.clone().filter(|held| node.granted.is_some() && held.action == Action::Ask)
            {
                let may_grant = || above.is_none();
                held = Some(node.instead_of_asking(places, query, asked, depth, may_grant))
                    .filter(|answer| answer.action > Action::Allow);
            }
        }
        held
    }

    /// What counts where none of the first so many nodes has a rule.
    fn nobody_answers(&self, query: &Query<'_>, nodes: usize) -> Answer {
        let about = |kind| rules_of(&self.policy.chain[..nodes]).any(|rule| rule.is_about(kind, None));
        let (action, note) = match query.kind {
            Kind::Task => (Action::Deny, "no rule allows tasks"),
            kind if self.lenient && !about(kind) => (Action::Allow, "no rule is about it"),
            _ => (Action::Ask, "no rule fits"),
        };
        query.limits(Answer { action, by: None, pattern: String::new(), note: Some(note) })
    }
}

impl<'a> Query<'a> {
    fn of(kind: Kind, name: Option<&'a str>, subject: Subject<'a>) -> Self {
        Self { kind, name, labels: &[], subject, doubt: false, guarded: false, opened: false }
    }

    /// What becomes of an answer by what is known of the call.
    fn limits(&self, answer: Answer) -> Answer {
        if answer.action > Action::Allow {
            return answer;
        }
        if self.guarded && !names_protected(&answer.pattern) {
            let note = "files that say what agents may do are changed only with a rule that names them";
            return Answer { action: Action::Ask, by: None, pattern: String::new(), note: Some(note) };
        }
        match self.doubt {
            true => Answer { action: Action::Ask, ..answer },
            false => answer,
        }
    }
}

impl Node {
    /// What it says; none if it has no rule that fits.
    fn answer(&self, places: &Places, query: &Query<'_>) -> Option<Answer> {
        self.within_listed(places, query, self.by_rules(places, query))
    }

    /// What its rules say; none if none fits.
    fn by_rules(&self, places: &Places, query: &Query<'_>) -> Option<Answer> {
        let definition = |kind: LayerKind| kind == LayerKind::Definition;
        if matches!(query.subject, Subject::AnyAgent) {
            return self.any_agent(query);
        }
        let own = self.last(places, query, definition);
        let denies = |own: &Answer| own.by.as_ref().is_some_and(|by| by.action == Action::Deny);
        match own {
            Some(denied) if denied.action == Action::Deny => Some(denied),
            // It may deny it: then no later rule allows it.
            Some(own) if denies(&own) => {
                Some(strictest(self.last_of_files(places, query).into_iter().chain([own])))
            }
            _ => self.last_of_files(places, query),
        }
    }

    /// The last rule of all layers that fits; but no rule of a project loosens what the user's own file denies.
    fn last_of_files(&self, places: &Places, query: &Query<'_>) -> Option<Answer> {
        let all = self.last(places, query, |_| true);
        if !self.has_user_layer() {
            return all;
        }
        let user = self.last(places, query, |kind| kind != LayerKind::Config).filter(Answer::is_users_deny);
        all.into_iter().chain(user).reduce(stricter)
    }

    fn has_user_layer(&self) -> bool {
        self.layers().iter().any(|layer| layer.kind == LayerKind::User)
    }

    /// What its last rule says for an MCP tool that one of these labels names; none if it allows it.
    fn by_labels(&self, labels: &[String]) -> Option<Answer> {
        let last = |which: fn(LayerKind) -> bool| {
            let layers = self.layers().iter().rev().filter(|layer| which(layer.kind));
            let mut rules = layers.flat_map(|layer| layer.rules.iter().rev().map(move |rule| (layer, rule)));
            let (layer, rule) = rules.find(|(_, rule)| rule.names_label(labels) == Fits::Yes)?;
            (rule.action > Action::Allow).then(|| self.says(layer, rule, rule.action, None))
        };
        let user = last(|kind| kind != LayerKind::Config).filter(Answer::is_users_deny);
        last(|_| true).into_iter().chain(user).reduce(stricter)
    }

    /// The last rule of these layers that fits; stricter, if a later one may fit.
    fn last(&self, places: &Places, query: &Query<'_>, which: impl Fn(LayerKind) -> bool) -> Option<Answer> {
        let layers = self.layers().iter().rev().filter(|layer| which(layer.kind));
        let mut doubt: Option<Answer> = None;
        for (layer, rule) in layers.flat_map(|layer| layer.rules.iter().rev().map(move |rule| (layer, rule)))
        {
            let fits = rule.fits(places, query);
            let answer = |action, note| self.says(layer, rule, action, note);
            match fits {
                Fits::Yes => return Some(strictest(doubt.into_iter().chain([answer(rule.action, None)]))),
                Fits::Could if rule.action > Action::Allow => {
                    let held = doubt.as_ref().and_then(|held| held.by.as_ref()).map(|by| by.action);
                    if held.is_none_or(|held| rule.action > held) {
                        let why = "this rule may be about it: not all of it is known yet";
                        doubt = Some(answer(Action::Ask, Some(why)));
                    }
                }
                Fits::Could | Fits::No => {}
            }
        }
        doubt
    }

    /// The answer by a rule of a layer.
    fn says(&self, layer: &Layer, rule: &Rule, action: Action, note: Option<&'static str>) -> Answer {
        Answer {
            action,
            by: Some(Decider {
                node: self.name.clone(),
                depth: 0,
                layer: layer.kind,
                source: layer.source.clone(),
                rule: rule.text(),
                action: rule.action,
                at: rule.at,
            }),
            pattern: rule.pattern().to_owned(),
            note,
        }
    }
}

impl Rule {
    fn fits(&self, places: &Places, query: &Query<'_>) -> Fits {
        if !self.is_about(query.kind, query.name) {
            let bare = query.kind == Kind::Other && self.restricts_bare(query.labels);
            return self.fits_label(query.labels).max(if bare { Fits::Could } else { Fits::No });
        }
        self.fits_subject(places, query)
    }

    /// Whether what the call is about is what the pattern says.
    fn fits_subject(&self, places: &Places, query: &Query<'_>) -> Fits {
        if self.is_whole() {
            return Fits::Yes;
        }
        let yes = |fits| if fits { Fits::Yes } else { Fits::No };
        match &query.subject {
            Subject::Unknown => Fits::Could,
            Subject::AnyAgent => Fits::Yes,
            // An agent is found however the letters of its name are written.
            Subject::Word(word) if query.kind == Kind::Task => {
                yes(glob::matches(&self.pattern().to_lowercase(), &word.to_lowercase()))
            }
            Subject::Word(word) if query.kind == Kind::Fetch => yes(address::fits(self.pattern(), word)),
            Subject::Word(word) => yes(glob::matches(self.pattern(), word)),
            Subject::Path(path) => places.fits(self.pattern(), path),
            Subject::Text(text) => match &text.units {
                None => yes(glob::matches(self.pattern(), &text.shown)),
                Some(_) if glob::matches(self.pattern(), &text.shown) => Fits::Yes,
                Some(units) if glob::could_match(self.pattern(), units) => Fits::Could,
                Some(_) => Fits::No,
            },
        }
    }
}

impl Answer {
    fn judged(self, kind: Kind, subject: Option<String>) -> Judged {
        Judged { kind, subject, action: self.action, by: self.by, note: self.note.map(str::to_owned) }
    }

    /// Whether a `deny` of the user's own file said so, or may.
    fn is_users_deny(&self) -> bool {
        self.by.as_ref().is_some_and(|by| by.layer == LayerKind::User && by.action == Action::Deny)
    }

    /// The same, of the node that is so far from the root.
    fn at(mut self, depth: usize) -> Self {
        if let Some(by) = &mut self.by {
            by.depth = depth;
        }
        self
    }

    /// Whether a rule that names what is done denies it or asks, and not one that speaks of everything.
    fn restricts_itself(&self) -> bool {
        self.action > Action::Allow && self.by.is_some() && self.pattern != "*"
    }

    /// Whether a rule for everything asks.
    fn asks_for_everything(&self) -> bool {
        self.action == Action::Ask && self.by.as_ref().is_some_and(|by| by.rule == "*")
    }

    /// Whether a rule that names what is done denies it, and not one that denies everything.
    fn denies_itself(&self) -> bool {
        self.action == Action::Deny && self.pattern != "*"
    }
}

/// The stricter of two answers, the first if they are alike; but of two that deny the one that names what is done: what only
/// starts other things is passed over for one that denies everything.
fn stricter(held: Answer, next: Answer) -> Answer {
    let names = next.denies_itself() && !held.denies_itself();
    if next.action > held.action || (next.action == held.action && names) { next } else { held }
}

fn strictest(answers: impl Iterator<Item = Answer>) -> Answer {
    let nothing =
        || Answer { action: Action::Ask, by: None, pattern: String::new(), note: Some("no rule fits") };
    answers.reduce(stricter).unwrap_or_else(nothing)
}
