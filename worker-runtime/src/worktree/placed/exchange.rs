//! The exchange of states between the mirror here and the worktree there: the side that has changed
//! since the last exchange gives its state to the other one.

use subagent_protocol::Error;
use subagent_protocol::time::Timestamp;
use subagent_protocol::worktree::{
    Contents, Operation, Packed, PlacedWorktree, RETIRED_REFS, Setup, Worktree, WorktreeResult,
};

use super::link::{SshLink, TRANSPORTS};
use super::state::{EXCHANGED, WorktreeState};
use super::there::exchange_ref;
use crate::git::Git;
use crate::worktree::registration::Registration;
use crate::worktree::work::OperationContext;
use crate::worktree::{errors, exclusively, look};

/// The state that was fetched last.
const INCOMING: &str = "refs/worktree/subagent/incoming";

/// What makes both sides equal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Direction {
    /// They are equal, or one of them does not exist any more.
    Nothing,
    /// The state here goes there.
    There,
    /// The state there comes here.
    Here,
    /// Both have changed since they were equal.
    Conflict,
}

impl Direction {
    /// Decides from the states here and there, now and after the newest exchange.
    pub(super) fn of([here, there]: [&str; 2], exchanged: [Option<&str>; 2]) -> Self {
        match exchanged.map(|state| state.unwrap_or_default()) {
            _ if here == there => Self::Nothing,
            [was_here, was_there] if [here, there] == [was_here, was_there] => Self::Nothing,
            [_, was_there] if there == was_there => Self::There,
            [was_here, _] if here == was_here => Self::Here,
            _ => Self::Conflict,
        }
    }
}

/// The state of the mirror, and the states of both sides after the newest exchange.
struct MirrorState {
    here: String,
    exchanged: [Option<String>; 2],
    /// Whether it has nothing but the base of the worktree.
    is_base: bool,
}

/// What has become of the worktree there.
pub(super) enum Forgotten {
    Removed,
    /// What only it had is kept under this ref there.
    Kept(String),
    /// It has more than the mirror, and stays.
    Stays(Contents),
}

/// The two sides of a worktree.
pub(super) struct WorktreeExchange<'a> {
    work: &'a OperationContext<'a>,
    worktree: &'a Worktree,
    placed: &'a PlacedWorktree,
    link: SshLink<'a>,
}

impl<'a> WorktreeExchange<'a> {
    pub(super) fn new(
        work: &'a OperationContext<'a>,
        worktree: &'a Worktree,
        placed: &'a PlacedWorktree,
    ) -> Result<Self, Error> {
        Ok(Self { work, worktree, placed, link: SshLink::new(placed)? })
    }

    /// The worktree as the program there knows it.
    pub(super) fn there(&self) -> Worktree {
        self.worktree.there(self.placed)
    }

    /// Has the program there carry out an operation.
    pub(super) fn ask(&self, operation: &Operation) -> Result<WorktreeResult, Error> {
        self.link.ask(self.work, operation)
    }

    /// Makes both sides equal. Returns how many files and repositories stay there.
    pub(super) fn run(&self) -> Result<u64, Error> {
        let there = self.pack(false)?;
        let mirror = self.mirror()?;
        let Some(Packed { state: there, stays, .. }) = there else { return Ok(0) };
        let MirrorState { here, exchanged, is_base } = mirror.ok_or_else(|| self.gone())?;
        let exchanged = exchanged.each_ref().map(Option::as_deref);
        match Direction::of([&here, &there], exchanged) {
            Direction::Nothing if exchanged == [Some(&*here), Some(&*there)] => {}
            Direction::Nothing => self.settle(&here, &there, false)?,
            Direction::There => self.send(&here, Some(there), &Setup::default())?,
            Direction::Here => self.fetch(&here, &there)?,
            // After a landing, the worker there was faster than the exchange.
            Direction::Conflict if is_base => self.fetch(&here, &there)?,
            Direction::Conflict => return Err(self.conflict()),
        }
        Ok(stays)
    }

    /// Creates the worktree there from the mirror, and makes it usable.
    pub(super) fn create(&self, setup: &Setup) -> Result<(), Error> {
        let there = self.pack(true)?;
        if there.as_ref().is_some_and(|packed| packed.is_ready) {
            // An earlier attempt was killed after its last step.
            return self.run().map(drop);
        }
        let mirror = self.mirror()?.ok_or_else(|| self.gone())?;
        self.send(&mirror.here, there.map(|packed| packed.state), setup)
    }

    /// Removes the worktree there. With a time, it keeps what is not known here under a ref there.
    pub(super) fn forget(&self, time: Option<Timestamp>) -> Result<Forgotten, Error> {
        let state = match self.mirror()? {
            // What the other side has given last.
            Some(MirrorState { here, exchanged: [Some(was), Some(there)], .. }) if was == here => there,
            Some(MirrorState { here, .. }) => here,
            None => String::new(),
        };
        match self.ask(&Operation::Forget { worktree: self.there(), state, time })? {
            WorktreeResult::Removed | WorktreeResult::Discarded(None) => Ok(Forgotten::Removed),
            WorktreeResult::Discarded(Some(name)) if self.is_retired(&name) => {
                Ok(Forgotten::Kept(format!("{}:{name}", self.placed.placement.name)))
            }
            // Its names are not shown: only numbers are taken from there.
            WorktreeResult::Found(contents) => {
                Ok(Forgotten::Stays(Contents { under_way: None, names: Vec::new(), ..contents }))
            }
            _ => Err(self.link.wrong_answer()),
        }
    }

