#!/bin/sh
# usage: isolated.sh FOLDER COMMAND [ARGUMENT...]
# Runs a command in its own PID, mount, network and IPC namespaces. FOLDER, of the stand-in's libraries, is replaced by a
# copy there. All processes that the command has started are killed when it ends, and with it when the one that ran this ends.
folder=$1 checkout=$(cd "$(dirname "$0")/../.." && pwd)
shift
export folder checkout
# The shell stays, as process 1 of the namespace: it reaps orphans.
exec setpriv --pdeathsig KILL -- unshare --pid --fork --kill-child --mount --net --ipc -- sh -c '
	set -e
	mount --make-rprivate /
	mount -t proc proc /proc
	mount -t tmpfs tmpfs /dev/shm
	mkdir -p /run/netns
	mount -t tmpfs tmpfs /run/netns
	# Tests run programs of the checkout as other users. If only root may enter a directory above it, another one takes its place,
	# unless the interpreter is below it as well.
	inside=$checkout
	while [ "$inside" != / ]; do
		above=$(dirname "$inside")
		case $(stat -c %a "$above"):$(readlink -f "$1") in
		*[1357]:* | *":$above/"*) ;;
		*)
			kept=$(mktemp -d)
			mount --rbind "$inside" "$kept"
			mount -t tmpfs -o mode=755 tmpfs "$above"
			mkdir "$inside"
			mount --move "$kept" "$inside"
			rmdir "$kept"
			;;
		esac
		inside=$above
	done
	cd "$checkout"
	copies=$(mktemp -d)
	mount -t tmpfs tmpfs "$copies"
	cp -a "$folder/." "$copies"
	mount --move "$copies" "$folder"
	rmdir "$copies"
	ip link set lo up
	set +e
	env -u folder -u checkout "$@"
	exit $?
' sh "$@"
