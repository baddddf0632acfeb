{{- /* What a PodMonitor and a ServiceMonitor share. In: root, own (the values of the monitor), endpoints (the key of its endpoints). */}}
{{- define "gpu-stall-exporter.monitor" -}}
{{- $root := .root }}
{{- $own := .own }}
{{- $endpoint := dict
  "port" $root.Values.service.portName
  "path" $root.Values.web.telemetryPath
  "honorLabels" true }}{{/* keep the labels node, namespace, pod and container of the traced job */}}
{{- if eq (upper $root.Values.web.scheme) "HTTPS" }}
{{- $_ := set $endpoint "scheme" "https" }}
{{- end }}
{{- range list "interval" "scrapeTimeout" "tlsConfig" "basicAuth" "authorization" "oauth2" "bearerTokenSecret" "proxyUrl" "params"
  "honorTimestamps" "followRedirects" "enableHttp2" "filterRunning" "metricRelabelings" }}
{{- $value := get $own . }}
{{- if or $value (kindIs "bool" $value) }}
{{- $_ := set $endpoint . $value }}
{{- end }}
{{- end }}
{{- /* A node keeps its series when the pod is replaced. */}}
{{- $instance := dict "sourceLabels" (list "__meta_kubernetes_pod_node_name") "targetLabel" "instance" }}
{{- $_ := set $endpoint "relabelings" (concat (list $instance) (default list $own.relabelings)) }}
{{- $spec := dict
  "jobLabel" (default "app.kubernetes.io/name" $own.jobLabel)
  "selector" (dict "matchLabels" (include "gpu-stall-exporter.selector" $root | fromYaml))
  .endpoints (list $endpoint) }}
{{- $namespace := include "gpu-stall-exporter.namespace" $root }}
{{- if ne $namespace (default $namespace $own.namespace) }}
{{- $_ := set $spec "namespaceSelector" (dict "matchNames" (list $namespace)) }}
{{- end }}
{{- range $key := list "targetLabels" "podTargetLabels" "attachMetadata" "sampleLimit" "targetLimit" "labelLimit" "labelNameLengthLimit"
  "labelValueLengthLimit" }}
{{- with get $own $key }}
{{- $_ := set $spec $key . }}
{{- end }}
{{- end }}
metadata:
  name: {{ include "gpu-stall-exporter.fullname" $root | quote }}
  namespace: {{ default $namespace $own.namespace | quote }}
  labels:
    {{- include "gpu-stall-exporter.labels" (list $root $own.labels $own.additionalLabels) | nindent 4 }}
spec:
  {{- toYaml $spec | nindent 2 }}
{{- end }}

{{- /* The job under which Prometheus knows the exporters: the rules select it. */}}
{{- define "gpu-stall-exporter.job" -}}
{{- $root := . }}
{{- if .Values.prometheusRule.job -}}
{{ .Values.prometheusRule.job }}
{{- else }}
{{- $jobs := list }}
{{- range $kind, $labels := dict "serviceMonitor" .Values.service.labels "podMonitor" .Values.podLabels }}
{{- $own := get $root.Values $kind }}
{{- if $own.enabled }}
{{- range $own.relabelings }}
{{- if eq (toString .targetLabel) "job" }}
{{- fail (printf "%s.relabelings sets job: set prometheusRule.job to the name that it gives, so that the alerts select it" $kind) }}
{{- end }}
{{- end }}
{{- $key := default "app.kubernetes.io/name" $own.jobLabel }}
{{- $job := get (include "gpu-stall-exporter.labels" (list $root $labels) | fromYaml) $key }}
{{- if not $job }}
{{- fail (printf "%s.jobLabel: what it selects has no label %s: add it to commonLabels, or set prometheusRule.job" $kind $key) }}
{{- end }}
{{- $jobs = append $jobs $job }}
{{- end }}
{{- end }}
{{- if gt (len (uniq $jobs)) 1 }}
{{- fail (printf "podMonitor and serviceMonitor give the jobs %s: enable one of them, or set prometheusRule.job" (join " and " (uniq $jobs))) }}
{{- end -}}
{{ first (append $jobs (include "gpu-stall-exporter.name" .)) }}
{{- end }}
{{- end }}
