"""deploy/helm: values that users of similar charts have, umbrella charts, and alerts that select the job under every name."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.conformance.rendered import accepted, at, notes, refusal, templated
from tests.support.chart import CHART, rows
from tests.support.chart_values import VALUES, Value

RULES = "prometheusRule: {enabled: true}"
PROJECT = re.compile(r"https?://[^\s\"]+/alerts/runbook\.md")
EXPECTED_ROWS = {row.name: row for row in rows()}


def umbrella(folder: Path, alias: str) -> Path:
    """A chart with ours as its only dependency, under another name, enabled by a condition."""
    shutil.copytree(CHART, folder / "charts" / "gpu-stall-exporter")
    dependency = {
        "name": "gpu-stall-exporter",
        "version": "0.1.0",
        "alias": alias,
        "condition": f"{alias}.enabled",
    }
    chart = {"apiVersion": "v2", "name": "platform", "version": "1.0.0", "dependencies": [dependency]}
    (folder / "Chart.yaml").write_text(yaml.safe_dump(chart), encoding="utf-8")
    return folder


def rules_of(objects: dict[str, Any]) -> list[dict[str, Any]]:
    """All rules, in order."""
    return [rule for group in at(objects, "PrometheusRule /spec/groups") for rule in group["rules"]]


def commands_of(objects: dict[str, Any]) -> list[str]:
    """The commands for Kubernetes in the annotation `explain` of all alerts."""
    texts = [rule.get("annotations", {}).get("explain", "") for rule in rules_of(objects)]
    return [line for text in texts for line in text.splitlines() if "kubectl" in line]


def selector_of(command: str) -> dict[str, str]:
    """The labels of a pod that `kubectl get pods -l` asks for."""
    _, _, rest = command.partition(" get pods -l ")
    return dict(one.split("=", 1) for one in rest.split()[0].split(","))


def boards_of(values: str) -> dict[str, str]:
    """Name of a file -> the board that the chart puts into a ConfigMap of its own."""
    objects = yaml.safe_load_all(templated(values).stdout)
    return {name: text for one in objects if one["kind"] == "ConfigMap" for name, text in one["data"].items()}


def selected_jobs(objects: dict[str, Any]) -> set[str]:
    """The jobs that alerts select."""
    return {part.partition('"')[0] for rule in rules_of(objects) for part in rule["expr"].split('job="')[1:]}


def scraped_job(objects: dict[str, Any]) -> str:
    """The job that Prometheus' operator gives: the value of the label that the monitor names, on what the monitor selects."""
    if monitor := at(objects, "ServiceMonitor /spec"):
        labels = at(objects, "Service /metadata/labels")
    else:
        monitor = at(objects, "PodMonitor /spec")
        labels = at(objects, "DaemonSet /spec/template/metadata/labels")
    assert monitor["selector"]["matchLabels"].items() <= labels.items()
    return str(labels[monitor["jobLabel"]])


class TestTable:
    """The 40 values of docs/deployment.md."""

    def test_it_is_the_table_of_the_document(self) -> None:
        """In the same order, with the same verdicts."""
        assert [(one.name, one.refused) for one in VALUES] == [
            (row.name, bool(row.reason)) for row in EXPECTED_ROWS.values()
        ]

    @pytest.mark.parametrize("value", [one for one in VALUES if not one.refused], ids=lambda one: one.name)
    def test_a_value_has_the_effect_that_it_has_elsewhere(self, value: Value) -> None:
        """And Kubernetes accepts the result."""
        objects = accepted(value.written)

        assert {place: at(objects, place) for place in value.rendered} == value.rendered

    @pytest.mark.parametrize("value", [one for one in VALUES if one.refused], ids=lambda one: one.name)
    def test_a_refused_value_gets_the_reason_of_the_document(self, value: Value) -> None:
        """From the schema, before anything is rendered."""
        assert EXPECTED_ROWS[value.name].reason in refusal(value.written)


