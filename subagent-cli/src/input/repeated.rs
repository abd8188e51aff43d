//! A key that a JSON object has twice. A plain `Value` keeps the last one and is silent.

use std::collections::HashSet;
use std::fmt;

use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, Visitor};

/// The first key that the outermost object of a document has a second time.
pub(super) struct Repeated(pub(super) Option<String>);

impl<'de> Deserialize<'de> for Repeated {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Keys).map(Repeated)
    }
}

struct Keys;

impl<'de> Visitor<'de> for Keys {
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
