//! The question that is on the screen, and the keys that answer it. Pure.
//!
//! A key must not answer a question that its person has not seen: one that has just come up is deaf for a moment.

use ratatui::text::Line;
use serde_json::Value;
use subagent_protocol::api::ApprovalShown;
use subagent_protocol::ids::RequestId;
use subagent_protocol::state::{ApprovalStatus, QuestionKind};
use subagent_protocol::time::Timestamp;

use super::effect::BoardCommand;
use super::keys::KeyPress;
use super::{bounds, styled};
use crate::dialog::QuestionRef;
use crate::dialog::keyboard::DialogKey;
use crate::dialog::permission::{PermissionChoice, PermissionStep, PromptStage, press};
use crate::output::human::{self, Detail};
use crate::output::terminal::OutputTerminal;

/// For how long a question is on the screen before a key answers it, in milliseconds.
const DEAF_MS: i64 = 300;
/// As many options as ACP has kinds; more, or two of a kind, are chosen by their number.
const USUAL_OPTIONS: usize = 4;
/// As many as there are digits.
const MAX_NUMBERED: usize = 9;

/// A question, as far as it is known.
#[derive(Debug, Default)]
pub(super) struct QuestionView {
    question: Option<QuestionRef>,
    /// The question in full, and since when it is on the screen.
    shown: Option<(ApprovalShown, Timestamp)>,
    /// The question in full for a width.
    lines: Option<(usize, Vec<Line<'static>>)>,
    /// Whether the rule that an answer makes is shown.
    is_at_rule: bool,
    is_answered: bool,
    /// Whether the window has no room for all of the rule: it cannot be made then.
    hides_rule: bool,
    /// Whether it could not be fetched.
    has_failed: bool,
}

/// What a key did to a question.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Pressed {
    /// It is no key for a question.
    Passed,
    /// Something else is shown.
    Shown,
    /// It came before the person can have read the question.
    TooEarly,
    /// It would make a rule of which a part is not on the screen.
    RuleHidden,
    /// The answer, as a command.
    Answer(BoardCommand),
    /// A note comes first.
    Note(RequestId),
    /// The form is filled in outside of the board.
    FillIn(QuestionRef),
}

impl QuestionView {
    /// Turns to a question, or to none. Returns the one that has to be fetched.
    pub(super) fn turn_to(&mut self, question: Option<QuestionRef>) -> Option<RequestId> {
        if self.question == question {
            return None;
        }
        *self = Self { question, ..Self::default() };
        self.question.as_ref()?.request_id.parse().ok()
    }

    /// Takes a question that was fetched.
    pub(super) fn show(&mut self, request: &RequestId, mut shown: Value, now: Timestamp) {
        if self.is_about(request.as_str()) {
            bounds::cut(&mut shown);
            let Ok(shown) = serde_json::from_value::<ApprovalShown>(shown) else {
                self.has_failed = true;
                return;
            };
            self.is_answered = shown.item.status != ApprovalStatus::Pending;
            self.has_failed = false;
            self.lines = None;
            self.shown = Some((shown, now));
        }
    }

    /// A question could not be fetched.
    pub(super) fn fail(&mut self, request: &RequestId) {
        self.has_failed |= self.is_about(request.as_str());
    }

    /// Forgets a question that could not be fetched, so that it is fetched again.
    pub(super) fn retry(&mut self) {
        if self.has_failed {
            *self = Self::default();
        }
    }

    /// A command did not succeed: if it was the answer, the question is open again.
    pub(super) fn reopen(&mut self, command: &BoardCommand) {
        if command.words.get(1).is_some_and(|request| self.is_about(request)) {
            self.is_answered = false;
        }
    }

    fn is_about(&self, request: &str) -> bool {
        self.question.as_ref().is_some_and(|question| question.request_id == request)
    }

    /// Stores whether a part of the rule would not be on the screen.
    pub(super) fn hide_rule(&mut self, is_hidden: bool) {
        self.hides_rule = is_hidden;
    }

    /// The question in full.
    pub(super) fn shown(&self) -> Option<&ApprovalShown> {
        self.shown.as_ref().map(|(shown, _)| shown)
    }

    /// The question in full, in lines of at most this width.
    pub(super) fn lines(&mut self, width: usize) -> &[Line<'static>] {
        let Some((shown, _)) = &self.shown else { return &[] };
        let known = self.lines.take_if(|(known, _)| *known == width);
        let made = || {
            let text = human::question(shown, Detail::Short, OutputTerminal { width, colour: true });
            (width, styled::lines(text.trim_start_matches('\n'), width))
        };
        &self.lines.insert(known.unwrap_or_else(made)).1
    }

