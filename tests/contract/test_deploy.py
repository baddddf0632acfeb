"""deploy/: containers, pods and services have the same rights, versions, ports and names.

tests/conformance runs Kubernetes' own code, Helm, Kustomize and Compose; these tests run without Go.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from dashboards.__main__ import BOARDS, file_of
from docs.generate import CHART, ROOT
from exporter import __version__
from exporter.commands import serve
from exporter.config import SETTINGS
from exporter.history import file_guard
from exporter.host.privileges import NEEDS, PLACING
from tests.image.__main__ import BASE, CAPABILITIES, HISTORY_GROUP
from tests.support.patience import PATIENCE_SECONDS

DEPLOY = ROOT / "deploy"
KUSTOMIZE = DEPLOY / "kustomize"
PORT = 10478
NEEDED = {need.capability.name for need in NEEDS}
NVIDIA = {"NVIDIA_VISIBLE_DEVICES": "all", "NVIDIA_DRIVER_CAPABILITIES": "utility"}
"""What NVIDIA's runtime reads."""
DOCKERFILE = (DEPLOY / "docker" / "Dockerfile").read_text(encoding="utf-8")
COMPOSE = yaml.safe_load((DEPLOY / "compose" / "compose.yaml").read_text(encoding="utf-8"))
DAEMON_SET = yaml.safe_load((KUSTOMIZE / "base" / "daemon-set.yaml").read_text(encoding="utf-8"))
SERVE = yaml.safe_load((KUSTOMIZE / "components" / "serve" / "daemon-set.yaml").read_text(encoding="utf-8"))
SIDECAR = yaml.safe_load((KUSTOMIZE / "overlays" / "sidecar" / "sidecar.yaml").read_text(encoding="utf-8"))
TEMPLATE = (ROOT / CHART / "templates" / "daemon-set.yaml").read_text(encoding="utf-8")
VALUES = yaml.safe_load((ROOT / CHART / "values.yaml").read_text(encoding="utf-8"))
SHIPPED = sorted(
    path
    for path in DEPLOY.rglob("*")
    if path.is_file() and path.suffix not in (".pyc", ".json", ".conf") and "files" not in path.parts
)

NODE_CONTAINER = DAEMON_SET["spec"]["template"]["spec"]["containers"][0]
SERVE_CONTAINER = SERVE["spec"]["template"]["spec"]["containers"][0]
SIDECAR_CONTAINER = SIDECAR["spec"]["template"]["spec"]["initContainers"][0]
EVERY_CONTAINER = pytest.mark.parametrize("container", [NODE_CONTAINER, SIDECAR_CONTAINER], ids=["node", "sidecar"])


def checked(*command: str | Path) -> None:
    """By a tool of Prometheus; fails when it complains."""
    if shutil.which(str(command[0])) is None:
        pytest.skip(f"{command[0]} is missing: install the package prometheus")
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


