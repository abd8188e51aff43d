//! What a person is asked for at the bottom of a board. Pure.

use subagent_protocol::ids::{RequestId, WorkerId};

use super::editor::{Editor, EditorOutcome};
use super::effect::BoardCommand;
use super::keys::KeyPress;

/// What is typed, and what for.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum BoardPrompt {
    /// A message to a worker, and the name of that.
    Message(WorkerId, String, Editor),
    /// The note of a rejection.
    Note(RequestId, Editor),
    /// Which agent a new worker runs; empty for the default.
    Agent(Editor),
    /// What that agent is to do.
    Task(String, Editor),
    /// Which rows are shown.
    Filter(Editor),
    /// Whether a worker with this name is to be stopped.
    Stop(WorkerId, String),
    /// Whether the open turn of a worker with this name is to be canceled.
    Cancel(WorkerId, String),
}

/// What a key did to a prompt.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum PromptAction {
    /// The prompt stays open.
    Going,
    /// Nothing is to be done.
    Left,
    /// A value is missing; the text says which.
    Missing(&'static str),
    /// The next thing is asked for.
    Next(BoardPrompt),
    /// The command that was typed.
    Command(BoardCommand),
    /// The rejection with its note.
    Reject(RequestId, String),
    /// The rows that are shown.
    Filter(String),
}

impl BoardPrompt {
    pub(super) fn press(&mut self, key: &KeyPress) -> PromptAction {
        if let Some(command) = self.confirmed() {
            return match key {
                KeyPress::Char('y' | 'Y') => PromptAction::Command(command),
                _ => PromptAction::Left,
            };
        }
        let is_filter = matches!(self, Self::Filter(_));
        let Some(editor) = self.editor_mut() else { return PromptAction::Left };
        match editor.press(key) {
            // The rows that are left are seen at each key.
            EditorOutcome::Going if is_filter => PromptAction::Filter(editor.text().to_owned()),
            EditorOutcome::Going => PromptAction::Going,
            EditorOutcome::Left if is_filter => PromptAction::Filter(String::new()),
            EditorOutcome::Left => PromptAction::Left,
            EditorOutcome::Done => self.done(),
        }
    }

    /// The command that is done after a yes; `None` for a text that is typed.
    fn confirmed(&self) -> Option<BoardCommand> {
        let (word, worker, doing, done) = match self {
            Self::Stop(worker, name) => {
                ("stop", worker, format!("stopping {name}"), format!("{name} is stopped"))
            }
            Self::Cancel(worker, name) => (
                "cancel",
                worker,
                format!("canceling the turn of {name}"),
                format!("the turn of {name} is canceled"),
            ),
            _ => return None,
        };
        Some(command([word, worker.as_str()].map(str::to_owned).to_vec(), doing, done))
    }

    fn done(&mut self) -> PromptAction {
        let text = self.editor().map(Editor::text).unwrap_or_default().to_owned();
        let is_empty = text.trim().is_empty();
        match self {
            Self::Stop(..) | Self::Cancel(..) | Self::Filter(_) => PromptAction::Left,
            Self::Note(request, _) => PromptAction::Reject(request.clone(), text),
            Self::Message(..) if is_empty => PromptAction::Left,
            Self::Message(worker, name, _) => PromptAction::Command(command(
                vec![
                    "send".to_owned(),
                    "--detach".to_owned(),
                    "--queue".to_owned(),
                    format!("--text={text}"),
                    worker.as_str().to_owned(),
                ],
                format!("sending to {name}"),
                format!("sent to {name}"),
            )),
            Self::Agent(_) => PromptAction::Next(Self::Task(text.trim().to_owned(), Editor::default())),
            // `-` is stdin, and that is the keyboard here.
            Self::Task(..) if is_empty || text == "-" => {
                PromptAction::Missing("type what the agent is to do")
            }
            Self::Task(agent, _) => {
                let mut words = vec!["run".to_owned(), "--detach".to_owned(), "--".to_owned()];
                words.extend(Some(agent.clone()).filter(|agent| !agent.is_empty()));
                words.push(text);
                let who = if agent.is_empty() { "the default agent" } else { agent };
                PromptAction::Command(command(words, format!("starting {who}"), "started".to_owned()))
            }
        }
    }