class TestJob:
    """The rules select the job that the monitor gives."""

    @pytest.mark.parametrize(
        ("values", "job"),
        [
            ("serviceMonitor: {enabled: true}", "gpu-stall-exporter"),
            ("serviceMonitor: {enabled: true}\nnameOverride: stalls", "stalls"),
            ("podMonitor: {enabled: true}\nnameOverride: stalls", "stalls"),
            ("podMonitor: {enabled: true}\nfullnameOverride: stalls", "gpu-stall-exporter"),
            ("podMonitor: {enabled: true, jobLabel: app.kubernetes.io/instance}", "gpu"),
            ("podMonitor: {enabled: true, jobLabel: team}\npodLabels: {team: a}", "a"),
            ("serviceMonitor: {enabled: true, jobLabel: team}\ncommonLabels: {team: b}\npodLabels: {team: a}", "b"),
            ("serviceMonitor: {enabled: true, jobLabel: team}\nservice: {labels: {team: c}}", "c"),
        ],
    )
    def test_it_is_the_same(self, values: str, job: str) -> None:
        """Under every name, from a label of the pods or of the Service."""
        objects = accepted(f"{values}\n{RULES}")

        assert scraped_job(objects) == job
        assert selected_jobs(objects) == {job}

    @pytest.mark.parametrize(("override", "job"), [("", "gpuStalls"), ("nameOverride: stalls", "stalls")])
    def test_it_is_the_same_under_an_alias(self, tmp_path: Path, override: str, job: str) -> None:
        """Which is the name of the chart inside of an umbrella chart; names of objects are in lower case."""
        own = yaml.safe_load(f"serviceMonitor: {{enabled: true}}\n{RULES}\n{override}")
        objects = accepted(yaml.safe_dump({"gpuStalls": own}), chart=umbrella(tmp_path, "gpuStalls"))

        assert scraped_job(objects) == job
        assert selected_jobs(objects) == {job}
        assert at(objects, "Service /metadata/name") == f"gpu-{job.lower()}"

    def test_its_name_in_descriptions_follows(self) -> None:
        """An alert that names another job would mislead."""
        objects = accepted(f"{RULES}\nnameOverride: stalls\npodMonitor: {{enabled: true}}")
        (absent,) = (rule for rule in rules_of(objects) if rule.get("alert") == "GpuStallExporterAbsent")

        assert "No target has the job stalls." in absent["annotations"]["description"]

    def test_a_relabeling_that_sets_it_needs_its_name(self) -> None:
        """The chart cannot know what it gives."""
        monitor = "serviceMonitor: {enabled: true, relabelings: [{targetLabel: job, replacement: site/gpus}]}"

        message = refusal(f"{monitor}\n{RULES}")
        objects = accepted(f"{monitor}\nprometheusRule: {{enabled: true, job: site/gpus}}")

        assert "serviceMonitor.relabelings sets job: set prometheusRule.job" in message
        assert selected_jobs(objects) == {"site/gpus"}

    def test_two_monitors_with_different_jobs_are_refused(self) -> None:
        """The rules select one job."""
        values = "podMonitor: {enabled: true, jobLabel: app.kubernetes.io/instance}\nserviceMonitor: {enabled: true}"

        assert "give the jobs gpu and gpu-stall-exporter: enable one of them" in refusal(f"{values}\n{RULES}")

    def test_a_label_that_is_nowhere_is_refused(self) -> None:
        """The operator would choose another name in silence."""
        values = "podMonitor: {enabled: true, jobLabel: team}"

        assert "podMonitor.jobLabel: what it selects has no label team" in refusal(f"{values}\n{RULES}")


class TestRunbook:
    """What alerts lead to."""

    def test_a_command_to_paste_finds_the_pod_of_the_node(self) -> None:
        """In the namespace and by the label that the pods have."""
        commands = commands_of(accepted(f"{RULES}\nnameOverride: stalls\nnamespaceOverride: gpus"))
        found = (
            "kubectl -n gpus exec $(kubectl -n gpus get pods"
            " -l app.kubernetes.io/name=stalls,app.kubernetes.io/instance=gpu --field-selector spec.nodeName="
        )

        assert len(commands) > 5
        assert [line for line in commands if not line.startswith(found)] == []

    def test_a_command_of_one_release_selects_no_pod_of_another(self) -> None:
        """Both are in one namespace, with a pod each on a node: `kubectl exec` takes the first of two."""
        releases = {name: accepted(RULES, release=name) for name in ("training", "serving")}
        pods = {name: at(one, "DaemonSet /spec/template/metadata/labels") for name, one in releases.items()}
        selected = {
            (name, pod)
            for name, objects in releases.items()
            for command in commands_of(objects)
            for pod, labels in pods.items()
            if selector_of(command).items() <= labels.items()
        }

        assert selected == {("training", "training"), ("serving", "serving")}

    def test_boards_lead_to_the_users_own_copy(self) -> None:
        """From every link, with the heading that it had; nothing else is changed."""
        every, changed = (
            boards_of(f"dashboards: {{enabled: true}}\n{own}")
            for own in ("", "runbookUrl: 'https://wiki.example.com/a?b=1&c=2'")
        )
        links = {one for board in changed.values() for one in re.findall(r'"(https?://[^"]*)"', board)}

        assert len(changed) == 7
        assert links == {"https://wiki.example.com/a?b=1&c=2", "https://wiki.example.com/a?b=1&c=2#causes"}
        assert {
            name: PROJECT.sub("https://wiki.example.com/a?b=1&c=2", board) for name, board in every.items()
        } == changed

    def test_they_lead_to_the_users_own_copy(self) -> None:
        """Each to its heading."""
        objects = accepted(f"{RULES}\nrunbookUrl: https://wiki.example.com/gpu-stalls")
        alerts = [rule for rule in rules_of(objects) if "alert" in rule]
        links = {rule["alert"]: rule["annotations"]["runbook_url"] for rule in alerts}

        assert len(links) > 30
        assert links == {name: f"https://wiki.example.com/gpu-stalls#{name.lower()}" for name in links}