class TestRights:
    """Every file requests the capabilities of exporter/host/privileges.py."""

    @EVERY_CONTAINER
    def test_a_container_has_the_capabilities_that_are_needed_and_no_others(self, container: dict[str, Any]) -> None:
        """All others are dropped; nothing may gain any; nothing is privileged."""
        context = container["securityContext"]

        assert context["capabilities"]["drop"] == ["ALL"]
        assert set(context["capabilities"]["add"]) == NEEDED
        assert (context["privileged"], context["allowPrivilegeEscalation"]) == (False, False)
        assert context["readOnlyRootFilesystem"]

    def test_the_chart_asks_for_the_same(self) -> None:
        """And for one more with a value that is off."""
        (added,) = re.findall(r"add: \[(.*)\]", TEMPLATE)
        always, _, others = added.partition("{{ if .Values.security.singleProbes }}, ")

        assert set(always.split(", ")) == NEEDED
        assert others == f"{PLACING.name}{{{{ end }}}}"
        assert VALUES["security"]["singleProbes"] is False
        assert "privileged: false" in TEMPLATE

    def test_compose_asks_for_the_same(self) -> None:
        """And for no new privileges."""
        exporter = COMPOSE["services"]["exporter"]

        assert set(exporter["cap_add"]) == NEEDED
        assert exporter["cap_drop"] == ["ALL"]
        assert "no-new-privileges:true" in exporter["security_opt"]
        assert "privileged" not in exporter

    def test_the_image_is_tried_with_the_same(self) -> None:
        """By `make image-steps`; and the Dockerfile's example has them."""
        example = re.findall(r"--cap-add=(\w+)", DOCKERFILE)

        assert set(CAPABILITIES) == NEEDED
        assert set(example) == NEEDED

    def test_a_service_account_may_list_and_watch_pods(self) -> None:
        """What exporter/workloads/orchestrators/kubernetes.py does; not read one by name, and nothing else."""
        rules = [
            next(yaml.safe_load_all((KUSTOMIZE / "base" / "rbac.yaml").read_text(encoding="utf-8")))["rules"],
            yaml.safe_load(
                (ROOT / CHART / "templates" / "rbac.yaml")
                .read_text(encoding="utf-8")
                .partition("rules:\n")[2]
                .partition("---")[0]
            ),
        ]

        assert rules == [[{"apiGroups": [""], "resources": ["pods"], "verbs": ["list", "watch"]}]] * 2

    @pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.relative_to(DEPLOY).as_posix())
    def test_nothing_is_ever_privileged(self, path: Path) -> None:
        assert not re.search(r"privileged: *[\"']?true|--privileged", path.read_text(encoding="utf-8"))

    def test_what_old_kernels_take_is_added_by_a_component(self) -> None:
        """To the end of the list of the base."""
        component = yaml.safe_load(
            (KUSTOMIZE / "components/single-probes/kustomization.yaml").read_text(encoding="utf-8")
        )
        (patch,) = component["patches"]
        (change,) = yaml.safe_load(patch["patch"])

        assert change == {
            "op": "add",
            "path": "/spec/template/spec/containers/0/securityContext/capabilities/add/-",
            "value": PLACING.name,
        }


class TestServe:
    """The component `serve`; tests/conformance compares it with the chart."""

    def test_it_has_no_rights(self) -> None:
        """A user other than root, in the group that reads the history, without capabilities and without the node's processes."""
        pod = SERVE["spec"]["template"]["spec"]

        assert SERVE_CONTAINER["securityContext"]["capabilities"] == {"drop": ["ALL"]}
        assert SERVE_CONTAINER["securityContext"]["readOnlyRootFilesystem"]
        assert pod["securityContext"]["runAsNonRoot"]
        assert pod["securityContext"]["supplementalGroups"] == [HISTORY_GROUP]
        assert "hostPID" not in pod
        assert not pod["automountServiceAccountToken"]

    def test_its_group_is_that_of_the_history_in_the_image(self) -> None:
        """And the directory of a new volume belongs to it."""
        assert file_guard.GROUP == "adm"
        assert f"install -d -m 750 -g {file_guard.GROUP} /var/lib/gpu-stall-exporter" in DOCKERFILE

    def test_every_flag_exists(self) -> None:
        """A misspelt one would end the program."""
        parser = argparse.ArgumentParser()
        serve.add_arguments(parser)
        command, *flags = SERVE_CONTAINER["args"]

        assert command == "serve"
        assert parser.parse_args(flags)

    def test_it_has_the_version_of_the_program(self) -> None:
        """As the exporter: they read and write one file."""
        assert SERVE_CONTAINER["image"] == NODE_CONTAINER["image"]


class TestDevices:
    """Access to the driver: NVML and the device nodes, and nothing of CUDA."""

    def test_a_container_of_a_node_sees_all_gpus(self) -> None:
        """By what NVIDIA's runtime reads; another runtime takes no notice."""
        of_node = {one["name"]: one.get("value") for one in NODE_CONTAINER["env"]}

        assert NVIDIA.items() <= of_node.items()
        assert COMPOSE["services"]["exporter"]["environment"] == NVIDIA
        for name, value in NVIDIA.items():
            assert re.search(rf"name: {name}\b.*\n +value: {value}\n", TEMPLATE)

    def test_a_sidecar_sees_none(self) -> None:
        """Those of the node are none of its business."""
        assert not {one["name"] for one in SIDECAR_CONTAINER["env"]} & set(NVIDIA)

    def test_the_runtime_is_chosen_by_the_chart_as_by_the_component(self) -> None:
        """Under the same name."""
        component = (KUSTOMIZE / "components/nvidia-runtime/kustomization.yaml").read_text(encoding="utf-8")
        everything = yaml.safe_load((ROOT / CHART / "ci/everything.yaml").read_text(encoding="utf-8"))

        assert "path: /spec/template/spec/runtimeClassName\n        value: nvidia\n" in component
        assert everything["runtimeClassName"] == "nvidia"
        assert VALUES["runtimeClassName"] == ""
        assert "runtimeClassName: {{ . | quote }}" in TEMPLATE

    def test_a_service_sees_the_driver_s_devices_and_no_others(self) -> None:
        """By their names in /proc/devices, which differ between drivers."""
        unit = (DEPLOY / "systemd" / "gpu-stall-exporter.service").read_text(encoding="utf-8")

        assert re.findall(r"^(Device\w+|PrivateDevices)=(.*)$", unit, flags=re.M) == [
            ("DevicePolicy", "closed"),
            ("DeviceAllow", "char-nvidia* rw"),
        ]


