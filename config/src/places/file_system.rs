//! Detects file systems that cannot hold a state dir. Only this file of the crate is specific to Linux.

use std::path::Path;

/// Returns the name of the file system of an existing path if it is unsuitable: network and pass-through
/// file systems have unreliable locks and cannot share memory (SQLite's WAL index). A path that cannot be
/// examined counts as usable: the database and the locks report their own errors.
#[cfg(target_os = "linux")]
pub(crate) fn unsupported(path: &Path) -> Option<&'static str> {
    let kind = nix::sys::statfs::statfs(path).ok()?.filesystem_type();
    // Type and sign differ by platform; the number always has 32 bits.
    let magic = u32::try_from(i128::from(kind.0) & 0xffff_ffff).ok()?;
    unsupported_name(magic)
}

/// Other systems have no such numbers. Nothing is refused there.
#[cfg(not(target_os = "linux"))]
pub(crate) fn unsupported(_path: &Path) -> Option<&'static str> {
    None
}

/// Numbers are from `statfs(2)` and the file systems' headers. All others pass: local disks, tmpfs,
/// overlayfs, eCryptfs.
#[cfg(target_os = "linux")]
fn unsupported_name(magic: u32) -> Option<&'static str> {
    Some(match magic {
        0x0000_6969 => "nfs",
        0x0000_517b | 0xff53_4d42 | 0xfe53_4d42 => "cifs/smb",
        0x0000_564c => "ncpfs",
        0x0102_1997 => "9p",
        // virtiofs reports the number of FUSE.
        0x6573_5546 => "fuse",
        0x00c3_6400 => "ceph",
        0x5346_414f | 0x6b41_4653 => "afs",
        0x7375_7245 => "coda",
        0x0116_1970 => "gfs2",
        0x7461_636f => "ocfs2",
        0x0bd0_0bd0 => "lustre",
        0x1983_0326 => "beegfs",
        0x4750_4653 => "gpfs",
        0x786f_4256 => "vboxsf",
        0xbacb_acbc => "vmhgfs",
        0x7c7c_6673 => "prl_fs",
        0x00c0_ffee => "hostfs",
        _ => return None,
    })
}

#[cfg(target_os = "linux")]
#[cfg(test)]
mod tests {
    use super::*;
    use nix::sys::statfs::{
        AFS_SUPER_MAGIC, BTRFS_SUPER_MAGIC, CODA_SUPER_MAGIC, ECRYPTFS_SUPER_MAGIC, EXT4_SUPER_MAGIC,
        FUSE_SUPER_MAGIC, FsType, HOSTFS_SUPER_MAGIC, NCP_SUPER_MAGIC, NFS_SUPER_MAGIC, OCFS2_SUPER_MAGIC,
        OVERLAYFS_SUPER_MAGIC, SMB_SUPER_MAGIC, TMPFS_MAGIC, XFS_SUPER_MAGIC,
    };

    fn name(kind: FsType) -> Option<&'static str> {
        unsupported_name(u32::try_from(i128::from(kind.0) & 0xffff_ffff).unwrap())
    }

    #[test]
    fn the_numbers_are_those_of_the_systems_headers() {
        for (kind, expected) in [
            (NFS_SUPER_MAGIC, "nfs"),
            (SMB_SUPER_MAGIC, "cifs/smb"),
            (NCP_SUPER_MAGIC, "ncpfs"),
            (FUSE_SUPER_MAGIC, "fuse"),
            (AFS_SUPER_MAGIC, "afs"),
            (CODA_SUPER_MAGIC, "coda"),
            (OCFS2_SUPER_MAGIC, "ocfs2"),
            (HOSTFS_SUPER_MAGIC, "hostfs"),
        ] {
            assert_eq!(name(kind), Some(expected));
        }
        assert_eq!(unsupported_name(0xff53_4d42), Some("cifs/smb"));
        assert_eq!(unsupported_name(0x0102_1997), Some("9p"));
    }

    #[test]
    fn local_file_systems_pass() {
        for kind in [
            EXT4_SUPER_MAGIC,
            XFS_SUPER_MAGIC,
            BTRFS_SUPER_MAGIC,
            TMPFS_MAGIC,
            OVERLAYFS_SUPER_MAGIC,
            ECRYPTFS_SUPER_MAGIC,
        ] {
            assert_eq!(name(kind), None);
        }
        assert_eq!(unsupported(Path::new("/proc")), None);
        assert_eq!(unsupported(Path::new("/nowhere at all")), None);
    }
}
