//! Code that the two programs that start most often contain, so that no start loads a library for
//! it: the unwinder, and two functions of `libm`. Figures: `docs/performance-counts.md`. Must not
//! contain code that this workspace calls.
#![allow(unsafe_code, reason = "the linker takes these symbols; no code of ours calls them")]

#[cfg(static_unwinder)]
#[link(name = "gcc_eh", kind = "static", modifiers = "-bundle")]
unsafe extern "C" {}

/// For tokio's statistics of worker threads, which these programs do not have.
#[unsafe(no_mangle)]
extern "C" fn pow(base: f64, exponent: f64) -> f64 {
    libm::pow(base, exponent)
}

/// For very long numbers in a JSON schema.
#[unsafe(no_mangle)]
extern "C" fn log2(number: f64) -> f64 {
    libm::log2(number)
}
