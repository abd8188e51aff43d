//! Text of agents as a small tree that a page places as nodes: Markdown, terminal output, patches.
//!
//! Pure. Nothing here yields HTML: the tags are a fixed list, the page makes elements of them, and all text stays text.

pub(crate) mod ansi;
pub(crate) mod markdown;
pub(crate) mod patch;

use serde::Serialize;
use subagent_protocol::clean::clean;

/// A node of the tree.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub(crate) enum MarkupNode {
    /// Text, without control characters and without marks that turn or hide text.
    Text(String),
    Element(Element),
}

/// An element with its children.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub(crate) struct Element {
    #[serde(rename = "t")]
    pub(crate) tag: &'static str,
    /// Of a link: where it leads.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) href: Option<String>,
    /// Of an ordered list: its first number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) start: Option<u64>,
    /// Words that say how it looks; of a code block its language.
    #[serde(rename = "k", skip_serializing_if = "String::is_empty")]
    pub(crate) look: String,
    #[serde(rename = "c", skip_serializing_if = "Vec::is_empty")]
    pub(crate) children: Vec<MarkupNode>,
}

impl Element {
    pub(crate) fn new(tag: &'static str) -> Self {
        Self { tag, ..Self::default() }
    }
}

impl MarkupNode {
    pub(crate) fn text(text: &str) -> Self {
        Self::Text(clean(text).into_owned())
    }
}

/// The end of a text: at most `limit` bytes, from the beginning of a line if one begins soon; and the bytes left out.
pub(crate) fn tail(text: &str, limit: usize) -> (&str, usize) {
    let Some(over) = text.len().checked_sub(limit).filter(|over| *over > 0) else { return (text, 0) };
    let from = text.ceil_char_boundary(over);
    let line = text[from..].find('\n').filter(|end| *end < limit / 4);
    let from = line.map_or(from, |end| from + end + 1);
    (&text[from..], from)
}

/// The beginning of a text: at most `limit` bytes; and the bytes left out.
pub(crate) fn head(text: &str, limit: usize) -> (&str, usize) {
    let to = text.floor_char_boundary(limit);
    (&text[..to], text.len() - to)
}
