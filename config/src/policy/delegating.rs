//! Whether rules permit delegation, and whether a tool list covers a tool. Pure.

use super::{Rule, RuleAction, ToolKind};

/// Whether at least one agent can be called under these rules and tools of a definition.
#[must_use]
pub fn lets_tasks(rules: &[Rule], listed: &[Rule]) -> bool {
    let about = |rule: &&Rule| rule.is_about(ToolKind::Task, None);
    let last =
        rules.iter().rev().filter(about).find(|rule| rule.action < RuleAction::Deny || rule.is_whole());
    let lists = listed.is_empty() || listed.iter().any(|rule| about(&rule));
    lists && last.is_some_and(|rule| rule.action < RuleAction::Deny)
}

/// Whether one entry of the list covers the tool completely; an empty list covers all.
#[must_use]
pub fn lists_tool(listed: &[Rule], tool: &Rule) -> bool {
    listed.is_empty() || listed.iter().any(|one| one.covers(tool))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn m4_only_a_rule_for_task_permits_calls() {
        let rules = |texts: &[(&str, RuleAction)]| -> Vec<Rule> {
            texts.iter().map(|(text, action)| Rule::parse(text, *action).unwrap()).collect()
        };
        use RuleAction::{Allow, Ask, Deny};
        for (texts, expected) in [
            (&[][..], false),
            (&[("*", Allow)], false),
            (&[("task", Deny)], false),
            (&[("task", Deny), ("task", Allow)], true),
            (&[("task", Ask)], true),
            (&[("task", Deny), ("Task(reviewer)", Allow)], true),
            (&[("task", Allow), ("task(reviewer)", Deny)], true),
            (&[("task(reviewer)", Allow), ("*", Deny)], false),
            (&[("task(reviewer)", Allow), ("task", Deny)], false),
        ] {
            assert_eq!(lets_tasks(&rules(texts), &[]), expected, "{texts:?}");
        }
        let allow = rules(&[("task", Allow)]);
        assert!(lets_tasks(&allow, &rules(&[("read", Allow), ("Task", Allow)])));
        assert!(!lets_tasks(&allow, &rules(&[("read", Allow)])), "a tool that is not listed is denied");
    }
}
