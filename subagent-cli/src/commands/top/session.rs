//! The loop of a board: keys, news, signals and the clock in, pictures out.

use std::io;
use std::path::PathBuf;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use nix::sys::signal::Signal;
use ratatui::Frame;
use subagent_config::Workspace;
use tokio::signal::unix::{Signal as Signals, SignalKind, signal};
use tokio::sync::Notify;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::time::{Instant, sleep_until};

use super::board::{Board, BoardConnection};
use super::draw::draw;
use super::effect::{BoardEffect, BoardEvent};
use super::follow::BoardFollower;
use super::keys::{Decoder, KeyPress};
use super::perform::Performer;
use super::screen::BoardScreen;
use crate::client::{DaemonClient, created, info_path};
use crate::commands::approve::each as approve_each;
use crate::commands::targets::has_state;
use crate::commands::waiting::signals::Interruptions;
use crate::context::CliContext;
use crate::dialog::keyboard::Keyboard;
use crate::dialog::{Dialog, DialogOutcome, QuestionRef};
use crate::failure::{Failure, Result};
use crate::output::human::now;
use crate::output::terminal::OutputTerminal;
use crate::output::{OutputFormat, explain};

/// News are drawn at most this often; a key is drawn at once.
const FRAME: Duration = Duration::from_millis(33);
/// How long Escape may be the beginning of another key.
const ESCAPE: Duration = Duration::from_millis(50);
/// News that wait for the board.
const INPUTS: usize = 64;
/// Bytes that are read from the keyboard at once.
const TYPED_BYTES: usize = 1024;

/// What the loop goes on with.
#[derive(Debug, PartialEq, Eq)]
enum LoopControl {
    On,
    Quit,
    /// It ends by this signal.
    End(Signal),
}

/// The signals that end or change a board.
struct BoardSignals {
    ends: Interruptions,
    resized: Signals,
    stops: Signals,
    continued: Signals,
}

impl BoardSignals {
    fn new() -> Result<Self> {
        let listen = |kind| signal(kind).map_err(|error| unusable(&error));
        let numbered = |signal: Signal| listen(SignalKind::from_raw(signal as i32));
        Ok(Self {
            ends: Interruptions::new()?,
            resized: listen(SignalKind::window_change())?,
            stops: numbered(Signal::SIGTSTP)?,
            continued: numbered(Signal::SIGCONT)?,
        })
    }
}

struct BoardSession {
    context: CliContext,
    workspace: Workspace,
    board: Board,
    screen: BoardScreen,
    keyboard: Keyboard,
    decoder: Decoder,
    performer: Performer,
    inputs: Sender<BoardEvent>,
    heard: BoardSignals,
    refresh: Arc<Notify>,
    /// Whether the workers are followed.
    follows: bool,
    /// When the next picture is due.
    due: Option<Instant>,
    /// When the last one was drawn.
    drawn: Instant,
}

/// Shows a board until its person leaves it; returns the signal that ended it.
///
/// # Errors
/// `INTERNAL_ERROR` if the terminal cannot be used.
pub(super) async fn run(
    context: &CliContext,
    workspace: Workspace,
    cwd: Option<PathBuf>,
) -> Result<Option<Signal>> {
    let heard = BoardSignals::new()?;
    let keyboard = Keyboard::open().ok_or_else(|| Failure::internal("the terminal cannot be read"))?;
    let (inputs, mut news) = channel(INPUTS);
    let quiet = CliContext { format: OutputFormat::Json, ..context.clone() };
    let name =
        workspace.root.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
    let link = if has_state(&workspace) { BoardConnection::Connecting } else { BoardConnection::Unused };
    let colour = OutputTerminal::of_stdout().is_some_and(|terminal| terminal.colour);
    let screen = BoardScreen::open(&keyboard).map_err(|error| unusable(&error))?;
    let mut session = BoardSession {
        performer: Performer::new(quiet, workspace.clone(), cwd, inputs.clone()),
        context: context.clone(),
        workspace,
        board: Board::new(name, link, colour),
        screen,
        keyboard,
        decoder: Decoder::default(),
        inputs,
        heard,
        refresh: Arc::new(Notify::new()),
        follows: false,
        due: Some(Instant::now()),
        drawn: Instant::now(),
    };
    // What was typed before the board was there is not for it.
    session.keyboard.forget();
    session.follow();
    let ended = Box::pin(session.turn(&mut news)).await;
    session.screen.leave();
    // A command that ends now must not wait for room in a channel that is no longer read.
    news.close();
    let last = session.performer.finish().await;
    explain(&[unshown(&mut news), last].concat());
    ended
}

