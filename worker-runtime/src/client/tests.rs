//! Tests of the path rule: everything inside the roots, nothing outside, in spite of
//! links and concurrent changes.

use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use proptest::prelude::*;
use tempfile::TempDir;

use super::files;
use super::walk::{self, AccessScope, WalkPath};
use crate::acp::requests::{INTERNAL_ERROR, INVALID_PARAMS, RESOURCE_NOT_FOUND};
use crate::conversation::{ClientOperationError, ClientOperationResult};

const SECRET: &str = "outside";

/// A workspace `in` with a file, and a folder `out` beside it.
struct AccessScopeFixture {
    base: PathBuf,
    scope: AccessScope,
    _folder: TempDir,
}

impl AccessScopeFixture {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let base = folder.path().canonicalize().unwrap();
        for path in ["in/sub/deep", "out/sub", "also"] {
            fs::create_dir_all(base.join(path)).unwrap();
        }
        fs::write(base.join("in/file"), "inside").unwrap();
        fs::write(base.join("out/file"), SECRET).unwrap();
        fs::write(base.join("out/sub/file"), SECRET).unwrap();
        let scope = AccessScope { roots: vec![base.join("in")], ..AccessScope::default() };
        Self { base, scope, _folder: folder }
    }

    fn path(&self, path: &str) -> String {
        self.base.join(path).to_str().unwrap().to_owned()
    }

    fn link(&self, target: impl AsRef<Path>, path: &str) {
        symlink(target, self.base.join(path)).unwrap();
    }

    fn read(&self, path: &str) -> Result<String, ClientOperationError> {
        match files::read(&self.scope, &self.path(path), None, None, None)? {
            ClientOperationResult::Content(text) => Ok(text),
            other => panic!("{other:?}"),
        }
    }

    fn write(&self, path: &str, content: &str) -> Result<(), ClientOperationError> {
        files::write(&self.scope, 0o022, &self.path(path), None, content).map(drop)
    }

    fn here(&self, path: &str) -> String {
        fs::read_to_string(self.base.join(path)).unwrap()
    }

    fn nothing_outside_was_touched(&self) {
        assert_eq!(
            (self.here("out/file"), self.here("out/sub/file")),
            (SECRET.to_owned(), SECRET.to_owned())
        );
        let names = |path: &str| fs::read_dir(self.base.join(path)).unwrap().count();
        assert_eq!((names("out"), names("out/sub"), names("also")), (2, 1, 0));
    }
}

fn code<T>(outcome: Result<T, ClientOperationError>) -> i32 {
    outcome.map(|_| 0).unwrap_or_else(|refused| refused.code)
}

#[test]
fn a_file_is_read_and_written_where_it_is() {
    let world = AccessScopeFixture::new();
    assert_eq!(world.read("in/./sub/../file").unwrap(), "inside");
    world.write("in/file", "shorter").unwrap();
    world.write("in/file", "s").unwrap();
    assert_eq!(world.here("in/file"), "s");
    world.write("in/new", "").unwrap();
    world.write("in/a/b/c", "ä\r\n").unwrap();
    assert_eq!((world.here("in/new"), world.here("in/a/b/c")), (String::new(), "ä\r\n".to_owned()));
    let mode = |path: &str| fs::metadata(world.base.join(path)).unwrap().mode() & 0o7777;
    assert_eq!(
        (mode("in/new"), mode("in/a"), mode("in/a/b/c")),
        (0o644, 0o755, 0o644),
        "as the agent's own files"
    );
}

#[test]
fn a_file_that_is_written_keeps_what_it_is() {
    let world = AccessScopeFixture::new();
    let path = world.base.join("in/file");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o751)).unwrap();
    fs::hard_link(&path, world.base.join("in/other")).unwrap();
    let before = fs::metadata(&path).unwrap();
    world.write("in/file", "new").unwrap();
    let after = fs::metadata(&path).unwrap();
    assert_eq!((before.ino(), before.mode(), before.uid()), (after.ino(), after.mode(), after.uid()));
    assert_eq!(world.here("in/other"), "new");
    assert_eq!(fs::read_dir(world.base.join("in")).unwrap().count(), 3, "nothing is left beside it");
}

