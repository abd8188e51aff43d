//! Positions of the keys in a YAML text. Pure.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_saphyr::Spanned;

use crate::error::FieldPath;
use crate::policy::Position;

/// Positions of all keys by path. A list element has its index as key and no position of its own.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct KeyPositions(BTreeMap<Vec<String>, Position>);

impl KeyPositions {
    /// Returns the position of this key or of its nearest ancestor.
    pub(crate) fn of(&self, path: &[&str]) -> Option<Position> {
        let mut path: Vec<String> = path.iter().map(|key| (*key).to_owned()).collect();
        while !path.is_empty() {
            if let Some(at) = self.0.get(&path) {
                return Some(*at);
            }
            path.pop();
        }
        None
    }

    /// Returns the position of the first key below this path, since a list element has none of its own.
    pub(crate) fn first_below(&self, path: &[&str]) -> Option<Position> {
        let is_below =
            |key: &&Vec<String>| key.len() > path.len() && key.iter().zip(path).all(|(a, b)| a == b);
        let below = self.0.iter().filter(|(key, _)| is_below(key)).map(|(_, at)| *at);
        below.min_by_key(|at| (at.line, at.column))
    }

    /// Whether the text contains exactly this key.
    pub(crate) fn has(&self, path: &[&str]) -> bool {
        self.0.contains_key(&path.iter().map(|key| (*key).to_owned()).collect::<Vec<_>>())
    }

    /// Returns the position of a place in the document. The root's keys contain no dots.
    pub(super) fn of_place(&self, place: &FieldPath) -> Option<Position> {
        let (field, key) = match place {
            FieldPath::Field(field) | FieldPath::Element { field, .. } => (field, None),
            FieldPath::Entry { field, key } => (field, Some(key.as_str())),
            _ => return None,
        };
        let path: Vec<&str> = field.split('.').chain(key).collect();
        self.of(&path)
    }
}

/// Returns the keys of a text; an unparsable text has none.
pub(crate) fn of(text: &str) -> KeyPositions {
    let Ok(tree) = serde_saphyr::from_str::<KeyTree>(text) else { return KeyPositions::default() };
    let mut keys = KeyPositions::default();
    tree.add(&mut Vec::new(), &mut keys);
    keys
}

#[derive(Default)]
struct KeyTree(Vec<(String, Option<Position>, Self)>);

impl KeyTree {
    fn add(self, path: &mut Vec<String>, keys: &mut KeyPositions) {
        for (key, at, below) in self.0 {
            path.push(key);
            keys.0.extend(at.map(|at| (path.clone(), at)));
            below.add(path, keys);
            path.pop();
        }
    }
}

impl<'de> Deserialize<'de> for KeyTree {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(TreeVisitor)
    }
}

struct TreeVisitor;

impl<'de> Visitor<'de> for TreeVisitor {
    type Value = KeyTree;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_bool<E>(self, _: bool) -> Result<KeyTree, E> {
        Ok(KeyTree::default())
    }

    fn visit_i64<E>(self, _: i64) -> Result<KeyTree, E> {
        Ok(KeyTree::default())
    }

    fn visit_u64<E>(self, _: u64) -> Result<KeyTree, E> {
        Ok(KeyTree::default())
    }

    fn visit_f64<E>(self, _: f64) -> Result<KeyTree, E> {
        Ok(KeyTree::default())
    }

    fn visit_str<E>(self, _: &str) -> Result<KeyTree, E> {
        Ok(KeyTree::default())
    }

    fn visit_unit<E>(self) -> Result<KeyTree, E> {
        Ok(KeyTree::default())
    }

    fn visit_none<E>(self) -> Result<KeyTree, E> {
        Ok(KeyTree::default())
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<KeyTree, D::Error> {
        deserializer.deserialize_any(self)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<KeyTree, A::Error> {
        let mut found = Vec::new();
        while let Some(below) = items.next_element::<KeyTree>()? {
            found.push((found.len().to_string(), None, below));
        }
        Ok(KeyTree(found))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<KeyTree, A::Error> {
        let mut found = Vec::new();
        while let Some(key) = map.next_key::<Spanned<String>>()? {
            let at = Position { line: key.referenced.line(), column: key.referenced.column() };
            let below = map.next_value()?;
            found.push((key.value, Some(at), below));
        }
        Ok(KeyTree(found))
    }
}
