//! The stream between the daemon and `subagent-runtime dial`: messages with a length and a checksum
//! ([`crate::codec`]). Frames and journal bytes pass through it unread.

use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::codec::{self, Decoded};

/// The line after which the stream begins. A login shell may print text before it.
pub const MAGIC: &[u8] = b"\x01subagent-stream\x02\n";
/// Maximum number of bytes before [`MAGIC`].
pub const MAX_BANNER_BYTES: usize = 64 * 1024;
/// The newest protocol of the stream that this version speaks.
pub const STREAM_PROTOCOL: u32 = 1;
/// The oldest protocol that it speaks.
pub const OLDEST_STREAM_PROTOCOL: u32 = 1;
/// Maximum number of frame or journal bytes in a message.
pub const CHUNK_BYTES: usize = 64 * 1024;
/// Maximum number of open channels of a stream.
pub const MAX_CHANNELS: usize = 64;
/// Maximum number of bytes of a channel, per direction, that the other side has not taken yet. It
/// bounds the buffer of a channel whose reader is slow.
pub const CHANNEL_WINDOW_BYTES: usize = 128 * 1024;
/// Maximum number of channel bytes in a message. Small, so that channels delay little else.
pub const CHANNEL_CHUNK_BYTES: usize = 16 * 1024;
/// The longest time between two messages of a daemon that keeps its streams alive.
pub const DAEMON_SILENCE: Duration = Duration::from_secs(20);
/// Maximum length of a message without its header.
const MAX_MESSAGE_BYTES: usize = CHUNK_BYTES + 4096;

const JOURNAL: u8 = b'j';
const FRAMES: u8 = b'f';
const CHANNEL: u8 = b'd';
const CONTROL: u8 = b'c';
/// Length of the two positions before journal bytes.
const POSITION_BYTES: usize = 16;

/// A message of either side.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StreamMessage {
    /// Bytes of the command socket, in order. Their pieces need not be whole frames.
    Frames(Vec<u8>),
    /// Bytes of a journal segment. They come before the frame that announces them.
    Journal {
        /// Number of the segment.
        segment: u64,
        /// Where the bytes belong in it.
        offset: u64,
        /// The bytes, with the checksums of their records.
        bytes: Vec<u8>,
    },
    /// Bytes of a channel, in order.
    Channel {
        /// Number of the channel.
        channel: u64,
        /// The bytes; at most [`CHANNEL_CHUNK_BYTES`].
        bytes: Vec<u8>,
    },
    /// A message about the stream itself.
    Control(StreamControl),
}

/// A message about the stream itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "m", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum StreamControl {
    /// The first message of the daemon.
    Open(StreamOpen),
    /// The first message from there.
    Hello(StreamHello),
    /// From the daemon: all segments before this one are stored and can be removed.
    Stored {
        /// The first segment that is still needed.
        segment: u64,
    },
    /// From the daemon: kill the runtime's process.
    Kill,
    /// From the daemon: answer with [`StreamControl::Pong`]. Sent when nothing was heard for a while.
    Ping,
    /// The answer to [`StreamControl::Ping`].
    Pong,
    /// From there: a process of the worker has connected. Its bytes are requests to the daemon.
    ChannelOpen {
        /// Number of the channel. A stream uses each number once.
        channel: u64,
    },
    /// The sender sends no more bytes of the channel, and ignores those that it gets.
    ChannelEnd {
        /// Number of the channel.
        channel: u64,
    },
    /// The sender has passed on this many bytes of the channel, so the other side may send as many.
    ChannelTaken {
        /// Number of the channel.
        channel: u64,
        /// Number of bytes that were passed on.
        bytes: u64,
    },
    /// The place serves another daemon. The last message.
    Fenced {
        /// The generation of that daemon.
        generation: u64,
    },
    /// The runtime closed the command socket, or cannot be reached on it. This proves nothing.
    Closed,
    /// The proof that the runtime has ended: its lock is free. The rest of the journal came before.
    RuntimeGone,
    /// The proof that no process of the agent is left: the guard's lock is free.
    GuardGone,
}

/// One start of a daemon. A later start of the same state dir has a higher generation.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DaemonEpoch {
    /// The generation of the daemon, committed at its start.
    pub generation: u64,
    /// Random id of the start. Two daemons with copies of one state dir can have the same generation.
    pub start: String,
}