#[test]
fn links_that_stay_inside_are_followed() {
    let world = AccessScopeFixture::new();
    world.link("file", "in/one");
    world.link("../one", "in/sub/two");
    world.link(world.path("in/sub/two"), "in/three");
    world.link("sub", "in/folder");
    world.link("../out/../in/file", "in/around");
    for path in ["in/one", "in/sub/two", "in/three", "in/folder/two", "in/folder/../file"] {
        assert_eq!(world.read(path).unwrap(), "inside", "{path}");
    }
    assert_eq!(code(world.read("in/around")), INVALID_PARAMS, "not by way of another folder");
    world.write("in/three", "through three links").unwrap();
    assert_eq!(world.here("in/file"), "through three links");
    assert!(world.base.join("in/three").is_symlink());
    world.link("made", "in/dangling");
    world.write("in/dangling", "x").unwrap();
    assert_eq!(world.here("in/made"), "x");
    assert_eq!(code(world.read("in/nothing")), RESOURCE_NOT_FOUND);
}

#[test]
fn nothing_leads_out() {
    let world = AccessScopeFixture::new();
    world.link("../out/file", "in/relative");
    world.link(world.path("out/file"), "in/absolute");
    world.link("../out", "in/folder");
    world.link("absolute", "in/chain");
    world.link("folder/sub", "in/chained");
    world.link("/", "in/root");
    world.link("/proc/self/cwd/..", "in/magic");
    world.link("../out/new", "in/dangling");
    world.link("loop", "in/loop");
    let out = world.path("out/file");
    for path in [
        "out/file",
        "in/../out/file",
        "in/sub/../../out/file",
        "in/relative",
        "in/absolute",
        "in/folder/file",
        "in/chain",
        "in/chained/file",
        "in/dangling",
        "in/loop",
        "in/magic/x",
        "in-beside/file",
        "also/new",
        "in/nothing/../../out/file",
        &format!("in/root{out}"),
        &format!("in/{}{out}", "../".repeat(60)),
    ] {
        let (read, written) = (code(world.read(path)), code(world.write(path, "written")));
        assert!([INVALID_PARAMS, RESOURCE_NOT_FOUND].contains(&read), "{path}: {read}");
        assert_eq!(written, INVALID_PARAMS, "{path}");
    }
    assert!(!world.base.join("in-beside").exists());
    world.nothing_outside_was_touched();
}

#[test]
fn several_roots_are_one_place() {
    let mut world = AccessScopeFixture::new();
    world.scope.roots.push(world.base.join("also"));
    world.link("in", "by-another-name");
    world.scope.roots.push(world.base.join("by-another-name"));
    world.link("../also/file", "in/across");
    world.write("in/across", "x").unwrap();
    assert_eq!(world.read("also/file").unwrap(), "x");
    assert_eq!(world.read("in/../also/file").unwrap(), "x");
    assert_eq!(world.read("by-another-name/file").unwrap(), "inside");
    world.scope.roots.push(world.base.join("gone"));
    assert_eq!(
        world.read("in/file").unwrap(),
        "inside",
        "a root that is not there says nothing about others"
    );
    assert_eq!(code(world.read("gone/file")), RESOURCE_NOT_FOUND);
    assert_eq!(code(world.read("in/../out/file")), INVALID_PARAMS);
}

