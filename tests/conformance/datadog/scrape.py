"""Run by an interpreter that has Datadog's check: scrapes an address with our configuration, prints what would be sent.

In: the configuration, the address. Out: a JSON object, name -> kind, or `error`.
"""

import json
import sys
from pathlib import Path

import yaml
from datadog_checks.base import OpenMetricsBaseCheckV2
from datadog_checks.base.stubs import aggregator

configuration, url = sys.argv[1:]
(instance,) = yaml.safe_load(Path(configuration).read_text(encoding="utf-8"))["instances"]
check = OpenMetricsBaseCheckV2("openmetrics", {}, [instance | {"openmetrics_endpoint": url}])
error = check.run()
found = dict.fromkeys(aggregator.metric_names, "metric")
found |= dict.fromkeys(aggregator._histogram_buckets, "distribution")
print(json.dumps({"error": error} if error else found))
