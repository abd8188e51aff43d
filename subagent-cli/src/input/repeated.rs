//! Detects a duplicate key in a JSON object. `Value` silently keeps the last one.

use std::collections::HashSet;
use std::fmt;

use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, Visitor};

/// The first duplicate key of the outermost object.
pub(super) struct DuplicateKey(pub(super) Option<String>);

impl<'de> Deserialize<'de> for DuplicateKey {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(DuplicateKeyVisitor).map(DuplicateKey)
    }
}

struct DuplicateKeyVisitor;

impl<'de> Visitor<'de> for DuplicateKeyVisitor {
    type Value = Option<String>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Option<String>, A::Error> {
        let (mut seen, mut repeated) = (HashSet::new(), None);
        while let Some((key, IgnoredAny)) = access.next_entry::<String, _>()? {
            if !seen.contains(&key) {
                seen.insert(key);
            } else {
                repeated.get_or_insert(key);
            }
        }
        Ok(repeated)
    }
}