impl DaemonEpoch {
    /// Whether a place that was spoken to by `self` refuses `other`. Of two starts with the same
    /// generation, the first one to speak is served.
    #[must_use]
    pub fn fences(&self, other: &Self) -> bool {
        self.generation > other.generation
            || (self.generation == other.generation && !self.start.is_empty() && self.start != other.start)
    }
}

/// What the daemon asks for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StreamOpen {
    /// The daemon's protocol of the stream.
    pub protocol: u32,
    /// Absolute folder of the placed workers there; absent on another machine than the daemon's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub root: Option<PathBuf>,
    /// Which daemon asks. The place refuses daemons that are older than the newest one that spoke.
    pub epoch: DaemonEpoch,
    /// The worker's newest runtime. Once it is proved gone, it cannot be started late.
    pub incarnation: u64,
    /// Whether this runtime was reported as started there. Then a place without a record of it is
    /// another one (a folder that is not mounted, another host), and proves nothing.
    pub is_known: bool,
    /// The line with which `dial` begins its connection to a runtime in a container.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub container_token: Option<String>,
    /// The segment at which the daemon goes on reading.
    pub segment: u64,
    /// The offset in it.
    pub offset: u64,
    /// Whether the daemon serves channels: the worker's agent may give tasks.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub serves_tasks: bool,
    /// Whether the daemon sends a message at least every [`DAEMON_SILENCE`]. Then a longer silence is a
    /// dead connection.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_kept_alive: bool,
}

/// The state there when the stream began. Its flags are information, not proof.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StreamHello {
    /// The oldest protocol that is spoken there.
    pub oldest_protocol: u32,
    /// The newest protocol there.
    pub protocol: u32,
    /// Version of the package there.
    pub version: String,
    /// The boot of that machine.
    pub boot_id: String,
    /// The newest segment of the journal; `None` without one.
    pub segment: Option<u64>,
    /// Whether the runtime's lock is held.
    pub runtime_lives: bool,
    /// Whether the guard's lock is held.
    pub guard_lives: bool,
    /// What the clock there shows, in milliseconds since 1970; `None` for older runtimes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub now_ms: Option<i64>,
}

/// Why a stream cannot be read on.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StreamError {
    /// The magic line did not come.
    #[error("no stream began within {MAX_BANNER_BYTES} bytes")]
    NoMagic,
    /// The bytes are damaged.
    #[error("a message of the stream is damaged: {0}")]
    Damaged(&'static str),
    /// A message of a type that this version does not know.
    #[error("a message of the stream is not understood")]
    Unknown,
}

impl StreamMessage {
    /// Appends the message to a buffer.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let mut payload = Vec::new();
        match self {
            Self::Frames(bytes) => {
                payload.reserve(1 + bytes.len());
                payload.push(FRAMES);
                payload.extend_from_slice(bytes);
            }
            Self::Journal { segment, offset, bytes } => {
                payload.reserve(1 + POSITION_BYTES + bytes.len());
                payload.push(JOURNAL);
                payload.extend_from_slice(&segment.to_le_bytes());
                payload.extend_from_slice(&offset.to_le_bytes());
                payload.extend_from_slice(bytes);
            }
            Self::Channel { channel, bytes } => {
                payload.reserve(1 + POSITION_BYTES / 2 + bytes.len());
                payload.push(CHANNEL);
                payload.extend_from_slice(&channel.to_le_bytes());
                payload.extend_from_slice(bytes);
            }
            Self::Control(control) => {
                payload.push(CONTROL);
                // A value of strings and numbers always has a JSON text.
                payload.extend(serde_json::to_vec(control).unwrap_or_default());
            }
        }
        codec::encode(&payload, out);
    }

    fn decode(payload: &[u8]) -> Result<Self, StreamError> {
        let (tag, rest) = payload.split_first().ok_or(StreamError::Unknown)?;
        match *tag {
            FRAMES => Ok(Self::Frames(rest.to_vec())),
            JOURNAL => {
                let (segment, rest) = position(rest)?;
                let (offset, rest) = position(rest)?;
                Ok(Self::Journal { segment, offset, bytes: rest.to_vec() })
            }
            CHANNEL => {
                let (channel, rest) = position(rest)?;
                Ok(Self::Channel { channel, bytes: rest.to_vec() })
            }
            CONTROL => serde_json::from_slice(rest).map(Self::Control).map_err(|_| StreamError::Unknown),
            _ => Err(StreamError::Unknown),
        }
    }
}

