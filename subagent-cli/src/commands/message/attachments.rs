//! `--attach`: files that are sent with a message. They are read at once, with the rights of the
//! sender.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, Read as _};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use subagent_config::regular;
use subagent_protocol::attachment::{Attachment, Content};
use subagent_protocol::bytes64::Bytes64;
use subagent_protocol::{Code, MAX_LINE_BYTES};

use crate::context::path_value;
use crate::failure::{Failure, Result};

/// The first bytes of a file that decide its type.
const HEAD_BYTES: usize = 8 * 1024;

/// Reads the files; a relative path is below `cwd`.
///
/// # Errors
/// `INVALID_INPUT{path,error}` for one that cannot be read or is no regular file, `PAYLOAD_TOO_LARGE{path,limitBytes}`.
pub(crate) fn read(paths: &[PathBuf], cwd: &Path) -> Result<Vec<Attachment>> {
    let mut left = MAX_LINE_BYTES;
    paths.iter().map(|path| one(&cwd.join(path), &mut left)).collect()
}

/// Refuses files of which an agent on another host would get only the path here.
///
/// # Errors
/// `HOST_UNSUPPORTED{path}`.
pub(crate) fn check_all_are_sent(attachments: &[Attachment]) -> Result<()> {
    match attachments.iter().find(|attachment| matches!(attachment.content, Content::Link)) {
        None => Ok(()),
        Some(link) => Err(Failure::new(
            Code::HostUnsupported,
            format!(
                "{} is no text, image or sound, and an agent on another host cannot read it here",
                link.name
            ),
        )
        .with("path", link.uri.as_str())
        .recommend("copy the file there, and write its path in the message")),
    }
}

fn one(path: &Path, left: &mut usize) -> Result<Attachment> {
    let unreadable = |error: io::Error| {
        Failure::input(format!("cannot attach {}: {error}", path.display()))
            .with("path", path_value(path))
            .with("error", error.to_string())
    };
    let mut file = regular::open_to_read(path).map_err(unreadable)?;
    let size = file.metadata().map_err(unreadable)?.len();
    let mut head = Vec::new();
    (&mut file).take(HEAD_BYTES as u64).read_to_end(&mut head).map_err(unreadable)?;
    let (kind, mime_type) = kind_of(&head, path);
    let content = match kind {
        AttachmentKind::Link => Content::Link,
        kind => {
            let bytes = rest(head, file, *left).map_err(unreadable)?.ok_or_else(|| too_large(path))?;
            *left -= bytes.len();
            match (kind, String::from_utf8(bytes)) {
                (AttachmentKind::Image, bytes) => Content::Image { data: Bytes64(into_bytes(bytes)) },
                (AttachmentKind::Audio, bytes) => Content::Audio { data: Bytes64(into_bytes(bytes)) },
                (_, Ok(text)) if !text.contains('\0') => Content::Text { text },
                (_, _) => Content::Link,
            }
        }
    };
    let mime_type = match &content {
        Content::Link if kind == AttachmentKind::Text => None,
        _ => mime_type.map(str::to_owned),
    };
    let size = content.bytes().map_or(size, |bytes| bytes.len() as u64);
    let name = path.file_name().map_or_else(|| "file".to_owned(), |name| name.to_string_lossy().into_owned());
    Ok(Attachment { name, uri: file_uri(path), mime_type, size, content })
}

/// All of the file, unless it is longer than `most`.
fn rest(mut head: Vec<u8>, file: File, most: usize) -> io::Result<Option<Vec<u8>>> {
    file.take((most as u64).saturating_add(1).saturating_sub(head.len() as u64)).read_to_end(&mut head)?;
    Ok((head.len() <= most).then_some(head))
}

fn into_bytes(bytes: std::result::Result<String, std::string::FromUtf8Error>) -> Vec<u8> {
    bytes.map_or_else(std::string::FromUtf8Error::into_bytes, String::into_bytes)
}

