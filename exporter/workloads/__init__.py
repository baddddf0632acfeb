"""Workloads: which processes are traced, and their labels: node, rank, container, namespace, pod, engine."""
