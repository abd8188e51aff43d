//! Repositories that generated cases start from. A case copies one without a process.

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io::Write as _;

use subagent_protocol::worktree::{Setup, Worktree};

use super::world::WorktreeFixture;

/// Settings that save time. A kill of processes needs no synced file, and no other process reads the
/// repository.
const SETTINGS: &str = "[core]\n\tfsync = none\n[gc]\n\tauto = 0\n[maintenance]\n\tauto = false\n";

/// The properties of a template.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct TemplateKind {
    pub(super) with_submodule: bool,
    /// Whether git converts line ends.
    pub(super) converts: bool,
    /// Whether the worktree exists, or is only planned.
    pub(super) is_made: bool,
}

/// A repository of each kind with its worktree.
pub(super) struct Templates(BTreeMap<TemplateKind, (WorktreeFixture, Worktree)>);

impl Templates {
    pub(super) fn new() -> Self {
        let both = [false, true];
        let kinds = both.into_iter().flat_map(|with_submodule| {
            both.into_iter().flat_map(move |converts| {
                both.map(|is_made| TemplateKind { with_submodule, converts, is_made })
            })
        });
        Self(kinds.map(|kind| (kind, template(kind))).collect())
    }

    /// Returns a copy of the template with its worktree.
    pub(super) fn copy(&self, kind: TemplateKind) -> (WorktreeFixture, Worktree) {
        let (template, worktree) = &self.0[&kind];
        let world = WorktreeFixture::copy_of(template);
        let moved = |path: &std::path::Path| match path.strip_prefix(template.base()) {
            Ok(below) => world.base().join(below),
            Err(_) => path.to_owned(),
        };
        let worktree = Worktree {
            repository: moved(&worktree.repository),
            main: moved(&worktree.main),
            path: moved(&worktree.path),
            ..worktree.clone()
        };
        (world, worktree)
    }
}

fn template(kind: TemplateKind) -> (WorktreeFixture, Worktree) {
    let world = WorktreeFixture::new();
    let mut config = OpenOptions::new().append(true).open(world.top().join(".git/config")).unwrap();
    config.write_all(SETTINGS.as_bytes()).unwrap();
    if kind.with_submodule {
        world.add_submodule();
        // Its origin is gone for every case.
        fs::remove_dir_all(world.base().join("offline")).unwrap();
    }
    if kind.converts {
        world.git(&["config", "core.autocrlf", "true"]);
    }
    let worktree = world.planned("one", false);
    if kind.is_made {
        world.make(&worktree, &Setup::default()).unwrap();
    }
    (world, worktree)
}
