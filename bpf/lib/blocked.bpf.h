/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/*
 * What does a thread wait for when it goes to sleep? Decided once, at the switch away from the CPU, by its system call, the kind of file
 * it waits for, and flags of the kernel.
 */
#ifndef GPUSTALL_BLOCKED_BPF_H
#define GPUSTALL_BLOCKED_BPF_H

#include "process.bpf.h"
#include "stopped.bpf.h"

#define PF_MEMALLOC 0x800	    /* include/linux/sched.h: allocating memory to free memory */

#define FILE_TYPE 0170000 /* S_IFMT of linux/stat.h */
#define FILE_PIPE 0010000
#define FILE_DEVICE 0020000
#define FILE_DIRECTORY 0040000
#define FILE_BLOCKS 0060000
#define FILE_REGULAR 0100000
#define FILE_SOCKET 0140000

/*
 * Not states, but where to find one. BY_DESCRIPTOR: the first argument is a descriptor that is read, BY_WRITTEN: one that is written.
 * BY_SPLICED: the first is read, the third is written. BY_FILE_LOCK: STATE_LOCK, of a file. BY_POLLED: the first points to an array of struct pollfd. BY_FILE: it is the
 * descriptor of a file, whose file system decides between a disk and the network.
 */
#define BY_DESCRIPTOR 32
#define BY_POLLED 33
#define BY_FILE 34
#define BY_WRITTEN 35
#define BY_SPLICED 36
#define BY_FILE_LOCK 37

#define FAMILY_UNIX 1	  /* AF_UNIX of linux/socket.h */
#define SOCKET_LISTENS 10 /* TCP_LISTEN of linux/tcp_states.h, also used by other kinds of sockets */

#if defined(__TARGET_ARCH_x86)
#define SYSCALL_NUMBER(task) (((struct syscall_registers *)bpf_task_pt_regs(task))->orig_ax)
#define FIRST_ARGUMENT(task) (((struct syscall_registers *)bpf_task_pt_regs(task))->di)
#define SECOND_ARGUMENT(task) (((struct syscall_registers *)bpf_task_pt_regs(task))->si)
#define THIRD_ARGUMENT(task) (((struct syscall_registers *)bpf_task_pt_regs(task))->dx)
#define FOURTH_ARGUMENT(task) (((struct syscall_registers *)bpf_task_pt_regs(task))->r10)
#define SYSCALL_FUTEX 202
struct syscall_registers { /* struct pt_regs */
	unsigned long r15, r14, r13, r12, bp, bx, r11, r10, r9, r8, ax, cx, dx, si, di;
	long orig_ax;
};

