//! Which option of a permission request a person means (contract section 11), and what is answered to an elicitation.

use serde_json::Value;
use subagent_protocol::api::Decide;
use subagent_protocol::event::ApprovalOption;
use subagent_protocol::secret::Secret;
use subagent_protocol::state::ElicitationAction;
use subagent_protocol::{Code, Error, Result};

/// What was chosen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Choice {
    /// The option to select; `None` answers `cancelled`.
    pub option_id: Option<String>,
    /// The option's alias.
    pub alias: Option<String>,
    /// The decision in the words that were given.
    pub decision: String,
}

impl Choice {
    /// None of the options, because the turn is canceled.
    #[must_use]
    pub fn cancelled() -> Self {
        const WORD: &str = "cancelled";
        Self { option_id: None, alias: Some(WORD.to_owned()), decision: WORD.to_owned() }
    }
}

/// An answer to an elicitation, which was checked against what is asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reply {
    /// What is answered.
    pub action: ElicitationAction,
    /// The names of the fields that were filled in.
    pub fields: Vec<String>,
    /// What was filled in, as JSON text.
    pub content: Option<Secret<String>>,
}

const ALLOW_WORDS: &[&str] =
    &["allow", "approve", "approved", "accept", "accepted", "yes", "y", "permit", "grant"];
const DENY_WORDS: &[&str] = &["deny", "reject", "rejected", "denied", "no", "n", "block"];
const CANCEL_WORDS: &[&str] = &["cancel", "cancelled", "canceled"];

/// Finds the option: an exact option id, then an exact alias, then the decision as alias or id, without regard to
/// case, as a synonym of allow or deny, and at last by ACP's `kind`, once before always.
///
/// # Errors
/// `INVALID_APPROVAL_DECISION{decision,optionId,alias}` with the options that there are.
pub fn choose(options: &[ApprovalOption], request: &Decide) -> Result<Choice> {
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
        Ok(option) => Ok(Choice {
            option_id: Some(option.id.clone()),
            alias: Some(option.alias.clone()),
            decision: decision.to_owned(),
        }),
        Err(word) if CANCEL_WORDS.contains(&word.to_lowercase().as_str()) => {
            Ok(Choice { option_id: None, alias: None, decision: decision.to_owned() })
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

/// What follows from the answers of hooks and the rules together.
#[derive(Debug, Clone, PartialEq)]
pub enum HooksOutcome {
    /// The owner is asked.
    Ask,
    /// A rule decides.
    ByRule {
        /// What.
        choice: Choice,
        /// Which rule, as events tell of it.
        rule: Value,
    },
    /// A hook decides.
    ByHook {
        /// What.
        choice: Choice,
        /// Why, in the hook's words.
        reason: Option<String>,
        /// Which hook, as events tell of it.
        hook: Value,
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
