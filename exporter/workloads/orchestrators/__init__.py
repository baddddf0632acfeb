"""Names of containers and pods from an orchestrator: the Kubernetes API server, a kubelet, or Amazon ECS."""