/* arch/x86/entry/syscalls/syscall_64.tbl */
static const u8 sleep_class[512] = {
	[0] = BY_DESCRIPTOR, [19] = BY_DESCRIPTOR, [16] = BY_DESCRIPTOR, /* read, readv, ioctl */
	[1] = BY_WRITTEN, [20] = BY_WRITTEN, [40] = BY_WRITTEN, [278] = BY_WRITTEN, /* write, writev, sendfile, vmsplice */
	[275] = BY_SPLICED, /* splice */
	[7] = BY_POLLED, [271] = BY_POLLED, /* poll, ppoll */
	[23] = STATE_POLL, [270] = STATE_POLL, /* select, pselect6 */
	[232] = STATE_POLL, [281] = STATE_POLL, [441] = STATE_POLL, /* epoll_wait, epoll_pwait, epoll_pwait2 */
	[208] = STATE_IO, [333] = STATE_IO, [426] = STATE_IO, /* io_getevents, io_pgetevents, io_uring_enter */
	[17] = BY_FILE, [18] = BY_FILE, [295] = BY_FILE, [296] = BY_FILE, /* pread64 ... pwritev */
	[327] = BY_FILE, [328] = BY_FILE, /* preadv2, pwritev2 */
	[26] = STATE_IO, [74] = BY_FILE, [75] = BY_FILE, [162] = STATE_IO, /* msync, fsync, fdatasync, sync */
	[277] = BY_FILE, [306] = BY_FILE, [285] = BY_FILE, [187] = BY_FILE, /* sync_file_range ... readahead */
	[2] = STATE_IO, [3] = STATE_IO, [4] = STATE_IO, [6] = STATE_IO, /* open, close, stat, lstat */
	[78] = BY_FILE, [217] = BY_FILE, [257] = STATE_IO, [262] = STATE_IO, /* getdents ... newfstatat */
	[332] = STATE_IO, [326] = BY_FILE, [437] = STATE_IO, /* statx, copy_file_range, openat2 */
	[76] = STATE_IO, [77] = BY_FILE, [258] = STATE_IO, [263] = STATE_IO, [316] = STATE_IO, /* truncate ... renameat2 */
	[202] = STATE_LOCK, [449] = STATE_LOCK, [454] = STATE_LOCK, [455] = STATE_LOCK, [456] = STATE_LOCK, /* futex */
	[65] = STATE_LOCK, [220] = STATE_LOCK, [73] = BY_FILE_LOCK, [72] = BY_FILE_LOCK, /* semop, semtimedop, flock, fcntl */
	[9] = STATE_LOCK, [10] = STATE_LOCK, [11] = STATE_LOCK, [12] = STATE_LOCK, /* mmap ... brk: the lock of the address space */
	[25] = STATE_LOCK, [28] = STATE_LOCK, /* mremap, madvise */
	[42] = STATE_SOCKET, [43] = STATE_SOCKET, [288] = STATE_SOCKET, /* connect, accept, accept4 */
	[45] = BY_DESCRIPTOR, [47] = BY_DESCRIPTOR, [299] = BY_DESCRIPTOR, /* recvfrom, recvmsg, recvmmsg */
	[44] = BY_WRITTEN, [46] = BY_WRITTEN, [307] = BY_WRITTEN, /* sendto, sendmsg, sendmmsg */
	[69] = STATE_OUTPUT, [70] = STATE_PIPE, [242] = STATE_OUTPUT, [243] = STATE_PIPE, /* message queues: send, receive */
	[35] = STATE_SLEEP, [230] = STATE_SLEEP, [219] = STATE_SLEEP, /* nanosleep, clock_nanosleep, restart_syscall */
	[61] = STATE_CHILD, [247] = STATE_CHILD, /* wait4, waitid */
};
#elif defined(__TARGET_ARCH_arm64)
#define SYSCALL_NUMBER(task) (((struct syscall_registers *)bpf_task_pt_regs(task))->syscallno)
#define FIRST_ARGUMENT(task) (((struct syscall_registers *)bpf_task_pt_regs(task))->orig_x0)
#define SECOND_ARGUMENT(task) (((struct syscall_registers *)bpf_task_pt_regs(task))->regs[1])
#define THIRD_ARGUMENT(task) (((struct syscall_registers *)bpf_task_pt_regs(task))->regs[2])
#define FOURTH_ARGUMENT(task) (((struct syscall_registers *)bpf_task_pt_regs(task))->regs[3])
#define SYSCALL_FUTEX 98
struct syscall_registers { /* struct pt_regs behind struct user_pt_regs; orig_x0 holds the first argument */
	u64 regs[31], sp, pc, pstate;
	u64 orig_x0;
	s32 syscallno;
};

