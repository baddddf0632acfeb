{{- define "gpu-stall-exporter.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" }}
{{- end }}

{{- define "gpu-stall-exporter.fullname" -}}
{{- $name := include "gpu-stall-exporter.name" . }}
{{- $full := ternary .Release.Name (printf "%s-%s" .Release.Name $name) (contains $name .Release.Name) }}
{{- default $full .Values.fullnameOverride | trunc 45 | trimSuffix "-" }}
{{- end }}

{{- define "gpu-stall-exporter.selector" -}}
app.kubernetes.io/name: {{ include "gpu-stall-exporter.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "gpu-stall-exporter.labels" -}}
{{ include "gpu-stall-exporter.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end }}

{{- define "gpu-stall-exporter.serviceAccount" -}}
{{- $own := ternary (include "gpu-stall-exporter.fullname" .) "default" .Values.serviceAccount.create }}
{{- default $own .Values.serviceAccount.name }}
{{- end }}

{{- define "gpu-stall-exporter.image" -}}
{{- if .Values.image.digest -}}
{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ .Values.image.repository }}:{{ default .Chart.AppVersion .Values.image.tag }}
{{- end }}
{{- end }}

{{- define "gpu-stall-exporter.endpoint" -}}
port: metrics
path: {{ .all.web.telemetryPath }}
interval: {{ .own.interval }}
{{- with .own.scrapeTimeout }}
scrapeTimeout: {{ . }}
{{- end }}
{{- if eq .all.web.scheme "HTTPS" }}
scheme: https
{{- end }}
{{- with .own.tlsConfig }}
tlsConfig:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .own.basicAuth }}
basicAuth:
  {{- toYaml . | nindent 2 }}
{{- end }}
honorLabels: true # keep the labels node, namespace, pod and container of the traced job
relabelings:
  - sourceLabels: [__meta_kubernetes_pod_node_name]
    targetLabel: instance # a node keeps its series when the pod is replaced
{{- with .own.metricRelabelings }}
metricRelabelings:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- define "gpu-stall-exporter.asked" -}}
{{- if .web.tcpProbes -}}
tcpSocket:
  port: metrics
{{- else -}}
httpGet:
  path: {{ .path }}
  port: metrics
  {{- if eq .web.scheme "HTTPS" }}
  scheme: HTTPS
  {{- end }}
{{- end }}
{{- end }}
