//! How the two programs that are started most are linked. Figures: `docs/performance-counts.md`.
//!
//! - At a fixed address. Position-independent ones change 355 kB (`subagent`) and 37 kB (`subagent-runtime`) of tables at
//!   every start before their first instruction, in pages that no two processes share. Both are Rust without C libraries of
//!   their own; heap, stack and the C library stay at random addresses. The daemon, which has SQLite in it, stays
//!   position-independent.
//! - With the unwinder in them, where the compiler has it (`src/bin/link`).
//! - In a release, what ordinary commands call stands beside each other in `subagent` (`order.py`).

use std::env;
use std::path::Path;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-check-cfg=cfg(static_unwinder)");
    let target = |key| env::var(key).unwrap_or_default();
    if target("CARGO_CFG_TARGET_OS") == "linux" && target("CARGO_CFG_TARGET_ENV") == "gnu" {
        for program in ["subagent", "subagent-runtime"] {
            println!("cargo::rustc-link-arg-bin={program}=-no-pie");
        }
        if has_static_unwinder() {
            println!("cargo::rustc-cfg=static_unwinder");
        }
        if target("PROFILE") == "release" && keeps_order() {
            println!("cargo::rerun-if-changed=order.ld");
            println!("cargo::rustc-link-arg-bin=subagent=-T{}/order.ld", target("CARGO_MANIFEST_DIR"));
        }
    }
}

/// Whether the C compiler that links finds its unwinder as an archive that is complete. On aarch64 it wants functions of
/// `libgcc.a`, since GCC 14. Flags can name another compiler than the one that is asked, or other folders for it. It names a
/// library that it does not have as it was asked for it, without a folder.
fn has_static_unwinder() -> bool {
    let flags = env::var("CARGO_ENCODED_RUSTFLAGS").unwrap_or_default();
    if env::var("CARGO_CFG_TARGET_ARCH").is_ok_and(|arch| arch != "x86_64") || flags.contains("link") {
        return false;
    }
    let linker = env::var_os("RUSTC_LINKER").unwrap_or_else(|| "cc".into());
    let asked = Command::new(linker).arg("-print-file-name=libgcc_eh.a").output();
    asked.is_ok_and(|output| Path::new(String::from_utf8_lossy(&output.stdout).trim()).is_absolute())
}

/// Whether the linker takes such a script beside its own, as the one that comes with Rust and GNU's do.
fn keeps_order() -> bool {
    let flags = env::var("CARGO_ENCODED_RUSTFLAGS").unwrap_or_default();
    !["gold", "mold", "wild"].iter().any(|other| flags.contains(other))
}