    /// What stands before the text.
    pub(super) fn label(&self) -> String {
        match self {
            Self::Message(_, name, _) => format!("message to {name}: "),
            Self::Note(..) => "reject with the note: ".to_owned(),
            Self::Agent(_) => "agent (empty: the default): ".to_owned(),
            Self::Task(agent, _) if agent.is_empty() => "task: ".to_owned(),
            Self::Task(agent, _) => format!("task for {agent}: "),
            Self::Filter(_) => "/".to_owned(),
            Self::Stop(_, name) => format!("[y/N] stop {name} and all of its processes?"),
            Self::Cancel(_, name) => format!("[y/N] cancel the turn of {name}?"),
        }
    }

    /// The line that is typed.
    pub(super) fn editor(&self) -> Option<&Editor> {
        match self {
            Self::Message(.., editor)
            | Self::Note(_, editor)
            | Self::Agent(editor)
            | Self::Task(_, editor)
            | Self::Filter(editor) => Some(editor),
            Self::Stop(..) | Self::Cancel(..) => None,
        }
    }

    fn editor_mut(&mut self) -> Option<&mut Editor> {
        match self {
            Self::Message(.., editor)
            | Self::Note(_, editor)
            | Self::Agent(editor)
            | Self::Task(_, editor)
            | Self::Filter(editor) => Some(editor),
            Self::Stop(..) | Self::Cancel(..) => None,
        }
    }
}

fn command(words: Vec<String>, doing: String, done: String) -> BoardCommand {
    BoardCommand { words, says: (doing, done) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn worker() -> WorkerId {
        "w_0123456789".parse().unwrap()
    }

    fn typed(mut prompt: BoardPrompt, text: &str) -> PromptAction {
        let keys = text.chars().map(|char| if char == '\r' { KeyPress::Enter } else { KeyPress::Char(char) });
        keys.map(|key| prompt.press(&key)).last().unwrap()
    }

    fn words(answer: PromptAction) -> String {
        match answer {
            PromptAction::Command(command) => command.words.join(" "),
            other => format!("{other:?}"),
        }
    }

    #[test]
    fn what_is_typed_becomes_a_command() {
        let message = || BoardPrompt::Message(worker(), "codex-1".to_owned(), Editor::default());
        assert_eq!(words(typed(message(), "--go on\r")), "send --detach --queue --text=--go on w_0123456789");
        assert_eq!(typed(message(), " \r"), PromptAction::Left);
        let PromptAction::Next(task) = typed(BoardPrompt::Agent(Editor::with("codex")), "\r") else {
            panic!()
        };
        assert_eq!(task.label(), "task for codex: ");
        assert_eq!(words(typed(task, "-fix\r")), "run --detach -- codex -fix");
        let task = || BoardPrompt::Task(String::new(), Editor::default());
        assert_eq!(words(typed(task(), "fix\r")), "run --detach -- fix");
        assert!(matches!(typed(task(), "-\r"), PromptAction::Missing(_)));
        let note = BoardPrompt::Note("ap_0123456789".parse().unwrap(), Editor::default());
        assert!(matches!(typed(note, "no\r"), PromptAction::Reject(_, note) if note == "no"));
    }

    #[test]
    fn a_stop_and_a_cancel_are_confirmed_by_one_key_alone() {
        let stop = || BoardPrompt::Stop(worker(), "codex-1".to_owned());
        let cancel = || BoardPrompt::Cancel(worker(), "codex-1".to_owned());
        assert_eq!(words(typed(stop(), "y")), "stop w_0123456789");
        assert_eq!(words(typed(cancel(), "y")), "cancel w_0123456789");
        for key in [
            KeyPress::Enter,
            KeyPress::Char('c'),
            KeyPress::Char('x'),
            KeyPress::Escape,
            KeyPress::Paste("y".to_owned()),
        ] {
            assert_eq!(stop().press(&key), PromptAction::Left, "{key:?}");
            assert_eq!(cancel().press(&key), PromptAction::Left, "{key:?}");
        }
    }

    #[test]
    fn a_filter_works_at_each_key() {
        let mut filter = BoardPrompt::Filter(Editor::default());
        assert_eq!(filter.press(&KeyPress::Char('a')), PromptAction::Filter("a".to_owned()));
        assert_eq!(filter.press(&KeyPress::Enter), PromptAction::Left);
        assert_eq!(filter.press(&KeyPress::Escape), PromptAction::Filter(String::new()));
    }
}
