"""deploy/helm: `serve` beside the exporter, with rights, Secrets and names of its own."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from tests.conformance.rendered import refusal, templated, verdict

NAME = "gpu-gpu-stall-exporter-serve"
ENABLED = """\
history: {hostPath: /var/lib/gpu-stall-exporter}
serve: {enabled: true, tlsSecret: certificate, tokenSecret: tokens}
"""


def rendered(values: str) -> dict[tuple[str, str], Any]:
    """(kind, name) -> object of the release `gpu`; fails if Helm or Kubernetes refuses anything."""
    done = templated(values)
    assert done.returncode == 0, done.stderr
    taken, said = verdict(done.stdout)
    assert taken, said
    return {(one["kind"], one["metadata"]["name"]): one for one in yaml.safe_load_all(done.stdout) if one}


def with_serve(**values: Any) -> str:
    """Values that enable it, some of them changed."""
    changed = yaml.safe_load(ENABLED)
    changed["serve"] |= values
    return yaml.safe_dump(changed)


def pod_of(objects: dict[tuple[str, str], Any]) -> dict[str, Any]:
    """The specification of its pod."""
    found: dict[str, Any] = objects[("DaemonSet", NAME)]["spec"]["template"]["spec"]
    return found


class TestSwitch:
    """serve.enabled."""

    def test_nothing_of_it_is_installed_by_default(self) -> None:
        """Nor does the exporter's pod have another group."""
        objects = rendered("")

        assert [name for _, name in objects if "serve" in name] == []
        assert "supplementalGroups" not in str(objects)

    def test_all_of_it_has_its_own_name(self) -> None:
        """So that neither the exporter's Service nor its monitor finds its pods."""
        objects = rendered(f"{ENABLED}podMonitor: {{enabled: true}}")
        labels = objects[("DaemonSet", NAME)]["spec"]["template"]["metadata"]["labels"]
        monitored = objects[("PodMonitor", "gpu-gpu-stall-exporter")]["spec"]["selector"]["matchLabels"]
        served = objects[("Service", "gpu-gpu-stall-exporter")]["spec"]["selector"]

        assert {kind for kind, name in objects if name == NAME} == {
            "DaemonSet",
            "Service",
            "NetworkPolicy",
            "ConfigMap",
        }
        assert labels["app.kubernetes.io/name"] == "gpu-stall-exporter-serve"
        assert not monitored.items() <= labels.items()
        assert not served.items() <= labels.items()
        assert objects[("Service", NAME)]["spec"]["selector"].items() <= labels.items()

    def test_its_name_stays_within_the_limit_of_a_label(self) -> None:
        """63 characters, also of the longest name."""
        objects = rendered(f"{ENABLED}nameOverride: {'a' * 63}")
        (daemon_set,) = (one for (kind, name), one in objects.items() if kind == "DaemonSet" and "serve" in name)

        assert daemon_set["spec"]["selector"]["matchLabels"]["app.kubernetes.io/name"] == f"{'a' * 57}-serve"

    @pytest.mark.parametrize(
        ("values", "reason"),
        [
            (
                "serve: {enabled: true, tlsSecret: a, tokenSecret: b}",
                "serve.enabled needs history.hostPath: serve reads the history from a pod of its own",
            ),
            (with_serve(tokenSecret=""), "serve.enabled needs serve.tokenSecret, a Secret with tokens.toml"),
            (with_serve(tlsSecret=""), "serve.enabled needs serve.tlsSecret, or serve.insecureNoTls=true"),
            (with_serve(insecureNoTls=True), "serve.enabled needs serve.tlsSecret, or serve.insecureNoTls=true"),
            (with_serve(port=443), "minimum: got 443, want 1,024"),
            (with_serve(securityContext={"privileged": True}), "additional properties 'securityContext' not allowed"),
        ],
    )
    def test_what_it_cannot_do_without_is_named(self, values: str, reason: str) -> None:
        """And nothing gives it more rights."""
        assert reason in refusal(values)