/* include/uapi/asm-generic/unistd.h */
static const u8 sleep_class[512] = {
	[63] = BY_DESCRIPTOR, [65] = BY_DESCRIPTOR, [29] = BY_DESCRIPTOR, /* read, readv, ioctl */
	[64] = BY_WRITTEN, [66] = BY_WRITTEN, [71] = BY_WRITTEN, [75] = BY_WRITTEN, /* write, writev, sendfile, vmsplice */
	[76] = BY_SPLICED, /* splice */
	[73] = BY_POLLED, /* ppoll */
	[72] = STATE_POLL, [22] = STATE_POLL, [441] = STATE_POLL, /* pselect6, epoll_pwait, epoll_pwait2 */
	[4] = STATE_IO, [292] = STATE_IO, [426] = STATE_IO, /* io_getevents, io_pgetevents, io_uring_enter */
	[67] = BY_FILE, [68] = BY_FILE, [69] = BY_FILE, [70] = BY_FILE, [286] = BY_FILE, [287] = BY_FILE, /* pread64 ... */
	[227] = STATE_IO, [82] = BY_FILE, [83] = BY_FILE, [81] = STATE_IO, [84] = BY_FILE, [267] = BY_FILE, /* msync ... */
	[47] = BY_FILE, [213] = BY_FILE, [56] = STATE_IO, [57] = STATE_IO, [61] = BY_FILE, [79] = STATE_IO, /* fallocate ... */
	[291] = STATE_IO, [285] = BY_FILE, [437] = STATE_IO, [45] = STATE_IO, [46] = BY_FILE, /* statx ... ftruncate */
	[34] = STATE_IO, [35] = STATE_IO, [276] = STATE_IO, /* mkdirat, unlinkat, renameat2 */
	[98] = STATE_LOCK, [449] = STATE_LOCK, [454] = STATE_LOCK, [455] = STATE_LOCK, [456] = STATE_LOCK, /* futex */
	[193] = STATE_LOCK, [192] = STATE_LOCK, [32] = BY_FILE_LOCK, [25] = BY_FILE_LOCK, /* semop, semtimedop, flock, fcntl */
	[222] = STATE_LOCK, [226] = STATE_LOCK, [215] = STATE_LOCK, [214] = STATE_LOCK, /* mmap, mprotect, munmap, brk */
	[216] = STATE_LOCK, [233] = STATE_LOCK, /* mremap, madvise */
	[203] = STATE_SOCKET, [202] = STATE_SOCKET, [242] = STATE_SOCKET, /* connect, accept, accept4 */
	[207] = BY_DESCRIPTOR, [212] = BY_DESCRIPTOR, [243] = BY_DESCRIPTOR, /* recvfrom, recvmsg, recvmmsg */
	[206] = BY_WRITTEN, [211] = BY_WRITTEN, [269] = BY_WRITTEN, /* sendto, sendmsg, sendmmsg */
	[189] = STATE_OUTPUT, [188] = STATE_PIPE, [182] = STATE_OUTPUT, [183] = STATE_PIPE, /* message queues: send, receive */
	[101] = STATE_SLEEP, [115] = STATE_SLEEP, [128] = STATE_SLEEP, /* nanosleep, clock_nanosleep, restart_syscall */
	[260] = STATE_CHILD, [95] = STATE_CHILD, /* wait4, waitid */
};
#endif

static __always_inline bool is_gpu(u32 device)
{
	u32 zero = 0, major = device >> 20; /* MAJOR() of linux/kdev_t.h */
	struct settings *own = bpf_map_lookup_elem(&settings, &zero);

	if (!own || !major)
		return false;
	for (int i = 0; i < GPU_MAJORS; i++)
		if (own->gpu_majors[i] == major)
			return true;
	return false;
}

/*
 * File systems whose files are on another machine, by s_magic: those of linux/magic.h, and more from file(1) and stat(1). FUSE is not
 * among them: its backend is unknown.
 */
static __always_inline bool is_of_network(u64 magic)
{
	switch (magic) {
	case 0x6969:	 /* NFS */
	case 0x517b:	 /* SMB */
	case 0xff534d42: /* CIFS */
	case 0xfe534d42: /* SMB 2 and 3 */
	case 0x00c36400: /* Ceph */
	case 0x01021997: /* 9P */
	case 0x0bd00bd0: /* Lustre */
	case 0x19830326: /* BeeGFS */
	case 0x47504653: /* GPFS */
	case 0x5346414f: /* AFS */
	case 0x6b414653: /* AFS, of the kernel */
	case 0x73757245: /* Coda */
	case 0xaad7aaea: /* PanFS */
#ifdef ALSO_OF_NETWORK /* defined by a test with the magic of a file system that it has */
	case ALSO_OF_NETWORK:
#endif
		return true;
	default:
		return false;
	}
}