class TestUmbrella:
    """As a dependency of another chart."""

    def test_its_condition_and_its_global_values_are_accepted(self, tmp_path: Path) -> None:
        """Keys that this chart does not know, too."""
        values = "global: {imageRegistry: mirror.example.com, tls: {enabled: true}}\nstalls: {enabled: true}"
        objects = accepted(values, chart=umbrella(tmp_path, "stalls"))

        assert (
            at(objects, "DaemonSet /spec/template/spec/containers/0/image")
            == "mirror.example.com/gpu-stall-exporter:0.1.0"
        )

    def test_nothing_is_installed_if_it_is_false(self, tmp_path: Path) -> None:
        """Whether it is a condition or not."""
        assert accepted("stalls: {enabled: false}", chart=umbrella(tmp_path, "stalls")) == {}
        assert accepted("enabled: false\nextraManifests: [{kind: Secret}]") == {}

    def test_two_aliases_of_a_long_release_share_no_name(self, tmp_path: Path) -> None:
        """Names are cut to the length that Kubernetes allows, and stay apart."""
        release = "a" * 53
        one, other = (
            accepted("", release=release, chart=umbrella(tmp_path / alias, alias)) for alias in ("first", "second")
        )

        assert at(one, "Service /metadata/name") != at(other, "Service /metadata/name")
        assert {len(at(objects, "Service /metadata/name")) for objects in (one, other)} == {45}


class TestNames:
    """Names that YAML reads as numbers, and labels given twice."""

    def test_a_release_may_be_called_by_a_number(self) -> None:
        """The name of a Service begins with a letter."""
        objects = accepted(f"serviceMonitor: {{enabled: true}}\n{RULES}", release="2024")

        assert at(objects, "DaemonSet /spec/selector/matchLabels/app.kubernetes.io~1instance") == "2024"
        assert at(objects, "Service /metadata/name") == "release-2024-gpu-stall-exporter"

    def test_a_label_that_selects_pods_cannot_be_replaced(self) -> None:
        """The DaemonSet would not find its pods; the same value is no change."""
        message = refusal("podLabels: {app.kubernetes.io/name: other}")

        assert 'the label app.kubernetes.io/name selects pods and cannot become "other": set nameOverride' in message
        assert accepted("podLabels: {app.kubernetes.io/name: gpu-stall-exporter}")

    def test_a_section_that_is_removed_is_named(self) -> None:
        """Helm removes what is null."""
        assert "missing property 'networkPolicy'" in refusal("networkPolicy: null")

    def test_a_monitor_without_its_service_is_refused(self) -> None:
        """It would find no target."""
        message = refusal("service: {enabled: false}\nserviceMonitor: {enabled: true}")

        assert "serviceMonitor.enabled needs the Service" in message

    def test_what_belongs_to_no_namespace_has_the_namespace_in_its_name(self) -> None:
        """Two releases of one name in two namespaces would share it, and Helm refuses the second one."""
        names = [at(accepted("", release="gpu", namespace=one), "ClusterRole /metadata/name") for one in ("a-b", "b")]
        binding = accepted("namespaceOverride: gpus")

        assert names == ["gpu-gpu-stall-exporter.a-b", "gpu-gpu-stall-exporter.b"]
        assert at(binding, "ClusterRoleBinding /metadata/name") == "gpu-gpu-stall-exporter.gpus"
        assert at(binding, "ClusterRoleBinding /roleRef/name") == at(binding, "ClusterRole /metadata/name")
        assert at(binding, "ClusterRoleBinding /subjects/0/namespace") == "gpus"


