//! The file mode creation mask of this process, which an agent inherits from the command that
//! starts it.

use std::sync::{Mutex, PoisonError};

use nix::sys::stat::{Mode, umask};

/// Two threads that read it at once would take each other's value for that of the process.
static READING: Mutex<()> = Mutex::new(());

/// Returns the file mode creation mask.
///
/// POSIX has no call that only reads it, so it is set and set back. A file that another thread
/// makes in between is private to its owner.
pub(crate) fn current_umask() -> Mode {
    let _reading = READING.lock().unwrap_or_else(PoisonError::into_inner);
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
