//! The reference, Python `subagent-cli`, in its own workspace beside ours, with the same agent.

// Installed as follows in the checkout, or in a folder named by `SUBAGENT_REFERENCE`:
//
// ```sh
// python3 -m venv target/reference
// target/reference/bin/pip install subagent-cli==0.1.7 typer==0.24.1 click==8.3.1
// ```

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use serde_json::Value;
use subagent_tests::harness::process::Process;

use crate::world::{BenchWorld, executable, timed};

/// The measured versions; others would not be comparable.
const VERSIONS: [(&str, &str); 3] = [("subagent-cli", "0.1.7"), ("typer", "0.24.1"), ("click", "8.3.1")];

pub(crate) struct Reference {
    program: PathBuf,
    /// Description of the versions, for display.
    pub(crate) versions: String,
}

impl Reference {
    /// Finds the reference; the error says why it is not measured.
    pub(crate) fn find() -> Result<Self, String> {
        let folder = match env::var_os("SUBAGENT_REFERENCE").filter(|folder| !folder.is_empty()) {
            Some(folder) => PathBuf::from(folder),
            None => Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/reference"),
        };
        let program = folder.join("bin/subagent");
        if !program.is_file() {
            return Err("it is not installed".to_owned());
        }
        let script = "import sys, importlib.metadata as m; print(sys.version.split()[0], *map(m.version, sys.argv[1:]))";
        let names = VERSIONS.map(|(name, _)| name);
        let output = Command::new(folder.join("bin/python3")).args(["-c", script]).args(names).output();
        let output = output.map_err(|error| format!("its Python cannot be run: {error}"))?;
        let found = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        let (python, found) = found.split_once(' ').unwrap_or(("", ""));
        let wanted = VERSIONS.map(|(_, version)| version).join(" ");
        if found != wanted {
            return Err(format!("{} have the versions {found}, not {wanted}", names.join(", ")));
        }
        let versions = VERSIONS.map(|(name, version)| format!("{name} {version}")).join(", ");
        Ok(Self { program, versions: format!("{versions}, Python {python}") })
    }

    /// Creates a workspace of its own in a row's sandbox, with a controller.
    pub(crate) fn in_world<'a>(&'a self, world: &'a BenchWorld) -> ReferenceWorkspace<'a> {
        let folder = world.sandbox.file("reference");
        fs::create_dir_all(folder.join(".subagent")).unwrap();
        let agent = executable("fast-agent");
        let launcher = format!("    backend:\n      kind: acp-stdio\n    command: {}\n", agent.display());
        let config = format!("launchers:\n  fast:\n{launcher}defaults:\n  launcher: fast\n");
        fs::write(folder.join(".subagent/config.yaml"), config).unwrap();
        let place = ReferenceWorkspace { reference: self, world, folder };
        place.timed(&["controller", "init"]);
        place
    }
}

/// The reference's workspace in a sandbox.
pub(crate) struct ReferenceWorkspace<'a> {
    reference: &'a Reference,
    world: &'a BenchWorld,
    folder: PathBuf,
}

impl ReferenceWorkspace<'_> {
    /// Runs one of its commands. Returns the duration of the whole process in ms, and its data.
    pub(crate) fn timed(&self, args: &[&str]) -> (f64, Value) {
        let program = self.reference.program.to_str().unwrap();
        let command = self.world.sandbox.command(program).args(args).args(["--json"]).cwd(&self.folder);
        timed(&mut command.process())
    }

    /// Starts a worker. Returns the duration and the worker.
    pub(crate) fn start(&self) -> (f64, ReferenceWorker) {
        let (took, data) = self.timed(&["worker", "start"]);
        let id = data["workerId"].as_str().unwrap().to_owned();
        let pid = data["runtimePid"].as_i64().and_then(|pid| i32::try_from(pid).ok());
        let runtime = pid.and_then(Process::find).expect("a live runtime of the reference");
        let socket = data["runtimeSocket"].as_str().map(PathBuf::from);
        (took, ReferenceWorker { id, runtime, socket })
    }

    /// Sends a prompt. Returns the time until the end of the turn was known, in ms.
    pub(crate) fn send(&self, worker: &ReferenceWorker, prompt: &str) -> f64 {
        let args = ["send", "--worker-id", &worker.id, "--text", prompt, "--wait-timeout-seconds", "900"];
        let (took, data) = self.timed(&args);
        assert_eq!(data["matchedEvent"]["type"], "turn.completed", "{data}");
        took
    }

    /// Stops a worker. Kills its runtime and agent if they outlive that.
    pub(crate) fn stop(&self, worker: &ReferenceWorker) {
        let below = worker.runtime.children();
        self.timed(&["worker", "stop", &worker.id]);
        for process in [&worker.runtime].into_iter().chain(&below) {
            self.world.sandbox.kill(process);
        }
    }
}

/// A worker of the reference.
pub(crate) struct ReferenceWorker {
    id: String,
    runtime: Process,
    /// Its socket, always outside the sandbox.
    socket: Option<PathBuf>,
}

impl Drop for ReferenceWorker {
    fn drop(&mut self) {
        // It is gone already unless its runtime was killed.
        let _ = self.socket.as_ref().map(fs::remove_file);
    }
}
