//! The process tree below this process: finds, stops and kills it. Must not touch a process that is
//! not a descendant.

// A pid alone proves nothing, because it may be reused. Our own children keep theirs until we reap
// them, which does not happen during a sweep. All others are held by a pidfd while their parent is
// looked up.

use std::collections::{BTreeMap, BTreeSet};

use nix::errno::Errno;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::{pidfd, procfs};

/// Maximum number of passes per sweep that look for processes born while the others were stopped.
/// The next sweep finds later ones. The limit ensures that a tree that grows faster than we stop
/// it is reduced meanwhile.
const MAX_PASSES: usize = 8;

/// How the children of a process are found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ChildListing {
    /// The kernel's lists of children; the cost grows with the tree.
    ChildrenFiles,
    /// The parents of all processes, for kernels without these lists.
    AllProcesses,
}

/// The relation of a process to us, as known in one sweep.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kinship {
    Child,
    Further,
}

type TreeMembers = BTreeMap<i32, Kinship>;

/// The descendants of this process, without spared ones and their descendants.
pub(super) struct DescendantTree<'a> {
    me: i32,
    listing: ChildListing,
    spare: &'a [i32],
}

impl<'a> DescendantTree<'a> {
    /// The tree below the calling process.
    pub(super) fn below_self(spare: &'a [i32]) -> Self {
        let listing =
            if procfs::offers_children() { ChildListing::ChildrenFiles } else { ChildListing::AllProcesses };
        Self { me: Pid::this().as_raw(), listing, spare }
    }

    /// Returns our own children that are not spared, including ended ones.
    pub(super) fn children(&self) -> Vec<i32> {
        let mut children = self.families().children_of(self.me);
        children.retain(|pid| !self.spare.contains(pid));
        children
    }

    /// Sends SIGSTOP to all descendants until no new ones appear, then SIGKILL to
    /// all. Returns those found.
    ///
    /// Stops everything first, so that no parent can replace a killed child.
    pub(super) fn sweep(&self) -> Vec<i32> {
        let mut members = TreeMembers::new();
        for _ in 0..MAX_PASSES {
            if self.freeze(&mut members) == 0 {
                break;
            }
        }
        for (pid, kinship) in &members {
            self.send(*pid, *kinship, Signal::SIGKILL, &members);
        }
        members.into_keys().collect()
    }

    /// Walks once from the top, parents before children. Returns the number of new members.
    fn freeze(&self, members: &mut TreeMembers) -> usize {
        let families = self.families();
        let mut new = 0;
        let mut seen = BTreeSet::new();
        let mut walk = vec![self.me];
        let mut next = 0;
        while let Some(&parent) = walk.get(next) {
            next += 1;
            let kinship = if parent == self.me { Kinship::Child } else { Kinship::Further };
            for pid in families.children_of(parent) {
                if self.spare.contains(&pid) || !seen.insert(pid) {
                    continue;
                }
                if !members.contains_key(&pid) {
                    if !self.send(pid, kinship, Signal::SIGSTOP, members) {
                        continue;
                    }
                    members.insert(pid, kinship);
                    new += 1;
                }
                walk.push(pid);
            }
        }
        new
    }

    /// Signals a descendant. Returns false if this process is not a descendant (any more).
    ///
    /// Also returns true if the signal was refused, for example for another user's child. It stays
    /// a member: we may be able to end it later, and its children now.
    fn send(&self, pid: i32, kinship: Kinship, signal: Signal, members: &TreeMembers) -> bool {
        if kinship == Kinship::Child {
            return kill(Pid::from_raw(pid), signal) != Err(Errno::ESRCH);
        }
        match pidfd::open(pid) {
            Ok(process) => self.is_below(pid, members) && !is_gone(pidfd::send(&process, signal)),
            // Linux before 5.3: a pid could only be reused here if the system assigned
            // all others in between.
            Err(error) if error.raw_os_error() == Some(Errno::ENOSYS as i32) => {
                self.is_below(pid, members) && kill(Pid::from_raw(pid), signal) != Err(Errno::ESRCH)
            }
            Err(_) => false,
        }
    }

