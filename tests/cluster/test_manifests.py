"""The manifests of the documentation: valid for Ray's launcher, and of the structure that KubeRay expects."""

import json
import re
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from sightunseen.cli import build_parser

yaml = pytest.importorskip("yaml", reason="PyYAML comes with Ray: pip install 'sightunseen[ray]'")
DOCS = Path(__file__).parents[2] / "docs"
IMAGE = "REGISTRY/sightunseen:VERSION"
needs_ray = pytest.mark.skipif(find_spec("ray") is None, reason="Ray is not installed: pip install 'sightunseen[ray]'")


@needs_ray
def test_launcher_accepts_the_cluster() -> None:
    jsonschema = pytest.importorskip("jsonschema")
    found = find_spec("ray")
    assert found is not None
    assert found.origin is not None
    schema = json.loads((Path(found.origin).parent / "autoscaler" / "ray-schema.json").read_text("utf-8"))
    cluster = yaml.safe_load((DOCS / "cluster" / "cluster.yaml").read_text("utf-8"))
    jsonschema.validate(cluster, schema)
    assert cluster["head_node_type"] in cluster["available_node_types"]
    assert cluster["docker"]["image"] == IMAGE


def kubernetes() -> dict[str, Any]:
    documents = yaml.safe_load_all((DOCS / "cluster" / "kuberay.yaml").read_text("utf-8"))
    return {document["kind"]: document for document in documents}


def test_kubernetes_manifest_is_consistent() -> None:
    found = kubernetes()
    assert list(found) == ["PersistentVolumeClaim", "RayCluster", "RayJob"]
    cluster, job = found["RayCluster"], found["RayJob"]
    assert {cluster["apiVersion"], job["apiVersion"]} == {"ray.io/v1"}
    assert job["spec"]["clusterSelector"] == {"ray.io/cluster": cluster["metadata"]["name"]}
    groups = [cluster["spec"]["headGroupSpec"], *cluster["spec"]["workerGroupSpecs"]]
    for pod in (group["template"]["spec"] for group in groups):
        (container,) = pod["containers"]
        assert container["image"] == IMAGE
        assert container["volumeMounts"] == [{"name": "data", "mountPath": "/data"}]
        (volume,) = pod["volumes"]
        assert volume["persistentVolumeClaim"]["claimName"] == found["PersistentVolumeClaim"]["metadata"]["name"]


@needs_ray
def test_kubernetes_manifest_has_the_version_of_ray_that_is_tested() -> None:
    assert kubernetes()["RayCluster"]["spec"]["rayVersion"] == version("ray")


def test_documented_commands_parse() -> None:
    """Those of ``embed``, ``predict`` and ``benchmark``, and that of the job."""
    text = (DOCS / "cluster.md").read_text("utf-8")
    lines = re.findall(r"sightunseen ((?:embed|predict|benchmark) [^`'\n]*--cluster \S+?)[`'\n]", text)
    lines.append(kubernetes()["RayJob"]["spec"]["entrypoint"].removeprefix("sightunseen "))
    assert len(lines) >= 5
    for line in lines:
        assert build_parser().parse_args(line.split()).cluster
