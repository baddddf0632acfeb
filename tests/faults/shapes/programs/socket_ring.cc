// SPDX-License-Identifier: Apache-2.0
//
// Air in a channel, cut into parts: a process for each, started by this program, as mpirun does. Borders go to both neighbours
// over TCP, through the host's memory. A process looks at its sockets for a while before it sleeps, as MPI does. The length of
// the next step in time is agreed by NCCL. Argument: the number of ranks.
#include "inside.h"

#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>

extern "C" {
#include "nccl/api.h"
}

namespace {

constexpr int border_kernels = 2, inner_kernels = 15;
constexpr double border_seconds = 140e-6, inner_seconds = 560e-6, spin_seconds = 200e-6;
constexpr size_t border_bytes = 96 << 10;
constexpr double gpu_seconds = border_kernels * border_seconds + inner_kernels * inner_seconds;

void check_call(bool is_done, const char *what)
{
    if (is_done)
        return;
    perror(what);
    _exit(1);
}

// Both ends of a connection over the loopback interface.
struct Connection {
    int ends[2];

    Connection()
    {
        sockaddr_in address = {};
        socklen_t length = sizeof(address);
        int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;

        address.sin_family = AF_INET;
        address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        check_call(!bind(listener, reinterpret_cast<sockaddr *>(&address), length) && !listen(listener, 1), "listen");
        getsockname(listener, reinterpret_cast<sockaddr *>(&address), &length);
        ends[0] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        check_call(!connect(ends[0], reinterpret_cast<sockaddr *>(&address), length), "connect");
        ends[1] = accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
        check_call(ends[1] >= 0, "accept");
        for (int end : ends)
            setsockopt(end, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
        close(listener);
    }
};

// One border that goes out, and one that comes in.
class Neighbour {
public:
    explicit Neighbour(int socket) : socket(socket) {}

    void begin()
    {
        sent = received = 0;
    }

    bool is_done() const
    {
        return sent == border_bytes && received == border_bytes;
    }

    // Whether some bytes went or came.
    bool progress()
    {
        size_t before = sent + received;

        if (sent < border_bytes)
            sent += moved(send(socket, &out[sent], border_bytes - sent, MSG_DONTWAIT | MSG_NOSIGNAL));
        if (received < border_bytes)
            received += moved(recv(socket, &in[received], border_bytes - received, MSG_DONTWAIT));
        return sent + received > before;
    }

    pollfd wanted() const
    {
        short events = 0;

        if (sent < border_bytes)
            events |= POLLOUT;
        if (received < border_bytes)
            events |= POLLIN;
        return {socket, events, 0};
    }

private:
    static size_t moved(ssize_t bytes)
    {
        if (bytes > 0)
            return static_cast<size_t>(bytes);
        if (bytes == 0 || (errno != EAGAIN && errno != EINTR)) // another rank has ended
            _exit(1);
        return 0;
    }

    int socket;
    size_t sent = 0, received = 0;
    std::vector<char> out = std::vector<char>(border_bytes), in = std::vector<char>(border_bytes);
};

// MPI_Sendrecv() with the ranks on both sides.
void exchange(Neighbour &left, Neighbour &right)
{
    double spin_until = now_seconds() + spin_seconds;

    left.begin();
    right.begin();
    while (!left.is_done() || !right.is_done()) {
        bool has_left = left.progress(), has_right = right.progress();

        if (has_left || has_right) {
            spin_until = now_seconds() + spin_seconds;
        } else if (now_seconds() < spin_until) {
            sched_yield();
        } else {
            pollfd sockets[] = {left.wanted(), right.wanted()};

            poll(sockets, 2, -1);
        }
    }
}

// Rank 0's, which each rank passes on.
ncclUniqueId agreed_id(int world, int left, int right)
{
    ncclUniqueId id = {};

    if (own_rank() == 0)
        check_call(!ncclGetUniqueId(&id), "ncclGetUniqueId");
    else
        check_call(recv(left, &id, sizeof(id), MSG_WAITALL) == sizeof(id), "recv");
    if (own_rank() + 1 < world)
        check_call(send(right, &id, sizeof(id), 0) == sizeof(id), "send");
    return id;
}

struct Memory {
    void *field, *border, *pinned, *speed, *result;
    cudaStream_t copies;
    cudaEvent_t computed, copied;

