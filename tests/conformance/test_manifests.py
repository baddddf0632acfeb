"""deploy/kustomize and deploy/helm: the tools render them, Kubernetes' own code takes what they render, and both say the same."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.conformance.partners import need_partner
from tests.conformance.rendered import verdict
from tests.support.chart import CHART
from tests.support.requirements import ROOT, need_command

VALUES = sorted((CHART / "ci").glob("*.yaml"))
KUSTOMIZE = ROOT / "deploy" / "kustomize"
OVERLAYS = sorted(path for path in (KUSTOMIZE / "overlays").iterdir())
COMPONENTS = sorted(path for path in (KUSTOMIZE / "components").iterdir())
NAME = "gpu-stall-exporter"
BY_HELM = ("app.kubernetes.io/instance", "app.kubernetes.io/version", "app.kubernetes.io/managed-by", "helm.sh/chart")
"""Labels that are customary with Helm but not with Kustomize."""

CAPABILITIES = '"BPF", "CHECKPOINT_RESTORE", "DAC_READ_SEARCH", "LEASE", "PERFMON", "SYS_PTRACE"'

POD = """\
apiVersion: v1
kind: Pod
metadata: {{name: a, namespace: b}}
spec:
  containers:
    - name: c
      image: d
      {line}
"""


def output_of(*command: str | Path, given: str = "") -> str:
    """The output of a program; fails if the program fails."""
    done = subprocess.run(command, input=given, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def by_helm(*flags: str | Path) -> str:
    """The chart, rendered into the namespace that the overlays have."""
    return output_of(need_partner("helm"), "template", NAME, CHART, f"--namespace={NAME}", *flags)


def by_kustomize(folder: Path) -> str:
    """A kustomization, built."""
    return output_of(need_partner("kustomize"), "build", folder)


def with_components(folder: Path, components: Sequence[Path]) -> str:
    """The overlay `node` and some components."""
    relative = {path: os.path.relpath(path, folder) for path in (KUSTOMIZE / "overlays" / "node", *components)}
    document = {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "namespace": NAME,
        "resources": [relative[KUSTOMIZE / "overlays" / "node"]],
        "components": [relative[path] for path in components],
    }
    (folder / "kustomization.yaml").write_text(yaml.safe_dump(document), encoding="utf-8")
    return by_kustomize(folder)


def objects(manifests: str) -> dict[tuple[str, str], Any]:
    """(kind, name) -> the object, without the labels that only Helm sets."""
    return {(one["kind"], one["metadata"]["name"]): bare(one) for one in yaml.safe_load_all(manifests) if one}


def bare(value: Any) -> Any:
    """The same, without them, also where a command selects by one."""
    if isinstance(value, str):
        return value.replace(f",app.kubernetes.io/instance={NAME}", "")
    if isinstance(value, dict):
        return {key: bare(one) for key, one in value.items() if key not in BY_HELM}
    if isinstance(value, list):
        return [bare(one) for one in value]
    return value


def places(manifests: str) -> set[tuple[str, str, str]]:
    """Kind, namespace and name of each object: what two installations in one cluster must not share."""
    return {
        (one["kind"], one["metadata"].get("namespace", ""), one["metadata"]["name"])
        for one in yaml.safe_load_all(manifests)
        if one
    }


class TestWhatIsRefused:
    """Without these tests, acceptance would prove nothing."""

    @pytest.mark.parametrize(
        ("line", "reason"),
        [
            ("hostPid: true", 'unknown field "spec.containers[0].hostPid"'),
            ("image: e", 'key "image" already set'),
            ("ports: [{containerPort: many}]", "cannot unmarshal string"),
            ("ports: [{containerPort: 70000}]", "must be between 1 and 65535"),
            ("resources: {limits: {memory: 1Gig}}", "quantities must match"),
            ("imagePullPolicy: Sometimes", 'Unsupported value: "Sometimes"'),
            ("securityContext: {capabilities: {add: [CAP_BPF]}}", ""),
            ("volumeMounts: [{name: e, mountPath: /e}]", "Not found"),
            ("livenessProbe: {periodSeconds: 5}", "must specify a handler type"),
        ],
    )
    def test_a_pod_that_no_server_would_take(self, line: str, reason: str) -> None:
        """Unknown keys, wrong types, values that are not allowed. A capability's name is the runtime's business: it is taken."""
        taken, said = verdict(POD.format(line=line))

        assert taken is not bool(reason)
        assert reason in "\n".join(said)

    def test_an_unknown_key_of_the_operators_kinds(self) -> None:
        """Their types are known."""
        monitor = (KUSTOMIZE / "components" / "pod-monitor" / "pod-monitor.yaml").read_text(encoding="utf-8")

        assert verdict(monitor)[0]
        assert not verdict(monitor.replace("honorLabels:", "honourLabels:"))[0]
        assert not verdict(monitor.replace("honorLabels: true", "honorLabels: often"))[0]

    def test_a_kind_that_does_not_exist(self) -> None:
        """Nor one of another version."""
        assert not verdict("apiVersion: apps/v1beta1\nkind: DaemonSet\nmetadata: {name: a}\n")[0]


class TestKustomize:
    """deploy/kustomize."""

    @pytest.mark.parametrize("overlay", OVERLAYS, ids=lambda path: path.name)
    def test_every_overlay_is_taken(self, overlay: Path) -> None:
        """By the API server's code."""
        taken, said = verdict(by_kustomize(overlay))

        assert taken, said

    @pytest.mark.parametrize("component", COMPONENTS, ids=lambda path: path.name)
    def test_every_component_changes_what_is_taken(self, component: Path, tmp_path: Path) -> None:
        """And it changes something."""
        changed = with_components(tmp_path, [component])

        assert verdict(changed)[0], verdict(changed)[1]
        assert changed != by_kustomize(KUSTOMIZE / "overlays" / "node")

    def test_alerts_lead_to_the_users_own_copy_of_the_runbook(self) -> None:
        """By the address in one place, which is not itself applied; nothing else differs from the overlay it is made of."""
        own, plain = (
            objects(by_kustomize(KUSTOMIZE / "overlays" / one)) for one in ("own-runbook", "prometheus-operator")
        )
        key = ("PrometheusRule", NAME)
        annotated = [rule for group in own[key]["spec"]["groups"] for rule in group["rules"] if "alert" in rule]
        links = {rule["alert"]: rule["annotations"]["runbook_url"] for rule in annotated}
        for group in plain[key]["spec"]["groups"]:
            for rule in group["rules"]:
                if "alert" in rule:
                    rule["annotations"]["runbook_url"] = links[rule["alert"]]

        assert len(links) > 30
        assert links == {name: f"https://wiki.example.com/gpu-stalls#{name.lower()}" for name in links}
        assert own == plain

    def test_two_installations_share_nothing(self, tmp_path: Path) -> None:
        """In another namespace and with a suffix, as docs/deployment.md has it."""
        one = by_kustomize(KUSTOMIZE / "overlays" / "node")
        document = {
            "resources": [os.path.relpath(KUSTOMIZE / "overlays" / "node", tmp_path)],
            "namespace": "second",
            "nameSuffix": "-second",
        }
        (tmp_path / "kustomization.yaml").write_text(yaml.safe_dump(document), encoding="utf-8")
        other = by_kustomize(tmp_path)
        binding = objects(other)[("ClusterRoleBinding", f"{NAME}-second")]

        assert verdict(other)[0], verdict(other)[1]
        assert places(one) & places(other) == set()
        assert binding["roleRef"]["name"] == f"{NAME}-second"
        assert binding["subjects"] == [{"kind": "ServiceAccount", "name": f"{NAME}-second", "namespace": "second"}]

    def test_all_components_together_are_taken(self, tmp_path: Path) -> None:
        """None undoes another; that two of them scrape twice is not for the server to say."""
        taken, said = verdict(with_components(tmp_path, COMPONENTS))

        assert taken, said