#[test]
fn private_files_are_inaccessible() {
    let mut world = AccessScopeFixture::new();
    fs::create_dir_all(world.base.join("in/.subagent/state/deep")).unwrap();
    fs::write(world.base.join("in/.subagent/state/state.db"), SECRET).unwrap();
    fs::write(world.base.join("in/.subagent/config.yaml"), "ours").unwrap();
    world.scope.private.push(world.base.join("in/.subagent/state"));
    world.link(".subagent/state", "in/shortcut");
    for path in ["in/.subagent/state/state.db", "in/shortcut/state.db", "in/.subagent/state/deep/../state.db"]
    {
        assert_eq!(
            (code(world.read(path)), code(world.write(path, "x"))),
            (INVALID_PARAMS, INVALID_PARAMS),
            "{path}"
        );
    }
    assert_eq!(code(world.write("in/.subagent/state/new/file", "x")), INVALID_PARAMS);
    assert!(
        walk::to_folder(&world.scope, WalkPath::Named(&world.base.join("in/.subagent/state/deep"))).is_err()
    );
    assert_eq!(world.read("in/.subagent/config.yaml").unwrap(), "ours");
    world.scope.roots = vec![world.base.join("in/.subagent/state/deep")];
    assert_eq!(code(world.write("in/.subagent/state/deep/x", "x")), INVALID_PARAMS, "also as a root");
    assert_eq!(world.here("in/.subagent/state/state.db"), SECRET);
}

#[test]
fn only_regular_files_are_opened_and_nothing_waits() {
    let world = AccessScopeFixture::new();
    nix::unistd::mkfifo(&world.base.join("in/pipe"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(world.base.join("in/socket")).unwrap();
    world.link("pipe", "in/link");
    for (path, what) in [
        ("in/pipe", "named pipe"),
        ("in/link", "named pipe"),
        ("in/socket", "socket"),
        ("in/sub", "folder"),
        ("in", "folder"),
    ] {
        for refused in [world.read(path).unwrap_err(), world.write(path, "x").unwrap_err()] {
            assert_eq!(refused.code, INVALID_PARAMS);
            assert!(refused.message.contains(what), "{}", refused.message);
        }
    }
    assert!(fs::metadata(world.base.join("in/pipe")).unwrap().file_type().is_fifo());
    let devices = AccessScope { roots: vec!["/dev".into()], ..AccessScope::default() };
    let refused = files::read(&devices, "/dev/zero", None, None, None).unwrap_err();
    assert!(refused.message.contains("a device"), "{}", refused.message);
}

#[test]
fn a_file_below_a_file_and_a_name_that_is_too_long_are_errors() {
    let world = AccessScopeFixture::new();
    for path in
        ["in/file/below".to_owned(), format!("in/{}", "n".repeat(300)), format!("in/{}x", "d/".repeat(1000))]
    {
        assert_ne!(code(world.write(&path, "x")), 0, "{path}");
        assert_ne!(code(world.read(&path)), 0, "{path}");
    }
}

#[test]
fn text_is_utf8_and_of_bounded_length() {
    let world = AccessScopeFixture::new();
    fs::write(world.base.join("in/file"), b"good\n\xff\n").unwrap();
    let refused = world.read("in/file").unwrap_err();
    assert_eq!((refused.code, refused.message.contains("not UTF-8 text (at byte 5")), (INTERNAL_ERROR, true));
    let page = files::read(&world.scope, &world.path("in/file"), None, Some(1), Some(1)).unwrap();
    assert_eq!(page, ClientOperationResult::Content("good\n".to_owned()));
    let huge = fs::File::create(world.base.join("in/huge")).unwrap();
    huge.set_len(1 << 40).unwrap();
    let refused = world.read("in/huge").unwrap_err();
    assert!(
        refused.code == INVALID_PARAMS && refused.message.contains("ask for fewer lines"),
        "{}",
        refused.message
    );
}

/// A thread swaps a folder and a link to the outside while files are accessed through that name.
#[test]
fn no_race_leads_out() {
    let world = AccessScopeFixture::new();
    fs::write(world.base.join("in/sub/file"), "inside").unwrap();
    world.link("../out/sub", "in/trap");
    let (done, base) = (AtomicBool::new(false), &world.base);
    let (mut inside, mut refused) = (0, 0);
    std::thread::scope(|scope| {
        let swap = scope.spawn(|| {
            let mut swaps = 0;
            while !done.load(Ordering::Relaxed) || swaps < 3000 {
                // Swaps both names in one step, so that neither is ever missing.
                let (one, other) = (base.join("in/sub"), base.join("in/trap"));
                let here = rustix::fs::CWD;
                rustix::fs::renameat_with(here, &one, here, &other, rustix::fs::RenameFlags::EXCHANGE)
                    .unwrap();
                swaps += 1;
            }
            swaps
        });
        for round in 0..1000 {
            match world.read("in/sub/file") {
                Ok(text) => {
                    assert_ne!(text, SECRET, "round {round}");
                    inside += 1;
                }
                Err(_) => refused += 1,
            }
            let _ = world.write("in/sub/file", "inside");
            let _ = world.write("in/sub/new/file", "inside");
            let _ = walk::to_folder(&world.scope, WalkPath::Named(&world.base.join("in/sub/new")));
        }
        done.store(true, Ordering::Relaxed);
        swap.join().unwrap();
    });
    assert!(inside + refused == 1000);
    world.nothing_outside_was_touched();
}

/// A name alternates between a pipe, a link to the outside and a file.
#[test]
fn no_race_waits_for_a_pipe() {
    let world = AccessScopeFixture::new();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let path = world.base.join("in/it");
            while !done.load(Ordering::Relaxed) {
                let _ = nix::unistd::mkfifo(&path, nix::sys::stat::Mode::S_IRWXU);
                let _ = fs::remove_file(&path);
                let _ = symlink("../out/file", &path);
                let _ = fs::remove_file(&path);
                let _ = fs::write(&path, "inside");
                let _ = fs::remove_file(&path);
            }
        });
        for _ in 0..1000 {
            if let Ok(text) = world.read("in/it") {
                assert_ne!(text, SECRET);
            }
            let _ = world.write("in/it", "inside");
        }
        done.store(true, Ordering::Relaxed);
    });
    world.nothing_outside_was_touched();
}

