//! Finds the repository around a folder.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};
use std::time::Instant;

use crate::git::{Git, GitFailure, GitSettings};

/// Maximum output read from git, in bytes.
const MAX_BYTES: usize = 1024 * 1024;
/// Settings that decide how files become objects, and which files belong to the tree.
const WANTED: &str =
    r"^core\.(autocrlf|eol|safecrlf|filemode|symlinks|ignorecase|trustctime|checkstat|excludesfile)$";

/// A repository with a work tree.
#[derive(Debug)]
pub(super) struct Repository {
    /// The top folder of the work tree.
    pub(super) root: PathBuf,
    /// The git directory of this work tree.
    pub(super) git_dir: PathBuf,
    /// The git directory shared by all work trees.
    pub(super) common_dir: PathBuf,
    /// The object format, `sha1` or `sha256`.
    pub(super) format: String,
    /// The commit that is checked out.
    pub(super) head: Option<String>,
    /// Names and values of [`WANTED`] settings.
    pub(super) settings: Vec<(String, String)>,
}

/// Finds the repository around a folder.
///
/// # Errors
///
/// Why there is none, as part of a sentence.
pub(super) fn repository(
    cwd: &Path,
    env: &[(OsString, OsString)],
    until: Instant,
) -> Result<Repository, String> {
    let git = Git { folder: cwd, env, settings: GitSettings::Query, places: Vec::new(), until, held: &[] };
    let ask =
        ["rev-parse", "--show-object-format", "--show-toplevel", "--absolute-git-dir", "--git-common-dir"];
    let stderr = git.run(&ask, b"", MAX_BYTES).map_err(|failure| match failure {
        GitFailure::Refused { .. } => "the folder is in no git work tree".to_owned(),
        other => other.to_string(),
    })?;
    let mut lines = stderr.strip_suffix(b"\n").unwrap_or(&stderr).split(|byte| *byte == b'\n');
    let mut next = || lines.next().map(|line| PathBuf::from(OsString::from_vec(line.to_vec())));
    let (Some(format), Some(root), Some(git_dir), Some(common), None) =
        (next(), next(), next(), next(), next())
    else {
        return Err("git's answer cannot be read".to_owned());
    };
    let head = git.run(&["rev-parse", "--verify", "--quiet", "HEAD^{commit}"], b"", MAX_BYTES).ok();
    let head = head.and_then(|head| String::from_utf8(head).ok()).map(|head| head.trim().to_owned());
    // Fails if none of them is set.
    let set = git.run(&["config", "--null", "--show-scope", "--get-regexp", WANTED], b"", MAX_BYTES);
    Ok(Repository {
        root,
        git_dir,
        common_dir: cwd.join(common),
        format: format.to_string_lossy().into_owned(),
        head,
        settings: settings(&set.unwrap_or_default()),
    })
}

/// Parses settings of the form `scope NUL name LF value NUL ...`. Settings of the repository must
/// not name a file.
fn settings(text: &[u8]) -> Vec<(String, String)> {
    let text = String::from_utf8_lossy(text);
    let mut parts = text.split('\0');
    let mut found = Vec::new();
    while let (Some(scope), Some(setting)) = (parts.next(), parts.next()) {
        // A setting without a value is true.
        let (name, value) = setting.split_once('\n').unwrap_or((setting, "true"));
        let is_word = value.chars().all(|char| char.is_ascii_alphanumeric());
        if is_word || (name == "core.excludesfile" && matches!(scope, "global" | "system")) {
            found.push((name.to_owned(), value.to_owned()));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_repository_sets_words_but_names_no_file() {
        let text = "global\0core.excludesfile\n~/x y\0local\0core.filemode\nfalse\0local\0core.autocrlf\0\
                    local\0core.excludesfile\n/dev/zero\0local\0core.eol\nlf\n[x]\0";
        let set = settings(text.as_bytes());
        let set: Vec<_> = set.iter().map(|(name, value)| (&**name, &**value)).collect();
        let expected =
            [("core.excludesfile", "~/x y"), ("core.filemode", "false"), ("core.autocrlf", "true")];
        assert_eq!(set, expected);
        assert_eq!(settings(b""), []);
    }
}
