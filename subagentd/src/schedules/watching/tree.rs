//! The watched folders of one trigger, by inotify. A library for this was not used: `notify`
//! watches each folder below, also those that no pattern can match.

use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify, InotifyEvent, WatchDescriptor};

use super::changes::ChangedPaths;
use super::globs::Globs;

/// Reads of the queue before the caller looks at the clock again.
const MAX_READS: usize = 64;

/// What a trigger may watch.
#[derive(Debug, Clone, Copy)]
pub(super) struct WatchLimits {
    pub(super) folders: usize,
    pub(super) files: usize,
}

impl Default for WatchLimits {
    fn default() -> Self {
        Self { folders: 10_000, files: 500_000 }
    }
}

/// The watched folders of one trigger.
pub(super) struct Tree {
    queue: Inotify,
    root: PathBuf,
    globs: Globs,
    limits: WatchLimits,
    /// The state dir of the daemon if it is below: each firing changes it.
    skipped: Option<PathBuf>,
    /// Paths relative to the root.
    folders: HashMap<WatchDescriptor, PathBuf>,
    root_watch: Option<WatchDescriptor>,
}

impl AsFd for Tree {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.queue.as_fd()
    }
}

impl Tree {
    /// Watches the folder, and those below it in which a pattern can match, without the state dir.
    ///
    /// # Errors
    /// A sentence about why it cannot be watched.
    pub(super) fn open(
        root: &Path,
        globs: Globs,
        limits: WatchLimits,
        state_dir: Option<&Path>,
    ) -> Result<Self, String> {
        let (queue, skipped) = (new_queue()?, state_dir.and_then(|state_dir| below(root, state_dir)));
        let (root, folders) = (root.to_owned(), HashMap::new());
        let mut tree = Self { queue, root, globs, limits, skipped, folders, root_watch: None };
        tree.add(PathBuf::new(), None)?;
        Ok(tree)
    }