    Memory()
    {
        check(cudaMalloc(&field, 4UL << 30));
        check(cudaMalloc(&border, 2 * most * border_bytes));
        check(cudaHostAlloc(&pinned, 2 * most * border_bytes, 0));
        check(cudaMalloc(&speed, 4096));
        check(cudaHostAlloc(&result, 4096, 0));
        check(cudaStreamCreateWithFlags(&copies, cudaStreamNonBlocking));
        for (cudaEvent_t *event : {&computed, &copied})
            check(cudaEventCreateWithFlags(event, cudaEventDisableTiming));
    }
};

void step(const Memory &memory, const Inside &inside, Neighbour &left, Neighbour &right, ncclComm_t comm)
{
    for (int i = 0; i < border_kernels; i++)
        launch(border_seconds * inside.scale);
    check(cudaEventRecord(memory.computed, nullptr));
    check(cudaStreamWaitEvent(memory.copies, memory.computed, 0));
    check(cudaMemcpyAsync(memory.pinned, memory.border, 2 * inside.batch(), cudaMemcpyDeviceToHost, memory.copies));
    check(cudaEventRecord(memory.copied, memory.copies));
    for (int i = 0; i < inner_kernels; i++)
        launch(inner_seconds * inside.scale);
    while (cudaEventQuery(memory.copied) == cudaErrorNotReady)
        sched_yield();
    exchange(left, right);
    check(cudaMemcpyAsync(memory.border, memory.pinned, 2 * inside.batch(), cudaMemcpyHostToDevice, nullptr));
    check_call(!ncclAllReduce(memory.speed, memory.speed, 1, ncclFloat32, ncclSum, comm, nullptr), "ncclAllReduce");
    check(cudaMemcpyAsync(memory.result, memory.speed, sizeof(float), cudaMemcpyDeviceToHost, nullptr));
    check(cudaStreamSynchronize(nullptr));
}

[[noreturn]] void run(int world, int left_socket, int right_socket)
{
    ncclComm_t comm;
    Inside inside(gpu_seconds, border_bytes);
    Log log;

    check(cudaSetDevice(own_rank()));
    check(cudaSetDeviceFlags(cudaDeviceScheduleYield));
    check_call(!ncclCommInitRank(&comm, world, agreed_id(world, left_socket, right_socket), own_rank()),
               "ncclCommInitRank");
    Neighbour left(left_socket), right(right_socket);
    Memory memory;
    inside.start(memory.field);
    for (long number = 0;; number++) {
        int64_t start_ns = now_ns();

        inside.look(number);
        inside.before_collective();
        step(memory, inside, left, right, comm);
        inside.host();
        log.add(number, start_ns, !inside.is_on());
    }
}

} // namespace

int main(int argc, char **argv)
{
    size_t world = argc == 2 ? strtoul(argv[1], nullptr, 10) : 0;

    if (world < 2)
        return 2;
    signal(SIGTERM, end);
    pid_t launcher = getpid();
    std::vector<Connection> edges(world); // to the right of each rank
    for (size_t rank = 0; rank < world; rank++)
        if (fork() == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            if (getppid() != launcher)
                _exit(0);
            setenv("RANK", std::to_string(rank).c_str(), 1);
            setenv("LOCAL_RANK", std::to_string(rank).c_str(), 1);
            setenv("WORLD_SIZE", std::to_string(world).c_str(), 1);
            run(static_cast<int>(world), edges[(rank + world - 1) % world].ends[1], edges[rank].ends[0]);
        }
    wait(nullptr);
    return 1;
}
