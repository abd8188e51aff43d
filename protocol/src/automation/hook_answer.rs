//! Parses the result of a Before hook: exit status, and JSON in Claude Code's format. Pure.

use serde::Deserialize;

use crate::command_run::{CommandEnd, CommandResult};
use crate::hook::{Hook, HookOrigin};

/// Maximum number of characters reported of a reason or an error output.
const MAX_REASON_CHARS: usize = 2000;
/// Maximum number of bytes that a hook adds to a prompt.
pub const MAX_CONTEXT_BYTES: usize = 16 * 1024;

/// The decision of a hook, the strictest last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum HookWord {
    /// The hook has no opinion.
    Nothing,
    /// Allow the action without asking.
    Allow,
    /// Ask the owner first.
    Ask,
    /// Deny the action without asking.
    Deny,
}

impl HookWord {
    /// Returns its name in JSON.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Nothing => "nothing",
            Self::Allow => "allow",
            Self::Ask => "ask",
            Self::Deny => "deny",
        }
    }
}

/// The answer of a hook.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HookAnswer {
    /// The decision. A failed hook counts as `ask`.
    pub word: HookWord,
    /// The hook's reason, or why it failed.
    pub reason: Option<String>,
    /// Text that is added to the prompt.
    pub context: Option<String>,
    /// Whether it failed; `reason` contains the error.
    pub failed: bool,
    /// Whether it returned `allow` without the right to: that counts as no opinion.
    pub is_ignored: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct HookOutput {
    #[serde(rename = "continue")]
    goes_on: Option<bool>,
    stop_reason: Option<String>,
    decision: Option<String>,
    reason: Option<String>,
    #[serde(default)]
    hook_specific_output: Specific,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Specific {
    permission_decision: Option<String>,
    permission_decision_reason: Option<String>,
    decision: Option<Behavior>,
    additional_context: Option<String>,
}

#[derive(Deserialize)]
struct Behavior {
    behavior: String,
    message: Option<String>,
}

impl HookAnswer {
    /// Interprets the result of this hook: only hooks of the user's own config file may allow.
    #[must_use]
    pub fn of_hook(hook: &Hook, result: &CommandResult) -> Self {
        let answer = Self::of(result);
        if answer.word != HookWord::Allow || hook.origin == HookOrigin::User {
            return answer;
        }
        let reason = "it says `allow`, which counts only from the user's config file".to_owned();
        Self { word: HookWord::Nothing, reason: Some(reason), is_ignored: true, ..answer }
    }

    /// Parses the result of a hook. Exit 2 denies with the error output as the reason, exit 0 may
    /// have JSON on its output, and every other status is a failure.
    #[must_use]
    pub fn of(result: &CommandResult) -> Self {
        match &result.end {
            CommandEnd::Exited { code: 0 } => Self::of_output(result),
            CommandEnd::Exited { code: 2 } => {
                Self { reason: text(&result.stderr), ..Self::says(HookWord::Deny) }
            }
            CommandEnd::Exited { code } => {
                let said = text(&result.stderr).map(|said| format!(": {said}")).unwrap_or_default();
                Self::failure(format!("it exited with {code}{said}"))
            }
            CommandEnd::Signaled { signal } => Self::failure(format!("it was ended by signal {signal}")),
            CommandEnd::TimedOut => Self::failure("it did not end before its deadline".to_owned()),
            CommandEnd::NotStarted { error } => Self::failure(format!("it could not be started: {error}")),
        }
    }

    /// Returns the answer of a failed hook: the owner is asked.
    #[must_use]
    pub fn failure(reason: String) -> Self {
        Self { reason: Some(reason), failed: true, ..Self::says(HookWord::Ask) }
    }

    fn says(word: HookWord) -> Self {
        Self { word, reason: None, context: None, failed: false, is_ignored: false }
    }

    fn of_output(result: &CommandResult) -> Self {
        let said = result.stdout.trim();
        if !said.starts_with('{') {
            return Self { context: context(said), ..Self::says(HookWord::Nothing) };
        }
        if result.truncated {
            return Self::failure("its output is longer than the limit, so its JSON is not whole".to_owned());
        }
        match serde_json::from_str::<HookOutput>(said) {
            Ok(output) => output.answer(),
            Err(error) => Self::failure(format!("its output is not the JSON of a hook: {error}")),
        }
    }
}

impl HookOutput {
    fn answer(self) -> HookAnswer {
        let Specific { permission_decision, permission_decision_reason, decision, additional_context } =
            self.hook_specific_output;
        let mut said = Vec::new();
        said.extend(permission_decision.map(|word| (word, permission_decision_reason)));
        said.extend(decision.map(|decision| (decision.behavior, decision.message)));
        said.extend(self.decision.map(|word| (word, self.reason)));
        if self.goes_on == Some(false) {
            said.push(("block".to_owned(), self.stop_reason));
        }
        let context = additional_context.as_deref().and_then(context);
        let mut answer = HookAnswer { context, ..HookAnswer::says(HookWord::Nothing) };
        for (word, reason) in said {
            let word = match word.as_str() {
                "deny" | "block" => HookWord::Deny,
                "ask" => HookWord::Ask,
                "allow" | "approve" => HookWord::Allow,
                _ => return HookAnswer::failure(format!("its decision is {word:?}; use allow, ask or deny")),
            };
            if word > answer.word {
                (answer.word, answer.reason) = (word, reason.as_deref().and_then(text));
            }
        }
        answer
    }
}

fn text(said: &str) -> Option<String> {
    let said = said.trim();
    (!said.is_empty()).then(|| said.chars().take(MAX_REASON_CHARS).collect())
}

fn context(said: &str) -> Option<String> {
    let end = said.floor_char_boundary(MAX_CONTEXT_BYTES);
    (!said.is_empty()).then(|| said[..end].to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exited(code: i32, stdout: &str, stderr: &str) -> HookAnswer {
        HookAnswer::of(&CommandResult {
            end: CommandEnd::Exited { code },
            stdout: stdout.to_owned(),
            stderr: stderr.to_owned(),
            truncated: false,
        })
    }

    #[test]
    fn the_exit_status_says_nothing_deny_or_failure() {
        assert_eq!(exited(0, "", "noise"), HookAnswer::says(HookWord::Nothing));
        let denied = exited(2, "{\"decision\":\"approve\"}", " not here\n");
        assert_eq!((denied.word, denied.reason.as_deref()), (HookWord::Deny, Some("not here")));
        for code in [1, 3, 127] {
            let failed = exited(code, "", "oh");
            assert!(failed.failed && failed.word == HookWord::Ask, "{code}");
            assert_eq!(failed.reason.unwrap(), format!("it exited with {code}: oh"));
        }
        for end in [
            CommandEnd::TimedOut,
            CommandEnd::Signaled { signal: 9 },
            CommandEnd::NotStarted { error: "no".into() },
        ] {
            let (stdout, stderr) = (String::new(), String::new());
            let failed = HookAnswer::of(&CommandResult { end, stdout, stderr, truncated: false });
            assert!(failed.failed && failed.word == HookWord::Ask);
        }
    }

    #[test]
    fn json_answers_follow_the_claude_code_docs() {
        let table = [
            (
                r#"{"hookSpecificOutput":{"permissionDecision":"deny","permissionDecisionReason":"r"}}"#,
                HookWord::Deny,
            ),
            (
                r#"{"hookSpecificOutput":{"permissionDecision":"allow","permissionDecisionReason":"r"}}"#,
                HookWord::Allow,
            ),
            (
                r#"{"hookSpecificOutput":{"permissionDecision":"ask","permissionDecisionReason":"r"}}"#,
                HookWord::Ask,
            ),
            (r#"{"hookSpecificOutput":{"decision":{"behavior":"deny","message":"r"}}}"#, HookWord::Deny),
            (r#"{"hookSpecificOutput":{"decision":{"behavior":"allow","message":"r"}}}"#, HookWord::Allow),
            (r#"{"decision":"block","reason":"r"}"#, HookWord::Deny),
            (r#"{"decision":"approve","reason":"r"}"#, HookWord::Allow),
            (r#"{"continue":false,"stopReason":"r"}"#, HookWord::Deny),
        ];
        for (json, word) in table {
            let answer = exited(0, json, "");
            assert_eq!(
                (answer.word, answer.reason.as_deref(), answer.failed),
                (word, Some("r"), false),
                "{json}"
            );
        }
        let both = r#"{"decision":"approve","hookSpecificOutput":{"permissionDecision":"deny"}}"#;
        assert_eq!(exited(0, both, "").word, HookWord::Deny);
    }

    #[test]
    fn half_json_is_a_failure_and_plain_text_is_context() {
        for json in ["{", r#"{"decision":7}"#, r#"{"decision":"perhaps"}"#] {
            assert!(exited(0, json, "").failed, "{json}");
        }
        assert_eq!(exited(0, "be careful\n", "").context.as_deref(), Some("be careful"));
        let long = "é".repeat(MAX_CONTEXT_BYTES);
        assert_eq!(exited(0, &long, "").context.unwrap().len(), MAX_CONTEXT_BYTES);
    }
}