fn any_name() -> impl Strategy<Value = &'static str> {
    prop_oneof![Just(".."), Just("a"), Just("b"), Just("c"), Just("file")]
}

fn any_target() -> impl Strategy<Value = (bool, Vec<&'static str>)> {
    (any::<bool>(), prop::collection::vec(any_name(), 1..6))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    /// A read returns what the system would read, if that is inside. Nothing
    /// outside is ever touched.
    #[test]
    fn any_chain_of_links_ends_inside_or_in_an_error(
        links in prop::collection::vec((prop::collection::vec(any_name(), 1..3), any_target()), 0..7),
        path in prop::collection::vec(any_name(), 1..7),
    ) {
        let world = AccessScopeFixture::new();
        fs::create_dir_all(world.base.join("in/a/b")).unwrap();
        fs::write(world.base.join("in/a/file"), "inside").unwrap();
        for (name, (absolute, target)) in links {
            let scope = world.base.join("in").join(name.join("/"));
            let inside = scope.parent().and_then(|parent| parent.canonicalize().ok()).is_some_and(|parent| parent.starts_with(world.base.join("in")));
            let target = target.join("/");
            let target = if absolute { world.base.join("in").join(target) } else { target.into() };
            if inside && scope.file_name().is_some() {
                let _ = symlink(target, scope);
            }
        }
        let path = format!("in/{}", path.join("/"));
        let real = world.base.join(&path).canonicalize().ok();
        let inside = real.as_ref().is_some_and(|real| real.starts_with(world.base.join("in")) && real.is_file());
        let read = world.read(&path);
        prop_assert_eq!(inside, read == Ok("inside".to_owned()), "{} leads to {:?}: {:?}", path, real, read);
        let _ = world.write(&path, "inside");
        world.nothing_outside_was_touched();
    }
}

fn written_where_allowed(world: &AccessScopeFixture, allowed: &str) -> i32 {
    code(files::write(&world.scope, 0o022, &world.path("in/as/named"), Some(&world.path(allowed)), "new"))
}

