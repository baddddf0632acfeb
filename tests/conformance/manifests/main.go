// SPDX-License-Identifier: Apache-2.0

// Says of manifests what a Kubernetes API server would say to them, without one: are all keys known, are all values of the
// right type and allowed, and which Pod Security level do their pods need?
//
// In: YAML documents on standard input. Out: a line for each object and a line for each refusal; exit status 1 if there is one.
// The server's own code decides, from k8s.io/kubernetes. Of the kinds of Prometheus' operator the types are known: keys and
// types of values are checked, and no more.
package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	monitoring "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	podutil "k8s.io/kubernetes/pkg/api/pod"
	"k8s.io/kubernetes/pkg/apis/apps"
	_ "k8s.io/kubernetes/pkg/apis/apps/install"
	appsvalidation "k8s.io/kubernetes/pkg/apis/apps/validation"
	"k8s.io/kubernetes/pkg/apis/batch"
	_ "k8s.io/kubernetes/pkg/apis/batch/install"
	"k8s.io/kubernetes/pkg/apis/core"
	_ "k8s.io/kubernetes/pkg/apis/core/install"
	corevalidation "k8s.io/kubernetes/pkg/apis/core/validation"
	"k8s.io/kubernetes/pkg/apis/networking"
	_ "k8s.io/kubernetes/pkg/apis/networking/install"
	networkingvalidation "k8s.io/kubernetes/pkg/apis/networking/validation"
	"k8s.io/kubernetes/pkg/apis/rbac"
	_ "k8s.io/kubernetes/pkg/apis/rbac/install"
	rbacvalidation "k8s.io/kubernetes/pkg/apis/rbac/validation"
	podsecurity "k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"
)

var clusterWide = map[string]bool{"ClusterRole": true, "ClusterRoleBinding": true, "Namespace": true}

// Of the server's own code: features that are still off.
var options = map[string]bool{"WorkloadWithJob": false}

func main() {
	if err := monitoring.AddToScheme(legacyscheme.Scheme); err != nil {
		panic(err)
	}
	codecs := serializer.NewCodecFactory(legacyscheme.Scheme, serializer.EnableStrict)
	security, err := policy.NewEvaluator(policy.DefaultChecks(), nil)
	if err != nil {
		panic(err)
	}
	documents := yaml.NewYAMLReader(bufio.NewReader(os.Stdin))
	isRefused := false
	for {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			fmt.Printf("refused: %v\n", err)
			os.Exit(1)
		}
		if isEmpty(document) {
			continue
		}
		object, kind, err := codecs.UniversalDeserializer().Decode(document, nil, nil)
		if err != nil {
			isRefused = true
			name := "a document"
			if kind != nil {
				name = kind.Kind
			}
			fmt.Printf("refused: %s: %v\n", name, err)
			continue
		}
		name, refusals := judge(object, kind.Kind)
		fmt.Println(name)
		for _, one := range refusals {
			isRefused = true
			fmt.Printf("refused: %s: %v\n", name, one)
		}
		if template := podOf(object); template != nil {
			for _, level := range []podsecurity.Level{podsecurity.LevelBaseline, podsecurity.LevelRestricted} {
				version := podsecurity.LevelVersion{Level: level, Version: podsecurity.LatestVersion()}
				for _, result := range security.EvaluatePod(version, &template.ObjectMeta, &template.Spec) {
					if !result.Allowed {
						fmt.Printf("beyond %s: %s: %s: %s\n", level, name, result.ForbiddenReason, result.ForbiddenDetail)
					}
				}
			}
		}
	}
	if isRefused {
		os.Exit(1)
	}
}

func isEmpty(document []byte) bool {
	for _, line := range bytes.Split(document, []byte("\n")) {
		if text := strings.TrimSpace(string(line)); text != "" && text != "---" && !strings.HasPrefix(text, "#") {
			return false
		}
	}
	return true
}

// Its name, and what the server does not take in it. As with kubectl, what has no namespace gets one.
func judge(object runtime.Object, kind string) (string, []error) {
	about, err := meta.Accessor(object)
	if err != nil {
		return kind, []error{err}
	}
	if about.GetNamespace() == "" && !clusterWide[kind] {
		about.SetNamespace("default")
	}
	name := kind + " " + about.GetName()
	if strings.HasPrefix(object.GetObjectKind().GroupVersionKind().Group, "monitoring.coreos.com") {
		return name, nil
	}
	legacyscheme.Scheme.Default(object)
	refusals := legacyscheme.Scheme.Validate(context.Background(), options, object)
	internal, err := legacyscheme.Scheme.UnsafeConvertToVersion(object, runtime.InternalGroupVersioner)
	if err != nil {
		return name, []error{err}
	}
	found, isKnown := refusalsOf(internal)
	if !isKnown {
		return name, []error{errors.New("no check for this kind")}
	}
	seen := map[string]bool{}
	var result []error
	for _, one := range append(refusals, found...) {
		if !seen[one.Error()] {
			seen[one.Error()] = true
			result = append(result, one)
		}
	}
	return name, result
}

func refusalsOf(object runtime.Object) (field.ErrorList, bool) {
	switch it := object.(type) {
	case *core.Namespace:
		return corevalidation.ValidateNamespace(it), true
	case *core.ServiceAccount:
		return corevalidation.ValidateServiceAccount(it), true
	case *core.ConfigMap:
		return corevalidation.ValidateConfigMap(it), true
	case *core.Service:
		if it.Spec.ClusterIP != "" && it.Spec.ClusterIPs == nil { // as the server does before it looks
			it.Spec.ClusterIPs = []string{it.Spec.ClusterIP}
		}
		return corevalidation.ValidateServiceCreate(it), true
	case *core.Pod:
		options := podutil.GetValidationOptionsFromPodSpecAndMeta(&it.Spec, nil, &it.ObjectMeta, nil)
		return corevalidation.ValidatePodCreate(it, options), true
	case *apps.DaemonSet:
		options := podutil.GetValidationOptionsFromPodTemplate(&it.Spec.Template, nil)
		return appsvalidation.ValidateDaemonSet(it, options), true
	case *apps.Deployment:
		options := podutil.GetValidationOptionsFromPodTemplate(&it.Spec.Template, nil)
		return appsvalidation.ValidateDeployment(it, options), true
	case *batch.Job: // its selector is made by the server, so only its pods are looked at
		options := podutil.GetValidationOptionsFromPodTemplate(&it.Spec.Template, nil)
		at := field.NewPath("spec", "template")
		return corevalidation.ValidatePodTemplateSpec(&it.Spec.Template, at, options), true
	case *rbac.ClusterRole:
		return rbacvalidation.ValidateClusterRole(it, rbacvalidation.ClusterRoleValidationOptions{}), true
	case *rbac.ClusterRoleBinding:
		return rbacvalidation.ValidateClusterRoleBinding(it), true
	case *rbac.Role:
		return rbacvalidation.ValidateRole(it), true
	case *rbac.RoleBinding:
		return rbacvalidation.ValidateRoleBinding(it), true
	case *networking.NetworkPolicy:
		return networkingvalidation.ValidateNetworkPolicy(it, networkingvalidation.NetworkPolicyValidationOptions{}), true
	}
	return nil, false
}

func podOf(object runtime.Object) *corev1.PodTemplateSpec {
	switch it := object.(type) {
	case *corev1.Pod:
		return &corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Annotations: it.Annotations}, Spec: it.Spec}
	case *appsv1.DaemonSet:
		return &it.Spec.Template
	case *appsv1.Deployment:
		return &it.Spec.Template
	case *batchv1.Job:
		return &it.Spec.Template
	}
	return nil
}
