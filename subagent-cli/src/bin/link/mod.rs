//! What the two programs that are started most have in them instead of in libraries that every start would load: the
//! unwinder (`libgcc_s` also asks the processor what it can do, each time), and the two functions of `libm` that
//! dependencies name and hardly a command calls. Figures: `docs/performance-counts.md`.
//!
//! Must not contain anything that ours call.
#![allow(unsafe_code, reason = "the linker takes these names from here, which is all that they are for")]

#[cfg(static_unwinder)]
#[link(name = "gcc_eh", kind = "static", modifiers = "-bundle")]
unsafe extern "C" {}

/// For tokio's statistics of threads, which the runtimes of these programs do not have.
#[unsafe(no_mangle)]
extern "C" fn pow(base: f64, exponent: f64) -> f64 {
    libm::pow(base, exponent)
}

/// For very long numbers in a JSON schema.
#[unsafe(no_mangle)]
extern "C" fn log2(number: f64) -> f64 {
    libm::log2(number)
}
