"""40 values that users of similar charts have: what a user writes, and what the chart must make of it, written by hand.

Paths are those of JSON: `~1` is a slash in a key. The objects are those of a release `gpu` in the namespace `monitoring`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

_POD = "DaemonSet /spec/template/spec"
_CONTAINER = f"{_POD}/containers/0"
_ENDPOINT = "ServiceMonitor /spec/endpoints/0"
_MONITOR = "serviceMonitor: {enabled: true}"
_NAME = "app.kubernetes.io~1name"


@dataclass(frozen=True)
class Value:
    """written: values.yaml of a user. rendered: "KIND PATH" -> what must stand there. refused: whether the schema refuses it."""

    name: str
    written: str
    rendered: dict[str, Any] = field(default_factory=dict)

    @property
    def refused(self) -> bool:
        return not self.rendered


VALUES = [
    Value(
        "nameOverride",
        f"nameOverride: stalls\n{_MONITOR}",
        {
            f"DaemonSet /spec/selector/matchLabels/{_NAME}": "stalls",
            f"Service /spec/selector/{_NAME}": "stalls",
            f"ServiceMonitor /spec/selector/matchLabels/{_NAME}": "stalls",
            "DaemonSet /metadata/name": "gpu-stalls",
        },
    ),
    Value(
        "fullnameOverride",
        "fullnameOverride: '2024'",
        {
            "Service /metadata/name": "release-2024",
            f"DaemonSet /metadata/labels/{_NAME}": "gpu-stall-exporter",
        },
    ),
    Value(
        "namespaceOverride",
        f"namespaceOverride: gpus\n{_MONITOR}",
        {
            "DaemonSet /metadata/namespace": "gpus",
            "Service /metadata/namespace": "gpus",
            "NetworkPolicy /metadata/namespace": "gpus",
            "ServiceAccount /metadata/namespace": "gpus",
            "ClusterRoleBinding /subjects/0/namespace": "gpus",
            "ServiceMonitor /metadata/namespace": "gpus",
        },
    ),
    Value(
        "global.imageRegistry",
        "global: {imageRegistry: mirror.example.com, storageClass: fast}\nimage: {registry: quay.io}",
        {f"{_CONTAINER}/image": "mirror.example.com/gpu-stall-exporter:0.1.0"},
    ),
    Value(
        "global.imagePullSecrets",
        "global: {imagePullSecrets: [mirror, {name: other}]}",
        {f"{_POD}/imagePullSecrets": [{"name": "mirror"}, {"name": "other"}]},
    ),
    Value(
        "image.registry",
        "image: {registry: quay.io, repository: gpu/stalls, tag: '1.10'}",
        {f"{_CONTAINER}/image": "quay.io/gpu/stalls:1.10"},
    ),
    Value("imagePullSecrets", "imagePullSecrets: [{name: mine}]", {f"{_POD}/imagePullSecrets": [{"name": "mine"}]}),
    Value(
        "commonLabels",
        "commonLabels: {team: '{{ .Release.Name }}-team', app.kubernetes.io/version: '2'}",
        {
            "DaemonSet /metadata/labels/team": "gpu-team",
            "Service /metadata/labels/team": "gpu-team",
            "DaemonSet /spec/template/metadata/labels/app.kubernetes.io~1version": "2",
        },
    ),
    Value(
        "releaseLabel",
        f"releaseLabel: true\n{_MONITOR}",
        {"ServiceMonitor /metadata/labels/release": "gpu", "Service /metadata/labels/release": "gpu"},
    ),
    Value(
        "podLabels",
        "podLabels: {zone: a, helm.sh/chart: mine, app.kubernetes.io/instance: gpu}",
        {
            "DaemonSet /spec/template/metadata/labels/zone": "a",
            "DaemonSet /spec/template/metadata/labels/helm.sh~1chart": "mine",
            "DaemonSet /metadata/labels/helm.sh~1chart": "gpu-stall-exporter-0.1.0",
        },
    ),
    Value(
        "podAnnotations",
        "podAnnotations: {prometheus.io/scrape: 'true', kubectl.kubernetes.io/default-container: other}",
        {
            "DaemonSet /spec/template/metadata/annotations": {
                "prometheus.io/scrape": "true",
                "kubectl.kubernetes.io/default-container": "other",
            }
        },
    ),
    Value(
        "daemonsetAnnotations",
        "daemonsetAnnotations: {owner: gpu-team}",
        {"DaemonSet /metadata/annotations": {"owner": "gpu-team"}},
    ),
    Value(
        "podSecurityContext",
        "podSecurityContext: {fsGroup: 2000, seccompProfile: {type: Localhost, localhostProfile: a.json}}",
        {
            f"{_POD}/securityContext": {
                "runAsUser": 0,
                "runAsGroup": 0,
                "fsGroup": 2000,
                "seccompProfile": {"type": "Localhost", "localhostProfile": "a.json"},
            }
        },
    ),
    Value(
        "containerSecurityContext",
        "containerSecurityContext: {readOnlyRootFilesystem: true, seLinuxOptions: {type: spc_t}}",
        {
            f"{_CONTAINER}/securityContext": {
                "privileged": False,
                "allowPrivilegeEscalation": False,
                "readOnlyRootFilesystem": True,
                "capabilities": {
                    "drop": ["ALL"],
                    "add": ["BPF", "PERFMON", "SYS_PTRACE", "DAC_READ_SEARCH", "CHECKPOINT_RESTORE", "LEASE"],
                },
                "seLinuxOptions": {"type": "spc_t"},
            }
        },
    ),
    Value(
        "hostNetwork",
        "hostNetwork: true",
        {f"{_POD}/hostNetwork": True, f"{_POD}/dnsPolicy": "ClusterFirstWithHostNet"},
    ),
    Value("dnsPolicy", "dnsPolicy: Default\nhostNetwork: true", {f"{_POD}/dnsPolicy": "Default"}),
    Value(
        "dnsConfig",
        "dnsConfig: {nameservers: [192.0.2.1], options: [{name: ndots, value: '2'}]}",
        {f"{_POD}/dnsConfig": {"nameservers": ["192.0.2.1"], "options": [{"name": "ndots", "value": "2"}]}},
    ),
    Value(
        "nodeSelector",
        "nodeSelector: {nvidia.com/gpu.present: 'true'}",
        {f"{_POD}/nodeSelector": {"kubernetes.io/os": "linux", "nvidia.com/gpu.present": "true"}},
    ),
    Value(
        "livenessProbe",
        "livenessProbe: {initialDelaySeconds: 30, failureThreshold: 6, successThreshold: 1}\n"
        "startupProbe: {failureThreshold: 90}",
        {
            f"{_CONTAINER}/livenessProbe": {
                "httpGet": {"path": "/healthz", "port": "metrics"},
                "initialDelaySeconds": 30,
                "periodSeconds": 20,
                "timeoutSeconds": 5,
                "failureThreshold": 6,
                "successThreshold": 1,
            },
            f"{_CONTAINER}/startupProbe/failureThreshold": 90,
        },
    ),
    Value(
        "terminationGracePeriodSeconds",
        "terminationGracePeriodSeconds: 60",
        {f"{_POD}/terminationGracePeriodSeconds": 60},
    ),
    Value(
        "updateStrategy",
        "updateStrategy: {rollingUpdate: {maxUnavailable: 1}}",
        {"DaemonSet /spec/updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1}}},
    ),
    Value(
        "service.type",
        "service: {type: NodePort, nodePort: 30478}",
        {
            "Service /spec/type": "NodePort",
            "Service /spec/clusterIP": None,
            "Service /spec/ports/0/nodePort": 30478,
        },
    ),
    Value(
        "service.annotations",
        "service: {annotations: {prometheus.io/scrape: 'true'}, labels: {zone: a}}",
        {"Service /metadata/annotations": {"prometheus.io/scrape": "true"}, "Service /metadata/labels/zone": "a"},
    ),
    Value(
        "service.port",
        "service: {port: 9400}",
        {
            "Service /spec/ports/0/port": 9400,
            f"{_CONTAINER}/ports/0/containerPort": 9400,
            f"{_CONTAINER}/args": ["run", "--web.listen-address=:9400"],
        },
    ),
    Value(
        "networkPolicy.ingress",
        "networkPolicy: {ingress: [{ports: [{port: 10478}]}]}",
        {"NetworkPolicy /spec/ingress": [{"ports": [{"port": 10478}]}]},
    ),
    Value(
        "env",
        "env: {LIMIT: 1000000, NODE_NAME: gpu7, BOTH: a}\nextraEnv: [{name: BOTH, value: b}]",
        {
            f"{_CONTAINER}/env": [
                {"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"},
                {"name": "NVIDIA_DRIVER_CAPABILITIES", "value": "utility"},
                {"name": "LIMIT", "value": "1000000"},
                {"name": "NODE_NAME", "value": "gpu7"},
                {"name": "BOTH", "value": "b"},
            ]
        },
    ),
    Value(
        "extraVolumes",
        "extraVolumes: [{name: scratch, emptyDir: {sizeLimit: 1Mi}}]",
        {f"{_POD}/volumes/2": {"name": "scratch", "emptyDir": {"sizeLimit": "1Mi"}}},
    ),
    Value(
        "extraVolumeMounts",
        "extraVolumes: [{name: a, emptyDir: {}}]\nextraVolumeMounts: [{name: a, mountPath: /a, subPath: b}]",
        {f"{_CONTAINER}/volumeMounts/2": {"name": "a", "mountPath": "/a", "subPath": "b"}},
    ),
    Value(
        "secrets",
        "secrets: [{name: ca.example.com, mountPath: /etc/ssl/corporate}]\nconfigmaps: [{name: ca, mountPath: /etc/ssl/test}]",
        {
            f"{_POD}/volumes/2": {"name": "configmap-0", "configMap": {"name": "ca"}},
            f"{_POD}/volumes/3": {"name": "secret-0", "secret": {"secretName": "ca.example.com"}},
            f"{_CONTAINER}/volumeMounts/2": {"name": "configmap-0", "mountPath": "/etc/ssl/test", "readOnly": True},
            f"{_CONTAINER}/volumeMounts/3": {"name": "secret-0", "mountPath": "/etc/ssl/corporate", "readOnly": True},
        },
    ),
    Value(
        "extraHostVolumeMounts",
        "extraHostVolumeMounts: [{name: run, hostPath: /run/x, type: Directory, mountPath: /x,"
        " mountPropagation: HostToContainer}]",
        {
            f"{_POD}/volumes/2": {"name": "run", "hostPath": {"path": "/run/x", "type": "Directory"}},
            f"{_CONTAINER}/volumeMounts/2": {
                "name": "run",
                "mountPath": "/x",
                "mountPropagation": "HostToContainer",
                "readOnly": True,
            },
        },
    ),
    Value(
        "extraManifests",
        "extraManifests:\n"
        "  - {apiVersion: v1, kind: Namespace, metadata: {name: '{{ .Release.Name }}-extra'}}\n"
        "  - |\n    apiVersion: v1\n    kind: ConfigMap\n    metadata: {name: text}\n"
        "    data: {namespace: '{{ .Release.Namespace }}'}\n",
        {"Namespace /metadata/name": "gpu-extra", "ConfigMap /data": {"namespace": "monitoring"}},
    ),
    Value(
        "serviceMonitor.relabelings",
        "serviceMonitor: {enabled: true, relabelings: [{targetLabel: site, replacement: a}], honorLabels: true}",
        {
            f"{_ENDPOINT}/relabelings": [
                {"sourceLabels": ["__meta_kubernetes_pod_node_name"], "targetLabel": "instance"},
                {"targetLabel": "site", "replacement": "a"},
            ],
            f"{_ENDPOINT}/honorLabels": True,
        },
    ),
    Value(
        "serviceMonitor.additionalLabels",
        "serviceMonitor: {enabled: true, additionalLabels: {release: prometheus}, namespace: prometheus, sampleLimit: 9000}",
        {
            "ServiceMonitor /metadata/labels/release": "prometheus",
            "ServiceMonitor /metadata/namespace": "prometheus",
            "ServiceMonitor /spec/namespaceSelector": {"matchNames": ["monitoring"]},
            "ServiceMonitor /spec/sampleLimit": 9000,
        },
    ),
    Value("prometheus.monitor.namespace", "prometheus: {monitor: {namespace: prometheus}}"),
    Value("arguments", "arguments: [-f, /etc/dcgm-exporter/default-counters.csv]"),
    Value("securityContext", "securityContext: {runAsNonRoot: false, runAsUser: 0}"),
    Value("kubeRBACProxy", "kubeRBACProxy: {enabled: true}"),
    Value("mapPodsMetrics", "mapPodsMetrics: true"),
    Value("sidecars", "sidecars: [{name: other, image: other}]"),
    Value("hostIPC", "hostIPC: true"),
]
