//! The format of a journal record in a file: `crc32c length json\n`, both numbers as 8 hex digits.
//! The header is frozen: a daemon reads journals of runtimes that are months old. The checksum
//! covers only the JSON. A reader stops at the first bad record and reports its position.

use std::io::Write as _;

/// Bytes of the header: two numbers of 8 digits and two blanks.
pub const HEADER_BYTES: usize = 18;

/// Maximum JSON length of a record in bytes: one line of the agent plus additions. Writers must not
/// exceed it; readers treat a longer record as damaged.
pub const MAX_RECORD_BYTES: usize = crate::MAX_LINE_BYTES + 64 * 1024;

/// Appends one record to a buffer.
pub fn encode(json: &[u8], out: &mut Vec<u8>) {
    out.reserve(HEADER_BYTES + json.len() + 1);
    // Writing to a Vec cannot fail.
    let _ = write!(out, "{:08x} {:08x} ", crc32c::crc32c(json), json.len());
    out.extend_from_slice(json);
    out.push(b'\n');
}

/// The record at the start of a buffer.
#[derive(Debug, PartialEq, Eq)]
pub enum Decoded<'a> {
    /// A complete record was found.
    Record {
        /// The JSON text of the record.
        json: &'a [u8],
        /// Number of bytes to the next record, with header and line end.
        size: usize,
    },
    /// The record continues beyond the end of the buffer.
    Incomplete {
        /// Total number of bytes required, as far as known.
        needed: usize,
    },
    /// Not a record: a torn write or a damaged file.
    Corrupt(&'static str),
}

/// Decodes the start of `buffer`; `limit` is the maximum JSON length of a record.
#[must_use]
pub fn decode(buffer: &[u8], limit: usize) -> Decoded<'_> {
    let Some(header) = buffer.get(..HEADER_BYTES) else {
        return match buffer.iter().all(|b| b.is_ascii_hexdigit() || *b == b' ') {
            true => Decoded::Incomplete { needed: HEADER_BYTES },
            false => Decoded::Corrupt("the header is not made of hex digits"),
        };
    };
    let (Some(crc), Some(length)) = (hex8(&header[..8]), hex8(&header[9..17])) else {
        return Decoded::Corrupt("the header is not made of hex digits");
    };
    if header[8] != b' ' || header[17] != b' ' {
        return Decoded::Corrupt("the header has no blanks at their places");
    }
    let length = length as usize;
    if length > limit {
        return Decoded::Corrupt("the length is above the limit");
    }
    let size = HEADER_BYTES + length + 1;
    let Some(rest) = buffer.get(HEADER_BYTES..size) else { return Decoded::Incomplete { needed: size } };
    let (json, end) = rest.split_at(length);
    if end != b"\n" {
        return Decoded::Corrupt("the record does not end with a line end");
    }
    if crc32c::crc32c(json) != crc {
        return Decoded::Corrupt("the checksum does not match");
    }
    Decoded::Record { json, size }
}

fn hex8(digits: &[u8]) -> Option<u32> {
    digits.iter().try_fold(0u32, |number, digit| {
        let value = match digit {
            b'0'..=b'9' => digit - b'0',
            b'a'..=b'f' => digit - b'a' + 10,
            _ => return None,
        };
        Some(number << 4 | u32::from(value))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn encoded_records_are_decoded(json in proptest::collection::vec(any::<u8>(), 0..300), rest in proptest::collection::vec(any::<u8>(), 0..40)) {
            let mut buffer = Vec::new();
            encode(&json, &mut buffer);
            let size = buffer.len();
            buffer.extend_from_slice(&rest);
            prop_assert_eq!(decode(&buffer, 1000), Decoded::Record { json: &json, size });
        }

        #[test]
        fn a_torn_record_is_never_taken_for_a_whole_one(json in proptest::collection::vec(any::<u8>(), 0..300), keep in 0usize..300) {
            let mut buffer = Vec::new();
            encode(&json, &mut buffer);
            let keep = keep.min(buffer.len() - 1);
            let waits = matches!(decode(&buffer[..keep], 1000), Decoded::Incomplete { .. });
            prop_assert!(waits);
        }

        #[test]
        fn a_flipped_bit_is_noticed(json in proptest::collection::vec(any::<u8>(), 1..100), at in 0usize..100, bit in 0u8..8) {
            let mut buffer = Vec::new();
            encode(&json, &mut buffer);
            let at = at % buffer.len();
            buffer[at] ^= 1 << bit;
            let taken = matches!(decode(&buffer, 1000), Decoded::Record { .. });
            prop_assert!(!taken);
        }

        #[test]
        fn arbitrary_bytes_never_panic(buffer in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = decode(&buffer, 100);
        }
    }

    #[test]
    fn a_length_above_the_limit_is_corrupt() {
        let mut buffer = Vec::new();
        encode(&[b'x'; 101], &mut buffer);
        assert!(matches!(decode(&buffer, 100), Decoded::Corrupt(_)));
    }
}
