//! Patterns of watched paths. Pure.

use std::path::{Component, Path};

use globset::{GlobBuilder, GlobMatcher, GlobSet, GlobSetBuilder};

/// Patterns of one trigger.
const MAX_GLOBS: usize = 32;
/// Maximum length of a pattern, in bytes.
const MAX_BYTES: usize = 1024;
/// Folders that are never looked into. A state dir below would change with each firing.
const SKIPPED: [&str; 4] = [".git", ".subagent", "node_modules", "target"];

/// The patterns of a trigger, relative to its folder.
#[derive(Debug)]
pub(crate) struct Globs {
    files: GlobSet,
    folders: Vec<PatternFolders>,
}

/// The folders in which one pattern can match.
#[derive(Debug)]
struct PatternFolders {
    /// The first folders of the path.
    names: Vec<GlobMatcher>,
    /// Whether any folders can follow.
    is_deep: bool,
}

impl Globs {
    /// # Errors
    /// A sentence about what is wrong.
    pub(crate) fn new(globs: &[String]) -> Result<Self, String> {
        if globs.is_empty() || globs.len() > MAX_GLOBS {
            return Err(format!("a trigger watches 1 to {MAX_GLOBS} patterns"));
        }
        let mut files = GlobSetBuilder::new();
        let mut folders = Vec::new();
        for glob in globs {
            let text = glob.strip_prefix("./").unwrap_or(glob);
            let is_inside = Path::new(text).components().all(|part| matches!(part, Component::Normal(_)));
            if text.is_empty() || text.len() > MAX_BYTES || !is_inside {
                return Err(format!(
                    "{glob:?} is not a pattern of paths below the folder, without `..`, of at most {MAX_BYTES} bytes"
                ));
            }
            if text.ends_with('/') {
                return Err(format!("{glob:?} names a folder; {glob}** means all files in it"));
            }
            if let Some(part) = never_matches(text) {
                return Err(format!("{glob:?} matches nothing: no watched path has the part {part:?}"));
            }
            files.add(compiled(text).map_err(|problem| format!("{glob:?} is not a pattern: {problem}"))?);
            folders.push(PatternFolders::of(text));
        }
        let files = files.build().map_err(|problem| format!("the patterns are too large: {problem}"))?;
        Ok(Self { files, folders })
    }

    /// Whether a change of this path counts.
    pub(super) fn matches(&self, path: &Path) -> bool {
        self.files.is_match(path)
    }

    /// Whether a path below this folder can match.
    pub(super) fn can_match_below(&self, folder: &Path) -> bool {
        let is_skipped = |part: Component<'_>| SKIPPED.iter().any(|name| part.as_os_str() == *name);
        !folder.components().any(is_skipped) && self.folders.iter().any(|folders| folders.hold(folder))
    }
}

/// A part of a pattern for which no path is seen.
fn never_matches(text: &str) -> Option<&str> {
    let (folders, _) = text.rsplit_once('/').unwrap_or_default();
    let is_plain = |part: &&str| part.is_empty() || *part == ".";
    // A file may have the name of a skipped folder.
    let is_skipped = |part: &&str| SKIPPED.contains(part);
    text.split('/').find(is_plain).or_else(|| folders.split('/').find(is_skipped))
}

fn compiled(text: &str) -> Result<globset::Glob, globset::Error> {
    GlobBuilder::new(text).literal_separator(true).backslash_escape(true).build()
}

impl PatternFolders {
    fn of(text: &str) -> Self {
        let mut parts: Vec<&str> = text.split('/').collect();
        // The last part is that of the file.
        let file = parts.pop().unwrap_or_default();
        let mut names = Vec::new();
        for part in parts {
            // A part of an alternative with a slash in it is no pattern: then any folder can match.
            match compiled(part) {
                Ok(glob) if !part.contains("**") => names.push(glob.compile_matcher()),
                _ => return Self { names, is_deep: true },
            }
        }
        Self { names, is_deep: file.contains("**") || compiled(file).is_err() }
    }

    fn hold(&self, folder: &Path) -> bool {
        let mut names = self.names.iter();
        folder.components().all(|part| match names.next() {
            Some(name) => name.is_match(part.as_os_str()),
            None => self.is_deep,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn globs(globs: &[&str]) -> Globs {
        Globs::new(&globs.iter().map(|glob| (*glob).to_owned()).collect::<Vec<_>>()).unwrap()
    }

    #[test]
    fn a_star_stays_in_its_folder() {
        let globs = globs(&["src/*.rs", "./docs/**", "*.{toml,lock}"]);
        for (path, matches) in [
            ("src/a.rs", true),
            ("src/a/b.rs", false),
            ("docs/a/b.md", true),
            ("docs", false),
            ("Cargo.toml", true),
            ("a/Cargo.toml", false),
        ] {
            assert_eq!(globs.matches(Path::new(path)), matches, "{path}");
        }
    }

    #[test]
    fn only_folders_in_which_something_can_match_are_watched() {
        let globs = globs(&["src/*/*.rs", "docs/**/*.md", "{a,b/c}/x"]);
        for (folder, holds) in [
            ("", true),
            ("src", true),
            ("src/a", true),
            ("src/a/b", true),
            ("docs/a/b/c", true),
            ("docs/.git", false),
            ("docs/.subagent", false),
            ("docs/.subagent/state", false),
            ("docs/node_modules/a", false),
        ] {
            assert_eq!(globs.can_match_below(Path::new(folder)), holds, "{folder}");
        }
        let globs = self::globs(&["src/*/*.rs", "*.md"]);
        for (folder, holds) in [("src/a", true), ("src/a/b", false), ("other", false)] {
            assert_eq!(globs.can_match_below(Path::new(folder)), holds, "{folder}");
        }
    }

    #[test]
    fn what_is_no_pattern_below_the_folder_is_refused() {
        for bad in ["", "/etc/*", "../a", "a/../b", "src/", "a[", "{a", ".", "a//b", "a/./b", "a/."] {
            assert!(Globs::new(&[bad.to_owned()]).is_err(), "{bad}");
        }
        for never in [".git/*", "**/target/*.rs", "./.subagent/**", "a/node_modules/b/c"] {
            assert!(Globs::new(&[never.to_owned()]).unwrap_err().contains("matches nothing"), "{never}");
        }
        // Files may have these names.
        assert!(globs(&["target", "a/.git"]).matches(Path::new("a/.git")));
        assert!(Globs::new(&[]).is_err() && Globs::new(&vec!["a".to_owned(); MAX_GLOBS + 1]).is_err());
    }
}
