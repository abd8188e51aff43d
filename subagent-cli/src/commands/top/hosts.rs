//! The daemons that a board shows: how each is reached, and its workers. Pure.

use std::collections::HashSet;

use subagent_model::{OverviewRow, Workers};
use subagent_protocol::clean::one_line;
use subagent_protocol::ids::WorkerId;
use subagent_protocol::time::Timestamp;

/// Maximum number of bytes of a name that are shown.
const MAX_NAME_BYTES: usize = 256;

/// How a daemon is reached.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum BoardConnection {
    /// Nothing was ever started there: there is no daemon to ask.
    Unused,
    /// The first snapshot is on its way.
    Connecting,
    Connected,
    /// The connection was lost; another one is being made.
    Lost,
    /// The daemon cannot be asked.
    Unreachable(SilenceReason),
}

/// Why a daemon cannot be asked.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct SilenceReason {
    /// The error with what to do.
    pub(super) sentence: String,
    /// What is said in a row: the words of the ssh client, if there are any.
    pub(super) short: String,
}

/// The place of a daemon in the list of those that a board shows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct HostIndex(pub(super) usize);

/// A worker of one of the daemons. Its id is unique only there.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct BoardWorker {
    pub(super) host: HostIndex,
    pub(super) id: WorkerId,
}

/// The place of a worker in the snapshot of its daemon.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct RowPosition {
    pub(super) host: HostIndex,
    pub(super) row: usize,
}

/// A daemon, and what is known of it.
#[derive(Debug)]
pub(super) struct BoardHost {
    /// Name in the config file; `local` is this machine.
    pub(super) name: String,
    /// Whether it is on another host.
    pub(super) is_far: bool,
    pub(super) link: BoardConnection,
    /// When it last answered, if that is known.
    pub(super) answered: Option<Timestamp>,
    pub(super) workers: Option<Workers>,
    /// Which schedules and triggers no longer fire.
    pub(super) paused: Option<String>,
    /// Workers that are not in the snapshot, for which another one was taken.
    pub(super) unknown: HashSet<WorkerId>,
    /// The worker whose lines are being counted, and whether they are the same as when that began.
    pub(super) counting: Option<(WorkerId, bool)>,
}

impl BoardHost {
    /// Creates one without workers.
    pub(super) fn new(name: &str, is_far: bool, link: BoardConnection) -> Self {
        Self {
            name: name.to_owned(),
            is_far,
            link,
            answered: None,
            workers: None,
            paused: None,
            unknown: HashSet::new(),
            counting: None,
        }
    }

    /// Sets when it answered an earlier command.
    #[must_use]
    pub(super) fn answered_at(self, answered: Option<Timestamp>) -> Self {
        Self { answered, ..self }
    }

    /// The workers that are shown: of a host that does not answer none.
    fn rows(&self, is_only: bool) -> &[OverviewRow] {
        let is_hidden = !is_only && matches!(self.link, BoardConnection::Unreachable(_));
        let workers = self.workers.as_ref().filter(|_| !is_hidden);
        workers.map(Workers::rows).unwrap_or_default()
    }

    /// Whether it stands in the list itself.
    fn is_row(&self) -> bool {
        match self.link {
            BoardConnection::Unused | BoardConnection::Connected => false,
            BoardConnection::Connecting => self.workers.is_none(),
            BoardConnection::Lost | BoardConnection::Unreachable(_) => true,
        }
    }

    /// A word for how it is reached, and what else is known of that.
    pub(super) fn reached(&self) -> (&'static str, &str) {
        match &self.link {
            BoardConnection::Unused => ("unused", ""),
            BoardConnection::Connecting => ("connecting", ""),
            BoardConnection::Connected => ("connected", ""),
            BoardConnection::Lost => ("no answer", "the connection was lost, connecting"),
            BoardConnection::Unreachable(why) => ("no answer", &why.short),
        }
    }
}

/// All daemons of a board.
#[derive(Debug)]
pub(super) struct BoardHosts {
    hosts: Vec<BoardHost>,
    /// Whether the board is for one daemon: then it says nothing of hosts.
    is_for_one: bool,
}

impl BoardHosts {
    /// The daemon of a board for one.
    pub(super) fn one(host: BoardHost) -> Self {
        Self { hosts: vec![host], is_for_one: true }
    }

    /// The daemons of a board for all hosts.
    pub(super) fn all_of(hosts: Vec<BoardHost>) -> Self {
        Self { hosts, is_for_one: false }
    }

    /// Returns the daemon of a board for one.
    pub(super) fn only(&self) -> Option<&BoardHost> {
        self.hosts.first().filter(|_| self.is_for_one)
    }

    pub(super) fn get(&self, host: HostIndex) -> Option<&BoardHost> {
        self.hosts.get(host.0)
    }

    pub(super) fn get_mut(&mut self, host: HostIndex) -> Option<&mut BoardHost> {
        self.hosts.get_mut(host.0)
    }

    /// All daemons, each with its place.
    pub(super) fn all(&self) -> impl Iterator<Item = (HostIndex, &BoardHost)> {
        self.hosts.iter().enumerate().map(|(at, host)| (HostIndex(at), host))
    }

    /// The daemon of this machine, if the board shows it.
    pub(super) fn here(&self) -> Option<HostIndex> {
        self.all().find(|(_, host)| !host.is_far).map(|(at, _)| at)
    }

    /// The hosts that stand in the list themselves, because they do not answer. A board of one
    /// daemon says it in its title.
    pub(super) fn silent(&self) -> impl Iterator<Item = (HostIndex, &BoardHost)> {
        self.all().filter(|(_, host)| self.only().is_none() && host.is_row())
    }

    /// All workers that are shown, each with its place.
    pub(super) fn rows(&self) -> impl Iterator<Item = (RowPosition, &OverviewRow)> {
        let is_only = self.only().is_some();
        self.all().flat_map(move |(host, known)| {
            let place = move |(row, shown)| (RowPosition { host, row }, shown);
            known.rows(is_only).iter().enumerate().map(place)
        })
    }

    pub(super) fn row_at(&self, at: RowPosition) -> Option<&OverviewRow> {
        self.get(at.host)?.rows(self.only().is_some()).get(at.row)
    }

    /// Returns the row of a worker.
    pub(super) fn row(&self, worker: &BoardWorker) -> Option<&OverviewRow> {
        let rows = self.get(worker.host)?.rows(self.only().is_some());
        rows.iter().find(|row| *row.worker_id() == worker.id)
    }

    /// Whether a snapshot of any of them has come.
    pub(super) fn have_answered(&self) -> bool {
        self.hosts.iter().any(|host| host.workers.is_some())
    }

    /// Returns the name of a worker, behind that of its host if there are several.
    pub(super) fn called(&self, host: HostIndex, row: &OverviewRow) -> String {
        let name = named(row);
        match self.get(host).filter(|host| host.is_far && self.only().is_none()) {
            Some(host) => format!("{}/{name}", host.name),
            None => name,
        }
    }
}

/// The name of a worker. Its host may send anything.
fn named(row: &OverviewRow) -> String {
    match row.snapshot.name.as_str() {
        "" => row.worker_id().to_string(),
        name => cleaned_name(name),
    }
}

/// A name of a daemon without what acts on a terminal, and bounded.
pub(super) fn cleaned_name(name: &str) -> String {
    one_line(&name[..name.floor_char_boundary(MAX_NAME_BYTES)])
}
