#!/bin/sh
# usage: isolated.sh FOLDER COMMAND [ARGUMENT...]
# Runs a command in its own PID, mount, network and IPC namespaces. FOLDER, of the stand-in's libraries, is replaced by a
# copy there. All processes that the command has started are killed when it ends, and with it when the one that ran this ends.
folder=$1
shift
export folder
# The shell stays, as process 1 of the namespace: it reaps orphans.
exec setpriv --pdeathsig KILL -- unshare --pid --fork --kill-child --mount --net --ipc -- sh -c '
	set -e
	mount --make-rprivate /
	mount -t proc proc /proc
	mount -t tmpfs tmpfs /dev/shm
	mkdir -p /run/netns
	mount -t tmpfs tmpfs /run/netns
	copies=$(mktemp -d)
	mount -t tmpfs tmpfs "$copies"
	cp -a "$folder/." "$copies"
	mount --move "$copies" "$folder"
	rmdir "$copies"
	ip link set lo up
	set +e
	env -u folder "$@"
	exit $?
' sh "$@"