    fn is_below(&self, pid: i32, members: &TreeMembers) -> bool {
        let mut buffer = [0; procfs::STAT_BYTES];
        // A process that we may not inspect is left alone until its parent is gone and
        // it is our child.
        procfs::stat(pid, &mut buffer)
            .is_ok_and(|stat| stat.ppid == self.me || members.contains_key(&stat.ppid))
    }

    fn families(&self) -> Families {
        let parents = match self.listing {
            ChildListing::ChildrenFiles => return Families::OnDemand,
            ChildListing::AllProcesses => procfs::parents().unwrap_or_default(),
        };
        let mut children = BTreeMap::<i32, Vec<i32>>::new();
        for (pid, parent) in parents {
            children.entry(parent).or_default().push(pid);
        }
        Families::Known(children)
    }
}

/// Filters `pids` to those that have not ended (zombies have ended).
pub(super) fn alive(pids: impl IntoIterator<Item = i32>) -> impl Iterator<Item = i32> {
    pids.into_iter().filter(|pid| {
        let mut buffer = [0; procfs::STAT_BYTES];
        match procfs::stat(*pid, &mut buffer) {
            Ok(stat) => !stat.ended(),
            Err(error) => !procfs::gone(&error),
        }
    })
}

enum Families {
    /// Each family is looked up on demand.
    OnDemand,
    Known(BTreeMap<i32, Vec<i32>>),
}

impl Families {
    fn children_of(&self, pid: i32) -> Vec<i32> {
        match self {
            Self::OnDemand => {
                let mut children = Vec::new();
                // Children read before an error count. The next pass finds the others, or they
                // become our own children.
                let _ = procfs::children(pid, &mut children);
                children
            }
            Self::Known(children) => children.get(&pid).cloned().unwrap_or_default(),
        }
    }
}

fn is_gone(result: std::io::Result<()>) -> bool {
    result.is_err_and(|error| procfs::gone(&error))
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader};
    use std::process::{Command, Stdio};

    use super::*;

    fn all_below(tree: &DescendantTree<'_>) -> BTreeSet<i32> {
        let families = tree.families();
        let mut walk = families.children_of(tree.me);
        let mut next = 0;
        while let Some(&pid) = walk.get(next) {
            walk.extend(families.children_of(pid));
            next += 1;
        }
        walk.into_iter().collect()
    }

    #[test]
    fn both_ways_to_list_find_the_same_tree() {
        // `cat` ends with the shell's stdin. The subshell keeps a second
        // generation there until then.
        let mut command = Command::new("sh");
        command.args(["-c", "echo $$; (sh -c 'echo $$; cat; :'; :); :"]);
        let mut shell = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(shell.stdout.take().unwrap()).lines();
        let pids: BTreeSet<i32> = lines.take(2).map(|line| line.unwrap().parse().unwrap()).collect();
        assert_eq!(pids.len(), 2);
        for listing in [ChildListing::ChildrenFiles, ChildListing::AllProcesses] {
            let tree = DescendantTree { me: Pid::this().as_raw(), listing, spare: &[] };
            let below = all_below(&tree);
            assert!(below.is_superset(&pids), "{listing:?}: {pids:?} in {below:?}");
        }
        drop(shell.stdin.take());
        shell.wait().unwrap();
    }

    #[test]
    fn a_stranger_is_no_member_and_gets_no_signal() {
        let tree = DescendantTree::below_self(&[]);
        let parent = Pid::parent().as_raw();
        // SIGCONT does no harm if this test fails.
        assert!(!tree.send(parent, Kinship::Further, Signal::SIGCONT, &TreeMembers::new()));
        assert!(!tree.children().contains(&parent));
    }
}
