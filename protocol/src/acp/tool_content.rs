//! What a tool call reports, as an agent wrote it: ACP's `ToolCallContent` and `ToolCallLocation`. A
//! field that is missing or has another type is unknown.

use serde::Deserialize;

use crate::lenient::{self, Lenient};

/// A part of what a call reports: a diff, text, or the place of a file.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ToolContent<'a> {
    /// ACP's `type`: `diff`, `content`, `terminal`; absent for a place.
    #[serde(borrow, rename = "type")]
    pub kind: Lenient<&'a str>,
    /// Path of a diff or of a place.
    pub path: Lenient<&'a str>,
    /// Line of a place.
    pub line: Lenient<u64>,
    /// What a diff removes; absent for a new file.
    pub old_text: Lenient<&'a str>,
    /// What a diff adds.
    pub new_text: Lenient<&'a str>,
    /// Text outside of a block, from agents that send none.
    pub text: Lenient<&'a str>,
    /// The block of `content`.
    #[serde(deserialize_with = "lenient::object")]
    pub content: ToolBlock<'a>,
}

/// A content block of a tool call.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct ToolBlock<'a> {
    /// ACP's `type`: `text`, `image`, ...
    #[serde(borrow, rename = "type")]
    pub kind: Lenient<&'a str>,
    /// The text of a block of text.
    pub text: Lenient<&'a str>,
}
