#!/bin/sh
# Installs the Debian or Ubuntu packages that are missing. Arguments: command-or-file:package, checked one by one.
# Does nothing, and needs nothing, when all are there; says what to install by hand where there is no apt-get.
set -eu

missing=""
for need in "$@"; do
	what=${need%%:*}
	package=${need#*:}
	case $what in
	/*) [ -e "$what" ] || missing="$missing $package" ;;
	*) command -v "$what" >/dev/null 2>&1 || missing="$missing $package" ;;
	esac
done
[ -n "$missing" ] || exit 0

if ! command -v apt-get >/dev/null 2>&1; then
	echo "These packages are missing, under your distribution's names:$missing" >&2
	exit 1
fi
sudo=""
if [ "$(id -u)" -ne 0 ]; then
	command -v sudo >/dev/null 2>&1 || {
		echo "Run as root: apt-get install$missing" >&2
		exit 1
	}
	sudo=sudo
fi
echo "Installing:$missing"
export DEBIAN_FRONTEND=noninteractive
$sudo apt-get update -qq
# shellcheck disable=SC2086 # a list of words
$sudo apt-get install -y -qq --no-install-recommends $missing >/dev/null
