//! Repositories and worktrees in generated states, and their content.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Write as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use subagent_protocol::worktree::{Setup, Worktree};
use subagent_testkit::Random;

use super::blob;
use super::templates::{TemplateKind, Templates};
use super::world::{WorktreeFixture, write};

/// Content and times by file.
pub(super) type FileStates = BTreeMap<PathBuf, (String, i64, i64)>;

/// The location of a content, and its id with git's line ends.
#[derive(Debug)]
pub(super) struct Origin {
    pub(super) converted: String,
    #[expect(dead_code, reason = "printed with what is lost")]
    pub(super) place: PathBuf,
}

/// A world in a generated state.
pub(super) struct State {
    pub(super) world: WorktreeFixture,
    pub(super) worktree: Worktree,
    random: Random,
    /// Counter that makes each content unique.
    contents: u32,
    /// Whether git converts line ends.
    converts: bool,
    /// Whether another git seems to hold the index of the main tree.
    pub(super) is_locked: bool,
}

/// The content of a lock file that is not ours.
const FOREIGN: &str = "another git";

impl State {
    /// Copies a template and changes it.
    pub(super) fn new(
        templates: &Templates,
        mut random: Random,
        with_submodule: bool,
        is_made: bool,
    ) -> Self {
        let converts = random.below(6) == 0;
        let is_detached = random.below(8) == 0;
        let with_changes = random.below(3) == 0;
        let dirty_before = random.below(2) == 0;
        // The main tree's changes are in the worktree only if they are recorded for it.
        let is_planned = !(with_changes && dirty_before);
        let kind = TemplateKind { with_submodule, converts, is_made: is_made && is_planned };
        let (world, worktree) = templates.copy(kind);
        let mut state = Self { world, worktree, random, contents: 0, converts, is_locked: false };
        let top = state.world.top();
        match state.random.below(16) {
            0 => fs::write(top.join(".git/shallow"), state.head() + "\n").unwrap(),
            1 => drop(state.world.git(&["worktree", "add", "-q", "--detach", "within"])),
            2 => state.is_locked = true,
            _ => {}
        }
        if is_detached {
            fs::write(top.join(".git/HEAD"), state.head() + "\n").unwrap();
            state.worktree.source_branch = None;
        }
        if dirty_before {
            state.change(&top);
        }
        if !is_planned {
            state.worktree = state.world.planned("one", with_changes);
        }
        if is_made {
            match is_planned {
                // A copied file has another inode than the index says.
                true if state.random.below(2) == 0 => {
                    let worktree = state.worktree.path.clone();
                    let _ = state.world.try_git(&worktree, &["update-index", "-q", "--refresh"]);
                }
                true => {}
                false => state.world.make(&state.worktree, &Setup::default()).unwrap(),
            }
            state.work();
            if state.random.below(2) == 0 {
                state.change(&top);
            }
        }
        if state.is_locked {
            fs::write(state.lock(), FOREIGN).unwrap();
        }
        state
    }

    fn lock(&self) -> PathBuf {
        self.world.top().join(".git/index.lock")
    }

    /// Whether the index of the main tree is locked as at the beginning.
    pub(super) fn lock_is_as_before(&self) -> bool {
        fs::read_to_string(self.lock()).ok().as_deref() == self.is_locked.then_some(FOREIGN)
    }

    /// Returns the commit of the main tree's `HEAD`.
    pub(super) fn head(&self) -> String {
        let folder = self.world.top().join(".git");
        let read = |name: &str| fs::read_to_string(folder.join(name)).unwrap().trim().to_owned();
        let head = read("HEAD");
        head.strip_prefix("ref: ").map(read).unwrap_or(head)
    }

    /// Commits everything in a work tree.
    fn save(&self, folder: &Path, message: &str) {
        self.world.git_in(folder, &["add", "-A"]);
        self.world.git_in(folder, &["commit", "-q", "--allow-empty", "-m", message]);
    }

    fn content(&mut self) -> String {
        self.contents += 1;
        let end = if self.random.below(4) == 0 { "\r\n" } else { "\n" };
        let binary = if self.random.below(6) == 0 { "\0" } else { "" };
        format!("{}{binary} of {}{end}", self.contents, self.random.number())
    }

    /// Changes some files, both tracked and hidden from git.
    pub(super) fn change(&mut self, top: &Path) {
        for _ in 0..=self.random.below(4) {
            let names =
                ["kept", "changed", "a/new", "new", "a b", "x\ny", "ignored", "a/ignored", "link", "script"];
            let name = *self.random.pick(&names);
            let (path, text) = (top.join(name), self.content());
            match self.random.below(8) {
                0 => drop(fs::remove_file(&path)),
                1 if name == "link" => {
                    let _ = fs::remove_file(&path);
                    symlink(text.trim().replace('\0', ""), &path).unwrap();
                }
                2 if name == "script" => {
                    write(&path, &text);
                    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
                }
                3 => {
                    // The index and the file get different content.
                    write(&path, &text);
                    let _ = self.world.try_git(top, &["add", "--", name]);
                    if self.random.below(2) == 0 {
                        let text = self.content();
                        write(&path, &text);
                    }
                }
                4 => drop(self.world.try_git(top, &["mv", "-f", "kept", "moved"])),
                _ if !path.is_symlink() => write(&path, &text),
                _ => {}
            }
        }
    }

