// SPDX-License-Identifier: Apache-2.0
//
// Where batches come from.
//
// --loader-file: reads at places that follow from the batch's number.
// --loader-connect: a server on another machine, as a client of object storage reads it, with one connection per thread and
// one request at a time. A request is the number of bytes, eight bytes little-endian; the answer is that many bytes.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <endian.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "lib/random.h"
#include "trainer/trainer.h"

enum { ROOM = 256 << 10 };

static void give_up(const char *what)
{
    fprintf(stderr, "trainer: --loader-connect=%s: ", settings.loader_connect);
    perror(what);
    _exit(1);
}

// `127.0.0.1:80`, `[::1]:80`. Numeric only, without a DNS lookup.
static int opened(void)
{
    struct addrinfo want = {.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV, .ai_socktype = SOCK_STREAM}, *found;
    const char *port = strrchr(settings.loader_connect, ':'), *host = settings.loader_connect;
    char address[64] = "";
    int one = 1, opened;

    if (port && *host == '[' && port[-1] == ']')
        snprintf(address, sizeof(address), "%.*s", (int)(port - host) - 2, host + 1);
    else if (port)
        snprintf(address, sizeof(address), "%.*s", (int)(port - host), host);
    if (!port || getaddrinfo(address, port + 1, &want, &found) != 0)
        give_up("not ADDRESS:PORT");
    opened = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (opened < 0 || connect(opened, found->ai_addr, found->ai_addrlen) < 0)
        give_up("connect");
    freeaddrinfo(found);
    setsockopt(opened, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    return opened;
}

void source_fetch(int64_t bytes)
{
    static _Thread_local int connection = -1;
    static _Thread_local char *room;
    uint64_t order = htole64((uint64_t)bytes);

    if (bytes == 0)
        return;
    if (connection < 0) {
        connection = opened();
        room = malloc(ROOM);
    }
    if (!room || send(connection, &order, sizeof(order), MSG_NOSIGNAL) != sizeof(order))
        give_up("send");
    while (bytes > 0) {
        ssize_t got = recv(connection, room, bytes < ROOM ? (size_t)bytes : ROOM, 0);

        if (got <= 0)
            give_up("recv");
        bytes -= got;
    }
}

void source_read(int64_t bytes, uint64_t number)
{
    static int read_file = -1;
    static char *buffer;
    static int64_t room;
    int64_t file_bytes;

    if (bytes == 0)
        return;
    bytes = (bytes + 4095) / 4096 * 4096; // O_DIRECT needs whole blocks
    if (read_file < 0)
        read_file = open(settings.loader_file, O_RDONLY | O_CLOEXEC | (settings.loader_direct ? O_DIRECT : 0));
    if (bytes > room) {
        free(buffer);
        room = posix_memalign((void **)&buffer, 4096, (size_t)bytes) == 0 ? bytes : 0;
    }
    file_bytes = read_file < 0 ? -1 : lseek(read_file, 0, SEEK_END);
    if (file_bytes < 0 || !room) {
        perror(settings.loader_file);
        _exit(1);
    }
    int64_t places = file_bytes > bytes ? (file_bytes - bytes) / 4096 + 1 : 1;
    int64_t offset = (int64_t)(random_of((uint64_t)settings.seed, number) % (uint64_t)places) * 4096;
    if (pread(read_file, buffer, (size_t)bytes, offset) < 0) {
        perror(settings.loader_file);
        _exit(1);
    }
}
