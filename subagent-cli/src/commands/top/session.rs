//! The loop of a board: keys, news, signals and the clock in, pictures out.

use std::io;
use std::path::PathBuf;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use nix::sys::signal::Signal;
use ratatui::Frame;
use subagent_config::Workspace;
use subagent_config::placements::LOCAL;
use tokio::signal::unix::{Signal as Signals, SignalKind, signal};
use tokio::sync::Notify;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::time::{Instant, sleep_until};

use super::board::Board;
use super::draw::draw;
use super::effect::{BoardEffect, BoardEvent, BoardInputs, BoardNews};
use super::follow::BoardFollower;
use super::hosts::{BoardConnection, BoardHost, BoardHosts, HostIndex};
use super::keys::{Decoder, KeyPress};
use super::perform::{LAST_PATIENCE, Performer};
use super::screen::BoardScreen;
use crate::client::{DaemonClient, created, end_dialing, info_path};
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

/// A daemon that the board is to show.
#[derive(Debug)]
pub(super) struct ShownDaemon {
    pub(super) context: CliContext,
    /// Absent for a host that was not dialed.
    pub(super) workspace: Option<Workspace>,
    /// The folder that was typed.
    pub(super) cwd: Option<PathBuf>,
}

impl ShownDaemon {
    fn is_used(&self) -> bool {
        self.workspace.as_ref().is_some_and(has_state)
    }

    /// What the board knows of it at first.
    fn host(&self) -> BoardHost {
        let link = match self.workspace.is_none() || self.is_used() {
            true => BoardConnection::Connecting,
            false => BoardConnection::Unused,
        };
        match &self.context.host {
            Some(host) => BoardHost::new(host.name(), true, link).answered_at(host.last_answered()),
            None => BoardHost::new(LOCAL, false, link),
        }
    }
}

/// The daemons that the board is to show.
#[derive(Debug)]
pub(super) enum ShownDaemons {
    One(Box<ShownDaemon>),
    /// Each with its host.
    AllHosts(Vec<ShownDaemon>),
}

impl ShownDaemons {
    fn hosts(&self) -> BoardHosts {
        match self {
            Self::One(one) => BoardHosts::one(one.host()),
            Self::AllHosts(all) => BoardHosts::all_of(all.iter().map(ShownDaemon::host).collect()),
        }
    }

    fn into_daemons(self) -> Vec<ShownDaemon> {
        match self {
            Self::One(one) => vec![*one],
            Self::AllHosts(all) => all,
        }
    }
}

/// A daemon whose workers are followed and changed.
struct FollowedDaemon {
    shown: ShownDaemon,
    /// Absent until its workspace is known.
    performer: Option<Performer>,
    inputs: BoardInputs,
    refresh: Arc<Notify>,
    /// Whether the workers are followed.
    follows: bool,
}

impl FollowedDaemon {
    fn new(shown: ShownDaemon, inputs: BoardInputs) -> Self {
        let mut daemon =
            Self { shown, performer: None, inputs, refresh: Arc::new(Notify::new()), follows: false };
        if let Some(workspace) = daemon.shown.workspace.clone() {
            daemon.find(workspace);
        }
        daemon
    }

    /// Takes the workspace, in which commands act from now on.
    fn find(&mut self, workspace: Workspace) {
        let quiet = CliContext { format: OutputFormat::Json, ..self.shown.context.clone() };
        let cwd = self.shown.cwd.clone();
        self.performer = Some(Performer::new(quiet, workspace.clone(), cwd, self.inputs.clone()));
        self.shown.workspace = Some(workspace);
    }

    /// Follows the workers, as soon as there may be any. Returns whether that begins now. The follower
    /// of another host finds out itself.
    fn follow(&mut self) -> bool {
        if self.follows || (self.shown.context.host.is_none() && !self.shown.is_used()) {
            return false;
        }
        self.follows = true;
        let follower = BoardFollower {
            context: self.shown.context.clone(),
            workspace: self.shown.workspace.clone(),
            cwd: self.shown.cwd.clone(),
            refresh: self.refresh.clone(),
            inputs: self.inputs.clone(),
        };
        tokio::spawn(follower.follow());
        true
    }
}

struct BoardSession {
    daemons: Vec<FollowedDaemon>,
    board: Board,
    screen: BoardScreen,
    keyboard: Keyboard,
    decoder: Decoder,
    heard: BoardSignals,
    /// When the next picture is due.
    due: Option<Instant>,
    /// When the last one was drawn.
    drawn: Instant,
}

