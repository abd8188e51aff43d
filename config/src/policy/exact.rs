//! Builds the rule that matches exactly one call, for a permanent decision. Pure.
//!
//! If no such rule exists, none is built: a wider rule would decide more than the owner did.

use std::path::{Path, PathBuf};

use super::call::{CallCommand, ToolCallDescription};
use super::decide::MatchedRule;
use super::rule::{Rule, RuleAction};
use super::shell::{self, ParsedLine};
use super::tool::ToolKind;
use super::{Layer, LayerKind, Policy};

impl ToolCallDescription {
    /// Returns the subject as far as the description shows it: the command, the first path, the URL, the
    /// agent, or the tool's name.
    #[must_use]
    pub fn subject(&self) -> Option<String> {
        let command = self.command.as_ref().map(|command| match command {
            CallCommand::Line(line) => line.clone(),
            CallCommand::Words(words) => words.join(" "),
        });
        let path = || self.changed.first().or(self.paths.first()).cloned();
        command
            .or_else(path)
            .or_else(|| self.urls.first().cloned())
            .or_else(|| self.agent.clone())
            .or_else(|| self.name.clone())
    }
}

/// The nodes that receive a new rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RuleTarget {
    /// Only the node of the asking worker; rules of its ancestors still apply.
    Itself,
    /// The node and all its ancestors.
    All,
}

impl Policy {
    /// Returns the owner's rule that gives this action to exactly this call.
    ///
    /// # Errors
    /// The reason why no such rule exists.
    pub fn exact(
        &self,
        call: &ToolCallDescription,
        action: RuleAction,
        to: RuleTarget,
        real: &dyn Fn(&Path) -> PathBuf,
    ) -> Result<Rule, String> {
        if call.more || call.lost || call.lost_command {
            return Err("the agent does not say all that the call is about".to_owned());
        }
        let kinds = call.kinds();
        let [kind] = kinds.as_slice() else {
            let words: Vec<&str> = kinds.iter().map(|kind| kind.as_str()).collect();
            return Err(format!(
                "it is several things at once ({}), and a rule is about one",
                words.join(", ")
            ));
        };
        let subject = self.only_subject(*kind, call, real)?;
        if subject.contains('*') {
            return Err(format!("there is a `*` in {subject:?}, which is any text in a rule"));
        }
        let rule = Rule::new(kind.as_str(), Some(&subject), action).map_err(|problem| {
            format!("{subject:?} cannot be the pattern of a rule: it {}", problem.problem)
        })?;
        self.check_exact(rule, call, to, real)
    }

    fn only_subject(
        &self,
        kind: ToolKind,
        call: &ToolCallDescription,
        real: &dyn Fn(&Path) -> PathBuf,
    ) -> Result<String, String> {
        let reported = |word: &Option<String>, what: &str| {
            word.clone().ok_or_else(|| format!("the agent does not say {what}"))
        };
        match kind {
            ToolKind::Execute if !call.other_commands.is_empty() => {
                Err("the agent names several commands, and a rule is about one".to_owned())
            }
            ToolKind::Execute => only_command(call.command.as_ref()),
            ToolKind::Read | ToolKind::Edit | ToolKind::Delete | ToolKind::Move | ToolKind::Search => {
                let mut paths: Vec<&String> = call.paths.iter().chain(&call.changed).collect();
                paths.sort_unstable();
                paths.dedup();
                let [path] = paths.as_slice() else {
                    return Err(format!("it is about {} files, and a rule is about one", paths.len()));
                };
                let spellings = self.places.spellings(path, real);
                let [spelling] = spellings.as_slice() else {
                    return Err(format!("{path:?} leads through a symbolic link"));
                };
                let relative = spelling.relative.clone().filter(|path| !path.is_empty());
                Ok(relative.unwrap_or_else(|| spelling.absolute.clone()))
            }
            ToolKind::Fetch => match call.urls.as_slice() {
                [url] => Ok(url.clone()),
                urls => Err(format!("it is about {} addresses, and a rule is about one", urls.len())),
            },
            ToolKind::Task => reported(&call.agent, "the agent"),
            ToolKind::Think | ToolKind::Other | ToolKind::Todo => {
                Err("a rule for such a tool is about everything that it does; write one with --allow if that is meant"
                    .to_owned())
            }
        }
    }

    /// Returns the rule if it gives the call this action.
    fn check_exact(
        &self,
        rule: Rule,
        call: &ToolCallDescription,
        to: RuleTarget,
        real: &dyn Fn(&Path) -> PathBuf,
    ) -> Result<Rule, String> {
        let (text, action) = (rule.text(), rule.action);
        let mut with = self.clone();
        let above = if to == RuleTarget::All { 0 } else { with.chain.len().saturating_sub(1) };
        for node in &mut with.chain[above..] {
            // The last rule of the last layer takes precedence.
            node.layers.push(Layer { kind: LayerKind::Owner, source: None, rules: vec![rule.clone()] });
        }
        let verdict = with.decide(call, real);
        if verdict.action == action {
            return Ok(rule);
        }
        let decisive = verdict.decisive();
        let why = match decisive.and_then(|part| part.by.as_ref()) {
            Some(MatchedRule { layer, rule, action, node, depth, .. })
                if *rule != text || depth + 1 < self.chain.len() =>
            {
                let above = match depth + 1 < self.chain.len() {
                    true => format!(" of {node}, above it,"),
                    false => String::new(),
                };
                format!("the rule `{rule}: {action}` of the {}{above} still holds", layer.as_str())
            }
            _ => decisive.and_then(|part| part.note.clone()).unwrap_or_else(|| "no rule fits".to_owned()),
        };
        Err(format!("with the rule `{text}: {action}` the answer would still be `{}`: {why}", verdict.action))
    }
}

