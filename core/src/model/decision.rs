//! Maps the words of a decision to an option of a permission request (contract section 11), and
//! holds answers to elicitations.

use serde_json::Value;
use subagent_protocol::api::Decide;
use subagent_protocol::data::questions::{DecidingHook, DecidingRule};
use subagent_protocol::event::ApprovalOption;
use subagent_protocol::secret::Secret;
use subagent_protocol::state::ElicitationAction;

use subagent_protocol::{Code, Error, Result};

/// A decision about a permission request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PermissionDecision {
    /// The chosen option. `None` answers `cancelled`.
    pub option_id: Option<String>,
    /// Alias of the option.
    pub alias: Option<String>,
    /// The decision in the caller's words.
    pub decision: String,
}

impl PermissionDecision {
    /// Returns the decision of a canceled turn, which chooses no option.
    #[must_use]
    pub fn cancelled() -> Self {
        const WORD: &str = "cancelled";
        Self { option_id: None, alias: Some(WORD.to_owned()), decision: WORD.to_owned() }
    }
}

/// A validated answer to an elicitation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ElicitationReply {
    /// Accept, decline or cancel.
    pub action: ElicitationAction,
    /// Names of the answered fields.
    pub fields: Vec<String>,
    /// The answered values as JSON text.
    pub content: Option<Secret<String>>,
}

const ALLOW_WORDS: &[&str] =
    &["allow", "approve", "approved", "accept", "accepted", "yes", "y", "permit", "grant"];

const DENY_WORDS: &[&str] = &["deny", "reject", "rejected", "denied", "no", "n", "block"];

const CANCEL_WORDS: &[&str] = &["cancel", "cancelled", "canceled"];

/// Finds the option. In this order: exact option id; exact alias; the decision as alias or id; the
/// same ignoring case; as a synonym of allow or deny; by ACP's `kind`, `once` before `always`.
///
/// # Errors
/// `INVALID_APPROVAL_DECISION{decision,optionId,alias}` with the available options.
pub fn choose(options: &[ApprovalOption], request: &Decide) -> Result<PermissionDecision> {
    let decision = request
        .decision
        .as_deref()
        .or(request.alias.as_deref())
        .or(request.option_id.as_deref())
        .unwrap_or("");
    let found = match (&request.option_id, &request.alias, &request.decision) {
        (Some(id), _, _) => options.iter().find(|option| option.id == *id).ok_or(id.as_str()),
        (None, Some(alias), _) => options.iter().find(|option| option.alias == *alias).ok_or(alias.as_str()),
        (None, None, Some(word)) => by_word(options, word).ok_or(word.as_str()),
        (None, None, None) => Err(""),
    };
    match found {
        Ok(option) => Ok(PermissionDecision {
            option_id: Some(option.id.clone()),
            alias: Some(option.alias.clone()),
            decision: decision.to_owned(),
        }),
        Err(word) if CANCEL_WORDS.contains(&word.to_lowercase().as_str()) => {
            Ok(PermissionDecision { option_id: None, alias: None, decision: decision.to_owned() })
        }
        Err(_) => {
            let offered: Vec<&str> = options.iter().map(|option| option.id.as_str()).collect();
            Err(Error::new(
                Code::InvalidApprovalDecision,
                format!("no option matches; the agent offers: {}", offered.join(", ")),
            )
            .with("decision", Value::from(request.decision.clone()))
            .with("optionId", Value::from(request.option_id.clone()))
            .with("alias", Value::from(request.alias.clone()))
            .with("options", offered)
            .recommend("pass --option-id with one of the offered options"))
        }
    }
}

fn by_word<'a>(options: &'a [ApprovalOption], word: &str) -> Option<&'a ApprovalOption> {
    let lower = word.to_lowercase();
    let synonym = if ALLOW_WORDS.contains(&lower.as_str()) {
        Some(("allow", ["allow_once", "allow_always"]))
    } else if DENY_WORDS.contains(&lower.as_str()) {
        Some(("deny", ["reject_once", "reject_always"]))
    } else {
        None
    };
    let find = |matches: &dyn Fn(&ApprovalOption) -> bool| options.iter().find(|option| matches(option));
    find(&|option| option.alias == word || option.id == word)
        .or_else(|| find(&|option| option.alias.to_lowercase() == lower || option.id.to_lowercase() == lower))
        .or_else(|| {
            let (canonical, kinds) = synonym?;
            find(&|option| option.alias == canonical).or_else(|| {
                kinds.iter().find_map(|kind| find(&|option| option.kind.as_deref() == Some(kind)))
            })
        })
}