    /// Watches a folder and those below it. Files that are in them already count as changed if
    /// `changes` is given.
    fn add(&mut self, folder: PathBuf, mut changes: Option<&mut ChangedPaths>) -> Result<(), String> {
        let mut waiting = vec![folder];
        let mut files = 0usize;
        while let Some(folder) = waiting.pop() {
            if !self.watch(&folder)? {
                continue;
            }
            // Read after the watch: what comes in between is seen twice, not missed.
            let Ok(entries) = std::fs::read_dir(self.root.join(&folder)) else { continue };
            for entry in entries.flatten() {
                files += 1;
                if files > self.limits.files {
                    return Err(self.too_many("files", self.limits.files));
                }
                let path = folder.join(entry.file_name());
                if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                    if self.looks_into(&path) {
                        waiting.push(path);
                    }
                } else if let Some(changes) = changes.as_deref_mut()
                    && self.globs.matches(&path)
                {
                    changes.add(&path);
                }
            }
        }
        Ok(())
    }

    fn looks_into(&self, folder: &Path) -> bool {
        self.globs.can_match_below(folder) && self.skipped.as_deref() != Some(folder)
    }

    /// Watches all folders anew after the system dropped events: new folders may be among them.
    fn reopen(&mut self) -> Result<(), String> {
        // The end of the old queue is the end of its watches.
        self.queue = new_queue()?;
        self.folders.clear();
        self.root_watch = None;
        self.add(PathBuf::new(), None)
    }

    /// Returns false for a folder below the root that is gone or cannot be read.
    fn watch(&mut self, folder: &Path) -> Result<bool, String> {
        let is_root = folder.as_os_str().is_empty();
        if self.folders.len() >= self.limits.folders {
            return Err(self.too_many("folders", self.limits.folders));
        }
        let mut what = AddWatchFlags::IN_CLOSE_WRITE
            | AddWatchFlags::IN_CREATE
            | AddWatchFlags::IN_DELETE
            | AddWatchFlags::IN_MOVE
            | AddWatchFlags::IN_ONLYDIR;
        what |= match is_root {
            true => AddWatchFlags::IN_DELETE_SELF | AddWatchFlags::IN_MOVE_SELF,
            false => AddWatchFlags::IN_DONT_FOLLOW,
        };
        match self.queue.add_watch(&self.root.join(folder), what) {
            Ok(watch) => {
                if is_root {
                    self.root_watch = Some(watch);
                }
                self.folders.insert(watch, folder.to_owned());
                Ok(true)
            }
            Err(Errno::ENOSPC) => {
                Err("the system has no watches left (fs.inotify.max_user_watches)".to_owned())
            }
            Err(error) if is_root => {
                Err(format!("the folder {} cannot be watched: {}", self.root.display(), error.desc()))
            }
            Err(_) => Ok(false),
        }
    }

    fn too_many(&self, what: &str, limit: usize) -> String {
        format!(
            "the patterns match in more than {limit} {what} below {}; choose narrower patterns",
            self.root.display()
        )
    }

    /// Reads the events that are there, or a part of them if there are very many.
    ///
    /// # Errors
    /// A sentence about why the folder is not watched any more.
    pub(super) fn read(&mut self, changes: &mut ChangedPaths) -> Result<(), String> {
        for _ in 0..MAX_READS {
            match self.queue.read_events() {
                Ok(events) => {
                    for event in events {
                        if event.mask.contains(AddWatchFlags::IN_Q_OVERFLOW) {
                            changes.lost = true;
                            return self.reopen();
                        }
                        self.take(&event, changes)?;
                    }
                }
                Err(Errno::EAGAIN) => return Ok(()),
                Err(Errno::EINTR) => {}
                Err(error) => return Err(format!("changes cannot be read: {}", io::Error::from(error))),
            }
        }
        Ok(())
    }

    fn take(&mut self, event: &InotifyEvent, changes: &mut ChangedPaths) -> Result<(), String> {
        let has = |flags: AddWatchFlags| event.mask.intersects(flags);
        let own_end = AddWatchFlags::IN_DELETE_SELF | AddWatchFlags::IN_MOVE_SELF;
        let ended = own_end | AddWatchFlags::IN_IGNORED | AddWatchFlags::IN_UNMOUNT;
        if has(ended) {
            if Some(event.wd) == self.root_watch {
                return Err(format!("the folder {} is gone or was moved", self.root.display()));
            }
            self.folders.remove(&event.wd);
            return Ok(());
        }
        let (Some(folder), Some(name)) = (self.folders.get(&event.wd), &event.name) else { return Ok(()) };
        let path = folder.join(name);
        let is_folder = has(AddWatchFlags::IN_ISDIR);
        if is_folder && has(AddWatchFlags::IN_MOVED_FROM | AddWatchFlags::IN_DELETE) {
            self.forget(&path);
        }
        if is_folder && has(AddWatchFlags::IN_CREATE | AddWatchFlags::IN_MOVED_TO) {
            return match self.looks_into(&path) {
                true => self.add(path, Some(changes)),
                false => Ok(()),
            };
        }
        if self.globs.matches(&path) {
            changes.add(&path);
        }
        Ok(())
    }

    /// Ends the watches of a folder that has another path now.
    fn forget(&mut self, folder: &Path) {
        let queue = &self.queue;
        self.folders.retain(|watch, path| {
            let stays = !path.starts_with(folder);
            if !stays {
                // It ends by itself if the folder is deleted.
                let _ = queue.rm_watch(*watch);
            }
            stays
        });
    }
}

fn new_queue() -> Result<Inotify, String> {
    Inotify::init(InitFlags::IN_NONBLOCK | InitFlags::IN_CLOEXEC)
        .map_err(|error| format!("the system has no inotify instance left: {error}"))
}