    /// Simulates the work of an agent.
    fn work(&mut self) {
        let top = self.worktree.path.clone();
        for _ in 0..self.random.below(3) {
            self.change(&top);
            self.save(&top, "work");
        }
        match self.random.below(10) {
            0 => drop(self.world.try_git(&top, &["reset", "-q", "--hard", "HEAD~"])),
            1 => drop(self.world.try_git(&top, &["checkout", "-q", "--detach"])),
            2 | 3 => self.move_target(&top),
            4 => {
                self.world.git_in(&top, &["init", "-q", "nested"]);
                let text = self.content();
                write(&top.join("nested/file"), &text);
                if self.random.below(2) == 0 {
                    self.save(&top.join("nested"), "nested");
                }
            }
            _ => {}
        }
        let sub = top.join("sub");
        if sub.join(".git").exists() {
            for _ in 0..self.random.below(3) {
                let text = self.content();
                write(&sub.join("inner"), &text);
                if self.random.below(2) == 0 {
                    self.save(&sub, "inner");
                }
            }
        }
        if self.random.below(3) > 0 {
            self.change(&top);
        }
    }

    /// Advances the main branch; the worktree may start to merge that.
    fn move_target(&mut self, top: &Path) {
        let text = self.content();
        let main = self.world.top();
        let file = *self.random.pick(&["changed", "kept", "elsewhere"]);
        if self.world.git(&["status", "--porcelain", "--untracked-files=no"]).is_empty() {
            write(&main.join(file), &text);
            self.save(&main, "moved");
            match self.random.below(3) {
                0 => drop(self.world.try_git(top, &["merge", "-q", "main"])),
                1 => drop(self.world.try_git(top, &["rebase", "-q", "main"])),
                _ => {}
            }
        }
    }

    pub(super) fn random(&mut self) -> &mut Random {
        &mut self.random
    }

    /// Returns the files of the main tree.
    pub(super) fn main_files(&self) -> FileStates {
        files(&self.world.top())
    }

    /// Returns the ids of all content and commits of files, indexes, refs and reflogs. Each has the
    /// id of the same file with git's line ends.
    pub(super) fn contents(&self) -> BTreeMap<String, Origin> {
        let mut found = BTreeMap::new();
        for (path, (id, ..)) in self.all_files() {
            let converted = if self.converts { converted(&path) } else { id.clone() };
            found.insert(id, Origin { converted, place: path });
        }
        for folder in self.repositories() {
            for id in self.values(&folder) {
                let origin = Origin { converted: id.clone(), place: folder.clone() };
                let _ = found.entry(id).or_insert(origin);
            }
        }
        found
    }

    /// Returns the same ids as `contents`, and those of trees.
    pub(super) fn ids(&self) -> BTreeSet<String> {
        let objects = self.repositories().into_iter().flat_map(|folder| self.objects(&folder));
        self.all_files().into_values().map(|(id, ..)| id).chain(objects).collect()
    }

    fn all_files(&self) -> FileStates {
        files(&self.world.top()).into_iter().chain(files(&self.worktree.path)).collect()
    }

    /// Returns the main tree and the repositories in the work trees. The refs, reflogs and index of
    /// the worktree are listed with those of the main tree.
    fn repositories(&self) -> Vec<PathBuf> {
        let (main, worktree) = (self.world.top(), &self.worktree.path);
        let below = [&main, worktree].into_iter().flat_map(|top| [top.join("sub"), top.join("nested")]);
        let below: Vec<PathBuf> = below.filter(|folder| folder.join(".git").exists()).collect();
        [main].into_iter().chain(below).collect()
    }

    /// Returns the objects that anything in a repository names.
    fn objects(&self, folder: &Path) -> Vec<String> {
        let args = ["rev-list", "--objects", "--all", "--reflog", "--indexed-objects"];
        let list = match self.world.try_git(folder, &args) {
            // A repository in the worktree that is partly removed.
            Err(error) if error.contains("fatal: not a git repository") => String::new(),
            list => list.unwrap(),
        };
        list.lines().map(|line| line.split(' ').next().unwrap().to_owned()).collect()
    }

    /// Returns those that are blobs or commits: a tree of an index is not content.
    fn values(&self, folder: &Path) -> Vec<String> {
        let mut command = Command::new("git");
        command.args(["cat-file", "--batch-check=%(objectname) %(objecttype)"]).current_dir(folder);
        command.env_clear().envs(self.world.env.clone()).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        // The ids and the answers of a case fit into a pipe.
        let ids: String = self.objects(folder).into_iter().map(|id| id + "\n").collect();
        child.stdin.take().unwrap().write_all(ids.as_bytes()).unwrap();
        let kinds = String::from_utf8(child.wait_with_output().unwrap().stdout).unwrap();
        assert_eq!(kinds.lines().count(), ids.lines().count());
        let of_value =
            kinds.lines().filter_map(|line| line.strip_suffix(" blob").or(line.strip_suffix(" commit")));
        of_value.map(str::to_owned).collect()
    }
}

/// Returns the id of a file with git's line ends.
fn converted(path: &Path) -> String {
    if path.is_symlink() {
        return String::new();
    }
    blob::id_of(fs::read_to_string(path).unwrap().replace("\r\n", "\n").as_bytes())
}

/// Returns the files of a work tree.
pub(super) fn files(top: &Path) -> FileStates {
    let (mut folders, mut files) = (vec![top.to_owned()], FileStates::new());
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            let (path, kind) = (entry.path(), entry.file_type().unwrap());
            if entry.file_name() == ".git" {
                continue;
            }
            if kind.is_dir() {
                folders.push(path);
                continue;
            }
            let content = match kind.is_symlink() {
                true => fs::read_link(&path).unwrap().into_os_string().into_encoded_bytes(),
                false => fs::read(&path).unwrap(),
            };
            let meta = path.symlink_metadata().unwrap();
            files.insert(path, (blob::id_of(&content), meta.mtime(), meta.mtime_nsec()));
        }
    }
    files
}
