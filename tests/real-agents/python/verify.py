"""Says whether a virtual environment is whole, as its own Python sees it. Changes nothing, imports no package.

    verify.py AGENT...

Every file must be as the RECORD of its package has it, so no package has written over another one's file. At least one
command of each agent's own package must have its module. Prints a line for each fault, and exits 1 if there is one.
"""

import base64
import hashlib
import importlib.metadata
import sys


def faults_of_files(package):
    """What differs from the package's list of files."""
    if not package.files:
        yield "it has no list of files"
        return
    for file in package.files:
        path = file.locate()
        if not path.is_file():
            yield f"{file} is missing"
        elif file.hash:
            digest = hashlib.new(file.hash.mode, path.read_bytes()).digest()
            if base64.urlsafe_b64encode(digest).rstrip(b"=").decode() != file.hash.value:
                yield f"{file} has other contents"


def faults_of_commands(package):
    """Commands without a module, if none has one: a package may name a command that it no longer has."""
    missing = []
    commands = package.entry_points.select(group="console_scripts")
    for command in commands:
        module = package.locate_file(command.module.replace(".", "/"))
        files = [module.with_suffix(".py"), module / "__init__.py", *module.parent.glob(f"{module.name}.*.so")]
        if not any(file.is_file() for file in files):
            missing.append(f"the command {command.name} has no module {command.module}")
    return missing if len(missing) == len(commands) else []


def main():
    faults = []
    for package in importlib.metadata.distributions():
        name = package.metadata["Name"]
        found = list(faults_of_files(package))
        if name in sys.argv[1:]:
            found += faults_of_commands(package)
        faults += [f"{name} {package.version}: {fault}" for fault in found]
    for fault in faults:
        print(fault)
    sys.exit(1 if faults else 0)


main()
