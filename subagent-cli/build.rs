//! Links the two programs that are started most at a fixed address. Position-independent ones change 355 kB (`subagent`)
//! and 37 kB (`subagent-runtime`) of tables at every start before their first instruction, in pages that no two processes
//! share. Both are Rust without C libraries of their own; heap, stack and the C library stay at random addresses. The
//! daemon, which has SQLite in it, stays position-independent. Figures: `docs/performance-counts.md`.

use std::env;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let target = |key| env::var(key).unwrap_or_default();
    if target("CARGO_CFG_TARGET_OS") == "linux" && target("CARGO_CFG_TARGET_ENV") == "gnu" {
        for program in ["subagent", "subagent-runtime"] {
            println!("cargo::rustc-link-arg-bin={program}=-no-pie");
        }
    }
}