/// The path of a folder relative to the root, if it is below.
fn below(root: &Path, folder: &Path) -> Option<PathBuf> {
    let plain = folder.strip_prefix(root).map(Path::to_owned).ok();
    // One of them may lead through a link.
    let resolved = || {
        let (root, folder) = (root.canonicalize().ok()?, folder.canonicalize().ok()?);
        folder.strip_prefix(root).map(Path::to_owned).ok()
    };
    plain.or_else(resolved)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

    use super::*;

    fn open(root: &Path, globs: &[&str], limits: WatchLimits) -> Result<Tree, String> {
        let globs: Vec<String> = globs.iter().map(|glob| (*glob).to_owned()).collect();
        let state_dir = root.join("var/state");
        Tree::open(root, Globs::new(&globs).unwrap(), limits, Some(state_dir.as_path()))
    }

    /// Reads until the changes are these.
    fn until(tree: &mut Tree, wanted: &str) {
        let mut changes = ChangedPaths::default();
        while changes.payload() != wanted {
            let mut fds = [PollFd::new(tree.as_fd(), PollFlags::POLLIN)];
            let ready = poll(&mut fds, PollTimeout::from(20_000u16)).unwrap();
            assert!(ready > 0, "{wanted:?} and not {:?}", changes.payload());
            tree.read(&mut changes).unwrap();
        }
    }

    #[test]
    fn changes_below_new_and_moved_folders_count_under_their_paths() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path();
        fs::create_dir_all(root.join("src/.git")).unwrap();
        fs::create_dir(root.join("other")).unwrap();
        let mut tree = open(root, &["src/**/*.rs"], WatchLimits::default()).unwrap();
        assert_eq!(tree.folders.len(), 2, "{:?}", tree.folders);
        fs::write(root.join("other/a.rs"), "").unwrap();
        fs::write(root.join("src/.git/a.rs"), "").unwrap();
        fs::write(root.join("src/a.txt"), "").unwrap();
        fs::create_dir_all(root.join("src/a/b")).unwrap();
        fs::write(root.join("src/a/b/c.rs"), "").unwrap();
        until(&mut tree, "src/a/b/c.rs\n");
        fs::rename(root.join("src/a"), root.join("src/d")).unwrap();
        until(&mut tree, "src/d/b/c.rs\n");
        fs::write(root.join("src/d/b/c.rs"), "x").unwrap();
        until(&mut tree, "src/d/b/c.rs\n");
        fs::remove_file(root.join("src/d/b/c.rs")).unwrap();
        until(&mut tree, "src/d/b/c.rs\n");
        fs::rename(root.join("src/d"), root.join("other/d")).unwrap();
        fs::write(root.join("other/d/b/e.rs"), "x").unwrap();
        fs::write(root.join("src/f.rs"), "x").unwrap();
        until(&mut tree, "src/f.rs\n");
    }

    #[test]
    fn the_state_dir_is_not_watched() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path();
        fs::create_dir_all(root.join("var/state/runtimes")).unwrap();
        fs::create_dir_all(root.join(".subagent/state")).unwrap();
        let mut tree = open(root, &["**"], WatchLimits::default()).unwrap();
        fs::write(root.join("var/state/state.db"), "x").unwrap();
        fs::write(root.join("var/state/runtimes/log"), "x").unwrap();
        fs::write(root.join(".subagent/state/state.db"), "x").unwrap();
        fs::write(root.join("var/a"), "x").unwrap();
        until(&mut tree, "var/a\n");
    }

    #[test]
    fn a_new_queue_watches_the_same_folders() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path();
        fs::create_dir(root.join("a")).unwrap();
        let mut tree = open(root, &["**"], WatchLimits::default()).unwrap();
        fs::write(root.join("before"), "").unwrap();
        tree.reopen().unwrap();
        assert_eq!(tree.folders.len(), 2, "{:?}", tree.folders);
        fs::write(root.join("a/b"), "").unwrap();
        until(&mut tree, "a/b\n");
    }

    #[test]
    fn a_folder_that_is_gone_and_one_with_too_much_are_errors() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("watched");
        assert!(open(&root, &["*"], WatchLimits::default()).err().unwrap().contains("cannot be watched"));
        fs::create_dir_all(root.join("a/b")).unwrap();
        for number in 0..5 {
            fs::write(root.join(number.to_string()), "").unwrap();
        }
        let folders = open(&root, &["**"], WatchLimits { folders: 2, files: 100 }).err().unwrap();
        assert!(folders.contains("more than 2 folders"), "{folders}");
        let files = open(&root, &["**"], WatchLimits { folders: 100, files: 5 }).err().unwrap();
        assert!(files.contains("more than 5 files"), "{files}");
        let mut tree = open(&root, &["*"], WatchLimits::default()).unwrap();
        fs::rename(&root, dir.path().join("elsewhere")).unwrap();
        let gone = tree.read(&mut ChangedPaths::default()).unwrap_err();
        assert!(gone.contains("is gone or was moved"), "{gone}");
    }
}