/// The combined outcome of hooks and policy.
#[derive(Debug, Clone, PartialEq)]
pub enum HooksOutcome {
    /// Asks the owner to decide.
    Ask,
    /// A rule decides the request.
    ByRule {
        /// The decision of the rule.
        choice: PermissionDecision,
        /// The rule that decides it.
        rule: DecidingRule,
    },
    /// A hook decides the request.
    ByHook {
        /// The decision of the hook.
        choice: PermissionDecision,
        /// The reason that the hook gave.
        reason: Option<String>,
        /// The hook that decides it.
        hook: DecidingHook,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    fn option(id: &str, kind: &str) -> ApprovalOption {
        ApprovalOption {
            id: id.to_owned(),
            alias: id.to_lowercase(),
            label: id.to_owned(),
            kind: (!kind.is_empty()).then(|| kind.to_owned()),
        }
    }

    fn decide(word: &str) -> Decide {
        Decide { decision: Some(word.to_owned()), ..Decide::default() }
    }

    #[test]
    fn words_of_people_find_the_option() {
        let gemini = [
            option("proceed_always", "allow_always"),
            option("proceed_once", "allow_once"),
            option("cancel", "reject_once"),
        ];
        let claude = [
            option("allow-once", "allow_once"),
            option("allow-with-updates", "allow_always"),
            option("reject", "reject_once"),
        ];
        let plain = [option("allow", ""), option("deny", "")];
        let opaque = [option("opt-2", "reject_once"), option("Opt-1", "allow_always")];
        let table: &[(&[ApprovalOption], &str, Option<&str>)] = &[
            (&gemini, "allow", Some("proceed_once")),
            (&gemini, "yes", Some("proceed_once")),
            (&gemini, "no", Some("cancel")),
            (&gemini, "PROCEED_ALWAYS", Some("proceed_always")),
            (&gemini, "cancel", Some("cancel")),
            (&claude, "approve", Some("allow-once")),
            (&claude, "reject", Some("reject")),
            (&claude, "deny", Some("reject")),
            (&plain, "Accepted", Some("allow")),
            (&plain, "block", Some("deny")),
            (&plain, "cancelled", None),
            (&opaque, "allow", Some("Opt-1")),
            (&opaque, "opt-1", Some("Opt-1")),
        ];
        for (options, word, expected) in table {
            assert_eq!(choose(options, &decide(word)).unwrap().option_id.as_deref(), *expected, "{word}");
        }
    }

    #[test]
    fn option_id_wins_over_alias_over_decision() {
        let options = [option("a", "allow_once"), option("b", "reject_once"), option("c", "")];
        let request = Decide {
            decision: Some("a".to_owned()),
            alias: Some("b".to_owned()),
            option_id: Some("c".to_owned()),
            note: None,
            always: None,
        };
        let choice = choose(&options, &request).unwrap();
        assert_eq!((choice.option_id.as_deref(), choice.decision.as_str()), (Some("c"), "a"));
        assert_eq!(
            choose(&options, &Decide { option_id: None, ..request }).unwrap().option_id.as_deref(),
            Some("b")
        );
    }

    #[test]
    fn nothing_matches_nothing() {
        let options = [option("allow", "allow_once")];
        for request in [decide("maybe"), decide("deny"), decide(""), Decide::default()] {
            let error = choose(&options, &request).unwrap_err();
            assert_eq!(error.code, Code::InvalidApprovalDecision);
            assert!(error.details.contains_key("decision"));
        }
        let unknown = Decide { option_id: Some("x".to_owned()), ..decide("allow") };
        assert!(choose(&options, &unknown).is_err());
    }
}
