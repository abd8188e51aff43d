//! Black-box tests of the whole product, and what they are made of: a harness that gives every test its own
//! world and takes it back, invariants that hold whatever was killed, scripted and real agents.
//!
//! Must not reach into private parts of the product: it starts the executables and reads what they leave.

pub mod fast_agent;
pub mod harness;
pub mod invariants;
pub mod measure;
pub mod model_server;
pub mod real_agent;
pub mod trees;