    /// The rule that is about to be made.
    pub(super) fn rule_to_make(&self) -> Option<&str> {
        self.rule().filter(|_| self.is_at_rule)
    }

    /// The rule that `a` leads to.
    pub(super) fn rule(&self) -> Option<&str> {
        self.shown()?.always_rule.as_deref()
    }

    /// When keys begin to count; `None` if they do, or there is no question.
    pub(super) fn deaf_until(&self, now: Timestamp) -> Option<Timestamp> {
        let until = self.shown.as_ref()?.1.0.saturating_add(DEAF_MS);
        (until > now.0).then_some(Timestamp(until))
    }

    /// The options that are chosen by number, with their labels and ids.
    pub(super) fn numbered(&self) -> Vec<(&str, &str)> {
        let options = self.shown().map_or(&[][..], |shown| &shown.options);
        let mut kinds: Vec<&str> = options.iter().filter_map(|option| option.kind.as_deref()).collect();
        kinds.sort_unstable();
        kinds.dedup();
        if options.len() <= USUAL_OPTIONS && kinds.len() == options.len() {
            return Vec::new();
        }
        let labeled = options.iter().map(|option| (option.label.as_str(), option.id.as_str()));
        labeled.take(MAX_NUMBERED).collect()
    }

    /// The keys that count, from the most important one.
    pub(super) fn keys(&self, now: Timestamp) -> Vec<&'static str> {
        match (&self.question, &self.shown) {
            (Some(_), Some(_)) if self.is_answered => vec!["answered"],
            (Some(question), Some(_)) if self.deaf_until(now).is_none() => match question.kind {
                _ if self.rule_to_make().is_some() && self.hides_rule => vec!["[any key] back"],
                _ if self.rule_to_make().is_some() => {
                    vec!["[Enter] allow and make this rule", "[any key] back"]
                }
                QuestionKind::Elicitation => vec!["[y] fill in", "[n] decline"],
                QuestionKind::Permission => {
                    let always = self.rule().map(|_| "[a] always");
                    let numbers = (!self.numbered().is_empty()).then_some("[1-9] option");
                    let keys =
                        [Some("[y] once"), always, Some("[n] reject"), Some("[N] with a note"), numbers];
                    keys.into_iter().flatten().collect()
                }
            },
            _ => Vec::new(),
        }
    }

    pub(super) fn press(&mut self, key: &KeyPress, now: Timestamp) -> Pressed {
        let Some(question) = self.question.clone().filter(|_| !self.is_answered) else {
            return Pressed::Passed;
        };
        let answers = matches!(key, KeyPress::Char('y' | 'Y' | 'a' | 'A' | 'n' | 'N' | '1'..='9'));
        // The selection may have just moved to another worker by itself: `c` would cancel the wrong turn.
        let cancels = matches!(key, KeyPress::Char('c')) && !self.has_failed;
        if !answers && !cancels && !self.is_at_rule {
            return Pressed::Passed;
        }
        let is_numbered = matches!(key, KeyPress::Char('1'..='9')) && !self.is_at_rule;
        if is_numbered && self.numbered().is_empty() {
            return Pressed::Passed;
        }
        if self.shown.is_none() || self.deaf_until(now).is_some() {
            return Pressed::TooEarly;
        }
        if cancels && !self.is_at_rule {
            return Pressed::Passed;
        }
        if self.is_at_rule && self.hides_rule && *key == KeyPress::Enter {
            return Pressed::RuleHidden;
        }
        if is_numbered {
            return self.choose(&question, key);
        }
        match question.kind {
            QuestionKind::Elicitation => match key {
                KeyPress::Char('y' | 'Y') => Pressed::FillIn(question),
                KeyPress::Char('n' | 'N') => {
                    let words = ["answer", &question.request_id, "--decline"].map(str::to_owned);
                    self.answer(words.to_vec(), "declined")
                }
                _ => Pressed::Passed,
            },
            QuestionKind::Permission => self.decide(&question, key),
        }
    }

    fn decide(&mut self, question: &QuestionRef, key: &KeyPress) -> Pressed {
        let stage = if self.is_at_rule { PromptStage::Always } else { PromptStage::Choice };
        let key = match key {
            KeyPress::Char(char) => DialogKey::Char(*char),
            KeyPress::Enter => DialogKey::Enter,
            _ => DialogKey::Other,
        };
        let has_rule = self.rule().is_some();
        match press(stage, key, has_rule) {
            PermissionStep::Done(PermissionChoice::RejectWithNote) => match question.request_id.parse() {
                Ok(request) => Pressed::Note(request),
                Err(_) => Pressed::Passed,
            },
            PermissionStep::Done(wish) => match words(&question.request_id, wish) {
                Some((words, said)) => self.answer(words, said),
                None => Pressed::Passed,
            },
            PermissionStep::Ask(next) => {
                self.is_at_rule = next == PromptStage::Always;
                Pressed::Shown
            }
            PermissionStep::ShowAll | PermissionStep::Interrupt | PermissionStep::Stay => Pressed::Passed,
        }
    }

    fn choose(&mut self, question: &QuestionRef, key: &KeyPress) -> Pressed {
        let KeyPress::Char(digit) = key else { return Pressed::Passed };
        let number = digit.to_digit(10).and_then(|digit| usize::try_from(digit).ok()).unwrap_or(0);
        let chosen = number.checked_sub(1).and_then(|index| self.numbered().get(index).copied());
        let Some((label, id)) = chosen else { return Pressed::Passed };
        let said = format!("answered with {label}");
        let words = vec!["approve".to_owned(), question.request_id.clone(), format!("--option-id={id}")];
        self.answer(words, &said)
    }

    /// The rejection of a question with a note.
    pub(super) fn reject(&mut self, request: &RequestId, note: &str) -> BoardCommand {
        let mut words = decision(request.as_str(), "reject");
        if !note.trim().is_empty() {
            words.push(format!("--note={note}"));
        }
        self.is_answered |= self.is_about(request.as_str());
        BoardCommand { words, says: ("rejecting".to_owned(), "rejected with a note".to_owned()) }
    }

    fn answer(&mut self, words: Vec<String>, said: &str) -> Pressed {
        self.is_answered = true;
        self.is_at_rule = false;
        Pressed::Answer(BoardCommand { words, says: ("answering".to_owned(), said.to_owned()) })
    }
}

