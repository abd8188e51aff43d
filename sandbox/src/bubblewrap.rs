//! The arguments of bubblewrap for a sandbox. Inspects files and starts nothing.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::FileType;
use subagent_protocol::sandbox::{Network, Sandbox, SandboxSpec};

use super::files;

/// The mount at a path. The last variant takes precedence over earlier ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Mount {
    Read,
    Write,
    Hide,
}

/// Returns the arguments before those of the command. `needed` are files without which
/// the command cannot start.
pub(crate) fn arguments(sandbox: &Sandbox, cwd: &Path, needed: &[PathBuf]) -> io::Result<Vec<OsString>> {
    let mut args = BubblewrapArgs::default();
    args.words(&["--unshare-pid", "--unshare-ipc", "--unshare-uts", "--die-with-parent"]);
    if sandbox.spec.network != Network::All {
        args.words(&["--unshare-net"]);
    }
    if sandbox.spec.read.is_none() {
        args.words(&["--ro-bind", "/", "/"]);
    } else {
        args.words(&["--tmpfs", "/"]);
        args.top_level_links()?;
    }
    args.words(&["--dev", "/dev", "--proc", "/proc"]);
    let mut covers = Vec::new();
    for (path, mount) in mounts(&sandbox.spec, needed) {
        let Some(held) = files::open(&path)? else { continue };
        match mount {
            Mount::Read => args.bind("--ro-bind", &path),
            Mount::Write => args.bind("--bind", &path),
            Mount::Hide if held.kind == FileType::Directory => {
                args.one("--tmpfs", &path);
                covers.push(path);
            }
            Mount::Hide => {
                args.one("--ro-bind", Path::new("/dev/null"));
                args.0.push(path.into());
            }
        }
    }
    // Last: a writable path deeper in them needs a folder there.
    for path in covers {
        args.one("--remount-ro", &path);
    }
    if sandbox.spec.read.is_some() {
        args.one("--dir", cwd);
        args.words(&["--remount-ro", "/"]);
    }
    args.one("--chdir", cwd);
    Ok(args.0)
}

/// Returns the mounts by path, folders before their content.
fn mounts(spec: &SandboxSpec, needed: &[PathBuf]) -> Vec<(PathBuf, Mount)> {
    let read = spec.read.iter().flat_map(|read| read.iter().chain(needed));
    let of = |mount| move |path: &PathBuf| (path.clone(), mount);
    let mut all: Vec<_> = read
        .map(of(Mount::Read))
        .chain(spec.write.iter().map(of(Mount::Write)))
        .chain(spec.hide.iter().map(of(Mount::Hide)))
        .collect();
    all.sort_by_key(|(path, mount)| (path.components().count(), path.clone(), *mount));
    all
}

#[derive(Default)]
struct BubblewrapArgs(Vec<OsString>);

impl BubblewrapArgs {
    fn words(&mut self, words: &[&str]) {
        self.0.extend(words.iter().map(OsString::from));
    }

    fn one(&mut self, option: &str, path: &Path) {
        self.0.extend([option.into(), path.into()]);
    }

    fn bind(&mut self, option: &str, path: &Path) {
        self.0.extend([option.into(), path.into(), path.into()]);
    }

    /// Links such as `/bin` and `/lib`: programs and their loader are found by these names.
    fn top_level_links(&mut self) -> io::Result<()> {
        for entry in std::fs::read_dir("/")? {
            let path = entry?.path();
            if let Ok(target) = std::fs::read_link(&path) {
                self.0.extend(["--symlink".into(), target.into(), path.into()]);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use subagent_protocol::sandbox::{FileSystem, Layers};

    use super::*;

    fn sandbox(base: &Path, read: Option<Vec<PathBuf>>) -> Sandbox {
        let at = |name: &str| base.join(name);
        let spec = SandboxSpec {
            name: None,
            filesystem: FileSystem::SharedRw,
            write: vec![at("ws")],
            read,
            hide: vec![at("ws/state"), at("file"), at("none")],
            network: Network::None,
            hosts: Vec::new(),
        };
        Sandbox { spec, layers: Layers::default() }
    }

    #[test]
    fn deeper_paths_come_later_and_what_is_not_there_is_left_out() {
        let dir = tempfile::tempdir().unwrap();
        let base = dir.path().canonicalize().unwrap();
        std::fs::create_dir_all(base.join("ws/state")).unwrap();
        std::fs::write(base.join("file"), "").unwrap();
        let args = arguments(&sandbox(&base, None), &base.join("ws"), &[]).unwrap();
        let text =
            args.join(std::ffi::OsStr::new(" ")).into_string().unwrap().replace(base.to_str().unwrap(), "");
        let expected = "--unshare-pid --unshare-ipc --unshare-uts --die-with-parent --unshare-net --ro-bind / / \
                        --dev /dev --proc /proc --ro-bind /dev/null /file --bind /ws /ws --tmpfs /ws/state \
                        --remount-ro /ws/state --chdir /ws";
        assert_eq!(text, expected);
    }

    #[test]
    fn with_a_list_of_what_is_read_there_is_nothing_else() {
        let dir = tempfile::tempdir().unwrap();
        let base = dir.path().canonicalize().unwrap();
        let args = arguments(&sandbox(&base, Some(vec!["/usr".into()])), &base, &[]).unwrap();
        assert!(!args.windows(3).any(|three| three == ["--ro-bind", "/", "/"]), "{args:?}");
        assert!(args.windows(3).any(|three| three == ["--ro-bind", "/usr", "/usr"]), "{args:?}");
    }
}
