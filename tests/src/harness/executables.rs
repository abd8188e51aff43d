//! The executables under test, in one folder and under their usual names. Cargo builds them with
//! the tests as binaries of this package, so their features match everything else in the run.
//! Benchmarks use other ones ([`use_executables_of`]).

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::{env, fs, io};

/// The name of each executable, and the file that cargo builds.
const FILES: [(&str, &str); 11] = [
    ("subagent", "tested-subagent"),
    ("subagentd", "tested-subagentd"),
    ("subagent-runtime", "tested-subagent-runtime"),
    ("subagent-webhook", "tested-subagent-webhook"),
    ("fast-agent", "fast-agent"),
    ("hostile-agent", "hostile-agent"),
    ("mcp-echo", "mcp-echo"),
    ("replay-agent", "replay-agent"),
    ("sdk-agent", "sdk-agent"),
    ("stranger", "stranger"),
    // Cargo leaves a library with the dependencies.
    ("libsubagent_fault_fs.so", "deps/libsubagent_fault_fs.so"),
];

/// The folder of the executables.
#[derive(Debug)]
pub struct Executables {
    folder: PathBuf,
}

impl Executables {
    /// Returns the folder that contains all of them.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Returns the path of one executable.
    #[must_use]
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }
}

static FOUND: OnceLock<Executables> = OnceLock::new();

/// Returns the executables of this run.
///
/// # Panics
///
/// If one of them was not built.
pub fn executables() -> &'static Executables {
    FOUND.get_or_init(|| Executables { folder: link_all() })
}

/// Uses the executables in this folder. Returns false if the run has already used others.
///
/// # Panics
///
/// If one of them is missing.
#[must_use]
pub fn use_executables_of(folder: &Path) -> bool {
    for (name, _) in FILES {
        assert!(folder.join(name).is_file(), "{name} is not in {}", folder.display());
    }
    FOUND.set(Executables { folder: folder.to_owned() }).is_ok()
}

fn link_all() -> PathBuf {
    let test = env::current_exe().unwrap();
    // The path is `TARGET/PROFILE/deps/TEST`.
    let built = test.ancestors().nth(2).unwrap();
    let folder = built.canonicalize().unwrap().join("e2e");
    fs::create_dir_all(&folder).unwrap();
    for (name, file) in FILES {
        let from = built.join(file);
        link(&from, &folder.join(name)).unwrap_or_else(|error| panic!("{}: {error}", from.display()));
    }
    folder
}

/// Creates a hard link under a temporary name and renames it, so that other test
/// processes never miss it.
fn link(from: &Path, to: &Path) -> io::Result<()> {
    let source = fs::metadata(from)?;
    let same = |there: fs::Metadata| (there.dev(), there.ino()) == (source.dev(), source.ino());
    if fs::metadata(to).is_ok_and(same) {
        return Ok(());
    }
    let mut name = to.as_os_str().to_owned();
    name.push(format!(".{}", std::process::id()));
    let _ = fs::remove_file(&name);
    fs::hard_link(from, &name).or_else(|_| fs::copy(from, &name).map(drop))?;
    fs::rename(&name, to)
}
