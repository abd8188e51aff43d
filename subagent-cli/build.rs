//! Links the two programs that are started most at a fixed address. Position-independent ones change 355 kB (`subagent`)
//! and 37 kB (`subagent-runtime`) of tables at every start before their first instruction, in pages that no two processes
//! share. Both are Rust without C libraries of their own; heap, stack and the C library stay at random addresses. The
//! daemon, which has SQLite in it, stays position-independent. In a release, what ordinary commands call stands beside each
//! other in `subagent` (`order.py`). Figures: `docs/performance-counts.md`.

use std::env;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let target = |key| env::var(key).unwrap_or_default();
    if target("CARGO_CFG_TARGET_OS") == "linux" && target("CARGO_CFG_TARGET_ENV") == "gnu" {
        for program in ["subagent", "subagent-runtime"] {
            println!("cargo::rustc-link-arg-bin={program}=-no-pie");
        }
        if target("PROFILE") == "release" && keeps_order() {
            println!("cargo::rerun-if-changed=order.ld");
            println!("cargo::rustc-link-arg-bin=subagent=-T{}/order.ld", target("CARGO_MANIFEST_DIR"));
        }
    }
}

/// Whether the linker takes such a script beside its own, as the one that comes with Rust and GNU's do.
fn keeps_order() -> bool {
    let flags = env::var("CARGO_ENCODED_RUSTFLAGS").unwrap_or_default();
    !["gold", "mold", "wild"].iter().any(|other| flags.contains(other))
}
