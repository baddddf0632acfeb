#!/bin/sh
# usage: isolated.sh CPUS FOLDER COMMAND [ARGUMENT...]
# Runs a command on these CPUs, in its own PID, mount, network and IPC namespaces. FOLDER, of the stand-in's libraries, is replaced by a
# copy there. All processes that the command has started are killed when it ends.
cpus=$1 folder=$2
shift 2
export cpus folder
# The shell stays, as process 1 of the namespace: it reaps orphans.
exec unshare --pid --fork --kill-child --mount --net --ipc -- sh -c '
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
	taskset -c "$cpus" env -u cpus -u folder "$@"
	exit $?
' sh "$@"
