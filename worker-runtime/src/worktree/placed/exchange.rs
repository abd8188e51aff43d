//! The exchange of states between the mirror here and the worktree there: the side that has changed
//! since the last exchange gives its state to the other one.

use subagent_protocol::time::Timestamp;
use subagent_protocol::worktree::{Operation, Packed, PlacedWorktree, Setup, Worktree, WorktreeResult};
use subagent_protocol::{Code, Error};

use super::link::{SshLink, TRANSPORTS};
use super::state::{SHARED, WorktreeState};
use super::there::exchange_ref;
use crate::git::Git;
use crate::worktree::commits::STATES;
use crate::worktree::registration::Registration;
use crate::worktree::work::OperationContext;
use crate::worktree::{errors, exclusively, look};

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
    /// Decides from the states of both sides and the newest that both had.
    pub(super) fn of(here: &str, there: Option<&str>, shared: Option<&str>) -> Self {
        match there {
            None => Self::Nothing,
            Some(there) if there == here => Self::Nothing,
            Some(there) if shared == Some(there) => Self::There,
            Some(_) if shared == Some(here) => Self::Here,
            Some(_) => Self::Conflict,
        }
    }
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
        let there = self.pack()?;
        let Some((here, shared)) = self.here()? else { return Ok(0) };
        let state = there.as_ref().map(|packed| packed.state.as_str());
        match Direction::of(&here, state, shared.as_deref()) {
            Direction::Nothing if state.is_some() => self.settle(&here, None)?,
            Direction::Nothing => {}
            Direction::There => self.send(&here, &Setup::default())?,
            Direction::Here => {
                let state = state.unwrap_or_default();
                self.fetch()?;
                self.settle(&here, Some(state))?;
            }
            Direction::Conflict => return Err(self.conflict()),
        }
        Ok(there.map_or(0, |packed| packed.stays))
    }

    /// Creates the worktree there from the mirror, and makes it usable.
    pub(super) fn create(&self, setup: &Setup) -> Result<(), Error> {
        let _ = self.pack()?;
        let gone = || errors::not_found(&self.worktree.path, "the folder of the worktree is gone");
        let (here, _) = self.here()?.ok_or_else(gone)?;
        self.send(&here, setup)
    }

    /// Removes the worktree there. With a time, it keeps what is not known here under a ref there;
    /// otherwise it stays then, with an error.
    pub(super) fn forget(&self, time: Option<Timestamp>) -> Result<(), Error> {
        let state = self.here()?.map(|(here, _)| here).unwrap_or_default();
        match self.ask(&Operation::Forget { worktree: self.there(), state, time })? {
            WorktreeResult::Removed | WorktreeResult::Discarded(_) => Ok(()),
            WorktreeResult::Found(_) => {
                let message = "the worktree on the other machine has changed meanwhile";
                Err(errors::busy("moved", message).with("placement", self.placed.placement.name.as_str()))
            }
            other => Err(unexpected(&other)),
        }
    }

    fn pack(&self) -> Result<Option<Packed>, Error> {
        match self.ask(&Operation::Pack { worktree: self.there() })? {
            WorktreeResult::Packed(packed) => Ok(packed),
            other => Err(unexpected(&other)),
        }
    }

    /// Returns the state here and the newest that both had; `None` if the mirror is gone.
    fn here(&self) -> Result<Option<(String, Option<String>)>, Error> {
        self.on_mirror(|state| {
            state.recover()?;
            Ok((state.pack()?.state, state.reference(SHARED)?))
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

    /// Gives the mirror a state that was fetched, if it still is as it was, and notes that both are equal.
    fn settle(&self, here: &str, fetched: Option<&str>) -> Result<(), Error> {
        let settled = self.on_mirror(|state| match fetched {
            None => state.is_shared(here),
            Some(_) if state.pack()?.state != here => Err(self.conflict()),
            Some(fetched) => state.change(here, fetched),
        });
        settled.map(drop)
    }

    fn send(&self, here: &str, setup: &Setup) -> Result<(), Error> {
        let url = self.link.url(&self.placed.repository);
        let target = format!("{here}:{}", exchange_ref(self.worktree));
        let plain = ["--no-verify", "--no-signed", "--no-follow-tags", "--recurse-submodules=no"];
        let args: Vec<&str> =
            ["push", "--quiet", "--force"].into_iter().chain(plain).chain([&*url, &*target]).collect();
        let _ = self.work.feed(&self.git(), &args, b"")?;
        let (state, setup) = (here.to_owned(), setup.clone());
        match self.ask(&Operation::Unpack { worktree: self.there(), state, setup })? {
            WorktreeResult::Ready => self.settle(here, None),
            other => Err(unexpected(&other)),
        }
    }

    fn fetch(&self) -> Result<(), Error> {
        let url = self.link.url(&self.placed.repository);
        let target = format!("+{}:{STATES}incoming", exchange_ref(self.worktree));
        let args = ["fetch", "--quiet", "--no-tags", "--no-recurse-submodules", "--no-auto-maintenance"];
        let args: Vec<&str> = args.into_iter().chain([&*url, &*target]).collect();
        self.work.feed(&self.git(), &args, b"").map(drop)
    }

    /// Git that may start the client of the placement.
    fn git(&self) -> Git<'_> {
        let mut git = self.work.git(&self.worktree.path);
        git.places = vec![(TRANSPORTS.0, TRANSPORTS.1.into())];
        git
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

fn unexpected(answer: &WorktreeResult) -> Error {
    Error::new(Code::Internal, format!("an operation on a worktree has another answer: {answer:?}"))
}
