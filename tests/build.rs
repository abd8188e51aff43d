//! Links the executables under test in the same way as the shipped ones.

#[path = "../subagent-cli/link.rs"]
mod link;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=../subagent-cli/link.rs");
    link::print_arguments(["tested-subagent", "tested-subagent-runtime"]);
}
