//! A file attached to a message, as read when the message was sent. The form for the agent is
//! chosen when it gets the file, because its capabilities are certain only then.

use serde::{Deserialize, Serialize};

use crate::bytes64::Bytes64;

/// One file that is attached to a prompt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct Attachment {
    /// The file's name for display.
    pub name: String,
    /// Original location, as `file://...`.
    pub uri: String,
    /// MIME type, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mime_type: Option<String>,
    /// Length of the file in bytes.
    pub size: u64,
    /// Content that was read.
    #[serde(flatten)]
    pub content: Content,
}

/// The content read from a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(tag = "kind", rename_all = "camelCase")]
pub enum Content {
    /// Text: embedded if the agent accepts that, otherwise a link.
    Text {
        /// The complete text of the file.
        text: String,
    },
    /// An image, for agents that accept images only.
    Image {
        /// The complete data in base64.
        data: Bytes64,
    },
    /// Audio, for agents that accept audio only.
    Audio {
        /// The complete data in base64.
        data: Bytes64,
    },
    /// Anything else: the agent gets only its location.
    Link,
}

impl Content {
    /// Returns the name of the kind.
    #[must_use]
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Text { .. } => "text",
            Self::Image { .. } => "image",
            Self::Audio { .. } => "audio",
            Self::Link => "link",
        }
    }

    /// Returns the bytes that were read; `None` if there are none.
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
