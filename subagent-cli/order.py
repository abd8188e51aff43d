#!/usr/bin/env python3
"""Writes order.ld: which functions of `subagent` stand beside each other.

A command of a millisecond calls some hundred functions of many thousand, and the kernel maps 64 KiB around each that is
called first. What ordinary commands call is found out with valgrind, in a release build with its symbols; what all of them
call comes first, what only one calls last.

    subagent-cli/order.py        about ten minutes; wants valgrind and nm

Run it again when a release starts more slowly than the one before; a name that is not found any more costs nothing.
"""

import collections
import json
import os
import pathlib
import re
import subprocess
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
BUILD = HERE.parent / "target" / "order"
COMMANDS = ["worker list", "worker show {worker}", "send --worker-id {worker} --text hi", "worker start --launcher demo",
            "watch --worker-id {worker}"]
CONFIG = 'launchers: {demo: {command: %s, args: ["demo-agent"]}}\n'
# A name may stand for several functions. One of which little is called is left where it is.
MOST_TIMES, FEW_BYTES = 4, 4096
# What follows after so much of a name says little more.
MOST_CHARS = 400

HEAD = """/* Made by order.py, which says what it is for. Names stand without what changes from build to build. */
SECTIONS {
  .text.hot : {
"""
TAIL = """  }
}
INSERT BEFORE .text;
"""


def pattern(name):
    """The name of a function without hashes of compiler and crate; None for one that is not Rust."""
    if not name.startswith("_R"):
        return None
    name = re.sub(r"Cs[0-9A-Za-z]+_", "Cs*_", re.sub(r"\.llvm\.\d+$", "", name))
    return name[:MOST_CHARS].rstrip("*") + "*"


def called(program, folder):
    """The mangled names of what the commands call, each with the numbers of these commands."""
    (folder / "ws" / ".subagent").mkdir(parents=True)
    (folder / "run").mkdir(mode=0o700)
    (folder / "ws" / ".subagent" / "config.yaml").write_text(CONFIG % json.dumps(str(program)))
    env = {name: value for name, value in os.environ.items() if not name.startswith("SUBAGENT_")}
    env |= {"HOME": str(folder), "SUBAGENT_STATE_DIR": str(folder / "state"), "XDG_RUNTIME_DIR": str(folder / "run")}

    def run(*command):
        done = subprocess.run(command, env=env, cwd=folder / "ws", stdout=subprocess.PIPE, check=True, timeout=300)
        return json.loads(done.stdout)["data"]

    names = collections.defaultdict(set)
    try:
        run(program, "controller", "init", "--json")
        worker = run(program, "worker", "start", "--launcher", "demo", "--json")["workerId"]
        for number, command in enumerate(COMMANDS):
            out = folder / f"calls.{number}"
            subprocess.run(["valgrind", "--quiet", "--tool=callgrind", "--demangle=no", f"--callgrind-out-file={out}",
                            program, *command.format(worker=worker).split(), "--json"],
                           env=env, cwd=folder / "ws", stdout=subprocess.DEVNULL, check=True, timeout=300)
            for line in out.read_text().splitlines():
                if found := re.match(r"c?fn=\(\d+\) ([^ ']+)", line):
                    names[found[1]].add(number)
    finally:
        subprocess.run([program.with_name("subagentd"), "stop", "--workers", "--json"], env=env, cwd=folder / "ws",
                       stdout=subprocess.DEVNULL, check=True, timeout=60)
    return names


def main():
    build = ["cargo", "build", "--release", "--locked", "--package", "subagent-cli", "--target-dir", str(BUILD)]
    # Flags of the caller would take the place of those in .cargo/config.toml, and with them the names would go.
    env = {name: value for name, value in os.environ.items() if not name.endswith("RUSTFLAGS")}
    subprocess.run(build, cwd=HERE, check=True, env=env | {"CARGO_PROFILE_RELEASE_STRIP": "none"})
    program = BUILD / "release" / "subagent"
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        names = called(program, pathlib.Path(folder))
    whole, used, commands = collections.Counter(), collections.Counter(), collections.defaultdict(set)
    for line in subprocess.run(["nm", "--print-size", program], stdout=subprocess.PIPE, check=True).stdout.split(b"\n"):
        fields = line.decode().split()
        if len(fields) == 4 and fields[2] in "tT" and (name := pattern(fields[3])):
            size = int(fields[1], 16)
            whole[name] += size
            used[name] += size if fields[3] in names else 0
            commands[name] |= names.get(fields[3], set())
    few = [name for name in used if used[name] and whole[name] <= max(MOST_TIMES * used[name], FEW_BYTES)]
    few.sort(key=lambda name: (-len(commands[name]), sorted(commands[name]), name))
    lines = "".join(f"    *(.text.*{name})\n" for name in few)
    (HERE / "order.ld").write_text(HEAD + lines + TAIL)
    print(f"{len(few)} names, {sum(used[name] for name in few)} of {sum(whole[name] for name in few)} bytes called")


main()
