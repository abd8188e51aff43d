//! Maps keys to answers of a permission request. Pure.

use super::keyboard::DialogKey;

/// The prompt that the user sees.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PromptStage {
    /// The user selects one of the keys.
    Choice,
    /// The user confirms the rule that was shown.
    Always,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PermissionChoice {
    /// Allow the call once.
    Allow,
    /// Allow the call and everything that the rule matches.
    AllowAlways,
    /// Reject the call without a note.
    Reject,
    /// Reject the call with a note that is typed next.
    RejectWithNote,
    /// Leave the request in the inbox.
    Skip,
}

/// The effect of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PermissionStep {
    Done(PermissionChoice),
    Ask(PromptStage),
    ShowAll,
    Interrupt,
    Stay,
}

/// The labels of the keys, from the longest form to the shortest.
const CHOICES: [[&str; 6]; 3] = [
    ["[y] allow once", "[a] always", "[n] reject", "[N] reject with a note", "[d] show all", "[s] skip"],
    ["[y] allow once", "[a] always", "[n] reject", "[N] with a note", "[d] all", "[s] skip"],
    ["[y] once", "[a] always", "[n] reject", "[N] note", "[d] all", "[s] skip"],
];

/// Returns the labels for a terminal of this width. The cursor follows them.
pub(crate) fn keys(stage: PromptStage, has_rule: bool, width: usize) -> String {
    let choice = |labels: &[&str; 6], gap: &str| {
        let labels = labels.iter().filter(|label| has_rule || !label.starts_with("[a]"));
        labels.copied().collect::<Vec<_>>().join(gap)
    };
    match stage {
        PromptStage::Choice => {
            let [long, middle, short] = &CHOICES;
            let forms = [choice(long, "  "), choice(middle, "  ")];
            let fitting = forms.into_iter().find(|line| line.len() + 1 < width);
            fitting.unwrap_or_else(|| choice(short, " "))
        }
        PromptStage::Always => "[Enter] allow and make this rule  [any other key] back".to_owned(),
    }
}

pub(crate) const fn press(stage: PromptStage, key: DialogKey, has_rule: bool) -> PermissionStep {
    match (stage, key) {
        (_, DialogKey::Interrupt) => PermissionStep::Interrupt,
        (_, DialogKey::End) => PermissionStep::Done(PermissionChoice::Skip),
        (PromptStage::Always, DialogKey::Enter) => PermissionStep::Done(PermissionChoice::AllowAlways),
        (PromptStage::Always, _) => PermissionStep::Ask(PromptStage::Choice),
        (PromptStage::Choice, DialogKey::Char(key)) => match key {
            'y' | 'Y' => PermissionStep::Done(PermissionChoice::Allow),
            'a' | 'A' if has_rule => PermissionStep::Ask(PromptStage::Always),
            'n' => PermissionStep::Done(PermissionChoice::Reject),
            'N' => PermissionStep::Done(PermissionChoice::RejectWithNote),
            'd' | 'D' => PermissionStep::ShowAll,
            's' | 'S' => PermissionStep::Done(PermissionChoice::Skip),
            _ => PermissionStep::Stay,
        },
        (PromptStage::Choice, DialogKey::Enter | DialogKey::Suspend | DialogKey::Other) => {
            PermissionStep::Stay
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn enter_never_allows_what_was_not_chosen_before() {
        assert_eq!(press(PromptStage::Choice, DialogKey::Enter, true), PermissionStep::Stay);
        assert_eq!(
            press(PromptStage::Choice, DialogKey::Char('a'), false),
            PermissionStep::Stay,
            "there is no rule"
        );
        assert_eq!(
            press(PromptStage::Choice, DialogKey::Char('a'), true),
            PermissionStep::Ask(PromptStage::Always)
        );
        assert_eq!(
            press(PromptStage::Always, DialogKey::Enter, true),
            PermissionStep::Done(PermissionChoice::AllowAlways)
        );
        assert_eq!(
            press(PromptStage::Always, DialogKey::Char('y'), true),
            PermissionStep::Ask(PromptStage::Choice)
        );
    }

    #[test]
    fn the_keys_fit_the_terminal() {
        for width in [60, 80, 100, 200] {
            for (stage, has_rule) in
                [(PromptStage::Choice, true), (PromptStage::Choice, false), (PromptStage::Always, true)]
            {
                let line = keys(stage, has_rule, width);
                assert!(line.len() + 1 < width, "{width}: {line}");
            }
        }
        assert!(keys(PromptStage::Choice, true, 100).contains("[N] reject with a note"));
        assert_eq!(keys(PromptStage::Choice, true, 60).matches('[').count(), 6);
        assert!(!keys(PromptStage::Choice, false, 60).contains("[a]"));
    }

    #[test]
    fn every_key_that_is_shown_does_something() {
        for key in keys(PromptStage::Choice, true, 200).split('[').filter_map(|part| part.chars().next()) {
            assert_ne!(press(PromptStage::Choice, DialogKey::Char(key), true), PermissionStep::Stay, "{key}");
        }
        assert_eq!(
            press(PromptStage::Choice, DialogKey::End, true),
            PermissionStep::Done(PermissionChoice::Skip)
        );
        assert_eq!(press(PromptStage::Always, DialogKey::Interrupt, true), PermissionStep::Interrupt);
    }
}