class TestHelm:
    """deploy/helm/gpu-stall-exporter."""

    @pytest.mark.parametrize("values", VALUES, ids=lambda path: path.stem)
    def test_its_linter_finds_nothing(self, values: Path) -> None:
        """Warnings count."""
        output_of(need_partner("helm"), "lint", "--strict", CHART, f"--values={values}")

    @pytest.mark.parametrize("values", VALUES, ids=lambda path: path.stem)
    def test_what_it_renders_is_taken(self, values: Path) -> None:
        """By the API server's code."""
        taken, said = verdict(by_helm(f"--values={values}"))

        assert taken, said

    @pytest.mark.parametrize(
        "wrong", ["podMonitors.enabled=true", "web.port=many", "image.pullPolicy=Never2", "image.digest=md5:1"]
    )
    def test_values_that_do_not_exist_or_fit_are_refused(self, wrong: str) -> None:
        """By values.schema.json, so that a misspelt one does not pass in silence."""
        done = subprocess.run(
            [need_partner("helm"), "template", NAME, CHART, f"--set={wrong}"],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

        assert done.returncode != 0
        assert wrong.partition("=")[0].rpartition(".")[0].partition(".")[0] in done.stderr

    def test_rules_are_still_rules(self, tmp_path: Path) -> None:
        """Prometheus' own tool takes them as they come out of the templates, expressions and annotations included."""
        rendered = objects(by_helm("--set=prometheusRule.enabled=true"))[("PrometheusRule", NAME)]
        (tmp_path / "rules.yaml").write_text(yaml.safe_dump(rendered["spec"]), encoding="utf-8")

        output_of(
            need_command("promtool", "prometheus"),
            "check",
            "rules",
            "--lint=all",
            "--lint-fatal",
            tmp_path / "rules.yaml",
        )

    def test_two_releases_share_nothing_but_the_port_of_their_pods(self) -> None:
        """So that a second one may be tried beside the first."""
        one, other = (
            output_of(need_partner("helm"), "template", name, CHART, f"--values={CHART / 'ci' / 'operator.yaml'}")
            for name in ("first", "second")
        )

        assert objects(one).keys() & objects(other).keys() == set()

    def test_two_releases_of_one_name_in_two_namespaces_share_nothing(self) -> None:
        """Nor what belongs to no namespace."""
        values = f"--values={CHART / 'ci' / 'operator.yaml'}"
        one, other = (
            output_of(need_partner("helm"), "template", NAME, CHART, f"--namespace={namespace}", values)
            for namespace in ("team-a", "team-b")
        )

        assert len(places(one)) > 10
        assert places(one) & places(other) == set()

    def test_a_package_has_no_values_of_tests(self, tmp_path: Path) -> None:
        """But the rules and the boards."""
        output_of(need_partner("helm"), "package", CHART, f"--destination={tmp_path}")
        (package,) = tmp_path.glob("*.tgz")
        names = output_of("tar", "--list", f"--file={package}").splitlines()

        assert [name for name in names if "/ci/" in name] == []
        assert f"{NAME}/files/prometheusrule.yaml" in names
        assert f"{NAME}/files/dashboards/fleet.json" in names


class TestBoth:
    """Kustomize and Helm."""

    def test_they_say_the_same(self) -> None:
        """Object by object; a namespace is Helm's user's own. The chart adds the namespace to names of what belongs to none."""
        expected = objects(by_kustomize(KUSTOMIZE / "overlays" / "prometheus-operator"))
        del expected[("Namespace", NAME)]
        for kind in ("ClusterRole", "ClusterRoleBinding"):
            of_cluster = expected.pop((kind, NAME))
            of_cluster["metadata"]["name"] = f"{NAME}.{NAME}"
            expected[(kind, f"{NAME}.{NAME}")] = of_cluster
        expected[("ClusterRoleBinding", f"{NAME}.{NAME}")]["roleRef"]["name"] = f"{NAME}.{NAME}"
        found = objects(by_helm(f"--values={CHART / 'ci' / 'operator.yaml'}"))

        assert found.keys() == expected.keys()
        for key, wanted in expected.items():
            assert found[key] == wanted, key

    def test_they_say_the_same_of_a_service_monitor(self, tmp_path: Path) -> None:
        """The other way to be scraped."""
        key = ("ServiceMonitor", NAME)
        expected = objects(with_components(tmp_path, [KUSTOMIZE / "components" / "service-monitor"]))

        assert objects(by_helm("--set=serviceMonitor.enabled=true"))[key] == expected[key]

    def test_they_say_the_same_of_serve(self, tmp_path: Path) -> None:
        """Its objects, and the exporter's pod beside it."""
        expected = objects(with_components(tmp_path, [KUSTOMIZE / "components" / "serve"]))
        found = objects(by_helm(f"--values={CHART / 'ci' / 'serve.yaml'}"))
        kinds = ("DaemonSet", "Service", "NetworkPolicy", "ConfigMap")

        for kind in kinds:
            assert found[(kind, f"{NAME}-serve")] == expected[(kind, f"{NAME}-serve")], kind
        assert found[("DaemonSet", NAME)] == expected[("DaemonSet", NAME)]

    def test_pods_need_hostpid_and_five_capabilities_beyond_the_baseline(self) -> None:
        """By Kubernetes' Pod Security levels; no path of the node and nothing else."""
        for manifests in (by_helm(), by_kustomize(KUSTOMIZE / "overlays" / "node")):
            beyond = [line for line in verdict(manifests)[1] if line.startswith("beyond baseline:")]

            assert beyond == [
                f'beyond baseline: DaemonSet {NAME}: non-default capabilities: container "exporter" must not include'
                f" {CAPABILITIES} in securityContext.capabilities.add",
                f"beyond baseline: DaemonSet {NAME}: host namespaces: hostPID=true",
            ]

    def test_a_sidecar_needs_only_the_capabilities(self) -> None:
        """It shares the processes of its pod, not those of the node."""
        said = verdict(by_kustomize(KUSTOMIZE / "overlays" / "sidecar"))[1]
        beyond = [line for line in said if line.startswith("beyond baseline:")]

        assert beyond == [
            f'beyond baseline: Job training: non-default capabilities: container "{NAME}" must not include'
            f" {CAPABILITIES} in securityContext.capabilities.add"
        ]
