//! A file that goes along with a message, as it was read when the message was sent.
//!
//! In which form an agent gets it is decided when it is given to the agent, whose capabilities are certain only then.

use serde::{Deserialize, Serialize};

use crate::bytes64::Bytes64;

/// One file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct Attachment {
    /// Its name, for people.
    pub name: String,
    /// Where it was, `file://...`.
    pub uri: String,
    /// What it is, if that could be told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mime_type: Option<String>,
    /// Its length in bytes.
    pub size: u64,
    /// What was read of it.
    #[serde(flatten)]
    pub content: Content,
}

/// What was read of a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(tag = "kind", rename_all = "camelCase")]
pub enum Content {
    /// Text: embedded where the agent takes that, else a link.
    Text {
        /// All of it.
        text: String,
    },
    /// A picture: for agents that take pictures alone.
    Image {
        /// All of it, in base64.
        data: Bytes64,
    },
    /// Sound: for agents that take sound alone.
    Audio {
        /// All of it, in base64.
        data: Bytes64,
    },
    /// Anything else: the agent is told where it is.
    Link,
}

impl Content {
    /// The word for it.
    #[must_use]
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Text { .. } => "text",
            Self::Image { .. } => "image",
            Self::Audio { .. } => "audio",
            Self::Link => "link",
        }
    }

    /// How many bytes were read; `None` if nothing was.
    #[must_use]
    pub fn bytes(&self) -> Option<&[u8]> {
        match self {
            Self::Text { text } => Some(text.as_bytes()),
            Self::Image { data } | Self::Audio { data } => Some(&data.0),
            Self::Link => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attachments_keep_their_spelling() {
        let text = r#"{"name":"a.png","uri":"file:///a.png","mimeType":"image/png","size":2,"kind":"image","data":"aGk="}"#;
        let attachment: Attachment = serde_json::from_str(text).unwrap();
        assert_eq!(attachment.content.bytes(), Some(&b"hi"[..]));
        assert_eq!(serde_json::to_string(&attachment).unwrap(), text);
        let link = r#"{"name":"a","uri":"file:///a","size":2,"kind":"link"}"#;
        assert_eq!(serde_json::from_str::<Attachment>(link).unwrap().content, Content::Link);
        assert!(serde_json::from_str::<Attachment>(&text.replace("aGk=", "?")).is_err());
    }
}
