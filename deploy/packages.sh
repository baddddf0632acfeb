#!/bin/sh
# Installs missing Debian or Ubuntu packages. Arguments: command-or-file:package; a package is missing when the command or file is.
# Does nothing when all are there. Where there is no apt-get, prints what to install.
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
	echo "missing packages (Debian names):$missing. Install them with your package manager" >&2
	exit 1
fi
sudo=""
if [ "$(id -u)" -ne 0 ]; then
	command -v sudo >/dev/null 2>&1 || {
		echo "missing packages; run as root: apt-get install$missing" >&2
		exit 1
	}
	sudo=sudo
fi
echo "Installing:$missing"
export DEBIAN_FRONTEND=noninteractive
options="-qq -o Acquire::Retries=5 -o DPkg::Lock::Timeout=300"
install() {
	# shellcheck disable=SC2086 # lists of words
	$sudo apt-get $options update && $sudo apt-get $options install -y --no-install-recommends $missing >/dev/null
}
for pause in 5 20 60; do
	install && exit 0
	echo "cannot install packages: trying again in $pause s" >&2
	sleep "$pause"
done
install