class TestNames:
    """What one file calls another."""

    def test_every_image_has_the_version_of_the_program(self) -> None:
        """The chart's default is its appVersion."""
        chart = yaml.safe_load((ROOT / CHART / "Chart.yaml").read_text(encoding="utf-8"))
        image = f"gpu-stall-exporter:{__version__}"

        assert {NODE_CONTAINER["image"], SIDECAR_CONTAINER["image"]} == {image}
        assert COMPOSE["services"]["exporter"]["image"] == f"${{EXPORTER_IMAGE:-{image}}}"
        assert (chart["version"], chart["appVersion"]) == (__version__, __version__)
        assert VALUES["image"] == {
            "registry": "",
            "repository": "gpu-stall-exporter",
            "tag": "",
            "digest": "",
            "pullPolicy": "IfNotPresent",
        }

    @EVERY_CONTAINER
    def test_a_pod_serves_the_port_that_it_declares(self, container: dict[str, Any]) -> None:
        """On every address of the pod; probes ask it by name."""
        (port,) = container["ports"]

        assert f"--web.listen-address=:{PORT}" in container["args"]
        assert port["containerPort"] == PORT
        for name in ("startupProbe", "livenessProbe"):
            assert container[name]["httpGet"]["port"] == port["name"]

    @pytest.mark.parametrize(
        "arguments", [NODE_CONTAINER["args"], SIDECAR_CONTAINER["args"], COMPOSE["services"]["exporter"]["command"]]
    )
    def test_every_flag_exists(self, arguments: list[str]) -> None:
        """A misspelt one would end the program."""
        flags = {setting.flag for setting in SETTINGS}

        assert arguments[0] == "run"
        assert {one.removeprefix("--").partition("=")[0] for one in arguments[1:]} <= flags

    def test_every_flag_of_the_chart_exists(self) -> None:
        """The optional ones as well."""
        flags = set(re.findall(r"--([a-z][a-z.-]+)", TEMPLATE)) - {"config.file"}

        assert flags <= {setting.flag for setting in SETTINGS}

    def test_prometheus_knows_the_job_by_the_name_that_the_rules_use(self) -> None:
        """In Compose; with the operator the label of the pod is its name."""
        config = yaml.safe_load((DEPLOY / "compose" / "prometheus.yaml").read_text(encoding="utf-8"))
        jobs = {job["job_name"]: job for job in config["scrape_configs"]}
        rules = (ROOT / "alerts" / "exporter.rules.yaml").read_text(encoding="utf-8")

        assert set(re.findall(r'\bjob="([^"]+)"', rules)) == {"gpu-stall-exporter"}
        assert jobs["gpu-stall-exporter"]["honor_labels"]
        assert jobs["gpu-stall-exporter"]["static_configs"][0]["targets"] == [f"exporter:{PORT}"]

    def test_services_of_compose_are_called_by_their_names(self) -> None:
        """Prometheus calls Alertmanager, Grafana calls Prometheus."""
        text = (DEPLOY / "compose" / "prometheus.yaml").read_text(encoding="utf-8")
        source = (ROOT / "dashboards/grafana/provisioning/datasources/prometheus.yaml").read_text(encoding="utf-8")

        called = set(re.findall(r"([a-z]+):\d{4,5}\b", text)) | set(re.findall(r"http://([a-z]+):", source))

        assert called - {"localhost"} == {"alertmanager", "exporter", "prometheus"}
        assert called - {"localhost"} <= set(COMPOSE["services"])

    def test_compose_starts_the_versions_that_the_tests_ask(self) -> None:
        """`make conformance` builds Prometheus, and has Grafana's types, of the same."""
        modules = (ROOT / "tests/conformance/prometheus/go.mod").read_text(encoding="utf-8")
        (minor,) = re.findall(r"prometheus/prometheus v0\.(\d+)\.0", modules)
        (alertmanager,) = re.findall(r"prometheus/alertmanager (v[\d.]+)", modules)
        package = json.loads((ROOT / "tests/conformance/grafana/package.json").read_text(encoding="utf-8"))
        images = {name: one["image"].partition(":-")[2].rstrip("}") for name, one in COMPOSE["services"].items()}

        assert images["prometheus"] == f"prom/prometheus:v{minor[0]}.{minor[1:]}.0"
        assert images["alertmanager"] == f"prom/alertmanager:{alertmanager}"
        assert images["grafana"] == f"grafana/grafana:{package['dependencies']['@grafana/schema']}"

    def test_every_board_has_its_config_map(self) -> None:
        """The chart's copies are compared by tests/contract/test_readme.py."""
        listed = yaml.safe_load((ROOT / "dashboards/grafana/kustomization.yaml").read_text(encoding="utf-8"))
        boards = sorted(file_of(board).name for board in BOARDS)
        copies = sorted(path.name for path in (ROOT / CHART / "files" / "dashboards").iterdir())

        assert [one["files"] for one in listed["configMapGenerator"]] == [[name] for name in boards]
        assert copies == boards


