"""Checks files of `namewire lab render` against the schemas of the Compose specification and of Kubernetes.

usage: manifests.py COMPOSE_FILE KUSTOMIZATION_DIRECTORY
"""

import pathlib
import sys

import kubernetes_validate
import yaml
from compose_spec import PyCompose

compose = pathlib.Path(sys.argv[1])
specification = PyCompose.from_yaml(compose.read_text()).to_dict()
services = yaml.safe_load(compose.read_text())["services"]
assert specification["services"].keys() == services.keys()
for name, service in services.items():
    for other in service.get("depends_on", {}):
        assert other in services, f"{name} depends on {other}"

directory = pathlib.Path(sys.argv[2])
kustomization = yaml.safe_load((directory / "kustomization.yaml").read_text())
kinds = []
for resource in kustomization["resources"]:
    manifest = yaml.safe_load((directory / resource).read_text())
    kubernetes_validate.validate(manifest, "1.33", strict=True)
    kinds.append(manifest["kind"])
for generator in kustomization["configMapGenerator"]:
    for file in generator["files"]:
        assert (directory / file.split("=")[1]).is_file(), file
print(len(services), " ".join(sorted(kinds)))
