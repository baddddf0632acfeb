/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* Frames of a Python thread, as python_walk writes them, and memory, as python_read does. Read by exporter/kernel/python_frames.py. */
#ifndef GPUSTALL_ABI_PYTHON_H
#define GPUSTALL_ABI_PYTHON_H

#include <linux/types.h>

enum python_limits {
	PYTHON_FRAMES = 64,
	PYTHON_INTERPRETERS = 4, /* copies of the runtime in a process */
	PYTHON_IDENTITY_BYTES = 96, /* of a code object, which differ in another one at its address */
	PYTHON_FRAME_BYTES = 112, /* of the largest frame of any version, as far as its members are read */
	PYTHON_READ_BYTES = 4096, /* at most, in one run of python_read */
	PYTHON_ABSENT = 0xffff,   /* an offset of a member that this version does not have */
};

/* Where the members are in one copy of the runtime. Offsets are bytes. */
struct python_layout {
	__u64 runtime;	  /* address of _PyRuntime */
	__u64 start_ticks; /* when the process started, in 10 ms of CLOCK_BOOTTIME: another one may get its tgid */
	__u64 code_mask;  /* bits of a frame's pointer to its code that belong to the address */
	__u16 interpreters_head; /* in the runtime: the first interpreter */
	__u16 interpreter_next;
	__u16 interpreter_threads_head;
	__u16 thread_next;
	__u16 thread_native_id; /* tid in the pid namespace of the process */
	__u16 thread_id;	/* pthread_self(): compared where there is no native id */
	__u16 thread_frame;
	__u16 cframe_frame; /* where thread_frame leads to a cframe: its current frame */
	__u16 frame_code;
	__u16 frame_previous;
	__u16 frame_instruction;
	__u16 frame_instruction_bytes; /* 4 or 8 */
	__u16 frame_owner;
	__u16 skip_owner_from; /* frames with this owner or a higher one are not of Python functions */
	__u16 frame_bytes;	/* to read of a frame */
	__u16 frame_is_entry; /* of a byte that is set where the interpreter's own function has begun with the frame: only in 3.11 */
	__u16 thread_cframe;  /* of 3.10: the list of the interpreter's own functions, one for each frame, innermost first */
	__u16 identity_at;    /* in a code object: what another one at its address has otherwise */
	__u16 identity_bytes; /* a multiple of 8 */
	__u16 padding[1];
};

struct python_key {
	__u32 tgid;  /* in the exporter's pid namespace */
	__u32 place; /* among the copies of the runtime in it, from 0 */
};

enum python_status {
	PYTHON_WALKED,	   /* all frames */
	PYTHON_TRUNCATED,  /* the innermost ones */
	PYTHON_RUNNING,	   /* the thread ran during the walk: frames may be of different moments */
	PYTHON_UNREADABLE, /* memory that cannot be read, or has no end */
	PYTHON_NO_FRAMES,  /* the thread is not one of the interpreter, or runs no Python function */
};

struct python_frame {
	__u64 code;	   /* address of the code object */
	__u64 instruction; /* as it is in the frame */
	__u64 identity;	   /* of the code object: another one that gets its address later has another hash */
};

struct python_row {
	__u32 tid; /* in the exporter's pid namespace */
	__u32 tgid;
	__u32 place; /* of the runtime in struct python_key */
	__u32 status; /* enum python_status */
	__u64 read_ns;
	__u64 opened_ns; /* when the open call or gap of the thread began */
	__u64 woken_ns;	  /* when the thread last stopped waiting for a signal of another one, or was started */
	__u64 waiting_ns; /* since when it waits for one now, without a time-out; 0: it does not */
	__u64 state;	  /* address of its thread state in the process */
	__u64 switches;	  /* how often it has left a CPU; 0 in a call. In a gap, and asleep, it has not run while this is the same. */
	__u32 waker_tid;  /* of the thread of its process that woke or started it at woken_ns, as tid; 0: not known */
	__u32 frame_count;
	struct python_frame frames[PYTHON_FRAMES]; /* innermost first */
	/*
	 * Of each frame, where on the thread's stack the function of the interpreter is that began with it and runs it and those that
	 * follow inwards; 0: the frame's caller runs in the same one. Before 3.10, which does not show it: where the frame itself is.
	 */
	__u64 entries[PYTHON_FRAMES];
};

enum call_site_limits {
	CALL_SITE_FRAMES = 32,
};

struct call_site_key {
	__u32 process; /* number */
	__u16 operation;
	__u16 padding;
	__u64 stack; /* a hash of the frames */
};

/* Slow calls of one operation that were made from one stack of Python functions. */
struct call_site_row {
	__u64 calls;
	__u64 total_ns;
	__u64 slowest_ns;
	__u64 slow_ns; /* calls that are longer were slow, as of the last one */
	__u32 tid; /* of the thread that made the first one, in the exporter's pid namespace */
	__u32 tgid;
	__u32 place; /* of the runtime in struct python_key */
	__u32 status; /* enum python_status */
	__u32 frame_count;
	__u32 padding;
	struct python_frame frames[CALL_SITE_FRAMES]; /* innermost first; the rest of the array is not set */
};

/* What python_read is to read. */
struct python_request {
	__u64 address;
	__u32 bytes;
	__u32 padding;
};

#endif
