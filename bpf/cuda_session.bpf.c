// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/*
 * The programs of cuda.bpf.c for sessions (kernel 6.13): one for entry and return. An object of its own: where the kernel lacks a function
 * that an object names, libbpf searches the modules, which takes CAP_SYS_ADMIN.
 */
#define SESSION
#include "cuda.bpf.c"

char LICENSE[] SEC("license") = "Dual BSD/GPL";