class TestConfigurations:
    """By the tools of those who read them."""

    def test_prometheus_takes_its_own(self, tmp_path: Path) -> None:
        """With the rules where the container has them."""
        text = (DEPLOY / "compose" / "prometheus.yaml").read_text(encoding="utf-8")
        (tmp_path / "prometheus.yaml").write_text(text.replace("/etc/prometheus/alerts", str(ROOT / "alerts")))

        checked("promtool", "check", "config", tmp_path / "prometheus.yaml")

    def test_alertmanager_takes_ours(self) -> None:
        """The keys that it names need not be there."""
        checked("amtool", "check-config", ROOT / "alerts" / "alertmanager.yaml")


class TestImage:
    """deploy/docker/Dockerfile."""

    def test_both_stages_use_the_base_that_image_steps_builds(self) -> None:
        """`make image-steps` replaces the argument by a base of its own."""
        assert f"ARG BASE={BASE}\n" in DOCKERFILE
        assert re.findall(r"^FROM (\S+)", DOCKERFILE, flags=re.M) == ["${BASE}"] * 2

    def test_it_names_no_architecture(self) -> None:
        """The same file is for amd64 and arm64: kernel programs are compiled for the one that it is built on."""
        steps_only = re.sub(r"^#.*$", "", DOCKERFILE, flags=re.M)

        assert not re.search(r"amd64|arm64|x86|aarch64", steps_only)

    def test_every_copied_file_exists_and_is_part_of_the_context(self) -> None:
        """.dockerignore excludes everything else."""
        ignore = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
        included = {line.removeprefix("!") for line in ignore if line.startswith("!")}
        copies = re.findall(r"^COPY (?!--from)(.*) \S+$", DOCKERFILE, flags=re.M)
        sources = {name for names in copies for name in names.split()}

        assert {name for name in sources if not (ROOT / name).exists()} == set()
        assert "*" in ignore
        assert {name for name in sources if name not in included and name.partition("/")[0] not in included} == set()

    @pytest.mark.parametrize("name", ["dependencies", "serve"])
    def test_every_dependency_has_its_version(self, name: str) -> None:
        """In constraints.txt, so that two builds of one revision have the same in them; those of `serve`, too."""
        project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
        (block,) = re.findall(rf"^{name} = \[\n(.*?)^\]", project, flags=re.M | re.S)
        wanted = {name.lower().replace("_", "-") for name in re.findall(r'^  "([A-Za-z0-9_-]+)', block, flags=re.M)}
        lines = (DEPLOY / "docker" / "constraints.txt").read_text(encoding="utf-8").splitlines()
        pinned = {line.partition("==")[0].lower().replace("_", "-") for line in lines if "==" in line}

        assert wanted <= pinned
