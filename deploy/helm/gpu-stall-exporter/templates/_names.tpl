{{- define "gpu-stall-exporter.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimAll "-" }}
{{- end }}

{{- define "gpu-stall-exporter.fullname" -}}
{{- $name := include "gpu-stall-exporter.name" . }}
{{- $full := ternary .Release.Name (printf "%s-%s" .Release.Name $name) (contains $name .Release.Name) }}
{{- $full = default $full .Values.fullnameOverride | lower | replace "." "-" | replace "_" "-" }}
{{- /* The name of a Service begins with a letter; a release may be called 2024. */}}
{{- $full = ternary $full (printf "release-%s" $full) (regexMatch "^[a-z]" $full) | trimAll "-" }}
{{- /* Room for the names of dashboards. A hash keeps the names of two aliases of one release apart. */}}
{{- ternary $full (printf "%s-%s" (trunc 36 $full | trimAll "-") (sha256sum $full | trunc 8)) (le (len $full) 45) }}
{{- end }}

{{- define "gpu-stall-exporter.namespace" -}}
{{- default .Release.Namespace .Values.namespaceOverride }}
{{- end }}

{{- /* The name of what belongs to no namespace. A namespace has no dot in its name, so two releases of one name in two of them share nothing. */}}
{{- define "gpu-stall-exporter.clusterName" -}}
{{ include "gpu-stall-exporter.fullname" . }}.{{ include "gpu-stall-exporter.namespace" . }}
{{- end }}

{{- define "gpu-stall-exporter.selector" -}}
app.kubernetes.io/name: {{ include "gpu-stall-exporter.name" . | quote }}
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end }}

{{- /* The same as an argument of `kubectl get pods -l`. */}}
{{- define "gpu-stall-exporter.query" -}}
app.kubernetes.io/name={{ include "gpu-stall-exporter.name" . }},app.kubernetes.io/instance={{ .Release.Name }}
{{- end }}

{{- /* In: a list of the root and of further labels. Later ones replace earlier ones, but never those of the selector. */}}
{{- define "gpu-stall-exporter.labels" -}}
{{- $root := first . }}
{{- $selector := include "gpu-stall-exporter.selector" $root | fromYaml }}
{{- $labels := dict
  "app.kubernetes.io/version" ($root.Chart.AppVersion | replace "+" "_")
  "app.kubernetes.io/managed-by" $root.Release.Service
  "helm.sh/chart" (printf "%s-%s" $root.Chart.Name $root.Chart.Version | replace "+" "_" | trunc 63 | trimAll "-._") }}
{{- if $root.Values.releaseLabel }}
{{- $_ := set $labels "release" $root.Release.Name }}
{{- end }}
{{- range concat (list $root.Values.commonLabels) (rest .) }}
{{- range $key, $value := tpl (toYaml (default dict .)) $root | fromYaml }}
{{- if and (hasKey $selector $key) (ne (toString $value) (get $selector $key)) }}
{{- fail (printf "the label %s selects pods and cannot become %q: set nameOverride, or another name of the release" $key (toString $value)) }}
{{- end }}
{{- $_ := set $labels $key (toString $value) }}
{{- end }}
{{- end }}
{{- merge $selector $labels | toYaml }}
{{- end }}

{{- define "gpu-stall-exporter.serviceAccount" -}}
{{- $own := ternary (include "gpu-stall-exporter.fullname" .) "default" .Values.serviceAccount.create }}
{{- default $own .Values.serviceAccount.name }}
{{- end }}

{{- define "gpu-stall-exporter.image" -}}
{{- $name := .Values.image.repository }}
{{- if contains "@" $name }}
{{- fail (printf "image.repository=%s has a digest: set image.digest to %s, and image.repository without it" $name (splitList "@" $name | last)) }}
{{- end }}
{{- $last := splitList "/" $name | last }}
{{- if contains ":" $last }}
{{- fail (printf "image.repository=%s has a tag: set image.tag to %s, and image.repository without it" $name (splitList ":" $last | last)) }}
{{- end }}
{{- if contains "@" .Values.image.tag }}
{{- fail (printf "image.tag=%s has a digest: set image.digest to %s" .Values.image.tag (splitList "@" .Values.image.tag | last)) }}
{{- end }}
{{- with default .Values.image.registry (.Values.global).imageRegistry }}
{{- $name = printf "%s/%s" (trimSuffix "/" .) $name }}
{{- end }}
{{- if .Values.image.digest -}}
{{ $name }}@{{ .Values.image.digest }}
{{- else -}}
{{ $name }}:{{ default .Chart.AppVersion .Values.image.tag }}
{{- end }}
{{- end }}

{{- /* In: a list of the root and of lists of secrets, each {name: NAME} or NAME. */}}
{{- define "gpu-stall-exporter.pullSecrets" -}}
{{- $names := list }}
{{- range concat (list ((first .).Values.global).imagePullSecrets) (rest .) }}
{{- range . }}
{{- $names = append $names (kindIs "string" . | ternary . (get (kindIs "string" . | ternary dict .) "name")) }}
{{- end }}
{{- end }}
{{- range uniq $names }}
- name: {{ quote . }}
{{- end }}
{{- end }}

{{- define "gpu-stall-exporter.port" -}}
{{- default .Values.web.port .Values.service.port }}
{{- end }}

{{- /* In: a list of the root, a path and the timings. */}}
{{- define "gpu-stall-exporter.probe" -}}
{{- $root := index . 0 }}
{{- if $root.Values.web.tcpProbes -}}
tcpSocket:
  port: {{ $root.Values.service.portName }}
{{- else -}}
httpGet:
  path: {{ index . 1 }}
  port: {{ $root.Values.service.portName }}
  {{- if eq (upper $root.Values.web.scheme) "HTTPS" }}
  scheme: HTTPS
  {{- end }}
{{- end }}
{{- with index . 2 }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- /* `serve` has pods of its own, which nothing of the exporter selects. Its names have room below 63 characters. */}}
{{- define "gpu-stall-exporter.serveName" -}}
{{ include "gpu-stall-exporter.fullname" . }}-serve
{{- end }}

{{- define "gpu-stall-exporter.serveSelector" -}}
app.kubernetes.io/name: {{ printf "%s-serve" (include "gpu-stall-exporter.name" . | trunc 57 | trimAll "-") | quote }}
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end }}

{{- /* In: as of gpu-stall-exporter.labels. */}}
{{- define "gpu-stall-exporter.serveLabels" -}}
{{- merge (include "gpu-stall-exporter.serveSelector" (first .) | fromYaml) (include "gpu-stall-exporter.labels" . | fromYaml) | toYaml }}
{{- end }}