impl From<StreamControl> for StreamMessage {
    fn from(control: StreamControl) -> Self {
        Self::Control(control)
    }
}

fn position(bytes: &[u8]) -> Result<(u64, &[u8]), StreamError> {
    let (number, rest) = bytes.split_first_chunk().ok_or(StreamError::Unknown)?;
    Ok((u64::from_le_bytes(*number), rest))
}

/// Returns the bytes after the magic line; `None` if it has not come yet.
///
/// # Errors
/// [`StreamError::NoMagic`] if it does not come within [`MAX_BANNER_BYTES`].
pub fn after_magic(received: &[u8]) -> Result<Option<&[u8]>, StreamError> {
    let found = received.windows(MAGIC.len()).position(|window| window == MAGIC);
    match found {
        Some(at) if at <= MAX_BANNER_BYTES => Ok(Some(&received[at + MAGIC.len()..])),
        None if received.len() < MAX_BANNER_BYTES + MAGIC.len() => Ok(None),
        Some(_) | None => Err(StreamError::NoMagic),
    }
}

/// Splits received bytes into messages.
#[derive(Debug)]
pub struct StreamDecoder {
    buffer: Vec<u8>,
    /// Bytes at the start of the buffer that were decoded.
    taken: usize,
    /// Whether the magic line has come, or is not expected.
    began: bool,
}

impl StreamDecoder {
    /// For the direction from there to the daemon, which begins with the magic line.
    #[must_use]
    pub fn behind_banner() -> Self {
        Self { buffer: Vec::new(), taken: 0, began: false }
    }

    /// For the other direction.
    #[must_use]
    pub fn plain() -> Self {
        Self { buffer: Vec::new(), taken: 0, began: true }
    }

    /// Adds bytes that were received.
    pub fn feed(&mut self, bytes: &[u8]) {
        self.buffer.drain(..self.taken);
        self.taken = 0;
        // What was needed once is not kept for good: most streams are silent.
        self.buffer.shrink_to(self.buffer.len() + bytes.len());
        self.buffer.extend_from_slice(bytes);
    }

    /// Returns what came in place of the magic line; `None` after that line.
    #[must_use]
    pub fn banner(&self) -> Option<&[u8]> {
        (!self.began).then_some(&self.buffer[..])
    }

