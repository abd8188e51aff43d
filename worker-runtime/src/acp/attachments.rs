//! Turns the attachments of a prompt into content blocks that this agent accepts. Pure. A link is
//! always accepted. An attachment that the agent accepts in no form is rejected before anything is
//! sent.

use agent_client_protocol_schema::v1::{
    AudioContent, ContentBlock, EmbeddedResource, EmbeddedResourceResource, ImageContent, ResourceLink,
    TextResourceContents,
};
use serde_json::{Value, json};
use subagent_protocol::attachment::{Attachment, Content};
use subagent_protocol::error::{Code, Error};

use super::results::PromptCapabilities;

/// Returns one content block per attachment.
///
/// # Errors
///
/// `ATTACHMENT_NOT_SUPPORTED{attachment,kind,supported}` for the first one that the
/// agent does not accept.
pub(crate) fn blocks(attachments: &[Attachment], takes: PromptCapabilities) -> Result<Vec<Value>, Error> {
    attachments.iter().map(|attachment| block(attachment, takes).map(|block| json!(block))).collect()
}

fn block(attachment: &Attachment, takes: PromptCapabilities) -> Result<ContentBlock, Error> {
    let mime_type = || attachment.mime_type.clone();
    // Images and audio always have a MIME type, because it decides their kind.
    let mime_or_any = || mime_type().unwrap_or_else(|| "application/octet-stream".to_owned());
    Ok(match &attachment.content {
        Content::Text { text } if takes.embedded => {
            let contents =
                TextResourceContents::new(text.clone(), attachment.uri.clone()).mime_type(mime_type());
            let resource = EmbeddedResourceResource::TextResourceContents(contents);
            ContentBlock::Resource(EmbeddedResource::new(resource))
        }
        Content::Image { data } if takes.image => {
            let image = ImageContent::new(data.encoded(), mime_or_any());
            ContentBlock::Image(image.uri(attachment.uri.clone()))
        }
        Content::Audio { data } if takes.audio => {
            ContentBlock::Audio(AudioContent::new(data.encoded(), mime_or_any()))
        }
        Content::Text { .. } | Content::Link => {
            let link = ResourceLink::new(attachment.name.clone(), attachment.uri.clone());
            let size = i64::try_from(attachment.size).ok();
            ContentBlock::ResourceLink(link.mime_type(mime_type()).size(size))
        }
        Content::Image { .. } | Content::Audio { .. } => return Err(not_supported(attachment, takes)),
    })
}

fn not_supported(attachment: &Attachment, takes: PromptCapabilities) -> Error {
    let kind = attachment.content.kind();
    let media = [(takes.image, "image"), (takes.audio, "audio")];
    let media = media.into_iter().filter_map(|(takes, kind)| takes.then_some(kind));
    let supported: Vec<&str> = ["text", "link"].into_iter().chain(media).collect();
    let message = format!("the agent does not take attachments of kind {kind} ({})", attachment.name);
    Error::new(Code::AttachmentNotSupported, message)
        .with("attachment", attachment.name.as_str())
        .with("kind", kind)
        .with("supported", supported)
        .recommend(
            "Send the file's path in the text, if the agent can open it by itself, or use another agent.",
        )
}

#[cfg(test)]
mod tests {
    use subagent_protocol::bytes64::Bytes64;

    use super::*;

    fn attachment(content: Content) -> Attachment {
        Attachment {
            name: "a b".to_owned(),
            uri: "file:///a%20b".to_owned(),
            mime_type: Some("x/y".to_owned()),
            size: 2,
            content,
        }
    }

    #[test]
    fn each_kind_has_the_form_that_the_agent_takes() {
        let all = PromptCapabilities { image: true, audio: true, embedded: true };
        let data = || Bytes64(b"hi".to_vec());
        let text = attachment(Content::Text { text: "hi".to_owned() });
        let link = json!({"type": "resource_link", "name": "a b", "uri": "file:///a%20b", "mimeType": "x/y", "size": 2});
        let embedded = json!({"type": "resource", "resource": {"mimeType": "x/y", "text": "hi", "uri": "file:///a%20b"}});
        let image = json!({"type": "image", "data": "aGk=", "mimeType": "x/y", "uri": "file:///a%20b"});
        let audio = json!({"type": "audio", "data": "aGk=", "mimeType": "x/y"});
        let (picture, sound) =
            (attachment(Content::Image { data: data() }), attachment(Content::Audio { data: data() }));
        let files = [text, attachment(Content::Link), picture, sound];
        assert_eq!(blocks(&files, all).unwrap(), [embedded, link.clone(), image, audio]);
        let none = PromptCapabilities::default();
        assert_eq!(blocks(&files[..2], none).unwrap(), [link.clone(), link]);
        for (file, kind) in [(&files[2], "image"), (&files[3], "audio")] {
            let error = blocks(std::slice::from_ref(file), none).unwrap_err();
            assert_eq!((error.code, &error.details["kind"]), (Code::AttachmentNotSupported, &json!(kind)));
            assert_eq!(error.details["supported"], json!(["text", "link"]));
        }
    }
}
