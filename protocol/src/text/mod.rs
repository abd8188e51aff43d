//! Text and JSON that others wrote: cleaned, cut, and read with patience.

pub mod clean;
pub mod fields;
pub mod json;
pub mod lenient;
pub mod markdown;
pub mod message_text;
pub mod secret;
pub mod surrogates;
pub mod tags;
pub mod words;
