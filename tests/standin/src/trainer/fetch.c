// SPDX-License-Identifier: Apache-2.0
//
// Batches from another machine: the number of bytes wanted, eight bytes little-endian, is sent, and so many come back. As a
// client of object storage does it: one connection a thread, one request at a time.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <endian.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "trainer/trainer.h"

enum { ROOM = 256 << 10 };

static void give_up(const char *what)
{
    fprintf(stderr, "trainer: --loader-connect=%s: ", settings.loader_connect);
    perror(what);
    _exit(1);
}

// `127.0.0.1:80`, `[::1]:80`. Numbers only: nobody is asked for a name.
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

void data_fetch(int64_t bytes)
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