impl BoardSession {
    async fn turn(&mut self, news: &mut Receiver<BoardEvent>) -> Result<Option<Signal>> {
        let mut typed = [0; TYPED_BYTES];
        let mut escape: Option<Instant> = None;
        let never = || Instant::now() + Duration::from_secs(86_400);
        let announced = info_path(&self.workspace.state_dir);
        let mut created = pin!(created(&announced));
        let mut is_created = false;
        loop {
            let next = tokio::select! {
                biased;
                signal = self.heard.ends.next() => LoopControl::End(signal),
                _ = self.heard.stops.recv() => self.suspend()?,
                _ = self.heard.continued.recv() => self.enter()?,
                _ = self.heard.resized.recv() => self.draw_by(Instant::now()),
                read = self.keyboard.read(&mut typed) => {
                    let length = read.map_err(|error| unusable(&error))?;
                    let keys = self.decoder.push(typed.get(..length).unwrap_or_default());
                    escape = self.decoder.is_waiting().then(|| Instant::now() + ESCAPE);
                    if length == 0 { LoopControl::Quit } else { self.press(&keys).await? }
                }
                () = sleep_until(escape.unwrap_or_else(never)), if escape.is_some() => {
                    escape = None;
                    let key: Vec<KeyPress> = self.decoder.flush().into_iter().collect();
                    self.press(&key).await?
                }
                () = sleep_until(self.due.unwrap_or_else(never)), if self.due.is_some() => self.draw()?,
                // Another shell has started something in this workspace.
                () = &mut created, if !self.follows && !is_created => {
                    is_created = true;
                    self.follow();
                    self.draw_by(Instant::now())
                }
                Some(input) = news.recv() => {
                    let effects = self.board.on_input(input, now());
                    self.draw_by((self.drawn + FRAME).max(Instant::now()));
                    self.perform(effects).await?
                }
            };
            match next {
                LoopControl::On => {}
                LoopControl::Quit => return Ok(None),
                LoopControl::End(signal) => return Ok(Some(signal)),
            }
        }
    }

    /// Follows the workers, as soon as there may be any.
    fn follow(&mut self) {
        if self.follows || !has_state(&self.workspace) {
            return;
        }
        self.follows = true;
        if self.board.link == BoardConnection::Unused {
            self.board.link = BoardConnection::Connecting;
        }
        let follower = BoardFollower {
            context: self.context.clone(),
            workspace: self.workspace.clone(),
            refresh: self.refresh.clone(),
            inputs: self.inputs.clone(),
        };
        tokio::spawn(follower.follow());
    }

    async fn press(&mut self, keys: &[KeyPress]) -> Result<LoopControl> {
        for key in keys {
            let effects = self.board.on_key(key, now());
            match self.perform(effects).await? {
                LoopControl::On => {}
                next => return Ok(next),
            }
        }
        Ok(self.draw_by(Instant::now()))
    }

    /// Sees to it that a picture is drawn then, or before.
    fn draw_by(&mut self, then: Instant) -> LoopControl {
        self.due = Some(self.due.map_or(then, |due| due.min(then)));
        LoopControl::On
    }

