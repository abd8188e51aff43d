//! Black-box tests of the whole product and their parts: a harness with a separate world for every
//! test, invariants that hold in spite of killed processes, scripted and real agents. Must not use
//! private parts of the product: it starts the executables and reads their files.

pub mod fast_agent;
pub mod harness;
pub mod invariants;
pub mod measure;
pub mod model_server;
pub mod real_agent;
pub mod trees;
