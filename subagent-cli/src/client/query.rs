//! Paths and queries of URLs. Pure.

use std::fmt::Write as _;

/// Percent-encodes a segment of a path.
#[must_use]
pub fn segment(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'~' | b'.') {
            out.push(char::from(byte));
        } else {
            // Writing to a String cannot fail.
            let _ = write!(out, "%{byte:02X}");
        }
    }
    out
}

/// Builds a path with a query, parameter by parameter.
#[derive(Debug, Clone)]
pub struct RequestPath {
    text: String,
    separator: char,
}

impl RequestPath {
    /// Creates a path without a query.
    #[must_use]
    pub fn new(path: impl Into<String>) -> Self {
        Self { text: path.into(), separator: '?' }
    }

    /// Adds a parameter if it has a value.
    #[must_use]
    pub fn with(mut self, key: &str, value: Option<&str>) -> Self {
        if let Some(value) = value {
            self.text.push(self.separator);
            self.separator = '&';
            self.text.push_str(key);
            self.text.push('=');
            self.text.push_str(&segment(value));
        }
        self
    }
}

impl From<RequestPath> for String {
    fn from(query: RequestPath) -> Self {
        query.text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_typed_can_leave_its_place() {
        assert_eq!(segment("w_01"), "w_01");
        assert_eq!(segment("a/b?c&d=e#f g%ä"), "a%2Fb%3Fc%26d%3De%23f%20g%25%C3%A4");
        let query = RequestPath::new("/v1/x").with("a", Some("1&b=2")).with("c", None).with("d", Some("/é"));
        assert_eq!(String::from(query), "/v1/x?a=1%26b%3D2&d=%2F%C3%A9");
    }
}