    fn draw(&mut self) -> Result<LoopControl> {
        assert!(!subagent_failpoint::sabotaged("board.draw"), "the board is sabotaged");
        let mut lasts = None;
        let board = &mut self.board;
        let picture = |frame: &mut Frame<'_>| {
            let drawn = draw(board, frame.buffer_mut(), now());
            if let Some(cursor) = drawn.cursor {
                frame.set_cursor_position(cursor);
            }
            lasts = drawn.lasts;
        };
        self.screen.draw(picture).map_err(|error| unusable(&error))?;
        self.drawn = Instant::now();
        self.due = lasts.and_then(|lasts| self.drawn.checked_add(lasts));
        Ok(LoopControl::On)
    }

    async fn perform(&mut self, effects: Vec<BoardEffect>) -> Result<LoopControl> {
        // The command that has just ended may have created the state.
        self.follow();
        for effect in effects {
            match effect {
                BoardEffect::Quit => return Ok(LoopControl::Quit),
                BoardEffect::Suspend => _ = self.suspend()?,
                BoardEffect::Redraw => _ = self.enter()?,
                BoardEffect::Refresh => self.refresh.notify_one(),
                BoardEffect::Command(command) => self.performer.run(command),
                BoardEffect::ShowQuestion(request) => self.performer.show_question(request),
                BoardEffect::FillIn(question) => match self.fill_in(&question).await? {
                    LoopControl::On => {}
                    next => return Ok(next),
                },
                BoardEffect::ShowStory(worker, before) => self.performer.show_story(worker, before),
                BoardEffect::ShowDiff(worker) => {
                    let terminal = OutputTerminal { width: self.board.body.0, colour: true };
                    self.performer.show_diff(worker, terminal);
                }
                BoardEffect::Count(worker) => self.performer.count(worker),
            }
        }
        Ok(LoopControl::On)
    }

    /// Takes the screen again, after the shell or a form had it.
    fn enter(&mut self) -> Result<LoopControl> {
        self.screen.enter(&self.keyboard).map_err(|error| unusable(&error))?;
        Ok(self.draw_by(Instant::now()))
    }

    /// Stops until the process is continued.
    fn suspend(&mut self) -> Result<LoopControl> {
        self.screen.suspend();
        self.enter()
    }

    /// Asks a form or a link as every command does, outside of the board.
    async fn fill_in(&mut self, question: &QuestionRef) -> Result<LoopControl> {
        self.screen.leave();
        let mut client = DaemonClient::new(&self.context, &self.workspace);
        let mut follower = DaemonClient::new(&self.context, &self.workspace);
        let asked = async {
            let mut dialog = Dialog::open(OutputFormat::Text, true)
                .ok_or_else(|| Failure::internal("the terminal cannot be read"))?;
            approve_each::one(&mut dialog, &mut client, &mut follower, question).await
        };
        let mut asked = pin!(asked);
        let filled = loop {
            tokio::select! {
                biased;
                // Ctrl-C in a line of the form leaves the form, not the board.
                signal = self.heard.ends.next() => match signal {
                    Signal::SIGINT => break Ok(DialogOutcome::Interrupted),
                    signal => return Ok(LoopControl::End(signal)),
                },
                _ = self.heard.stops.recv() => self.screen.suspend(),
                // The form goes on where it was.
                _ = self.heard.continued.recv() => {}
                filled = &mut asked => break filled,
            }
        };
        self.keyboard.forget();
        self.enter()?;
        let effects = self.board.on_input(BoardEvent::Filled(filled), now());
        Box::pin(self.perform(effects)).await
    }
}

/// Returns the failures of commands that the board was told and has not shown.
fn unshown(news: &mut Receiver<BoardEvent>) -> Vec<String> {
    let mut failed = Vec::new();
    while let Ok(input) = news.try_recv() {
        if let BoardEvent::Ended(command, Err(failure)) = input {
            failed.push(format!("{} failed: {failure}", command.says.0));
        }
    }
    failed
}

fn unusable(error: &io::Error) -> Failure {
    Failure::internal(format!("the terminal cannot be used: {error}"))
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::super::effect::BoardCommand;
    use super::*;

    #[test]
    fn a_failure_that_the_board_has_not_shown_is_reported() {
        let (inputs, mut news) = channel(INPUTS);
        let command = || BoardCommand { words: Vec::new(), says: ("stop a".to_owned(), String::new()) };
        inputs.try_send(BoardEvent::Ended(command(), Ok(Value::Null))).unwrap();
        inputs.try_send(BoardEvent::Ended(command(), Err(Failure::internal("it is gone")))).unwrap();
        inputs.try_send(BoardEvent::Opened).unwrap();
        news.close();
        let failed = unshown(&mut news);
        assert!(matches!(&failed[..], [only] if only.starts_with("stop a failed: ")), "{failed:?}");
    }
}