class TestRights:
    """What its pod may do."""

    def test_it_has_no_privileges(self) -> None:
        """A user other than root, in the group of the history, without capabilities, on a read-only root."""
        pod = pod_of(rendered(ENABLED))
        (container,) = pod["containers"]

        assert pod["securityContext"] == {
            "runAsNonRoot": True,
            "runAsUser": 65532,
            "runAsGroup": 65532,
            "fsGroup": 65532,
            "supplementalGroups": [4],
            "seccompProfile": {"type": "RuntimeDefault"},
        }
        assert container["securityContext"] == {
            "privileged": False,
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        assert pod["automountServiceAccountToken"] is False
        assert {"hostPID", "hostNetwork", "serviceAccountName"} & pod.keys() == set()

    def test_it_exceeds_pod_security_by_the_directory_of_the_history_alone(self) -> None:
        """By Kubernetes' Pod Security levels, also `restricted`. The directory is read-only, and the only one of the node."""
        beyond = [line for line in verdict(templated(ENABLED).stdout)[1] if f"DaemonSet {NAME}:" in line]

        assert beyond == [
            f'beyond baseline: DaemonSet {NAME}: hostPath volumes: volume "history"',
            f'beyond restricted: DaemonSet {NAME}: restricted volume types: volume "history" uses restricted volume type'
            ' "hostPath"',
        ]

    def test_secrets_are_readable_for_its_user_alone(self) -> None:
        """By the group that the files get."""
        pod = pod_of(rendered(ENABLED))
        secrets = {one["name"]: one["secret"] for one in pod["volumes"] if "secret" in one}
        mounts = {one["name"]: one for one in pod["containers"][0]["volumeMounts"]}

        assert secrets == {
            "tls": {"secretName": "certificate", "defaultMode": 0o440},
            "tokens": {"secretName": "tokens", "defaultMode": 0o440},
        }
        assert {name for name, mount in mounts.items() if not mount.get("readOnly")} == {"tmp"}

    def test_the_exporter_joins_the_group_that_it_gives_the_history_to(self) -> None:
        """Without a capability only a member may; groups of the user stay."""
        objects = rendered(f"{ENABLED}podSecurityContext: {{supplementalGroups: [2000]}}")
        exporter = objects[("DaemonSet", "gpu-gpu-stall-exporter")]["spec"]["template"]["spec"]

        assert exporter["securityContext"]["supplementalGroups"] == [2000, 4]


class TestServer:
    """How it is reached."""

    def test_probes_ask_without_a_token_by_a_name_that_it_has(self) -> None:
        """Over the scheme that it speaks."""
        objects = rendered(ENABLED)
        (container,) = pod_of(objects)["containers"]
        plain = pod_of(rendered(with_serve(tlsSecret="", insecureNoTls=True)))["containers"][0]
        asked = {
            "path": "/api/versions",
            "port": "serve",
            "scheme": "HTTPS",
            "httpHeaders": [{"name": "Host", "value": "localhost"}],
        }

        for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
            assert container[probe]["httpGet"] == asked
            assert "scheme" not in plain[probe]["httpGet"]

    def test_its_names_are_allowed(self) -> None:
        """The Service's, the address of the pod, and those that a user adds."""
        (container,) = pod_of(rendered(with_serve(allowedHosts=["stalls.example.com"])))["containers"]
        (hosts,) = (one for one in container["args"] if one.startswith("--web.allowed-hosts="))

        assert hosts.partition("=")[2].split(",") == [
            "$(POD_IP)",
            NAME,
            f"{NAME}.$(POD_NAMESPACE)",
            f"{NAME}.$(POD_NAMESPACE).svc",
            "stalls.example.com",
        ]

    def test_without_tls_there_is_no_certificate(self) -> None:
        """And no configuration that names one."""
        objects = rendered(with_serve(tlsSecret="", insecureNoTls=True))
        pod = pod_of(objects)

        assert "--web.insecure-no-tls" in pod["containers"][0]["args"]
        assert {one["name"] for one in pod["volumes"]} == {"history", "tmp", "tokens"}
        assert ("ConfigMap", NAME) not in objects

    def test_the_service_has_one_address_per_node_or_leads_to_the_own_one(self) -> None:
        """Any other address would answer for a node by chance."""
        by_dns = rendered(ENABLED)[("Service", NAME)]["spec"]
        own = rendered(with_serve(service={"sameNode": True}))[("Service", NAME)]["spec"]

        assert by_dns["clusterIP"] == "None"
        assert "clusterIP" not in own
        assert own["internalTrafficPolicy"] == "Local"

    def test_the_policy_lets_in_those_who_are_named(self) -> None:
        """To its port; it opens no connections. It can be switched off."""
        policy = rendered(ENABLED)[("NetworkPolicy", NAME)]["spec"]
        without = rendered(with_serve(networkPolicy={"enabled": False}))

        assert policy["egress"] == []
        assert policy["ingress"] == [
            {
                "from": [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}}],
                "ports": [{"protocol": "TCP", "port": "serve"}],
            }
        ]
        assert ("NetworkPolicy", NAME) not in without
