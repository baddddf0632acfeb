"""Facts about a process -> the labels that name it: node, rank, container, namespace, pod. Pure: no file, no clock."""
