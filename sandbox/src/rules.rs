//! Landlock: the rules of a sandbox, and the kernel's version of Landlock. Rules allow, and nothing
//! revokes what a rule on a parent folder allows. Hidden paths are therefore omitted by allowing
//! what surrounds them. Landlock does not protect file names and the results of `stat`.

use std::io;
use std::path::{Path, PathBuf};

use landlock::{
    ABI, Access as _, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible as _, PathBeneath, Ruleset,
    RulesetAttr as _, RulesetCreated, RulesetCreatedAttr as _, RulesetError, Scope,
};
use rustix::fs::FileType;
use subagent_protocol::sandbox::{Network, Sandbox};

use super::files::{self, HeldPath};

/// The versions whose rights are used, the newest first.
const VERSIONS: [(u32, ABI); 6] =
    [(6, ABI::V6), (5, ABI::V5), (4, ABI::V4), (3, ABI::V3), (2, ABI::V2), (1, ABI::V1)];
/// Devices that programs need and that hold no data.
const DEVICES: [&str; 6] = ["null", "zero", "full", "random", "urandom", "tty"];

fn ruleset(abi: ABI, tcp: bool) -> Result<Ruleset, RulesetError> {
    let mut ruleset = Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(AccessFs::from_all(abi))?;
    if tcp && abi >= ABI::V4 {
        ruleset = ruleset.handle_access(AccessNet::from_all(abi))?;
    }
    if abi >= ABI::V6 { ruleset.scope(Scope::from_all(abi)) } else { Ok(ruleset) }
}

/// Returns the newest of these versions that this kernel has.
pub(crate) fn version() -> Option<u32> {
    let known = |(_, abi): &&(u32, ABI)| ruleset(*abi, true).and_then(Ruleset::create).is_ok();
    VERSIONS.iter().find(known).map(|(version, _)| *version)
}

/// Confines this process, which has one thread, and all its later descendants. `needed` are files
/// without which the command cannot start.
///
/// # Errors
///
/// The system's error, or an error if the kernel has less than the sandbox was planned with.
pub(crate) fn apply(sandbox: &Sandbox, version: u32, needed: &[PathBuf]) -> io::Result<()> {
    let known = VERSIONS.iter().find(|(number, _)| *number == version);
    let abi = known.map(|(_, abi)| *abi).ok_or_else(|| io::Error::other("unknown version of Landlock"))?;
    let created = ruleset(abi, sandbox.spec.network == Network::None).and_then(Ruleset::create);
    let mut rules = LandlockRules { created: Some(created.map_err(io::Error::other)?), abi };
    rules.of_files(sandbox, needed)?;
    let created = rules.created.take().ok_or_else(|| io::Error::other("no rules"))?;
    created.restrict_self().map_err(io::Error::other)?;
    Ok(())
}

struct LandlockRules {
    /// `None` while a rule is added.
    created: Option<RulesetCreated>,
    abi: ABI,
}

impl LandlockRules {
    fn of_files(&mut self, sandbox: &Sandbox, needed: &[PathBuf]) -> io::Result<()> {
        let spec = &sandbox.spec;
        let (read, all) = (AccessFs::from_read(self.abi), AccessFs::from_all(self.abi));
        let everything = [PathBuf::from("/")];
        let listed = spec.read.as_ref().map(|read| [&read[..], needed, &["/proc".into()]].concat());
        let readable = listed.as_deref().unwrap_or(&everything);
        if sandbox.layers.bubblewrap.is_some() {
            // Hidden files do not exist, and `/dev` is the agent's own. Files created later beside
            // it can be read.
            self.allow(Path::new("/dev"), all)?;
            for path in readable {
                self.allow(path, read)?;
            }
        } else {
            // `/dev` contains the disks, and the terminals of others.
            let hidden = [&spec.hide[..], &["/dev".into()]].concat();
            for device in DEVICES {
                self.allow(&Path::new("/dev").join(device), all)?;
            }
            if spec.read.is_none() {
                // Names may be listed everywhere: `stat` reveals them anyway.
                self.allow(Path::new("/"), AccessFs::ReadDir.into())?;
            }
            for path in readable {
                files::around(path, &hidden, &mut |_, held| self.add(held, read))?;
            }
        }
        for path in &spec.write {
            self.allow(path, all)?;
        }
        Ok(())
    }

    fn allow(&mut self, path: &Path, access: BitFlags<AccessFs>) -> io::Result<()> {
        match files::open(path)? {
            Some(held) => self.add(held, access),
            None => Ok(()),
        }
    }

    fn add(&mut self, held: HeldPath, access: BitFlags<AccessFs>) -> io::Result<()> {
        let access =
            if held.kind == FileType::Directory { access } else { access & AccessFs::from_file(self.abi) };
        let created = self.created.take().ok_or_else(|| io::Error::other("no rules"))?;
        if access.is_empty() {
            self.created = Some(created);
            return Ok(());
        }
        let added = created.add_rule(PathBeneath::new(held.fd, access));
        self.created = Some(added.map_err(io::Error::other)?);
        Ok(())
    }
}
