//! Resolves paths that a user typed to absolute ones.

use std::io;
use std::path::{Component, Path, PathBuf};

use nix::errno::Errno;

use crate::environment::Environment;

/// Maximum number of links to follow, as in the kernel.
const MAX_LINKS: usize = 40;

/// Expands `~` and `~/x` to the caller's home. `~user` and other paths are unchanged.
pub(crate) fn expand_home(path: &Path, env: &Environment) -> PathBuf {
    match (path.strip_prefix("~"), &env.home) {
        (Ok(rest), Some(home)) if rest.as_os_str().is_empty() => home.clone(),
        (Ok(rest), Some(home)) => home.join(rest),
        _ => path.to_owned(),
    }
}

/// Resolves a typed path against the caller's working directory, without symbolic links as far as it
/// exists.
pub(crate) fn resolve(path: &Path, env: &Environment) -> PathBuf {
    resolve_absolute(&env.cwd.join(expand_home(path, env)))
}

/// As [`resolve`], for an absolute path.
pub(crate) fn resolve_absolute(path: &Path) -> PathBuf {
    if let Ok(real) = path.canonicalize() {
        return real;
    }
    let mut resolved = PathBuf::new();
    for component in path.components() {
        match component {
            // The existing prefix has no links, so its textual parent is the real one.
            Component::ParentDir => {
                resolved.pop();
            }
            Component::CurDir => {}
            other => {
                resolved.push(other);
                if let Ok(real) = resolved.canonicalize() {
                    resolved = real;
                }
            }
        }
    }
    resolved
}

/// Returns the target of an absolute path that names a link, even a dangling one.
pub(crate) fn end_of_links(path: &Path) -> io::Result<PathBuf> {
    let mut end = resolve_absolute(path);
    for _ in 0..MAX_LINKS {
        match (end.read_link(), end.parent()) {
            (Ok(next), Some(folder)) => end = resolve_absolute(&folder.join(next)),
            _ => return Ok(end),
        }
    }
    Err(Errno::ELOOP.into())
}

/// Returns the path of an accessible directory, absolute and without links.
pub(crate) fn directory(path: &Path) -> io::Result<PathBuf> {
    let real = path.canonicalize()?;
    if real.is_dir() { Ok(real) } else { Err(io::ErrorKind::NotADirectory.into()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn home_is_expanded_only_where_it_stands_for_home() {
        let env = Environment::new([("HOME".into(), "/h".into())], "/c");
        let expanded = |path: &str| expand_home(Path::new(path), &env);
        assert_eq!(expanded("~"), Path::new("/h"));
        assert_eq!(expanded("~/a/b"), Path::new("/h/a/b"));
        assert_eq!(expanded("~other/a"), Path::new("~other/a"));
        assert_eq!(expanded("a/~"), Path::new("a/~"));
        let homeless = Environment::new([], "/c");
        assert_eq!(expand_home(Path::new("~/a"), &homeless), Path::new("~/a"));
    }

    #[test]
    fn links_are_resolved_also_above_what_does_not_exist() {
        let dir = tempfile::tempdir().unwrap();
        let base = dir.path().canonicalize().unwrap();
        std::fs::create_dir_all(base.join("real/deep")).unwrap();
        symlink(base.join("real/deep"), base.join("link")).unwrap();
        let env = Environment::new([], base.clone());
        assert_eq!(resolve(Path::new("link"), &env), base.join("real/deep"));
        assert_eq!(resolve(Path::new("link/new/file"), &env), base.join("real/deep/new/file"));
        assert_eq!(resolve(Path::new("link/../x"), &env), base.join("real/x"));
        assert_eq!(resolve(Path::new("./none/../y"), &env), base.join("y"));
    }

    #[test]
    fn a_file_is_no_directory() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("f");
        std::fs::write(&file, "").unwrap();
        assert_eq!(directory(&file).unwrap_err().kind(), io::ErrorKind::NotADirectory);
        assert_eq!(directory(&dir.path().join("none")).unwrap_err().kind(), io::ErrorKind::NotFound);
        assert!(directory(dir.path()).is_ok());
    }
}