/// Returns the words of the only command in a line.
fn only_command(command: Option<&CallCommand>) -> Result<String, String> {
    let line: ParsedLine = match command {
        // Without quotes the rule could match another command: `rm '~'`, `rm 'a /'`.
        Some(CallCommand::Line(text)) if text.contains(['\'', '"', '\\']) => return Err(quoted()),
        Some(CallCommand::Words(words)) if !are_plain(words) => return Err(quoted()),
        Some(CallCommand::Line(text)) => shell::split(text),
        Some(CallCommand::Words(words)) => shell::of_words(words),
        None => return Err("the agent does not say what it runs".to_owned()),
    };
    if let Some(why) = line.opaque {
        return Err(why);
    }
    if matches!(command, Some(CallCommand::Line(text)) if text.trim_start().split(' ').next().is_some_and(|word| word.contains('=')))
    {
        return Err("it sets a variable".to_owned());
    }
    let [part] = line.parts.as_slice() else {
        return Err("there are several commands in it, and a rule is about one".to_owned());
    };
    if !line.redirects.is_empty() {
        return Err("it opens files by `<` or `>`".to_owned());
    }
    if part.transparent || part.unknown || !part.handed_on.is_empty() {
        return Err("what it starts is another program's business".to_owned());
    }
    match part.spellings.last() {
        Some(text) if text.units.is_none() => Ok(text.shown.clone()),
        _ => Err("not all of it is known before it runs".to_owned()),
    }
}

fn quoted() -> String {
    "it has quotes, or words that need them, and a rule cannot distinguish them".to_owned()
}