static __always_inline struct file *file_of(struct task_struct *task, u64 descriptor)
{
	struct file **files = BPF_CORE_READ(task, files, fdt, fd), *file = NULL;
	u32 most = BPF_CORE_READ(task, files, fdt, max_fds);

	return descriptor < most && !bpf_probe_read_kernel(&file, sizeof(file), files + descriptor) ? file : NULL;
}

/* Major numbers of terminals, by Documentation/admin-guide/devices.txt: of the console, serial lines and pseudo-terminals. */
static __always_inline bool is_terminal(u32 device)
{
	u32 major = device >> 20;

	return major == 4 || major == 5 || (major >= 136 && major <= 143) || major == 204 || major == 229;
}

/* Whether the peer of a socket is a program on this machine, as that of a pipe. */
static __always_inline bool is_unix(struct file *file)
{
	struct socket *socket = BPF_CORE_READ(file, private_data);

	return BPF_CORE_READ(socket, sk, __sk_common.skc_family) == FAMILY_UNIX;
}

/* The state of a thread that waits for this descriptor; `else_state` for other kinds of files, such as timers. */
static __noinline u32 state_by_descriptor(struct task_struct *task, u64 descriptor, u32 else_state, u32 is_written)
{
	struct file *file = file_of(task, descriptor);

	if (!file)
		return else_state;
	switch (BPF_CORE_READ(file, f_inode, i_mode) & FILE_TYPE) {
	case FILE_PIPE: return is_written ? STATE_OUTPUT : STATE_PIPE;
	case FILE_SOCKET:
		if (!is_unix(file))
			return STATE_SOCKET;
		return is_written ? STATE_OUTPUT : STATE_PIPE;
	case FILE_REGULAR: case FILE_DIRECTORY:
		return is_of_network(BPF_CORE_READ(file, f_inode, i_sb, s_magic)) ? STATE_SOCKET : STATE_IO;
	case FILE_BLOCKS: return STATE_IO;
	case FILE_DEVICE:
		if (is_gpu(BPF_CORE_READ(file, f_inode, i_rdev)))
			return STATE_GPU_WAIT;
		return is_written && is_terminal(BPF_CORE_READ(file, f_inode, i_rdev)) ? STATE_OUTPUT : else_state;
	default: return else_state;
	}
}

/* Whether splice() waits for its source: a socket, or a pipe without data. Else it waits for its target. */
static __always_inline bool is_for_source(struct task_struct *task, u64 source)
{
	struct file *file = file_of(task, source);
	u32 type = file ? BPF_CORE_READ(file, f_inode, i_mode) & FILE_TYPE : 0;

	if (type != FILE_PIPE)
		return type == FILE_SOCKET;
	struct pipe_inode_info *pipe = BPF_CORE_READ(file, private_data);

	return BPF_CORE_READ(pipe, head) == BPF_CORE_READ(pipe, tail);
}

/* The state of a thread that reads or writes a file: disk or network. STATE_IO for anything else, such as the target of sendfile(). */
static __noinline u32 state_by_file(struct task_struct *task, u64 descriptor)
{
	struct file *file = file_of(task, descriptor);
	u32 type = file ? BPF_CORE_READ(file, f_inode, i_mode) & FILE_TYPE : 0;

	if (type != FILE_REGULAR && type != FILE_DIRECTORY)
		return STATE_IO;
	return is_of_network(BPF_CORE_READ(file, f_inode, i_sb, s_magic)) ? STATE_SOCKET : STATE_IO;
}

/* Whether this is a socket with one peer: one that listens waits for any client. */
static __always_inline bool is_connection(struct task_struct *task, u64 descriptor)
{
	struct file *file = file_of(task, descriptor);

	if (!file || (BPF_CORE_READ(file, f_inode, i_mode) & FILE_TYPE) != FILE_SOCKET)
		return false;
	struct socket *socket = BPF_CORE_READ(file, private_data);

	return BPF_CORE_READ(socket, sk, __sk_common.skc_state) != SOCKET_LISTENS;
}