/// Shows a board until its person leaves it; returns the signal that ended it.
///
/// # Errors
/// `INTERNAL_ERROR` if the terminal cannot be used.
pub(super) async fn run(place: String, shown: ShownDaemons) -> Result<Option<Signal>> {
    let heard = BoardSignals::new()?;
    let keyboard = Keyboard::open().ok_or_else(|| Failure::internal("the terminal cannot be read"))?;
    let (sender, mut news): (Sender<BoardNews>, _) = channel(INPUTS);
    let colour = OutputTerminal::of_stdout().is_some_and(|terminal| terminal.colour);
    let screen = BoardScreen::open(&keyboard).map_err(|error| unusable(&error))?;
    let hosts = shown.hosts();
    let followed = |(at, daemon)| {
        FollowedDaemon::new(daemon, BoardInputs { host: HostIndex(at), sender: sender.clone() })
    };
    let mut session = BoardSession {
        daemons: shown.into_daemons().into_iter().enumerate().map(followed).collect(),
        board: Board::new(place, hosts, colour),
        screen,
        keyboard,
        decoder: Decoder::default(),
        heard,
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
    let mut said = unshown(&mut news);
    let until = Instant::now() + LAST_PATIENCE;
    for performer in session.daemons.iter_mut().filter_map(|daemon| daemon.performer.as_mut()) {
        said.extend(performer.finish(until).await);
    }
    end_dialing();
    explain(&said);
    ended
}

impl BoardSession {
    async fn turn(&mut self, news: &mut Receiver<BoardNews>) -> Result<Option<Signal>> {
        let mut typed = [0; TYPED_BYTES];
        let mut escape: Option<Instant> = None;
        let never = || Instant::now() + Duration::from_secs(86_400);
        let here = self.daemons.iter().position(|daemon| daemon.shown.context.host.is_none());
        let here = here.and_then(|at| self.daemons.get(at)).and_then(|here| here.shown.workspace.as_ref());
        let is_here = here.is_some();
        let announced = here.map(|here| info_path(&here.state_dir)).unwrap_or_default();
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
                () = &mut created, if is_here && !is_created => {
                    is_created = true;
                    self.follow();
                    self.draw_by(Instant::now())
                }
                Some(input) = news.recv() => {
                    if let BoardEvent::Found(workspace) = &input.event
                        && let Some(daemon) = self.daemons.get_mut(input.host.0)
                    {
                        daemon.find((**workspace).clone());
                    }
                    let effects = self.board.on_input(input.host, input.event, now());
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

    /// Follows the workers of each daemon, as soon as there may be any.
    fn follow(&mut self) {
        for (at, daemon) in self.daemons.iter_mut().enumerate() {
            let is_first = daemon.follow();
            let known = self.board.hosts.get_mut(HostIndex(at)).filter(|_| is_first);
            if let Some(known) = known.filter(|known| known.link == BoardConnection::Unused) {
                known.link = BoardConnection::Connecting;
            }
        }
    }

    /// Does something at a daemon; says so if that was never reached.
    fn act(&mut self, host: HostIndex, act: impl FnOnce(&mut Performer)) {
        match self.daemons.get_mut(host.0).and_then(|daemon| daemon.performer.as_mut()) {
            Some(performer) => act(performer),
            None => self.board.refuse(host),
        }
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
                BoardEffect::Refresh(host) => {
                    if let Some(daemon) = self.daemons.get(host.0) {
                        daemon.refresh.notify_one();
                    }
                }
                BoardEffect::FillIn(host, question) => match self.fill_in(host, &question).await? {
                    LoopControl::On => {}
                    next => return Ok(next),
                },
                BoardEffect::Command(host, command) => {
                    self.act(host, |performer| performer.run(command));
                }
                BoardEffect::ShowQuestion(host, request) => {
                    self.act(host, |performer| performer.show_question(request));
                }
                BoardEffect::ShowStory(worker, before) => {
                    self.act(worker.host, |performer| performer.show_story(worker.id, before));
                }
                BoardEffect::ShowDiff(worker) => {
                    let terminal = OutputTerminal { width: self.board.body.0, colour: true };
                    self.act(worker.host, |performer| performer.show_diff(worker.id, terminal));
                }
                BoardEffect::Count(worker) => {
                    self.act(worker.host, |performer| performer.count(worker.id));
                }
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
    async fn fill_in(&mut self, host: HostIndex, question: &QuestionRef) -> Result<LoopControl> {
        let shown = self.daemons.get(host.0).map(|daemon| &daemon.shown);
        let Some((context, workspace)) =
            shown.and_then(|shown| Some((&shown.context, shown.workspace.as_ref()?)))
        else {
            self.board.refuse(host);
            return Ok(LoopControl::On);
        };
        self.screen.leave();
        let mut client = DaemonClient::new(context, workspace);
        let mut follower = DaemonClient::new(context, workspace);
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
        let effects = self.board.on_input(host, BoardEvent::Filled(filled), now());
        Box::pin(self.perform(effects)).await
    }
}

/// Returns the failures of commands that the board was told and has not shown.
fn unshown(news: &mut Receiver<BoardNews>) -> Vec<String> {
    let mut failed = Vec::new();
    while let Ok(input) = news.try_recv() {
        if let BoardEvent::Ended(command, Err(failure)) = input.event {
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
        let (sender, mut news): (Sender<BoardNews>, _) = channel(INPUTS);
        let command = || BoardCommand { words: Vec::new(), says: ("stop a".to_owned(), String::new()) };
        let send = |event| sender.try_send(BoardNews { host: HostIndex::default(), event }).unwrap();
        send(BoardEvent::Ended(command(), Ok(Value::Null)));
        send(BoardEvent::Ended(command(), Err(Failure::internal("it is gone"))));
        send(BoardEvent::Opened);
        news.close();
        let failed = unshown(&mut news);
        assert!(matches!(&failed[..], [only] if only.starts_with("stop a failed: ")), "{failed:?}");
    }
}
