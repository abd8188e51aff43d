//! Judges a command: each command of a line, the files that the shell opens, and commands inside of
//! arguments. Pure.

use std::path::{Path, PathBuf};

use super::{Judge, Judged, MatchedText, RuleDecision, RuleQuery, stricter, strictest};
use crate::policy::call::CallCommand;
use crate::policy::paths::{self, BaseFolders};
use crate::policy::rule::{Rule, RuleAction};
use crate::policy::shell::{self, CommandPart, ParsedLine, ShellText, behind_names};
use crate::policy::tool::ToolKind;
use crate::policy::{Node, glob};

/// Limit on pattern length times line length for one call, both in bytes. Larger calls need an approval.
const MAX_STEPS: usize = 50_000_000;

impl Judge<'_> {
    /// Judges a command. A rule that names its tool covers all of it.
    pub(super) fn execute(
        &self,
        command: &CallCommand,
        name: Option<&str>,
        cwd: Option<&str>,
        real: &dyn Fn(&Path) -> PathBuf,
        judged: &mut Vec<Judged>,
    ) {
        let (line, whole) = match command {
            CallCommand::Line(text) => (shell::split(text), text.clone()),
            CallCommand::Words(words) => (shell::of_words(words), words.join(" ")),
        };
        let moved = line.parts.iter().any(|part| self.moves(part, cwd));
        let elsewhere = moved || self.is_elsewhere(cwd);
        if self.is_too_much(&line) {
            judged.push(self.doubtful(
                ToolKind::Execute,
                name,
                "there are too many rules for a command that long",
            ));
            return;
        }
        let before = judged.len();
        judged.extend(line.parts.iter().filter_map(|part| self.part(part, name, elsewhere)));
        self.redirects(&line, moved, cwd, real, judged);
        judged.extend(self.suspicion(&line, name));
        if judged.len() == before && line.opaque.is_none() {
            // No part needs a rule, so each command is judged separately.
            let itself = |part: &CommandPart| {
                self.part(&CommandPart { transparent: false, ..part.clone() }, name, elsewhere)
            };
            judged.extend(line.parts.iter().filter_map(itself));
        }
        let nothing = || judged.is_empty().then(|| "there is no command in it".to_owned());
        if let Some(why) = line.opaque.clone().or_else(nothing) {
            let text = ShellText::open(&whole);
            let query =
                RuleQuery { doubt: true, ..RuleQuery::of(ToolKind::Execute, name, MatchedText::Text(&text)) };
            judged.push(Judged {
                note: Some(why),
                ..self.answer(&query).judged(ToolKind::Execute, Some(whole))
            });
        }
    }

    /// Judges a command of a line. Returns `None` for a wrapper that no specific rule denies: only what it
    /// starts counts.
    fn part(&self, part: &CommandPart, name: Option<&str>, elsewhere: bool) -> Option<Judged> {
        let ask = |text: &ShellText| {
            let query = RuleQuery::of(ToolKind::Execute, name, MatchedText::Text(text));
            self.answer(&RuleQuery { doubt: part.unknown, ..query })
        };
        let shown = part.spellings.last().map(|text| text.shown.clone());
        let mut answer = strictest(part.spellings.iter().map(ask));
        // The start of the inner command is not always known, so restrictions apply from every word on.
        let inner = part.by_name.iter().chain(&part.handed_on).filter_map(|text| {
            self.restricted(&RuleQuery::of(ToolKind::Execute, name, MatchedText::Text(text)))
        });
        if let Some(inner) = inner.reduce(stricter) {
            let unsaid = answer.action == inner.action && answer.by.is_none();
            answer = if unsaid { inner } else { stricter(answer, inner) };
        }
        // A wrapper that starts nothing also follows a specific `ask`.
        let asked = || part.handed_on.is_empty() && answer.restricts_itself();
        if part.transparent && !answer.denies_itself() && !asked() {
            return None;
        }
        if part.unknown {
            answer.note = Some("which program it is, is known only when it runs");
        }
        let narrow = !matches!(answer.pattern.as_str(), "*" | "git*" | "git *");
        if elsewhere && answer.action == RuleAction::Allow {
            let written = shown.as_deref().and_then(|text| text.split(' ').next()).unwrap_or_default();
            let by_path = written.contains('/') && !written.starts_with(['/', '~']) && answer.pattern != "*";
            if part.name == "git" && narrow {
                answer.action = RuleAction::Ask;
                answer.note = Some("in another folder git runs what the repository there configures");
            } else if by_path {
                answer.action = RuleAction::Ask;
                answer.note = Some("in another folder this path is another program");
            }
        }
        Some(answer.judged(ToolKind::Execute, shown))
    }

    /// Whether a command changes the working folder of the next ones.
    fn moves(&self, part: &CommandPart, cwd: Option<&str>) -> bool {
        let stays = |folder: &str| {
            let here = paths::lexical(&self.policy.places.cwd.join(cwd.unwrap_or_default()));
            here == paths::lexical(&here.join(folder))
        };
        let known = part.spellings.last().filter(|text| text.units.is_none());
        let to = known.and_then(|text| text.shown.split_once(' ')).map(|(_, folder)| folder);
        matches!(part.name.as_str(), "cd" | "chdir" | "pushd" | "popd") && !to.is_some_and(stays)
    }

    /// Whether a call runs in another folder than its agent.
    fn is_elsewhere(&self, cwd: Option<&str>) -> bool {
        let own = paths::lexical(&self.policy.places.cwd);
        cwd.is_some_and(|cwd| paths::lexical(&own.join(cwd)) != own)
    }

    /// Whether matching all texts of a line against all rules exceeds the limit.
    fn is_too_much(&self, line: &ParsedLine) -> bool {
        let rules: usize = self.policy.rules().map(|rule| rule.pattern().len()).sum();
        let texts = line.parts.iter().flat_map(|part| part.spellings.iter().chain(&part.handed_on));
        let length: usize = texts.map(|text| text.shown.len()).sum();
        rules.saturating_mul(length) > MAX_STEPS
    }

    /// Asks if an argument contains a restricted command, because any program may start it.
    fn suspicion(&self, line: &ParsedLine, name: Option<&str>) -> Option<Judged> {
        let restricting = |rule: &&Rule| {
            rule.action > RuleAction::Allow && !rule.is_whole() && rule.is_about(ToolKind::Execute, name)
        };
        let first = |rule: &Rule| rule.pattern().split(' ').next().map(str::to_owned);
        let names: Vec<String> = self.policy.rules().filter(restricting).filter_map(first).collect();
        let is_name = |word: &str| {
            names.iter().any(|name| glob::matches(name.rsplit('/').next().unwrap_or(name), word))
        };
        if let Some(why) = line.doubt.as_deref().filter(|_| !names.is_empty()) {
            let mut doubt = self.doubtful(ToolKind::Execute, name, why);
            if self.policy.chain.iter().any(Node::never_asks) {
                doubt.action = RuleAction::Deny;
            }
            return Some(doubt);
        }
        for text in line.loose.iter().filter(|_| !names.is_empty()) {
            let Some(places) = behind_names(text, is_name) else {
                let note = "it holds too many names of commands that rules restrict";
                return Some(self.doubtful(ToolKind::Execute, name, note));
            };
            for place in places {
                let text = ShellText::literal(&place);
                let query = RuleQuery::of(ToolKind::Execute, name, MatchedText::Text(&text));
                if let Some(answer) = self.restricted(&query) {
                    let note = Some("an argument holds a command that this rule restricts");
                    let never_asks = self.policy.chain.iter().any(Node::never_asks);
                    let action = if never_asks { RuleAction::Deny } else { RuleAction::Ask };
                    return Some(
                        RuleDecision { action, note, ..answer }.judged(ToolKind::Execute, Some(place)),
                    );
                }
            }
        }
        None
    }

    /// Judges redirects: writing is an edit, reading may be denied.
    fn redirects(
        &self,
        line: &ParsedLine,
        moved: bool,
        cwd: Option<&str>,
        real: &dyn Fn(&Path) -> PathBuf,
        judged: &mut Vec<Judged>,
    ) {
        for redirect in &line.redirects {
            let kind = if redirect.writes { ToolKind::Edit } else { ToolKind::Read };
            let doubt = kind.changes_files();
            let about = RuleQuery {
                doubt,
                opened: !redirect.writes,
                ..RuleQuery::of(kind, None, MatchedText::Unknown)
            };
            let found = match redirect.path.as_deref().filter(|path| !moved || path.starts_with('/')) {
                Some(path) => self.known_path(&about, &BaseFolders::from(cwd, path), real),
                None => self.noted(&about, "which file the shell opens is known only when it runs"),
            };
            // Reading a file needs no `allow`.
            if redirect.writes || (found.action > RuleAction::Allow && found.by.is_some()) {
                judged.push(found);
            }
        }
    }
}
