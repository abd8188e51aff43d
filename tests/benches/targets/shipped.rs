//! Builds the executables as users install them: in the profile of
//! the benchmark, without failpoints.

use std::env;
use std::ffi::OsString;
use std::path::Path;
use std::process::Command;

use subagent_tests::harness::use_executables_of;

/// Builds them beside this benchmark and selects them in the harness.
pub(crate) fn build() {
    let own = env::current_exe().expect("the path of the benchmark");
    // The path is `TARGET/PROFILE/deps/BENCH`.
    let built = own.ancestors().nth(2).expect("a folder of cargo");
    let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo")));
    cargo
        .args(["build", "--release", "--quiet", "--package", "subagent-cli", "--package", "subagent-tests"])
        .args(["--bins", "--package", "subagent-fault-fs", "--lib", "--target-dir"])
        .arg(built.parent().expect("a folder of cargo"))
        .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the workspace"));
    // Cargo's variables about this package must not select another build: build scripts run again
    // when one of these changes.
    for (name, _) in env::vars_os() {
        let text = name.to_string_lossy();
        let is_own = |prefix: &&str| text.starts_with(prefix);
        if ["CARGO_PKG_", "CARGO_BIN_", "CARGO_MANIFEST_", "OUT_DIR"].iter().any(is_own) {
            cargo.env_remove(&name);
        }
    }
    assert!(cargo.status().expect("cargo").success(), "the executables cannot be built");
    assert!(use_executables_of(built), "the executables were selected before");
}
