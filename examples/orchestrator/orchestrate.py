#!/usr/bin/env python3
"""Three workers at once: questions are answered, results are printed, the exit code says how it went.

Usage: orchestrate.py AGENT FILE...    (one worker for each file with a prompt)
"""
import json
import pathlib
import subprocess
import sys


def subagent(*args):
    """Runs a command; gives its exit code and the data or the error of its document."""
    done = subprocess.run(["subagent", *args, "--json"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
    document = json.loads(done.stdout)
    return done.returncode, document["data"] if document["ok"] else document["error"]


ALLOWED = ("read", "search", "edit")
agent, *files = sys.argv[1:]
names = []
for file in files:
    code, data = subagent("run", "-d", agent, "--name", pathlib.Path(file).stem, pathlib.Path(file).read_text())
    if code != 0:
        sys.exit(f"{file}: {data['message']}")
    names.append(data["name"])

while (waited := subagent("wait", *names, "--timeout", "1h"))[0] == 15:
    for question in subagent("approval", "list")[1]["items"]:
        if question["kind"] == "elicitation":
            subagent("answer", question["requestId"], "--decline")
        else:
            decision = "allow" if question["toolKind"] in ALLOWED else "reject"
            subagent("approve", question["requestId"], "--decision", decision)

for name in names:
    code, result = subagent("result", name)
    print(f"## {name}: {result.get('outcome', result.get('code'))}\n\n{result.get('message') or ''}\n")
subagent("stop", *names)
sys.exit(waited[0])
