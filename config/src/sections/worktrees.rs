//! How worktrees are created and merged back: the key `worktrees`, and `isolation` of launchers and
//! definitions. Pure.

use std::path::PathBuf;

use serde_json::{Map, Value};

use crate::check::{CheckResult, refuse, required_string};
use crate::section::Section;

/// The settings of the key `worktrees`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Worktrees {
    /// The folder of all worktrees; `None` means `subagent/worktrees` of the user's data folder.
    pub dir: Option<PathBuf>,
    /// Shell commands that prepare a new worktree.
    pub setup: Vec<String>,
    /// Globs of files that are copied from the main work tree into a new one.
    pub copy: Vec<String>,
    /// Shell commands that must succeed before a landing.
    pub check: Vec<String>,
    /// Globs of branches that are landed into only if they are named.
    pub protected: Vec<String>,
    /// Maximum size of a copy in bytes; `None` uses the default.
    pub copy_limit: Option<u64>,
}

/// The working folder of an agent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Isolation {
    /// The folder in which it was started.
    #[default]
    None,
    /// A separate git worktree.
    Worktree,
    /// A copy of the folder, without git.
    Copy,
}

pub(crate) fn worktrees(root: &Map<String, Value>) -> CheckResult<Worktrees> {
    let Some(given) = Section::root(root).section("worktrees")? else { return Ok(Worktrees::default()) };
    Ok(Worktrees {
        dir: given.absolute_path("dir")?.map(PathBuf::from),
        setup: texts(&given, "setup")?,
        copy: globs(&given, "copy")?,
        check: texts(&given, "check")?,
        protected: texts(&given, "protected")?,
        copy_limit: size(&given, "copyLimit")?,
    })
}

/// Reads a size: a number of bytes, or one with the unit KiB, MiB, GiB or TiB.
fn size(given: &Section<'_>, key: &str) -> CheckResult<Option<u64>> {
    const UNITS: [(&str, u32); 4] = [("KiB", 10), ("MiB", 20), ("GiB", 30), ("TiB", 40)];
    let read = match given.value(key) {
        None => return Ok(None),
        Some(Value::Number(bytes)) => bytes.as_u64(),
        Some(Value::String(text)) => {
            let text = text.trim();
            let unit = UNITS.iter().find_map(|(unit, shift)| Some((text.strip_suffix(unit)?, *shift)));
            let (number, shift) = unit.unwrap_or((text, 0));
            number.trim().parse::<u64>().ok().and_then(|number| number.checked_mul(1 << shift))
        }
        Some(_) => None,
    };
    match read {
        Some(bytes) => Ok(Some(bytes)),
        None => refuse(given.place(key), "must be a size, such as 500MiB or 1GiB"),
    }
}

/// Reads a text or a list of texts; none may be blank.
fn texts(given: &Section<'_>, key: &str) -> CheckResult<Vec<String>> {
    let place = || given.place(key);
    let listed = match given.value(key) {
        Some(Value::String(one)) => vec![one.clone()],
        _ => {
            let items = given.list(key)?.into_iter().flatten();
            items.map(|item| required_string(item, place).map(str::to_owned)).collect::<CheckResult<_>>()?
        }
    };
    match listed.iter().any(|text| text.trim().is_empty()) {
        true => refuse(place(), "has an empty entry"),
        false => Ok(listed),
    }
}

/// Reads globs of paths in the work tree.
fn globs(given: &Section<'_>, key: &str) -> CheckResult<Vec<String>> {
    let globs = texts(given, key)?;
    match globs.iter().find(|glob| glob.starts_with('/') || glob.split('/').any(|part| part == "..")) {
        Some(glob) => {
            refuse(given.place(key), format!("has `{glob}`; write paths in the work tree, without `..`"))
        }
        None => Ok(globs),
    }
}

/// Reads `isolation` of a launcher, a definition or `defaults`.
pub(crate) fn isolation(holder: &Section<'_>) -> CheckResult<Option<Isolation>> {
    match holder.string("isolation")?.map(str::trim) {
        None | Some("") => Ok(None),
        Some("none") => Ok(Some(Isolation::None)),
        Some("worktree") => Ok(Some(Isolation::Worktree)),
        Some("copy") => Ok(Some(Isolation::Copy)),
        Some(word) => {
            refuse(holder.place("isolation"), format!("says `{word}`; write none, worktree or copy"))
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::error::FieldPath;

    fn read(value: Value) -> CheckResult<Worktrees> {
        worktrees(json!({"worktrees": value}).as_object().unwrap())
    }

    #[test]
    fn one_text_is_a_list_of_one() {
        let all = json!({
            "dir": "~/trees", "setup": "npm ci", "copy": [".env", "conf/*.local"], "check": ["make", "make test"],
            "protected": ["release/*"], "copyLimit": "2 GiB",
        });
        let expected = Worktrees {
            dir: Some("~/trees".into()),
            setup: vec!["npm ci".into()],
            copy: vec![".env".into(), "conf/*.local".into()],
            check: vec!["make".into(), "make test".into()],
            protected: vec!["release/*".into()],
            copy_limit: Some(2 << 30),
        };
        assert_eq!(read(all).unwrap(), expected);
        assert_eq!(read(json!({})).unwrap(), Worktrees::default());
        assert_eq!(worktrees(&Map::new()).unwrap(), Worktrees::default());
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (wrong, place) in [
            (json!([]), "worktrees"),
            (json!({"dir": "trees"}), "worktrees.dir"),
            (json!({"copyLimit": "1 GB"}), "worktrees.copyLimit"),
            (json!({"copyLimit": -1}), "worktrees.copyLimit"),
            (json!({"dir": 1}), "worktrees.dir"),
            (json!({"setup": [" "]}), "worktrees.setup"),
            (json!({"setup": {"a": 1}}), "worktrees.setup"),
            (json!({"copy": ["../secret"]}), "worktrees.copy"),
            (json!({"copy": ["/etc/passwd"]}), "worktrees.copy"),
            (json!({"check": 1}), "worktrees.check"),
            (json!({"protected": [1]}), "worktrees.protected"),
        ] {
            assert_eq!(read(wrong.clone()).unwrap_err().place, FieldPath::Field(place.to_owned()), "{wrong}");
        }
    }

    #[test]
    fn isolation_is_a_word() {
        let of = |value: Value| {
            isolation(&Section::new(json!({"isolation": value}).as_object().unwrap(), "launchers.a"))
        };
        assert_eq!(of(json!("worktree")).unwrap(), Some(Isolation::Worktree));
        assert_eq!(of(json!("none")).unwrap(), Some(Isolation::None));
        assert_eq!(of(json!("copy")).unwrap(), Some(Isolation::Copy));
        assert_eq!(of(json!(null)).unwrap(), None);
        for wrong in [json!("container"), json!(true)] {
            assert_eq!(of(wrong).unwrap_err().place, FieldPath::Field("launchers.a.isolation".to_owned()));
        }
    }
}
