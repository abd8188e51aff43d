//! Between the daemon and a runtime: its start, its frames, its journal, and the stream to another machine.

pub mod bytes64;
pub mod codec;
pub mod frame;
pub mod process;
pub mod record;
pub mod sandbox;
pub mod start;
pub mod stream;
