"""Whoever starts containers knows what they are called: Kubernetes, by its API server or its kubelet, and Amazon ECS."""
