"""Builds the container image with Podman and tries it as a pod runs it: `make image-steps`."""
