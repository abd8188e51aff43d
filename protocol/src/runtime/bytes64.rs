//! Bytes that may not be UTF-8 (values of environment variables) as base64 in JSON.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A byte string, serialized as base64.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Bytes64(pub Vec<u8>);

impl Bytes64 {
    /// Returns the bytes as base64.
    #[must_use]
    pub fn encoded(&self) -> String {
        STANDARD.encode(&self.0)
    }
}

// The content may be secret: a debug print shows only its size.
impl std::fmt::Debug for Bytes64 {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "<{} bytes>", self.0.len())
    }
}

impl Serialize for Bytes64 {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.encoded())
    }
}

impl<'de> Deserialize<'de> for Bytes64 {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<str>::deserialize(deserializer)?;
        STANDARD.decode(text.as_bytes()).map(Self).map_err(serde::de::Error::custom)
    }
}