#define POLL_IN 1 /* POLLIN and POLLOUT of asm-generic/poll.h */
#define POLL_OUT 4

/*
 * A single polled socket is a recv() with a time-out, a single pipe that is polled for room a write(). With several descriptors it is
 * unknown which one the thread waits for.
 */
static __noinline u32 state_by_polled(struct task_struct *task, u64 address, u64 count)
{
	struct {
		s32 descriptor;
		u16 events, results;
	} polled; /* struct pollfd */

	if (bpf_probe_read_user(&polled, sizeof(polled), (void *)address) || polled.descriptor < 0)
		return STATE_POLL;
	bool is_written = (polled.events & (POLL_IN | POLL_OUT)) == POLL_OUT;
	u32 state = state_by_descriptor(task, polled.descriptor, STATE_POLL, is_written);

	if (state == STATE_GPU_WAIT || (state == STATE_OUTPUT && count == 1))
		return state;
	return count == 1 && is_connection(task, polled.descriptor) ? state : STATE_POLL;
}

/* `task` is current and about to sleep. */
static __always_inline u32 sleep_state(struct task_struct *task, u32 task_state)
{
	if (is_stopped(task, task_state))
		return STATE_STOPPED;
	if (task->flags & PF_MEMALLOC || BPF_CORE_READ_BITFIELD(task, in_memstall))
		return STATE_MEMORY;
	s64 number = SYSCALL_NUMBER(task);

	if (number < 0) /* no system call: an exception; if the task sleeps, a page fault */
		return STATE_FAULT;
	bool is_io = BPF_CORE_READ_BITFIELD(task, in_iowait);

	if (number >= 512)
		return is_io ? STATE_IO : STATE_OTHER;
	u32 class = sleep_class[number];

	if (class == BY_FILE || (is_io && (class == BY_DESCRIPTOR || class == BY_WRITTEN)))
		return state_by_file(task, FIRST_ARGUMENT(task));
	if (is_io)
		return STATE_IO;
	if (class == BY_FILE_LOCK)
		return STATE_LOCK;
	if (class == BY_POLLED)
		return state_by_polled(task, FIRST_ARGUMENT(task), SECOND_ARGUMENT(task));
	if (class < BY_DESCRIPTOR)
		return class ? class : STATE_OTHER;
	u64 descriptor = FIRST_ARGUMENT(task);
	bool is_written = class == BY_WRITTEN || (class == BY_SPLICED && !is_for_source(task, descriptor));

	return state_by_descriptor(task, class == BY_SPLICED && is_written ? THIRD_ARGUMENT(task) : descriptor, STATE_OTHER, is_written);
}

/* What a task in a system call does, by its number; 0: unknown, or in none. */
static __always_inline u32 sleep_class_of(struct task_struct *task)
{
	s64 number = SYSCALL_NUMBER(task);

	return number < 0 || number >= 512 ? 0 : sleep_class[number];
}

#define FUTEX_OPERATION 0x7f	/* without the flags of linux/futex.h */
#define FUTEX_WAIT_BITSET 9

/*
 * Whether a task in a system call waits without a time-out until another thread signals it. In glibc a mutex waits by FUTEX_WAIT, and
 * condition variables and semaphores, of which Python makes its locks, by FUTEX_WAIT_BITSET. Python waits for its own lock with a time-out.
 */
static __always_inline bool is_for_signal(struct task_struct *task)
{
	return SYSCALL_NUMBER(task) == SYSCALL_FUTEX && (SECOND_ARGUMENT(task) & FUTEX_OPERATION) == FUTEX_WAIT_BITSET &&
	       !FOURTH_ARGUMENT(task);
}

/* Whether a running task is in a system call on a socket: it sends, or it receives and so makes room for the sender. */
static __always_inline bool is_at_socket(struct task_struct *task)
{
	u32 class = sleep_class_of(task);

	return class == STATE_SOCKET ||
	       ((class == BY_DESCRIPTOR || class == BY_WRITTEN) &&
		state_by_descriptor(task, FIRST_ARGUMENT(task), STATE_OTHER, false) == STATE_SOCKET);
}

#endif