fn too_large(path: &Path) -> Failure {
    let message = format!(
        "{} is too large to be attached: a message with all that goes along has at most {MAX_LINE_BYTES} bytes",
        path.display()
    );
    Failure::new(Code::PayloadTooLarge, message)
        .with("path", path_value(path))
        .with("limitBytes", MAX_LINE_BYTES)
        .recommend("Name the file in the text instead: an agent that works on this machine can open it.")
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AttachmentKind {
    Text,
    Image,
    Audio,
    Link,
}

/// What a file is, by its first bytes; of a text the name says which.
fn kind_of(head: &[u8], path: &Path) -> (AttachmentKind, Option<&'static str>) {
    let riff = |kind: &[u8]| head.starts_with(b"RIFF") && head.get(8..12) == Some(kind);
    let begins = |magic: &[u8]| head.starts_with(magic);
    match () {
        () if begins(b"\x89PNG\r\n\x1a\n") => (AttachmentKind::Image, Some("image/png")),
        () if begins(b"\xff\xd8\xff") => (AttachmentKind::Image, Some("image/jpeg")),
        () if begins(b"GIF87a") || begins(b"GIF89a") => (AttachmentKind::Image, Some("image/gif")),
        () if riff(b"WEBP") => (AttachmentKind::Image, Some("image/webp")),
        () if riff(b"WAVE") => (AttachmentKind::Audio, Some("audio/wav")),
        () if begins(b"OggS") => (AttachmentKind::Audio, Some("audio/ogg")),
        () if begins(b"fLaC") => (AttachmentKind::Audio, Some("audio/flac")),
        () if begins(b"ID3") || begins(b"\xff\xfb") => (AttachmentKind::Audio, Some("audio/mpeg")),
        () if begins(b"%PDF-") => (AttachmentKind::Link, Some("application/pdf")),
        () if head.contains(&0) => (AttachmentKind::Link, None),
        () => (AttachmentKind::Text, Some(text_type(path))),
    }
}

fn text_type(path: &Path) -> &'static str {
    match path.extension().and_then(|extension| extension.to_str()) {
        Some("md") => "text/markdown",
        Some("json") => "application/json",
        Some("html") => "text/html",
        Some("csv") => "text/csv",
        _ => "text/plain",
    }
}

/// An absolute path as a URI.
pub(crate) fn file_uri(path: &Path) -> String {
    let mut uri = "file://".to_owned();
    for byte in path.as_os_str().as_bytes() {
        if byte.is_ascii_alphanumeric() || b"-_.~/".contains(byte) {
            uri.push(char::from(*byte));
        } else {
            // Writing to a String cannot fail.
            let _ = write!(uri, "%{byte:02X}");
        }
    }
    uri
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_one(name: &str, bytes: &[u8]) -> Attachment {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join(name), bytes).unwrap();
        read(&[name.into()], dir.path()).unwrap().remove(0)
    }

    #[test]
    fn the_first_bytes_give_the_type_of_a_file_with_any_name() {
        for (bytes, kind, mime_type) in [
            (&b"\x89PNG\r\n\x1a\nx"[..], "image", Some("image/png")),
            (b"\xff\xd8\xff\xe0", "image", Some("image/jpeg")),
            (b"GIF89a", "image", Some("image/gif")),
            (b"RIFF\x01\x02\x03\x04WEBP", "image", Some("image/webp")),
            (b"RIFF\x01\x02\x03\x04WAVE", "audio", Some("audio/wav")),
            (b"ID3\x04", "audio", Some("audio/mpeg")),
            (b"%PDF-1.7", "link", Some("application/pdf")),
            (b"a\0b", "link", None),
            (b"\xe9", "link", None),
            (b"caf\xc3\xa9", "text", Some("text/markdown")),
            (b"", "text", Some("text/markdown")),
        ] {
            let read = read_one("x y.md", bytes);
            assert_eq!((read.content.kind(), read.mime_type.as_deref()), (kind, mime_type), "{bytes:?}");
            assert_eq!((read.name.as_str(), read.size), ("x y.md", bytes.len() as u64));
            assert!(read.uri.starts_with("file:///") && read.uri.ends_with("/x%20y.md"), "{}", read.uri);
        }
        let late = [b"x".repeat(HEAD_BYTES), b"\0".to_vec()].concat();
        assert_eq!(read_one("x", &late).content.kind(), "link");
    }

    #[test]
    fn what_is_too_large_is_read_only_if_it_would_be_sent() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("large");
        std::fs::write(&path, "text").unwrap();
        let mut left = 3;
        assert!(one(&path, &mut left).unwrap_err().is(Code::PayloadTooLarge));
        std::fs::write(&path, "a\0bcd").unwrap();
        assert_eq!(one(&path, &mut left).unwrap().content, Content::Link);
    }

    #[test]
    fn a_uri_holds_any_path() {
        assert_eq!(file_uri(Path::new("/a-b/c_d.md")), "file:///a-b/c_d.md");
        assert_eq!(file_uri(Path::new("/a b/ä?#%")), "file:///a%20b/%C3%A4%3F%23%25");
    }
}
