//! Invalid input: a corpus of valid bytes, ways to damage them, and the limits that a parser must
//! keep. For tests of parsers in all crates. A failure prints the seed and the beginning of the
//! input.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stderr,
    clippy::missing_panics_doc,
    reason = "a test's tool: it stops at what is wrong and says what was seen"
)]

use std::fs;
use std::time::{Duration, Instant};

use crate::{Random, say, times};

/// Lines of agents, shortened from real ones.
pub const AGENT: &[u8] = include_bytes!("../fixtures/bytes/agent.ndjson");
/// Frames of a daemon to a runtime.
pub const TO_RUNTIME: &[u8] = include_bytes!("../fixtures/bytes/to-runtime.ndjson");
/// Frames of a runtime to a daemon.
pub const FROM_RUNTIME: &[u8] = include_bytes!("../fixtures/bytes/from-runtime.ndjson");
/// The JSON of journal records.
pub const RECORDS: &[u8] = include_bytes!("../fixtures/bytes/records.ndjson");
/// The content of a config file.
pub const CONFIG: &[u8] = include_bytes!("../fixtures/bytes/config.yaml");
/// The JSON object of `--input`.
pub const INPUT: &[u8] = include_bytes!("../fixtures/bytes/input.json");

/// Number of inputs per parser in an ordinary run.
pub const INPUTS: usize = 1_000;
/// Time limit for one input, even on a busy machine.
const LONGEST: Duration = Duration::from_secs(10);
/// Maximum growth of memory over a whole run, in KiB. The longest input has about 1 MiB.
const MAX_KIB: u64 = 256 * 1024;
/// Number of bytes shown of an input.
const SHOWN: usize = 1500;

const TOKENS: &[&[u8]] = &[
    b"{",
    b"}",
    b"[",
    b"]",
    b"\"",
    b",",
    b":",
    b"\n",
    b"\r\n",
    b"\0",
    b"null",
    b"true",
    b"-",
    b"e",
    b"\\u0000",
    b"\\ud800",
    b"\\udc00",
    b"\xff\xfe",
    b"\xc3\x28",
    b"\xed\xa0\x80",
    b"\xf4\x90\x80\x80",
    b"\xef\xbb\xbf",
    b"18446744073709551616",
    b"-9223372036854775809",
    b"1e999",
    b"-0",
    b"0.1e-9999",
    b"\"id\":",
    b"\"method\":\"session/update\"",
    b"\"params\":",
    b"\"result\":",
    b"\"error\":",
    b"{\"t\":\"hello\"",
    b"\"n\":",
    b"\"t\":\"sealed\",\"b\":{\"next\":18446744073709551615}",
    b"ffffffff ",
    b"00000000 00000000 \n",
    b"&a ",
    b"*a",
    b"<<: *a",
    b"? ",
    b"- ",
    b"|\n",
    b"!!binary ",
    b"%YAML 9.9\n",
    b"---\n",
    b"\t",
    b"\x1b[2J",
    b"\xe2\x80\xae",
];

/// Damages valid bytes at random.
#[derive(Debug)]
pub struct Mutator {
    random: Random,
}

impl Mutator {
    /// Creates a mutator with this random generator.
    #[must_use]
    pub const fn new(random: Random) -> Self {
        Self { random }
    }

    /// Returns a damaged input made from one or two of these.
    pub fn damage(&mut self, corpus: &[Vec<u8>]) -> Vec<u8> {
        let mut bytes = self.random.pick(corpus).clone();
        // Single faults reveal errors that many hide, and vice versa.
        for _ in 0..=self.random.below(6) {
            self.once(&mut bytes, corpus);
        }
        bytes
    }

    fn once(&mut self, bytes: &mut Vec<u8>, corpus: &[Vec<u8>]) {
        let (from, to) = self.range(bytes.len());
        match self.random.below(14) {
            0 => {
                let other = self.random.pick(corpus).clone();
                let (first, last) = self.range(other.len());
                bytes.splice(from..to, other[first..last].iter().copied());
            }
            1 | 2 => {
                if let Some(byte) = bytes.get_mut(from) {
                    *byte ^= 1 << self.random.below(8);
                }
            }
            3 => bytes.truncate(from),
            4 => {
                let part = bytes[from..to.min(from + 2000)].to_vec();
                let repeated = part.repeat(usize::try_from(self.random.below(40)).unwrap());
                bytes.splice(to..to, repeated);
            }
            5..=7 => {
                let token = *self.random.pick(TOKENS);
                bytes.splice(from..from, token.iter().copied());
            }
            8 => {
                let depth = *self.random.pick(&[126, 127, 128, 129, 1_000, 20_000]);
                let open = *self.random.pick(&[&b"["[..], b"{\"a\":", b"- ", b"{a: "]);
                bytes.splice(from..from, open.repeat(depth));
            }
            9 => {
                let digits = *self.random.pick(&[20_usize, 400, 50_000]);
                bytes.splice(from..from, std::iter::repeat_n(b'9', digits));
            }
            10 => _ = bytes.drain(from..to),
            11 => {
                let length = *self.random.pick(&[4_096_usize, 65_536, 1_000_000]);
                let filler = *self.random.pick(b"x\"\\ \xff\0\xe2");
                bytes.splice(from..from, std::iter::repeat_n(filler, length));
            }
            12 => {
                let byte = u8::try_from(self.random.below(256)).unwrap();
                bytes.splice(from..to.min(from + 8), [byte]);
            }
            _ => {
                let mut lines: Vec<&[u8]> = bytes.split_inclusive(|byte| *byte == b'\n').collect();
                self.random.shuffle(&mut lines);
                *bytes = lines.concat();
            }
        }
    }

    fn range(&mut self, length: usize) -> (usize, usize) {
        let mut at = || usize::try_from(self.random.below(length as u64 + 1)).unwrap();
        let (a, b) = (at(), at());
        (a.min(b), a.max(b))
    }
}

/// Shows an input when its parser panics.
struct Shown<'a>(&'a [u8]);

impl Drop for Shown<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let head = &self.0[..self.0.len().min(SHOWN)];
            eprintln!("the input had {} bytes: {}", self.0.len(), head.escape_ascii());
        }
    }
}

/// Runs a parser on [`INPUTS`] damaged inputs (times `SUBAGENT_FAULTS`), each
/// within the limits of time and memory. Memory is measured for the whole process,
/// so the test runs [`crate::in_own_process`].
pub fn attack(corpus: &[Vec<u8>], mut read: impl FnMut(&[u8])) {
    let mut mutator = Mutator::new(Random::announced());
    for good in corpus {
        read(good);
    }
    let before = peak_memory();
    for _ in 0..times(INPUTS) {
        let bytes = mutator.damage(corpus);
        let _shown = Shown(&bytes);
        let started = Instant::now();
        read(&bytes);
        let took = started.elapsed();
        assert!(took < LONGEST, "one input took {took:?}");
        let more = peak_memory().saturating_sub(before);
        assert!(more < MAX_KIB, "the inputs took {more} KiB of memory");
    }
    say(&format!("faults: {} damaged inputs for one reader", times(INPUTS)));
}

/// Returns the peak memory of this process, in KiB.
fn peak_memory() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}

/// Returns the lines of a text, each with its end.
#[must_use]
pub fn lines(text: &[u8]) -> Vec<Vec<u8>> {
    text.split_inclusive(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect()
}