#[test]
fn resolved_paths_have_no_links() {
    let world = AccessScopeFixture::new();
    world.link("../sub", "in/sub/back");
    world.link("sub/made", "in/dangling");
    let found = |path: &str| files::find_target(&world.scope, &world.path(path), true);
    for (path, leads) in [
        ("in/file", "in/file"),
        ("in/sub/back/deep/../../file", "in/file"),
        ("in/sub/back/new/folder/file", "in/sub/new/folder/file"),
        ("in/dangling", "in/sub/made"),
    ] {
        let found = found(path).unwrap();
        assert_eq!(found.path, world.path(leads), "{path}");
        assert_eq!(found.text.as_deref(), (leads == "in/file").then_some("inside"), "{path}");
    }
    assert_eq!(code(found("in/new/../../out/file")), RESOURCE_NOT_FOUND, "what is above it is not known yet");
    assert_eq!(code(found("out/file")), INVALID_PARAMS);
    assert_eq!(code(found("in/sub")), INVALID_PARAMS);
    let long = "x".repeat(crate::conversation::MAX_SHOWN_BYTES + 1);
    fs::write(world.base.join("in/long"), long).unwrap();
    assert_eq!(found("in/long").unwrap().text, None);
    assert_eq!(code(files::find_source(&world.scope, &world.path("in/nothing"))), RESOURCE_NOT_FOUND);
    let folder = files::find_folder(&world.scope, &world.path("in/sub/back/deep")).unwrap();
    assert_eq!(folder.path, world.path("in/sub/deep"));
}

#[test]
fn allowed_writes_follow_no_links() {
    let world = AccessScopeFixture::new();
    assert_eq!(written_where_allowed(&world, "in/sub/file"), 0);
    assert_eq!(written_where_allowed(&world, "in/made/folder/file"), 0);
    assert_eq!((world.here("in/sub/file"), world.here("in/made/folder/file")), ("new".into(), "new".into()));
    world.link("file", "in/link");
    world.link("sub", "in/folder");
    world.link("..", "in/sub/up");
    for allowed in ["in/link", "in/folder/file", "in/sub/up/file"] {
        assert_eq!(written_where_allowed(&world, allowed), INVALID_PARAMS, "{allowed}");
        let allowed = world.path(allowed);
        assert_eq!(code(files::read(&world.scope, "/a", Some(&allowed), None, None)), INVALID_PARAMS);
    }
    let folder = world.path("in/folder");
    assert!(walk::to_folder(&world.scope, WalkPath::Allowed(Path::new(&folder))).is_err());
    assert_eq!(world.here("in/file"), "inside");
    // The root itself was replaced by another folder.
    fs::rename(world.base.join("in"), world.base.join("was")).unwrap();
    world.link("out", "in");
    assert_eq!(written_where_allowed(&world, "in/file"), INVALID_PARAMS);
    world.nothing_outside_was_touched();
}

/// A thread swaps an allowed folder and a link to a forbidden one.
#[test]
fn no_race_leads_from_allowed_to_denied_files() {
    let world = AccessScopeFixture::new();
    fs::create_dir(world.base.join("in/kept")).unwrap();
    fs::write(world.base.join("in/kept/file"), SECRET).unwrap();
    world.link("kept", "in/trap");
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let (one, other) = (world.base.join("in/sub"), world.base.join("in/trap"));
            let here = rustix::fs::CWD;
            while !done.load(Ordering::Relaxed) {
                rustix::fs::renameat_with(here, &one, here, &other, rustix::fs::RenameFlags::EXCHANGE)
                    .unwrap();
            }
        });
        for _ in 0..1000 {
            let outcome = written_where_allowed(&world, "in/sub/file");
            assert!(outcome == 0 || outcome == INVALID_PARAMS, "{outcome}");
        }
        done.store(true, Ordering::Relaxed);
    });
    assert_eq!(world.here("in/kept/file"), SECRET);
}
