//! A buffer for reading that is small while little is read: most of the streams of a daemon are silent.

use subagent_protocol::stream::CHUNK_BYTES;

/// The smallest capacity, in bytes: some common messages.
const LEAST_BYTES: usize = 2 * 1024;

/// A buffer of [`LEAST_BYTES`] to [`CHUNK_BYTES`].
pub(super) struct ReadBuffer(pub(super) Vec<u8>);

impl ReadBuffer {
    pub(super) fn new() -> Self {
        Self(Vec::with_capacity(LEAST_BYTES))
    }

    /// Empties the buffer. Its capacity doubles if the last read has filled it, and halves if that has
    /// left most of it empty.
    pub(super) fn renew(&mut self) {
        let (used, capacity) = (self.0.len(), self.0.capacity());
        self.0.clear();
        let next = match used {
            used if used >= capacity => (capacity * 2).min(CHUNK_BYTES),
            used if used <= capacity / 4 => (capacity / 2).max(LEAST_BYTES),
            _ => capacity,
        };
        if next != capacity {
            self.0 = Vec::with_capacity(next);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_grows_with_what_is_read_and_shrinks_again() {
        let mut buffer = ReadBuffer::new();
        for _ in 0..10 {
            let capacity = buffer.0.capacity();
            buffer.0.resize(capacity, 0);
            buffer.renew();
        }
        assert!(buffer.0.capacity() >= CHUNK_BYTES && buffer.0.is_empty());
        for _ in 0..10 {
            buffer.0.push(0);
            buffer.renew();
        }
        assert!(buffer.0.capacity() <= 2 * LEAST_BYTES, "{}", buffer.0.capacity());
    }
}