class TestImage:
    """The name of the image."""

    @pytest.mark.parametrize(
        ("values", "message"),
        [
            (
                "image: {repository: 'x:1.2'}",
                "image.repository=x:1.2 has a tag: set image.tag to 1.2, and image.repository without it",
            ),
            (
                "image: {repository: 'registry:5000/x@sha256:ab'}",
                "image.repository=registry:5000/x@sha256:ab has a digest: set image.digest to sha256:ab",
            ),
            ("image: {tag: '1.2@sha256:ab'}", "image.tag=1.2@sha256:ab has a digest: set image.digest to sha256:ab"),
        ],
    )
    def test_tag_or_digest_in_the_wrong_value_is_refused(self, values: str, message: str) -> None:
        """Otherwise the name would have two tags, and the pod could not be started."""
        assert message in refusal(values)

    def test_port_of_a_registry_is_no_tag(self) -> None:
        objects = accepted("image: {repository: 'registry:5000/gpu/x', tag: '1.2'}")

        assert at(objects, "DaemonSet /spec/template/spec/containers/0/image") == "registry:5000/gpu/x:1.2"

    @pytest.mark.parametrize(
        ("values", "reason"),
        [
            ("image: {distroless: true}", "there is one image, on Debian"),
            ("kubernetesDRA: {enabled: true}", "a job is found by its process"),
            ("hpcJobMapping: {enabled: true}", "the label slurm_job_id comes from"),
        ],
    )
    def test_newer_values_of_other_charts_are_refused_with_a_reason(self, values: str, reason: str) -> None:
        """Their default is no error where it means what this chart does anyway."""
        assert reason in refusal(values)
        assert accepted("image: {distroless: false}")


class TestScheme:
    """web.scheme, as people write it."""

    def test_small_letters_are_accepted(self) -> None:
        """For the probes and the monitors."""
        objects = accepted("web: {scheme: https, configSecret: x}\nserviceMonitor: {enabled: true}")

        assert at(objects, "DaemonSet /spec/template/spec/containers/0/livenessProbe/httpGet/scheme") == "HTTPS"
        assert at(objects, "ServiceMonitor /spec/endpoints/0/scheme") == "https"

    def test_secret_and_scheme_that_may_not_fit_are_a_warning(self) -> None:
        """Whether the Secret configures TLS is not known when the chart is rendered: it may have passwords alone."""
        assert "web.scheme is HTTP" in notes("web: {configSecret: x}")
        assert "the exporter has no certificate" in notes("web: {scheme: HTTPS}")
        assert "WARNING" not in notes("web: {scheme: https, configSecret: x}\npodMonitor: {enabled: true}")


class TestNotes:
    """What Helm prints after an installation."""

    def test_commands_reach_the_pod_of_one_node(self) -> None:
        """By the labels that select the pods of this release; a DaemonSet's name would reach the pod of any node."""
        values = "nameOverride: stalls\nnamespaceOverride: gpus"
        labels = at(accepted(values), "DaemonSet /spec/selector/matchLabels")
        commands = [line.strip() for line in notes(values).splitlines() if "kubectl --namespace" in line]

        assert labels == {"app.kubernetes.io/name": "stalls", "app.kubernetes.io/instance": "gpu"}
        assert commands == [
            "POD=$(kubectl --namespace gpus get pods -l app.kubernetes.io/name=stalls,app.kubernetes.io/instance=gpu"
            ' --field-selector "spec.nodeName=$NODE" -o name)',
            'kubectl --namespace gpus exec "$POD" -- gpu-stall-exporter check --web.listen-address=127.0.0.1:0',
            'kubectl --namespace gpus exec "$POD" -- gpu-stall-exporter explain',
        ]


