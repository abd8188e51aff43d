//! The tree below this process: find it, freeze it, kill it.
//!
//! Must not touch a process that is not a descendant. A number alone proves nothing, since it may have been given to
//! another process: our own children keep theirs until we reap them (which nobody does during a sweep), everybody
//! else is held by a process descriptor while its parent is looked up.

use std::collections::{BTreeMap, BTreeSet};

use nix::errno::Errno;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::{pidfd, procfs};

/// So often a sweep looks for processes that were born while it froze the others. What is born after that is found
/// by the next sweep: to bound it means that a tree that grows faster than we freeze is thinned out meanwhile.
const MAX_PASSES: usize = 8;

/// How to learn who is whose child.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Listing {
    /// The kernel's lists of children: costs as much as the tree is large.
    ChildrenFiles,
    /// Kernels without those lists: the parents of all processes of the system.
    AllProcesses,
}

/// How a process stands to us, as known in one sweep.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kinship {
    Child,
    Further,
}

type Members = BTreeMap<i32, Kinship>;

/// The descendants of this process, without the spared ones and what is below those.
pub(super) struct Tree<'a> {
    me: i32,
    listing: Listing,
    spare: &'a [i32],
}

impl<'a> Tree<'a> {
    /// The tree below the calling process.
    pub(super) fn below_self(spare: &'a [i32]) -> Self {
        let listing = if procfs::offers_children() { Listing::ChildrenFiles } else { Listing::AllProcesses };
        Self { me: Pid::this().as_raw(), listing, spare }
    }

    /// Our own children that are not spared, ended ones included.
    pub(super) fn children(&self) -> Vec<i32> {
        let mut children = self.families().children_of(self.me);
        children.retain(|pid| !self.spare.contains(pid));
        children
    }

    /// Sends SIGSTOP to all descendants until no new ones show up, then SIGKILL to all of them; gives those found.
    ///
    /// First everybody stands still, so that no parent can answer the death of its child with a new one.
    pub(super) fn sweep(&self) -> Vec<i32> {
        let mut members = Members::new();
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

    /// One walk from the top, parents before their children; gives the number of new members.
    fn freeze(&self, members: &mut Members) -> usize {
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

    /// Signals a descendant; false if this process is not one (any more).
    ///
    /// True also when the signal was refused: to a child of another user, say. It stays a member, it may be ours to
    /// end later, and its children may be now.
    fn send(&self, pid: i32, kinship: Kinship, signal: Signal, members: &Members) -> bool {
        if kinship == Kinship::Child {
            return kill(Pid::from_raw(pid), signal) != Err(Errno::ESRCH);
        }
        match pidfd::open(pid) {
            Ok(process) => self.is_below(pid, members) && !is_gone(pidfd::send(&process, signal)),
            // Linux before 5.3: between look and signal the system would have to give away all other numbers.
            Err(error) if error.raw_os_error() == Some(Errno::ENOSYS as i32) => {
                self.is_below(pid, members) && kill(Pid::from_raw(pid), signal) != Err(Errno::ESRCH)
            }
            Err(_) => false,
        }
    }

    fn is_below(&self, pid: i32, members: &Members) -> bool {
        let mut buffer = [0; procfs::STAT_BYTES];
        // One that we may not look at is left alone until its parent is gone: then it is our child.
        procfs::stat(pid, &mut buffer)
            .is_ok_and(|stat| stat.ppid == self.me || members.contains_key(&stat.ppid))
    }

    fn families(&self) -> Families {
        let parents = match self.listing {
            Listing::ChildrenFiles => return Families::Asked,
            Listing::AllProcesses => procfs::parents().unwrap_or_default(),
        };
        let mut children = BTreeMap::<i32, Vec<i32>>::new();
        for (pid, parent) in parents {
            children.entry(parent).or_default().push(pid);
        }
        Families::Known(children)
    }
}

/// Those of `pids` that have not ended (a zombie has).
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
    /// Each family is looked up when it is asked for.
    Asked,
    Known(BTreeMap<i32, Vec<i32>>),
}

impl Families {
    fn children_of(&self, pid: i32) -> Vec<i32> {
        match self {
            Self::Asked => {
                let mut children = Vec::new();
                // What was read before an error counts; the rest is found in the next pass, or as our own child.
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

    fn all_below(tree: &Tree<'_>) -> BTreeSet<i32> {
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
        // `cat` ends with the shell's stdin; the subshell keeps a second generation there until then.
        let mut command = Command::new("sh");
        command.args(["-c", "echo $$; (sh -c 'echo $$; cat; :'; :); :"]);
        let mut shell = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(shell.stdout.take().unwrap()).lines();
        let pids: BTreeSet<i32> = lines.take(2).map(|line| line.unwrap().parse().unwrap()).collect();
        assert_eq!(pids.len(), 2);
        for listing in [Listing::ChildrenFiles, Listing::AllProcesses] {
            let tree = Tree { me: Pid::this().as_raw(), listing, spare: &[] };
            let below = all_below(&tree);
            assert!(below.is_superset(&pids), "{listing:?}: {pids:?} in {below:?}");
        }
        drop(shell.stdin.take());
        shell.wait().unwrap();
    }

    #[test]
    fn a_stranger_is_no_member_and_gets_no_signal() {
        let tree = Tree::below_self(&[]);
        let parent = Pid::parent().as_raw();
        // SIGCONT: if this fails, it must do no harm.
        assert!(!tree.send(parent, Kinship::Further, Signal::SIGCONT, &Members::new()));
        assert!(!tree.children().contains(&parent));
    }
}
