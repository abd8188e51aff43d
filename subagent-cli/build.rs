//! Links the executables: see `link.rs`.

mod link;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=link.rs");
    link::print_arguments(["subagent", "subagent-runtime"]);
}
