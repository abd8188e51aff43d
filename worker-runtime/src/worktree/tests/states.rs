//! Repositories and worktrees in generated states, and their content.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use subagent_protocol::worktree::{Setup, Worktree};
use subagent_testkit::Random;

use super::world::{WorktreeFixture, write};

/// Content and times by file.
pub(super) type Files = BTreeMap<PathBuf, (String, i64, i64)>;

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
}

impl State {
    /// Copies a template and changes it.
    pub(super) fn new(template: &WorktreeFixture, mut random: Random, is_made: bool) -> Self {
        let world = WorktreeFixture::copy_of(template);
        let converts = random.below(6) == 0;
        if converts {
            world.git(&["config", "core.autocrlf", "true"]);
        }
        if random.below(8) == 0 {
            world.git(&["checkout", "-q", "--detach"]);
        }
        let with_changes = random.below(3) == 0;
        let dirty_before = random.below(2) == 0;
        let placeholder = Worktree {
            name: String::new(),
            repository: PathBuf::new(),
            main: PathBuf::new(),
            path: PathBuf::new(),
            branch: String::new(),
            base: String::new(),
            source_branch: None,
            with_changes,
            copied: None,
            identity_missing: false,
            sandbox: None,
        };
        let mut state = Self { world, worktree: placeholder, random, contents: 0, converts };
        let top = state.world.top();
        if dirty_before {
            state.change(&top);
        }
        state.worktree = state.world.planned("one", with_changes);
        if is_made {
            state.world.make(&state.worktree, &Setup::default()).unwrap();
            state.work();
            if state.random.below(2) == 0 {
                state.change(&top);
            }
        }
        state
    }

    fn content(&mut self) -> String {
        self.contents += 1;
        let end = if self.random.below(4) == 0 { "\r\n" } else { "\n" };
        let binary = if self.random.below(6) == 0 { "\0" } else { "" };
        format!("{}{binary} of {}{end}", self.contents, self.random.number())
    }

    /// Changes some files, both tracked and hidden from git.
    fn change(&mut self, top: &Path) {
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
            self.world.git_in(&top, &["add", "-A"]);
            self.world.git_in(&top, &["commit", "-q", "--allow-empty", "-m", "work"]);
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
                    self.world.commit_in(&top.join("nested"), "nested");
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
                    self.world.commit_in(&sub, "inner");
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
            self.world.commit("moved");
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
    pub(super) fn main_files(&self) -> Files {
        self.files(&self.world.top())
    }

    /// Returns the ids of all content and commits of files, indexes, refs and reflogs. Each has the
    /// id of the same file with git's line ends.
    pub(super) fn contents(&self) -> BTreeMap<String, Origin> {
        let mut found = BTreeMap::new();
        for top in [self.world.top(), self.worktree.path.clone()] {
            for (path, (id, ..)) in self.files(&top) {
                let converted = if self.converts { self.converted(&path) } else { id.clone() };
                found.insert(id, Origin { converted, place: path });
            }
            for below in ["", "sub", "nested"] {
                let folder = top.join(below);
                if folder.join(".git").exists() {
                    for id in self.objects(&folder) {
                        let origin = Origin { converted: id.clone(), place: folder.clone() };
                        let _ = found.entry(id).or_insert(origin);
                    }
                }
            }
        }
        found
    }

    /// Returns the blobs and commits that anything in a repository names.
    fn objects(&self, folder: &Path) -> Vec<String> {
        let args = ["rev-list", "--objects", "--all", "--reflog", "--indexed-objects", "HEAD"];
        // Without a commit there is no `HEAD`.
        let list = self.world.try_git(folder, &args).or_else(|_| self.world.try_git(folder, &args[..5]));
        let list = match list {
            // A killed `git worktree add` writes the `.git` file before the folder it names is complete.
            Err(error) if error.contains("fatal: not a git repository") => String::new(),
            list => list.unwrap(),
        };
        let ids: String = list.lines().map(|line| format!("{}\n", line.split(' ').next().unwrap())).collect();
        let kinds = self.feed(folder, &["cat-file", "--batch-check=%(objectname) %(objecttype)"], &ids);
        // A tree of an index is not content.
        let of_value =
            kinds.lines().filter_map(|line| line.strip_suffix(" blob").or(line.strip_suffix(" commit")));
        of_value.map(str::to_owned).collect()
    }

    fn converted(&self, path: &Path) -> String {
        if path.is_symlink() {
            return String::new();
        }
        let bytes = fs::read(path).unwrap();
        let text = String::from_utf8(bytes).unwrap();
        self.feed(self.world.dir.path(), &["hash-object", "--stdin"], &text.replace("\r\n", "\n"))
            .trim()
            .to_owned()
    }

    fn files(&self, top: &Path) -> Files {
        let (mut folders, mut files) = (vec![top.to_owned()], Vec::new());
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
                if entry.file_name() == ".git" {
                    continue;
                }
                let is_dir = entry.file_type().unwrap().is_dir();
                if is_dir { &mut folders } else { &mut files }.push(entry.path());
            }
        }
        let (odd, plain): (Vec<_>, Vec<_>) =
            files.into_iter().partition(|path| path.is_symlink() || path.to_str().unwrap().contains('\n'));
        let list: String = plain.iter().map(|path| format!("{}\n", path.display())).collect();
        let folder = self.world.dir.path();
        let mut ids: Vec<String> = match list.is_empty() {
            true => Vec::new(),
            false => {
                let args = ["hash-object", "--no-filters", "--stdin-paths"];
                self.feed(folder, &args, &list).lines().map(str::to_owned).collect()
            }
        };
        for path in &odd {
            let content = match path.is_symlink() {
                true => fs::read_link(path).unwrap().into_os_string().into_string().unwrap(),
                false => fs::read_to_string(path).unwrap(),
            };
            ids.push(self.feed(folder, &["hash-object", "--stdin"], &content).trim().to_owned());
        }
        let time =
            |path: &Path| path.symlink_metadata().map(|meta| (meta.mtime(), meta.mtime_nsec())).unwrap();
        plain
            .into_iter()
            .chain(odd)
            .zip(ids)
            .map(|(path, id)| {
                let (seconds, nanos) = time(&path);
                (path, (id, seconds, nanos))
            })
            .collect()
    }

    fn feed(&self, folder: &Path, args: &[&str], text: &str) -> String {
        let mut command = Command::new("git");
        command.args(args).current_dir(folder).env_clear().envs(self.world.env.clone());
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        let text = text.to_owned();
        let writer = std::thread::spawn(move || stdin.write_all(text.as_bytes()));
        let output = child.wait_with_output().unwrap();
        writer.join().unwrap().unwrap();
        String::from_utf8(output.stdout).unwrap()
    }
}
