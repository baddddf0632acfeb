"""Rule files of Prometheus as one PrometheusRule, the object by which its operator in Kubernetes takes them.

In: texts of rule files. Out: YAML. A rule file is `groups:` and what is indented below it, with comments above; the object has
the same below `spec`, so lines move and none is changed.
"""

from __future__ import annotations

from collections.abc import Iterable

from exporter.errors import BadInput

GROUPS = "groups:"
_HEAD = """\
{comment}
apiVersion: monitoring.coreos.com/v1
kind: PrometheusRule
metadata:
  name: {name}
  labels: # and those that your Prometheus selects rules by, such as release: NAME of kube-prometheus-stack
    app.kubernetes.io/name: gpu-stall-exporter
    app.kubernetes.io/component: rules
spec:
  groups:
"""


def prometheus_rule(name: str, comment: str, rule_files: Iterable[str]) -> str:
    """comment: the first line, with its `#`. Raises BadInput where a text is no rule file."""
    return _HEAD.format(name=name, comment=comment) + "".join(map(_moved, rule_files))


def _moved(text: str) -> str:
    """The groups of a file, two columns to the right, below what its head says."""
    above, found, groups = text.partition(f"{GROUPS}\n")
    if not found or any(line and not line.startswith("#") for line in above.splitlines()):
        raise BadInput("this is no file of rules: `groups:` has to come first, but for comments")
    lines = [f"  {line}" if line else "" for line in above.splitlines()]
    return "\n".join(f"  {line}" if line else "" for line in [*lines, *groups.splitlines()]) + "\n"
