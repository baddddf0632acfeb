"""The only code that reads /proc, /sys and files of observed processes; every root is an argument."""