    /// Returns the next message, or `None` until more bytes are fed.
    ///
    /// # Errors
    /// [`StreamError`]. The stream cannot be continued after it.
    pub fn next_message(&mut self) -> Result<Option<StreamMessage>, StreamError> {
        if !self.began {
            let Some(rest) = after_magic(&self.buffer)? else { return Ok(None) };
            self.taken = self.buffer.len() - rest.len();
            self.began = true;
        }
        match codec::decode(&self.buffer[self.taken..], MAX_MESSAGE_BYTES) {
            Decoded::Record { json, size } => {
                let message = StreamMessage::decode(json)?;
                self.taken += size;
                Ok(Some(message))
            }
            Decoded::Incomplete { .. } => Ok(None),
            Decoded::Corrupt(why) => Err(StreamError::Damaged(why)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn any_message() -> impl Strategy<Value = StreamMessage> {
        let bytes = || proptest::collection::vec(any::<u8>(), 0..300);
        prop_oneof![
            bytes().prop_map(StreamMessage::Frames),
            (any::<u64>(), any::<u64>(), bytes())
                .prop_map(|(segment, offset, bytes)| StreamMessage::Journal { segment, offset, bytes }),
            (any::<u64>(), bytes()).prop_map(|(channel, bytes)| StreamMessage::Channel { channel, bytes }),
            any::<u64>().prop_map(|channel| StreamControl::ChannelOpen { channel }.into()),
            any::<u64>().prop_map(|channel| StreamControl::ChannelEnd { channel }.into()),
            (any::<u64>(), any::<u64>()).prop_map(|(channel, bytes)| StreamControl::ChannelTaken {
                channel,
                bytes
            }
            .into()),
            any::<u64>().prop_map(|segment| StreamControl::Stored { segment }.into()),
            Just(StreamControl::RuntimeGone.into()),
            (any::<String>(), any::<u64>()).prop_map(|(root, number)| {
                StreamControl::Open(StreamOpen {
                    container_token: None,
                    protocol: STREAM_PROTOCOL,
                    root: Some(root.into()),
                    epoch: DaemonEpoch { generation: number, start: number.to_string() },
                    incarnation: number,
                    is_known: number > 0,
                    segment: number,
                    offset: number,
                    serves_tasks: number > 1,
                    is_kept_alive: number > 2,
                })
                .into()
            }),
        ]
    }

    fn encoded(messages: &[StreamMessage]) -> Vec<u8> {
        let mut out = Vec::new();
        messages.iter().for_each(|message| message.encode(&mut out));
        out
    }

    fn decoded(decoder: &mut StreamDecoder, pieces: &[&[u8]]) -> Result<Vec<StreamMessage>, StreamError> {
        let mut messages = Vec::new();
        for piece in pieces {
            decoder.feed(piece);
            while let Some(message) = decoder.next_message()? {
                messages.push(message);
            }
        }
        Ok(messages)
    }

    proptest! {
        #[test]
        fn messages_survive_a_banner_and_any_division(
            banner in proptest::collection::vec(any::<u8>(), 0..400),
            messages in proptest::collection::vec(any_message(), 0..6),
            cuts in proptest::collection::vec(any::<prop::sample::Index>(), 0..6),
        ) {
            let mut bytes = banner;
            bytes.extend_from_slice(MAGIC);
            bytes.extend(encoded(&messages));
            let mut at: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len())).collect();
            at.sort_unstable();
            let mut pieces = Vec::new();
            let mut from = 0;
            for end in at.into_iter().chain([bytes.len()]) {
                pieces.push(&bytes[from..end]);
                from = end;
            }
            prop_assert_eq!(decoded(&mut StreamDecoder::behind_banner(), &pieces), Ok(messages));
        }

        #[test]
        fn a_torn_stream_gives_only_whole_messages(
            messages in proptest::collection::vec(any_message(), 1..5), keep in any::<prop::sample::Index>(),
        ) {
            let bytes = encoded(&messages);
            let kept = &bytes[..keep.index(bytes.len())];
            let given = decoded(&mut StreamDecoder::plain(), &[kept]).unwrap();
            prop_assert!(given.len() < messages.len());
            prop_assert_eq!(&given[..], &messages[..given.len()]);
        }

        #[test]
        fn a_flipped_bit_gives_no_other_message(
            message in any_message(), at in any::<prop::sample::Index>(), bit in 0u8..8,
        ) {
            let mut bytes = encoded(std::slice::from_ref(&message));
            let at = at.index(bytes.len());
            bytes[at] ^= 1 << bit;
            let given = decoded(&mut StreamDecoder::plain(), &[&bytes]);
            prop_assert!(given.is_err() || given == Ok(Vec::new()));
        }

        #[test]
        fn foreign_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..500)) {
            let _ = decoded(&mut StreamDecoder::plain(), &[&bytes]);
            let _ = decoded(&mut StreamDecoder::behind_banner(), &[&bytes]);
        }
    }

    #[test]
    fn a_higher_generation_or_the_first_of_two_equal_ones_is_served() {
        let epoch = |generation, start: &str| DaemonEpoch { generation, start: start.to_owned() };
        let spoke = epoch(5, "a");
        assert!(spoke.fences(&epoch(4, "a")) && spoke.fences(&epoch(4, "b")) && spoke.fences(&epoch(5, "b")));
        assert!(!spoke.fences(&epoch(5, "a")) && !spoke.fences(&epoch(6, "b")));
        assert!(!DaemonEpoch::default().fences(&epoch(0, "b")));
    }

    #[test]
    fn a_banner_without_end_is_refused() {
        let line = vec![b'x'; 1024];
        let mut decoder = StreamDecoder::behind_banner();
        let pieces = vec![line.as_slice(); MAX_BANNER_BYTES / line.len() + 1];
        assert_eq!(decoded(&mut decoder, &pieces), Err(StreamError::NoMagic));
    }

    #[test]
    fn the_longest_chunk_fits_and_a_longer_message_is_refused() {
        let message = |length| StreamMessage::Journal { segment: 1, offset: 2, bytes: vec![b'x'; length] };
        let chunk = message(CHUNK_BYTES);
        let given = decoded(&mut StreamDecoder::plain(), &[&encoded(std::slice::from_ref(&chunk))]);
        assert_eq!(given, Ok(vec![chunk]));
        let long = encoded(&[message(MAX_MESSAGE_BYTES)]);
        // Refused by its header, before the rest is kept.
        let given = decoded(&mut StreamDecoder::plain(), &[&long[..100]]);
        assert!(matches!(given, Err(StreamError::Damaged(_))), "{given:?}");
    }
}