class TestEveryFieldOfAMonitor:
    """What node-exporter's chart has, with both kinds."""

    @pytest.mark.parametrize(("own", "kind"), [("podMonitor", "PodMonitor"), ("serviceMonitor", "ServiceMonitor")])
    def test_the_operator_knows_it(self, own: str, kind: str) -> None:
        """Values that are false count; limits of 0 do not."""
        monitor = {
            "enabled": True,
            "interval": "",
            "proxyUrl": "http://proxy:3128",
            "params": {"a": ["b"]},
            "honorTimestamps": False,
            "followRedirects": False,
            "enableHttp2": True,
            "filterRunning": False,
            "podTargetLabels": ["team"],
            "attachMetadata": {"node": True},
            "labelLimit": 40,
            "authorization": {"credentials": {"name": "a", "key": "b"}},
        }
        spec = at(accepted(yaml.safe_dump({own: monitor})), f"{kind} /spec")
        (endpoint,) = spec.get("endpoints") or spec["podMetricsEndpoints"]

        assert endpoint == {
            "port": "metrics",
            "path": "/metrics",
            "honorLabels": True,
            "proxyUrl": "http://proxy:3128",
            "params": {"a": ["b"]},
            "honorTimestamps": False,
            "followRedirects": False,
            "enableHttp2": True,
            "filterRunning": False,
            "authorization": {"credentials": {"name": "a", "key": "b"}},
            "relabelings": [{"sourceLabels": ["__meta_kubernetes_pod_node_name"], "targetLabel": "instance"}],
        }
        assert (spec["podTargetLabels"], spec["attachMetadata"]) == (["team"], {"node": True})
        assert spec["labelLimit"] == 40
        assert "sampleLimit" not in spec


class TestRights:
    """Values that would weaken the pod, and null, which would remove what protects it."""

    def test_the_seccomp_profile_cannot_be_removed(self) -> None:
        """Another one may be chosen."""
        profile = "DaemonSet /spec/template/spec/securityContext/seccompProfile"

        assert at(accepted("security: {seccompProfile: null}"), profile) == {"type": "RuntimeDefault"}

    @pytest.mark.parametrize(
        "written",
        [
            "containerSecurityContext: {privileged: true}",
            "containerSecurityContext: {allowPrivilegeEscalation: true}",
            "containerSecurityContext: {readOnlyRootFilesystem: false}",
            "containerSecurityContext: {runAsUser: 1000}",
            "containerSecurityContext: {capabilities: {add: [NET_ADMIN]}}",
            "containerSecurityContext: {procMount: Unmasked}",
            "podSecurityContext: {runAsNonRoot: true}",
            "podSecurityContext: {seccompProfile: null}",
        ],
    )
    def test_rights_cannot_be_changed(self, written: str) -> None:
        """The schema says why."""
        kind, _, field = written.partition(": {")

        assert f"/{kind}" in (message := refusal(written))
        assert field.partition(":")[0] in message

    def test_values_that_hold_anyway_are_accepted(self) -> None:
        """A user may copy them from another chart."""
        objects = accepted(
            "containerSecurityContext: {privileged: false, readOnlyRootFilesystem: true, runAsUser: 0}\n"
            "hostPID: true\nhostIPC: false\nrestartPolicy: Always"
        )

        assert at(objects, "DaemonSet /spec/template/spec/containers/0/securityContext/privileged") is False


class TestService:
    """Fields of the Service beyond the table."""

    def test_ports_of_the_service_and_the_container_may_differ(self) -> None:
        """One port, two numbers; its name is the same everywhere."""
        objects = accepted(
            "service: {portName: http-metrics, servicePort: 80, listenOnAllInterfaces: false}\nserviceMonitor: {enabled: true}"
        )

        assert at(objects, "Service /spec/ports/0") == {
            "name": "http-metrics",
            "port": 80,
            "targetPort": "http-metrics",
        }
        assert at(objects, "DaemonSet /spec/template/spec/containers/0/ports/0") == {
            "name": "http-metrics",
            "containerPort": 10478,
        }
        assert (
            at(objects, "DaemonSet /spec/template/spec/containers/0/args/1") == "--web.listen-address=$(POD_IP):10478"
        )
        assert at(objects, "NetworkPolicy /spec/ingress/0/ports/0/port") == "http-metrics"
        assert at(objects, "ServiceMonitor /spec/endpoints/0/port") == "http-metrics"

    def test_it_may_have_two_families_of_addresses(self) -> None:
        """And an address of its own, with policies."""
        objects = accepted(
            "service: {type: NodePort, externalTrafficPolicy: Local, internalTrafficPolicy: Local,"
            " ipDualStack: {enabled: true}}"
        )

        assert at(objects, "Service /spec/ipFamilies") == ["IPv6", "IPv4"]
        assert at(objects, "Service /spec/ipFamilyPolicy") == "PreferDualStack"
        assert at(objects, "Service /spec/externalTrafficPolicy") == "Local"
