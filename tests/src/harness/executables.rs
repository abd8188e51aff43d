//! The executables under test: built once for a test run, in the profile of the tests, with failpoints.
//!
//! They are linked into a folder of their own, because a build without failpoints would replace those that cargo
//! leaves in the profile's folder, in the middle of a run. With `SUBAGENT_TEST_BINARIES=DIR` those in DIR are taken
//! as they are. Whoever measures takes them as they are shipped, without failpoints ([`as_shipped`]).

use std::ffi::OsString;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::{env, fs, io};

/// A folder of executables to take instead of building some.
const GIVEN: &str = "SUBAGENT_TEST_BINARIES";
/// What is needed.
const NAMES: [&str; 10] = [
    "subagent",
    "subagentd",
    "subagent-runtime",
    "fast-agent",
    "hostile-agent",
    "mcp-echo",
    "replay-agent",
    "sdk-agent",
    "stranger",
    "libsubagent_fault_fs.so",
];

/// Where the executables are.
#[derive(Debug)]
pub struct Executables {
    folder: PathBuf,
}

impl Executables {
    /// The folder that holds all of them.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// One of them.
    #[must_use]
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }
}

/// From now on the executables are those that users have. Says whether this came in time, before they were built.
pub fn as_shipped() -> bool {
    KIND.set(Kind::Shipped).is_ok()
}

/// What the executables are built for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// With failpoints.
    Tested,
    Shipped,
}

static KIND: OnceLock<Kind> = OnceLock::new();

/// The executables; the first call of a process builds them.
///
/// # Panics
/// When they cannot be built or are not there.
pub fn executables() -> &'static Executables {
    // A failure is kept too: one build that fails is enough.
    static FOUND: OnceLock<Result<Executables, String>> = OnceLock::new();
    let found = FOUND.get_or_init(|| {
        let folder = match env::var_os(GIVEN).filter(|folder| !folder.is_empty()) {
            Some(folder) => PathBuf::from(folder),
            None => build(*KIND.get_or_init(|| Kind::Tested))?,
        };
        let folder = folder.canonicalize().map_err(|error| format!("{}: {error}", folder.display()))?;
        match NAMES.iter().find(|name| !folder.join(name).is_file()) {
            Some(name) => Err(format!("{name} is not in {}", folder.display())),
            None => Ok(Executables { folder }),
        }
    });
    found.as_ref().unwrap_or_else(|why| panic!("no executables to test: {why}"))
}

fn build(kind: Kind) -> Result<PathBuf, String> {
    let test = env::current_exe().unwrap();
    // TARGET/PROFILE/deps/TEST
    let profile_dir = test.ancestors().nth(2).unwrap();
    let folder = profile_dir.join(if kind == Kind::Shipped { "shipped" } else { "e2e" });
    // nextest runs every test in a process of its own; all of a run have this variable in common.
    let run = env::var_os("NEXTEST_RUN_ID");
    let stamp = folder.join("run-id");
    if run.as_ref().is_some_and(|run| fs::read(&stamp).is_ok_and(|known| known == run.as_encoded_bytes())) {
        return Ok(folder);
    }
    cargo_build(profile_dir, kind)?;
    fs::create_dir_all(&folder).unwrap();
    for name in NAMES {
        link(&profile_dir.join(name), &folder, name).map_err(|error| format!("{name}: {error}"))?;
    }
    if let Some(run) = run {
        replace(&stamp, |path| fs::write(path, run.as_encoded_bytes())).unwrap();
    }
    Ok(folder)
}

/// Cargo has a lock of its own: of several processes one builds, the others find everything built.
fn cargo_build(profile_dir: &Path, kind: Kind) -> Result<(), String> {
    let profile = match profile_dir.file_name().and_then(|name| name.to_str()).unwrap() {
        "debug" => "dev",
        other => other,
    };
    let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo")));
    cargo
        .args(["build", "--quiet", "--package", "subagent-cli", "--package", "subagent-tests", "--bins"])
        .args(["--package", "subagent-fault-fs", "--lib"])
        .args((kind == Kind::Tested).then_some("--features=subagent-cli/failpoints"))
        .args(["--profile", profile, "--target-dir"])
        .arg(profile_dir.parent().unwrap())
        .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap());
    // What cargo told this test about itself must not make it build other packages again.
    for (name, _) in env::vars_os() {
        let text = name.to_string_lossy();
        if ["CARGO_PKG_", "CARGO_BIN_", "CARGO_MANIFEST_"].iter().any(|prefix| text.starts_with(prefix)) {
            cargo.env_remove(&name);
        }
    }
    let output = cargo.output().map_err(|error| format!("cannot run cargo: {error}"))?;
    match output.status.success() {
        true => Ok(()),
        false => Err(format!("they cannot be built:\n{}", String::from_utf8_lossy(&output.stderr))),
    }
}

/// A hard link, made under another name and renamed, so that nobody ever finds half of a folder.
fn link(from: &Path, folder: &Path, name: &str) -> io::Result<()> {
    let to = folder.join(name);
    let same = |a: fs::Metadata, b: fs::Metadata| (a.dev(), a.ino()) == (b.dev(), b.ino());
    if fs::metadata(&to).is_ok_and(|to| fs::metadata(from).is_ok_and(|from| same(from, to))) {
        return Ok(());
    }
    replace(&to, |path| fs::hard_link(from, path).or_else(|_| fs::copy(from, path).map(drop)))
}

fn replace(path: &Path, make: impl FnOnce(&Path) -> io::Result<()>) -> io::Result<()> {
    let mut name = path.file_name().unwrap().to_owned();
    name.push(format!(".{}", std::process::id()));
    let other = path.with_file_name(name);
    let _ = fs::remove_file(&other);
    make(&other)?;
    fs::rename(&other, path)
}
