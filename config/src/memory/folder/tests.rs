//! Tests of memory folders: paths and refused files.

use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;

use super::*;

struct MemoryFolderFixture {
    _dir: tempfile::TempDir,
    base: PathBuf,
    env: Environment,
}

fn world() -> MemoryFolderFixture {
    let dir = tempfile::tempdir().unwrap();
    let base = dir.path().canonicalize().unwrap();
    fs::create_dir(base.join("ws")).unwrap();
    let env = Environment::new([("HOME".into(), base.join("home").into())], &base);
    MemoryFolderFixture { _dir: dir, base, env }
}

impl MemoryFolderFixture {
    fn folder(&self, scope: Scope) -> Folder {
        Folder::of(scope, "tester", &self.base.join("ws"), &self.env).unwrap()
    }

    /// Creates a memory in the workspace and returns its path.
    fn made(&self) -> (Folder, PathBuf) {
        let folder = self.folder(Scope::Project);
        folder.make().unwrap();
        let path = folder.path();
        (folder, path)
    }
}

#[test]
fn each_scope_has_its_place() {
    let world = world();
    let of = |scope| world.folder(scope).path().strip_prefix(&world.base).unwrap().to_owned();
    assert_eq!(of(Scope::User), Path::new("home/.config/subagent/agent-memory/tester"));
    assert_eq!(of(Scope::Project), Path::new("ws/.agents/agent-memory/tester"));
    assert_eq!(of(Scope::Local), Path::new("ws/.agents/agent-memory-local/tester"));
    let xdg = Environment::new([("XDG_CONFIG_HOME".into(), world.base.join("xdg").into())], "/");
    let user = Folder::of(Scope::User, "tester", Path::new("/ws"), &xdg).unwrap();
    assert_eq!(user.path(), world.base.join("xdg/subagent/agent-memory/tester"));
    let homeless = Environment::new([], "/");
    assert!(Folder::of(Scope::User, "tester", Path::new("/ws"), &homeless).is_err());
    for name in ["..", "", "a/b", ".", "a b", "x\n"] {
        assert!(Folder::of(Scope::Project, name, &world.base, &world.env).is_err(), "{name}");
    }
}

#[test]
fn a_memory_is_made_read_listed_and_emptied() {
    let world = world();
    let (folder, path) = world.made();
    assert_eq!(folder.entry().unwrap().unwrap().changed, None);
    assert!(folder.notes(200).unwrap().block(&path).contains("There are no notes yet."));
    fs::write(folder.file(), "one\ntwo\n").unwrap();
    fs::create_dir(path.join("more")).unwrap();
    fs::write(path.join("more/x.md"), "").unwrap();
    symlink(world.base.join("ws"), path.join("link")).unwrap();
    let entry = folder.entry().unwrap().unwrap();
    assert_eq!((entry.text.as_str(), entry.bytes), ("one\ntwo\n", 8));
    assert!(entry.changed.is_some());
    assert!(folder.notes(1).unwrap().block(&path).contains("\n| one\n[Cut"));
    assert_eq!(Folder::all(&world.base.join("ws"), &world.env).unwrap(), std::slice::from_ref(&folder));
    assert_eq!(folder.clear().unwrap(), 3);
    assert!(world.base.join("ws/.agents").is_dir(), "what a link leads to stays");
    assert_eq!(fs::read_dir(&path).unwrap().count(), 0);
    let none = world.folder(Scope::User);
    assert_eq!((none.entry().unwrap(), none.clear().unwrap()), (None, 0));
}

#[test]
fn no_folder_on_the_way_may_be_a_link() {
    for link in [".agents", ".agents/agent-memory", ".agents/agent-memory/tester"] {
        let world = world();
        let secret = world.base.join("secret");
        fs::create_dir_all(secret.join("agent-memory/tester")).unwrap();
        for folder in ["", "tester", "agent-memory/tester"] {
            fs::create_dir_all(secret.join(folder)).unwrap();
            fs::write(secret.join(folder).join(FILE), "secret").unwrap();
        }
        let at = world.base.join("ws").join(link);
        fs::create_dir_all(at.parent().unwrap()).unwrap();
        symlink(&secret, &at).unwrap();
        let folder = world.folder(Scope::Project);
        for error in [
            folder.make().unwrap_err(),
            folder.notes(200).map(drop).unwrap_err(),
            folder.entry().map(drop).unwrap_err(),
            folder.clear().map(drop).unwrap_err(),
        ] {
            assert!(error.contains("is a link or not a folder"), "{error}");
        }
        assert_eq!(fs::read(secret.join(FILE)).unwrap(), b"secret");
    }
}

#[test]
fn nothing_but_a_regular_file_is_read_and_nothing_is_waited_for() {
    let world = world();
    let (folder, _) = world.made();
    let (file, secret) = (folder.file(), world.base.join("secret"));
    fs::write(&secret, "secret").unwrap();
    let refused = |what: &str| {
        let error = folder.notes(200).map(drop).unwrap_err();
        assert!(error.contains("is a link or not a regular file"), "{what}: {error}");
        assert!(folder.entry().is_err(), "{what}");
    };
    symlink(&secret, &file).unwrap();
    refused("a link");
    fs::remove_file(&file).unwrap();
    symlink("/dev/zero", &file).unwrap();
    refused("a link to a device");
    fs::remove_file(&file).unwrap();
    nix::unistd::mkfifo(&file, nix::sys::stat::Mode::S_IRWXU).unwrap();
    refused("a pipe");
    fs::remove_file(&file).unwrap();
    let listener = UnixListener::bind(&file).unwrap();
    refused("a socket");
    drop(listener);
    fs::remove_file(&file).unwrap();
    fs::create_dir(&file).unwrap();
    refused("a folder");
}

#[test]
fn git_ignores_local_memories_alone() {
    let world = world();
    let git = world.base.join("ws/.git");
    fs::create_dir_all(git.join("objects")).unwrap();
    fs::write(git.join("HEAD"), "ref: refs/heads/main\n").unwrap();
    world.folder(Scope::Project).make().unwrap();
    world.folder(Scope::User).make().unwrap();
    assert!(!git.join("info/exclude").exists());
    for _ in 0..2 {
        world.folder(Scope::Local).make().unwrap();
        assert_eq!(fs::read_to_string(git.join("info/exclude")).unwrap(), format!("{IGNORED}\n"));
    }
}
