//! The file mode creation mask of this process, which an agent inherits from the command that
//! starts it.

use nix::sys::stat::{Mode, umask};

/// Returns the file mode creation mask.
///
/// POSIX has no call that only reads it, so it is set and set back. A file that another thread
/// makes in between is private to its owner.
pub(crate) fn current_umask() -> Mode {
    let mask = umask(Mode::from_bits_truncate(0o077));
    umask(mask);
    mask
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mask_is_read_and_stays() {
        let mask = current_umask();
        assert_eq!(current_umask(), mask);
    }
}