/// Whether a shell passes these words unchanged.
fn are_plain(words: &[String]) -> bool {
    let is_plain = |char: char| char.is_alphanumeric() || "_-+./:,=@%".contains(char);
    // In a shell, a program name with `=` would be an assignment.
    words.iter().all(|word| !word.is_empty() && word.chars().all(is_plain))
        && !words.first().is_some_and(|program| program.contains('='))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::super::{BaseFolders, Node, ToolList};
    use super::*;

    fn policy(rules: &[(LayerKind, &str, RuleAction)]) -> Policy {
        let layer = |(kind, rule, action): &(LayerKind, &str, RuleAction)| Layer {
            kind: *kind,
            source: None,
            rules: vec![Rule::parse(rule, *action).unwrap()],
        };
        let places =
            BaseFolders { workspace: "/ws".into(), cwd: "/ws/sub".into(), home: Some("/home/me".into()) };
        Policy { places, chain: vec![Node::new("worker", rules.iter().map(layer).collect())] }
    }

    fn real(path: &Path) -> PathBuf {
        path.to_owned()
    }

    fn exact(reported: &Value, action: RuleAction) -> Result<String, String> {
        policy(&[])
            .exact(&ToolCallDescription::of(reported), action, RuleTarget::Itself, &real)
            .map(|rule| rule.text())
    }

    fn runs(command: &str) -> Value {
        json!({"kind": "execute", "rawInput": {"command": command}})
    }

    fn words(command: &[&str]) -> Value {
        json!({"kind": "execute", "rawInput": {"command": command}})
    }

    #[test]
    fn a_rule_can_be_read_again_however_long_it_is() {
        let (mut made, mut refused) = (0, 0);
        for length in 1000..=1030 {
            for reported in [
                runs(&"x".repeat(length)),
                json!({"kind": "edit", "locations": [{"path": "x".repeat(length)}]}),
            ] {
                match exact(&reported, RuleAction::Allow) {
                    Ok(text) => {
                        made += 1;
                        assert_eq!(Rule::parse(&text, RuleAction::Allow).map(|rule| rule.text()), Ok(text));
                    }
                    Err(_) => refused += 1,
                }
            }
        }
        assert!(made > 0 && refused > 0, "{made} {refused}");
    }

    #[test]
    fn what_the_definition_does_not_list_has_no_rule() {
        let tools = vec![Rule::parse("read", RuleAction::Allow).unwrap()];
        let mut policy = policy(&[]);
        let node = policy.chain.pop().unwrap().with_tools(vec![ToolList { source: None, tools }]);
        policy.chain.push(node);
        let why = policy
            .exact(&ToolCallDescription::of(&runs("make all")), RuleAction::Allow, RuleTarget::Itself, &real)
            .unwrap_err();
        assert!(why.contains("the answer would still be `deny`"), "{why}");
    }

    #[test]
    fn one_thing_has_a_rule() {
        let table = [
            (runs("git  push -f"), "execute(git push -f)"),
            (words(&["make", "X=1", "a.b/c"]), "execute(make X=1 a.b/c)"),
            (runs("/usr/bin/git push"), "execute(/usr/bin/git push)"),
            (json!({"kind": "edit", "locations": [{"path": "/ws/src/a.rs"}]}), "edit(src/a.rs)"),
            (json!({"kind": "edit", "locations": [{"path": "a.rs"}]}), "edit(sub/a.rs)"),
            (json!({"kind": "read", "locations": [{"path": "/etc/hosts"}]}), "read(/etc/hosts)"),
            (json!({"kind": "edit", "locations": [{"path": "/ws/.agents/x.md"}]}), "edit(.agents/x.md)"),
            (json!({"kind": "fetch", "rawInput": {"url": "https://a.b/c?d"}}), "fetch(https://a.b/c?d)"),
            (json!({"name": "Task", "rawInput": {"subagent_type": "reviewer"}}), "task(reviewer)"),
        ];
        for (reported, rule) in table {
            for action in [RuleAction::Allow, RuleAction::Deny] {
                assert_eq!(exact(&reported, action).as_deref(), Ok(rule), "{reported}");
            }
        }
    }

    #[test]
    fn what_is_more_or_less_than_one_thing_has_none() {
        let none = [
            runs("ls; rm x"),
            runs("ls | cat"),
            runs("rm $X"),
            runs("rm *"),
            runs("ls > x"),
            runs("ls \""),
            runs("FOO=1 make"),
            runs("RUST_LOG=debug make"),
            runs("sudo ls"),
            runs("timeout 5 ls"),
            runs("bash -c ls"),
            runs("echo 'a\nb'"),
            runs(&"x".repeat(5000)),
            // Each rule would allow another command, without quotes.
            runs("rm -rf '~'"),
            runs("rm '${HOME}'"),
            runs("rm \"[a]\""),
            runs("rm -rf 'build /'"),
            runs("rm a\\ b"),
            words(&["rm", "~"]),
            words(&["rm", "$HOME"]),
            words(&["rm", "{a,b}"]),
            words(&["rm", "build /"]),
            words(&["rm", ""]),
            words(&["X=1", "make"]),
            json!({"kind": "execute"}),
            json!({"kind": "edit"}),
            json!({"kind": "edit", "locations": [{"path": "a"}, {"path": "b"}]}),
            json!({"kind": "edit", "locations": [{"path": "a*"}]}),
            json!({"kind": "edit", "rawInput": {"command": "x", "path": "y"}}),
            json!({"kind": "fetch"}),
            json!({"kind": "other", "name": "mcp__github__push"}),
            json!({"kind": "think"}),
            json!({}),
        ];
        for reported in none {
            assert!(
                exact(&reported, RuleAction::Allow).is_err(),
                "{reported}: {:?}",
                exact(&reported, RuleAction::Allow)
            );
        }
    }

    #[test]
    fn a_deny_of_the_definition_stays() {
        let rules = [(LayerKind::Definition, "execute(git push*)", RuleAction::Deny)];
        let call = ToolCallDescription::of(&runs("git push"));
        let why = policy(&rules).exact(&call, RuleAction::Allow, RuleTarget::Itself, &real).unwrap_err();
        assert!(why.contains("execute(git push*): deny") && why.contains("definition"), "{why}");
        policy(&rules).exact(&call, RuleAction::Deny, RuleTarget::Itself, &real).unwrap();
        let rules = [(LayerKind::Config, "execute(git push*)", RuleAction::Deny)];
        policy(&rules).exact(&call, RuleAction::Allow, RuleTarget::Itself, &real).unwrap();
    }

    #[test]
    fn a_link_has_no_rule() {
        let real =
            |path: &Path| if path.ends_with("link") { PathBuf::from("/etc/passwd") } else { path.to_owned() };
        let call = ToolCallDescription::of(&json!({"kind": "edit", "locations": [{"path": "/ws/link"}]}));
        assert!(policy(&[]).exact(&call, RuleAction::Allow, RuleTarget::Itself, &real).is_err());
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn a_rule_gives_its_answer_to_what_was_asked_and_to_no_other_command(
            asked in "[a-z]{1,4}( [a-z./-]{1,5}){0,3}", other in "[a-z]{1,4}( [a-z./;&|$-]{1,5}){0,3}",
        ) {
            if let Ok(rule) = exact(&runs(&asked), RuleAction::Allow) {
                let with = policy(&[(LayerKind::Owner, &rule, RuleAction::Allow)]);
                prop_assert_eq!(with.decide(&ToolCallDescription::of(&runs(&asked)), &real).action, RuleAction::Allow);
                let same = other.split_whitespace().eq(asked.split_whitespace());
                if !same {
                    prop_assert_ne!(with.decide(&ToolCallDescription::of(&runs(&other)), &real).action, RuleAction::Allow, "{}", other);
                }
            }
        }
    }
}
