//! The entry of every target: libFuzzer's, or a `main` that reads one input.

/// Makes a program of a function of bytes.
macro_rules! target {
    ($read:expr) => {
        #[cfg(feature = "libfuzzer")]
        libfuzzer_sys::fuzz_target!(|data: &[u8]| $read(data));

        #[cfg(not(feature = "libfuzzer"))]
        fn main() -> std::io::Result<()> {
            let mut data = Vec::new();
            std::io::Read::read_to_end(&mut std::io::stdin(), &mut data)?;
            $read(&data);
            Ok(())
        }
    };
}
