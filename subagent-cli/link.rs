//! How `subagent` and `subagent-runtime`, the two programs that start most often, are linked.
//! Figures: `docs/performance-counts.md`.

// - At a fixed address: a position-independent program changes 20,000 addresses in its tables at
//   each start. Heap, stack and libraries stay at random addresses. Both programs are Rust without C
//   libraries of their own. The daemon, which contains SQLite, stays position-independent.
// - With the unwinder inside, if the C compiler has it as an archive (`src/bin/link`): a start loads
//   one library less.

use std::env;
use std::path::Path;
use std::process::Command;

/// Prints the link arguments of these two programs, and the `cfg` for `src/bin/link`.
pub(crate) fn print_arguments(programs: [&str; 2]) {
    println!("cargo::rustc-check-cfg=cfg(static_unwinder)");
    let target = |key| env::var(key).unwrap_or_default();
    if target("CARGO_CFG_TARGET_OS") == "linux" && target("CARGO_CFG_TARGET_ENV") == "gnu" {
        for program in programs {
            println!("cargo::rustc-link-arg-bin={program}=-no-pie");
        }
        if has_static_unwinder() {
            println!("cargo::rustc-cfg=static_unwinder");
        }
    }
}

/// Whether the C compiler that links has a complete unwinder as an archive. On aarch64 the archive of
/// GCC 14 needs functions of `libgcc.a`. Flags can name another linker than the one that is asked.
fn has_static_unwinder() -> bool {
    let flags = env::var("CARGO_ENCODED_RUSTFLAGS").unwrap_or_default();
    if env::var("CARGO_CFG_TARGET_ARCH").is_ok_and(|arch| arch != "x86_64") || flags.contains("link") {
        return false;
    }
    let linker = env::var_os("RUSTC_LINKER").unwrap_or_else(|| "cc".into());
    let asked = Command::new(linker).arg("-print-file-name=libgcc_eh.a").output();
    // The compiler answers with the bare name if it does not have the file.
    asked.is_ok_and(|output| Path::new(String::from_utf8_lossy(&output.stdout).trim()).is_absolute())
}
