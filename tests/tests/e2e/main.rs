//! The product through its executables, as users see it: one module per subject.
//!
//! Suites that need their own process are beside this one: `faults`, `real_agents`, `counts`.

#![allow(clippy::unwrap_used, clippy::panic, reason = "all of this folder is a test")]

mod agent_change;
mod agents;
mod approvals;
mod asked_in_place;
mod backup;
mod bad_input;
mod board;
mod budgets;
mod bytes;
mod ci;
mod circles;
mod client_methods;
mod client_rules;
mod completions;
mod config_layers;
mod contract;
mod copies;
mod copies_of_folders;
mod daemon;
mod daemon_comes_back;
mod demo;
mod demo_agent;
mod detached;
mod docs;
mod events;
mod examples;
mod failpoints;
mod fault_fs;
mod few_descriptors;
mod first_run;
mod fleet;
mod floods;
mod full_disk;
mod human_output;
mod inbox;
mod invariants;
mod job;
mod language;
mod local_commands;
mod look;
mod manager_died;
mod many;
mod many_workers;
mod mcp;
mod memory;
mod names;
mod notify;
mod openapi;
mod other_shell;
mod other_user;
mod panel;
mod parking;
mod pipes;
mod placements;
mod policy;
mod queue;
mod quirks;
mod recording;
mod reference;
mod removal;
mod restart;
mod restore;
mod results;
mod revival;
mod run;
mod sandbox;
mod schedules;
mod sdk_agent;
mod server_sent_events;
mod snapshot;
mod state_dir;
mod state_dir_damage;
mod story;
mod summary;
mod systemd;
mod tidy;
mod titles;
mod trees;
mod triggers;
mod usage;
mod views;
mod worktrees;
mod worktrees_full;
mod worktrees_killed;

mod doctor {
    //! `subagent doctor`: its findings, and what `--fix` repairs.
    mod broken;
    mod checks;
    mod fix;
    mod outside;
    mod room;
}

mod podman {
    //! Workers in containers of a real podman.
    mod bad;
    mod delegation;
    pub(super) mod engine;
    mod turns;
}

mod kubernetes {
    //! Workers in pods, with a real `kubectl` and a fake API server.
    mod api;
    mod bad;
    pub(super) mod cluster;
    mod exec;
    mod given_up;
    mod pods;
    mod proof;
    mod queue;
    mod schema;
    mod turns;
}

mod command_placements {
    //! Workers in places behind commands of the user.
    mod bad;
    mod engine;
    mod queue;
    mod turns;
}

mod slurm {
    //! Workers in jobs of a real Slurm cluster.
    mod bad;
    pub(super) mod cluster;
    mod forgotten;
    mod left;
    mod moved;
    mod queue;
    mod turns;
}

mod ssh {
    //! Workers on another machine, reached by a real ssh client and server.
    mod bad;
    mod delegation;
    mod lease;
    mod machine;
    pub(super) mod moved;
    mod network;
    mod prepare;
    mod turns;
    mod worktrees;
}

mod hosts {
    //! Daemons of other hosts, reached by a real ssh client and server.
    mod all_hosts;
    mod bad;
    mod board;
    mod commands;
    mod far_client;
    mod list;
    mod moved;
    mod passed;

    pub(crate) use far_client::host;
}

mod hooks {
    //! Hooks: their sources, their trust, and their permitted output.
    mod after;
    mod before;
    mod config;
    mod inputs;
    mod list;
    mod prompts;
    mod trust;

    use std::fs;
    use std::path::PathBuf;

    use serde_json::{Value, json};
    use subagent_tests::harness::TestSandbox;

    /// Writes the user's own config file.
    fn own_config(sandbox: &TestSandbox, text: &str) {
        let folder = sandbox.file("home/.config/subagent");
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("config.yaml"), text).unwrap();
    }

    /// Sets the hooks of the project's config file.
    fn project_hooks(sandbox: &TestSandbox, hooks: &Value) {
        let file = sandbox.config_file();
        let text = fs::read_to_string(&file).unwrap();
        let launchers = text.split("hooks: ").next().unwrap();
        // A line of JSON is valid YAML.
        fs::write(&file, format!("{launchers}hooks: {hooks}\n")).unwrap();
    }

    /// Asserts that the documented schema describes the input of a hook.
    #[track_caller]
    fn fits_the_schema(input: &Value) {
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/hooks.schema.json");
        let schema: Value = serde_json::from_str(&fs::read_to_string(file).unwrap()).unwrap();
        if let Err(error) = jsonschema::validate(&schema, input) {
            panic!("{error}: {input}");
        }
    }

    /// Returns the hook group of one command.
    fn command(line: &str) -> Value {
        json!([{"hooks": [{"type": "command", "command": line}]}])
    }

    /// Writes a definition of the project with these keys.
    fn define(sandbox: &TestSandbox, name: &str, keys: &str) -> PathBuf {
        let folder = sandbox.workspace().join(".agents/agents");
        fs::create_dir_all(&folder).unwrap();
        let file = folder.join(format!("{name}.md"));
        fs::write(&file, format!("---\ndescription: d\nlauncher: demo\n{keys}---\nDo it.\n")).unwrap();
        file
    }
}

mod skew {
    //! Executables and state of other versions.
    mod peers;
    mod versions;
}

mod tasks {
    //! Tasks and delegation to agents.
    mod asked_below;
    mod basics;
    mod budgets;
    mod causes;
    mod delegation_start;
    mod events;
    mod failures;
    mod limits;
    mod questions;
    mod repeated;
    mod results;
    mod rules;
}
