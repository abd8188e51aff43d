//! A value that must not get into a log or a panic by accident.

use serde::{Deserialize, Serialize};

/// A value for one reader only. It is serialized as its content.
#[derive(Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Secret<T>(pub T);

impl<T> std::fmt::Debug for Secret<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("(hidden)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_serializes_its_value_and_debug_hides_it() {
        let secret = Secret("hunter2".to_owned());
        assert_eq!(format!("{secret:?}"), "(hidden)");
        assert_eq!(serde_json::to_string(&secret).unwrap(), "\"hunter2\"");
    }
}