fn decision(request: &str, word: &str) -> Vec<String> {
    ["approve", request, "--decision", word].map(str::to_owned).to_vec()
}

/// The command for a wish, and what is said of it.
fn words(request: &str, wish: PermissionChoice) -> Option<(Vec<String>, &'static str)> {
    match wish {
        PermissionChoice::Allow => Some((decision(request, "allow"), "allowed once")),
        PermissionChoice::AllowAlways => {
            let mut words = decision(request, "allow");
            words.extend(["--always", "worker"].map(str::to_owned));
            Some((words, "allowed, and from now on by the rule"))
        }
        PermissionChoice::Reject => Some((decision(request, "reject"), "rejected")),
        PermissionChoice::RejectWithNote | PermissionChoice::Skip => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::fixture::{self, and};
    use super::*;

    const REQUEST: &str = "ap_0123456789";

    fn asked(kind: QuestionKind, more: Value) -> QuestionView {
        let mut asked = QuestionView::default();
        let question =
            QuestionRef { worker_id: "w_0123456789".to_owned(), request_id: REQUEST.to_owned(), kind };
        let wanted = asked.turn_to(Some(question.clone())).unwrap();
        assert_eq!((wanted.as_str(), asked.turn_to(Some(question))), (REQUEST, None));
        let shown = json!({"kind": kind, "alwaysRule": "execute(make)"});
        let shown = fixture::question(&wanted, and(shown, more));
        asked.show(&wanted, shown, Timestamp(0));
        asked
    }

    fn line(pressed: Pressed) -> String {
        match pressed {
            Pressed::Answer(command) => command.words.join(" "),
            other => format!("{other:?}"),
        }
    }

    fn pressed(keys: &str) -> String {
        let mut asked = asked(QuestionKind::Permission, json!({}));
        let keys = keys.chars().map(|char| if char == '\r' { KeyPress::Enter } else { KeyPress::Char(char) });
        keys.map(|key| line(asked.press(&key, Timestamp(1000)))).last().unwrap()
    }

    #[test]
    fn keys_answer_as_commands_do() {
        for (keys, expected) in [
            ("y", "approve ap_0123456789 --decision allow"),
            ("n", "approve ap_0123456789 --decision reject"),
            ("a", "Shown"),
            ("a\r", "approve ap_0123456789 --decision allow --always worker"),
            ("ay", "Shown"),
            ("ayy", "approve ap_0123456789 --decision allow"),
            ("\r", "Passed"),
            ("s", "Passed"),
            ("1", "Passed"),
            ("yy", "Passed"),
        ] {
            assert_eq!(pressed(keys), expected, "{keys:?}");
        }
        let mut asked = asked(QuestionKind::Permission, json!({}));
        let Pressed::Note(request) = asked.press(&KeyPress::Char('N'), Timestamp(1000)) else { panic!() };
        let words = asked.reject(&request, "-- no").words;
        assert_eq!(words[2..], ["--decision", "reject", "--note=-- no"].map(str::to_owned));
    }

    #[test]
    fn a_question_that_has_just_come_up_is_not_answered() {
        let mut asked = asked(QuestionKind::Permission, json!({}));
        assert_eq!(asked.press(&KeyPress::Char('y'), Timestamp(DEAF_MS - 1)), Pressed::TooEarly);
        assert_eq!(asked.press(&KeyPress::Char('c'), Timestamp(DEAF_MS - 1)), Pressed::TooEarly);
        assert_eq!(asked.press(&KeyPress::Char('c'), Timestamp(DEAF_MS)), Pressed::Passed);
        assert!(asked.keys(Timestamp(0)).is_empty() && asked.deaf_until(Timestamp(DEAF_MS)).is_none());
        assert_eq!(asked.keys(Timestamp(DEAF_MS))[0], "[y] once");
        asked.turn_to(Some(QuestionRef {
            worker_id: "w_0123456789".to_owned(),
            request_id: "ap_9999999999".to_owned(),
            kind: QuestionKind::Permission,
        }));
        assert_eq!(asked.press(&KeyPress::Char('y'), Timestamp(9999)), Pressed::TooEarly, "it was not shown");
        asked.show(&REQUEST.parse().unwrap(), json!({"status": "pending"}), Timestamp(0));
        assert!(asked.shown().is_none(), "that is another question");
    }

    #[test]
    fn a_rule_that_is_not_all_on_the_screen_is_not_made() {
        let mut asked = asked(QuestionKind::Permission, json!({}));
        assert_eq!(asked.press(&KeyPress::Char('a'), Timestamp(1000)), Pressed::Shown);
        asked.hide_rule(true);
        assert_eq!(asked.keys(Timestamp(1000)), ["[any key] back"]);
        assert_eq!(asked.press(&KeyPress::Enter, Timestamp(1000)), Pressed::RuleHidden);
        asked.hide_rule(false);
        let words = line(asked.press(&KeyPress::Enter, Timestamp(1000)));
        assert_eq!(words, "approve ap_0123456789 --decision allow --always worker");
    }

    #[test]
    fn only_its_own_command_opens_a_question_again() {
        let mut asked = asked(QuestionKind::Permission, json!({}));
        let Pressed::Answer(command) = asked.press(&KeyPress::Char('y'), Timestamp(1000)) else { panic!() };
        let other =
            BoardCommand { words: decision("ap_9999999999", "allow"), says: (String::new(), String::new()) };
        asked.reopen(&other);
        assert_eq!(asked.press(&KeyPress::Char('y'), Timestamp(1000)), Pressed::Passed);
        asked.reopen(&command);
        assert!(matches!(asked.press(&KeyPress::Char('y'), Timestamp(1000)), Pressed::Answer(_)));
    }

    #[test]
    fn without_a_rule_there_is_no_always() {
        let mut asked = asked(QuestionKind::Permission, json!({"alwaysRule": null}));
        assert!(!asked.keys(Timestamp(1000)).contains(&"[a] always"));
        assert_eq!(asked.press(&KeyPress::Char('a'), Timestamp(1000)), Pressed::Passed);
    }

    #[test]
    fn many_options_are_chosen_by_number() {
        let option =
            |id: &str, kind: &str| json!({"id": id, "alias": id, "label": format!("{id}!"), "kind": kind});
        let many = json!([option("a b", "allow_once"), option("-c", "allow_once")]);
        let mut asked = asked(QuestionKind::Permission, json!({"options": many}));
        assert_eq!(asked.numbered(), [("a b!", "a b"), ("-c!", "-c")]);
        assert_eq!(asked.press(&KeyPress::Char('3'), Timestamp(1000)), Pressed::Passed);
        let Pressed::Answer(command) = asked.press(&KeyPress::Char('2'), Timestamp(1000)) else { panic!() };
        assert_eq!(command.words[2], "--option-id=-c");
        let few = json!([option("a", "allow_once"), option("b", "reject_once")]);
        assert!(self::asked(QuestionKind::Permission, json!({"options": few})).numbered().is_empty());
    }

    #[test]
    fn a_form_is_filled_in_elsewhere_or_declined() {
        let form = || asked(QuestionKind::Elicitation, json!({}));
        assert!(matches!(form().press(&KeyPress::Char('y'), Timestamp(1000)), Pressed::FillIn(_)));
        assert_eq!(
            line(form().press(&KeyPress::Char('n'), Timestamp(1000))),
            "answer ap_0123456789 --decline"
        );
        let mut over = asked(QuestionKind::Elicitation, json!({"status": "decided"}));
        assert_eq!(over.press(&KeyPress::Char('y'), Timestamp(1000)), Pressed::Passed);
    }
}