    /// Whether this is a ref that keeps the worktree.
    fn is_retired(&self, name: &str) -> bool {
        let time = name.strip_prefix(RETIRED_REFS).and_then(|rest| rest.strip_prefix(&self.worktree.name));
        let is_time = |c: char| c.is_ascii_digit() || matches!(c, 'T' | 'Z' | '-');
        time.and_then(|rest| rest.strip_prefix('/')).is_some_and(|time| time.chars().all(is_time))
    }

    /// Returns the state there. What the machine there says is not trusted.
    fn packed(&self, answer: WorktreeResult) -> Result<Option<Packed>, Error> {
        let is_id = |packed: &Packed| {
            packed.state.len() == self.worktree.base.len()
                && packed.state.bytes().all(|byte| byte.is_ascii_digit() || matches!(byte, b'a'..=b'f'))
        };
        match answer {
            WorktreeResult::Packed(packed) if packed.as_ref().is_none_or(is_id) => Ok(packed),
            _ => Err(self.link.wrong_answer()),
        }
    }

    fn pack(&self, is_new: bool) -> Result<Option<Packed>, Error> {
        self.packed(self.ask(&Operation::Pack { worktree: self.there(), is_new })?)
    }

    /// Ends a change of the mirror that was killed, as far as that is possible.
    pub(super) fn recover(&self) {
        let _ = self.on_mirror(|state| state.recover());
    }

    /// Returns the state of the mirror; `None` if it is gone.
    fn mirror(&self) -> Result<Option<MirrorState>, Error> {
        self.on_mirror(|state| {
            state.recover()?;
            let here = state.pack()?.state;
            let [was_here, was_there] = EXCHANGED.map(|name| state.reference(name));
            let is_base = state.is_only(&here, &self.worktree.base)?;
            Ok(MirrorState { here, exchanged: [was_here?, was_there?], is_base })
        })
    }

    /// Carries out something on the mirror while no other operation works on it.
    fn on_mirror<T>(
        &self,
        operation: impl FnOnce(&WorktreeState<'_>) -> Result<T, Error>,
    ) -> Result<Option<T>, Error> {
        let worktree = self.worktree;
        exclusively(self.work, "exchange", worktree, |work| {
            match look::registered(worktree)?.filter(Registration::is_whole) {
                Some(found) => operation(&WorktreeState { work, worktree, found: &found }).map(Some),
                None => Ok(None),
            }
        })
    }

    /// Notes that both sides are equal. A mirror that `gets` the state from there is given it first, if it
    /// still is as it was.
    fn settle(&self, here: &str, there: &str, gets: bool) -> Result<(), Error> {
        let settled = self.on_mirror(|state| {
            if !gets {
                return state.is_exchanged([here, there]);
            }
            if state.pack()?.state == here {
                state.change(here, there)?;
                return state.is_exchanged([&state.after_change(there)?, there]);
            }
            match state.reference(EXCHANGED[1])? {
                // Another operation was faster.
                Some(known) if known == there => Ok(()),
                _ => Err(errors::busy("moved", "the mirror of the worktree has changed meanwhile")),
            }
        });
        settled.map(drop)
    }

    fn send(&self, here: &str, before: Option<String>, setup: &Setup) -> Result<(), Error> {
        let url = self.link.url(&self.placed.repository);
        let target = format!("{here}:{}", exchange_ref(self.worktree));
        let plain = ["--no-verify", "--no-signed", "--no-follow-tags", "--recurse-submodules=no"];
        let args: Vec<&str> =
            ["push", "--quiet", "--force"].into_iter().chain(plain).chain([&*url, &*target]).collect();
        let _ = self.work.feed(&self.git(), &args, b"")?;
        let (worktree, state, setup) = (self.there(), here.to_owned(), setup.clone());
        let answer = self.ask(&Operation::Unpack { worktree, state, before, setup })?;
        match self.packed(answer)? {
            Some(packed) => self.settle(here, &packed.state, false),
            None => Err(self.link.wrong_answer()),
        }
    }

    fn fetch(&self, here: &str, there: &str) -> Result<(), Error> {
        let url = self.link.url(&self.placed.repository);
        let target = format!("+{}:{INCOMING}", exchange_ref(self.worktree));
        let args = ["fetch", "--quiet", "--no-tags", "--no-recurse-submodules", "--no-auto-maintenance"];
        let args: Vec<&str> = args.into_iter().chain([&*url, &*target]).collect();
        let _ = self.work.feed(&self.git(), &args, b"")?;
        let fetched = self.on_mirror(|state| state.reference(INCOMING))?.flatten();
        if fetched.as_deref() != Some(there) {
            let message = "the worktree on the other machine has changed meanwhile";
            return Err(errors::busy("moved", message));
        }
        self.settle(here, there, true)
    }

    /// Git that may start the client of the placement.
    fn git(&self) -> Git<'_> {
        let mut git = self.work.git(&self.worktree.path);
        git.places = vec![(TRANSPORTS.0, TRANSPORTS.1.into())];
        git
    }

    fn gone(&self) -> Error {
        let path = &self.worktree.path;
        errors::not_found(path, "the folder of the worktree is gone").recommend(format!(
            "restore it with `git worktree add {} {}`",
            path.display(),
            self.worktree.branch
        ))
    }

    fn conflict(&self) -> Error {
        let (name, path) = (&self.worktree.name, self.worktree.path.display());
        let placement = &self.placed.placement.name;
        let message = format!("the worktree {name} has changed here and on the placement `{placement}`");
        errors::busy("changed", message)
            .with("worktree", name.as_str())
            .with("placement", placement.as_str())
            .with("path", path.to_string())
            .recommend(format!(
                "undo the changes in {path}, which is a mirror, or `subagent worktree discard {name}`, which keeps both"
            ))
    }
}
