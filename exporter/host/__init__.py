"""Reads /proc, /sys and files of observed processes; nothing else does. Every root is an argument."""
