//! The ids of places in addresses of the panel. A host must not be able to name another place.

use std::hash::{BuildHasher as _, Hash, RandomState};
use std::sync::LazyLock;

/// Random for each panel.
static KEYS: LazyLock<RandomState> = LazyLock::new(RandomState::new);

/// Returns the id of the place with this name, the same as long as the panel runs.
pub(super) fn place_id(name: &impl Hash) -> String {
    format!("{:016x}", KEYS.hash_one(name))
}
