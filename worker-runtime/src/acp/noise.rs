//! Describes a line that is not a message.

use subagent_protocol::record::{Noise, NoiseReason};

use super::lines::HEAD_BYTES;

/// Describes a line that is completely in memory.
pub(crate) fn of_line(reason: NoiseReason, line: &[u8]) -> Noise {
    describe(reason, line.len() as u64, crc32c::crc32c(line), &line[..line.len().min(HEAD_BYTES)])
}

/// Describes a dropped line; `head` is its kept beginning.
pub(crate) fn describe(reason: NoiseReason, bytes: u64, crc: u32, head: &[u8]) -> Noise {
    let mut text = String::from_utf8_lossy(head).into_owned();
    // A replacement character can be longer than the byte it replaces, or the head
    // ends within a character.
    text.truncate(text.floor_char_boundary(HEAD_BYTES));
    Noise { reason, bytes, digest: format!("{crc:08x}"), head: text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_head_stays_within_its_bytes() {
        let noise = of_line(NoiseReason::NotJson, &vec![0xff; HEAD_BYTES]);
        assert!(noise.head.len() <= HEAD_BYTES && noise.head.len() > HEAD_BYTES - 4);
        assert_eq!(noise.bytes, HEAD_BYTES as u64);
        assert_eq!(of_line(NoiseReason::NotJson, b"hi").head, "hi");
    }
}
