"""A program for any CPython from 3.9 on whose threads make traced calls below stacks of all kinds of frames.

usage: python_target.py LIBRARY

One command per line of standard input, one line of JSON in answer:
  hold N SEED   N threads go into a held call below random stacks; answers {tid: [[file, name, line], ...]}, innermost first
  hold_native   one thread goes into a held call below native functions; answers as hold
  hold_task     one thread goes into a held call in a task of asyncio, which another coroutine awaits; answers as hold
  hold_tasks    as hold_task, in a task for which two others wait, a third for one of them, and a fourth for all; answers also the
                tasks as Python has them
  wait_tasks N  one thread waits for events, with N tasks that wait, and one that waits for them, another with a task of its own;
                answers the first one's tid and tasks
  give MANNER   one thread gives a native thread work, which makes a held call, and waits for it or sleeps; answers both tids
  release       they return and end
  reborn        slow calls of a function that is made and deleted, until another one has its address; answers whether one has
  slow          calls that are fast, then 23 slow ones from one line, 7 from another, 5 in other threads; answers the lines
  run N         N threads run without end, through frames whose callers are known; answers the tids
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import functools
import gc
import json
import os
import random
import sys
import threading
import time
from pathlib import Path

library = ctypes.CDLL(sys.argv[1])
reads, writes = os.pipe()


def held(_path):
    library.cudaStreamSynchronize(
        reads,
    )


def go(path):
    return path[0](path[1:])


def plain(path):
    before = len(path)
    result = go(path)
    return result or before


def many_lines(path):
    values = [
        1,
        go(path),
        3,
    ]
    return values


def in_comprehension(path):
    return [go(path) for _ in range(1)]


def in_generator(path):
    def generate():
        yield 0
        yield go(path)

    return list(generate())


def in_class_body(path):
    class Made:
        value = go(path)

    return Made


class Thing:
    @property
    def value(self):
        return go(self.path)

    def __len__(self):
        go(self.path)
        return 1

    @staticmethod
    def static(path):
        return go(path)

    @classmethod
    def of_class(cls, path):
        return go(path)


def in_property(path):
    thing = Thing()
    thing.path = path
    return thing.value


def called_from_c(path):
    thing = Thing()
    thing.path = path
    return len(thing)


def in_sort(path):
    return sorted([1], key=lambda _one: go(path))


def in_map(path):
    return list(map(lambda _one: go(path), [1]))


in_partial = functools.partial(plain)


def in_native(path):
    return library.call_back(ctypes.CFUNCTYPE(ctypes.c_int)(lambda: bool(go(path))))


def wrapped(function):
    @functools.wraps(function)
    def wrapper(*arguments):
        return function(*arguments)

    return wrapper


@wrapped
def decorated(
    path,
):
    with contextlib.nullcontext():
        return go(path)


async def coroutine(path):
    return go(path)


async def awaiting(path):
    return await coroutine(path)


def in_coroutine(path):
    with contextlib.suppress(StopIteration):
        awaiting(path).send(None)


def in_task(path):
    async def awaits_the_task():
        await asyncio.create_task(awaiting(path))

    asyncio.run(awaits_the_task())


async def turns():
    for _ in range(5):
        await asyncio.sleep(0)


async def working(path):
    await turns()  # the others wait by then
    return go(path)


async def waiting(task):
    return await task


async def gathering(task):
    await asyncio.gather(task, asyncio.sleep(0))


def in_tasks(path):
    async def waits_for_both():
        worker = asyncio.create_task(working(path), name="worker")
        kept.append(worker)
        waiters = [
            asyncio.create_task(waiting(worker), name="first\x1b[31m"),
            asyncio.create_task(gathering(worker), name="second " + 100 * "x"),
        ]
        waiters.append(asyncio.create_task(waiting(waiters[0]), name="third"))
        asyncio.current_task().set_name("größte")
        await asyncio.wait(waiters)

    asyncio.run(waits_for_both())


async def napping(number):
    if number % 2:
        await asyncio.sleep(3600)
    else:
        await asyncio.Event().wait()


class OwnTask(asyncio.Task):
    """One of a type of the program."""


def in_waiting_loop(path):
    async def waits_for_all():
        library.cudaLaunchKernel()
        kept.append(asyncio.current_task())
        done = asyncio.create_task(turns())
        others.append(done)
        await done
        if path[0] > 1:
            asyncio.get_running_loop().set_task_factory(lambda loop, made, **more: OwnTask(made, loop=loop, **more))
        async with asyncio.TaskGroup() as group:
            kept.extend(group.create_task(napping(number), name=f"nap {number}") for number in range(path[0]))

    asyncio.run(waits_for_all())


def in_other_loop(_path):
    async def waits():
        others.append(asyncio.current_task())
        await asyncio.sleep(3600)

    asyncio.run(waits())


def task_described(task):
    """[name, [[file, name, line] of each coroutine, innermost first]]; no name for a future that is no task."""
    found = []
    coroutine = task.get_coro() if isinstance(task, asyncio.Task) else None
    while hasattr(coroutine, "cr_await"):
        found.insert(0, described(coroutine.cr_frame)[0])
        coroutine = coroutine.cr_await
    return [task.get_name() if isinstance(task, asyncio.Task) else None, found]


def graph_described(graph):
    """The task, and the graphs of those that wait for it, by asyncio.capture_call_graph()."""
    return [*task_described(graph.future), [graph_described(one) for one in graph.awaited_by]]


def waiters_described(task):
    """The same before 3.14, by the future for which each task waits itself: gather() and wait() do not show."""
    found = [one for one in asyncio.all_tasks(task.get_loop()) if one._fut_waiter is task]
    return [*task_described(task), [waiters_described(one) for one in found]]


def awaits(task):
    coroutine = task.get_coro()
    return coroutine.cr_await is not None


def in_exception(path):
    try:
        raise ValueError
    except ValueError:
        return go(path)
    finally:
        path = None


functions: list = []  # those that are to live
kept: list = []  # tasks
others: list = []  # tasks of no interest: one that is done, one of another thread
names: dict = {"go": go}
exec(
    compile(
        "def größe_\u8a08\u7b97(path):\n\n\n    return go(path)\ndef \U0001d4c1ong(path):\n"
        + "    x = 1\n" * 3000
        + "    return go(path)\n",
        "/srv/d\u00e4ten/\u8a08\u7b97.py",
        "exec",
    ),
    names,
)
manners = [
    plain, many_lines, in_comprehension, in_generator, in_class_body, in_property, called_from_c, in_sort, in_map, in_partial,
    in_native, decorated, in_coroutine, in_exception, Thing.static, Thing.of_class, *list(names.values())[-2:],
]  # fmt: skip


alone = {"hold_native": [in_native, plain, in_native, in_generator, held], "hold_task": [in_task, plain, held]}


def described(frame):
    found = []
    while frame is not None:
        code = frame.f_code
        found.append([code.co_filename, getattr(code, "co_qualname", code.co_name), frame.f_lineno])
        frame = frame.f_back
    return found


def start(paths):
    threads = [threading.Thread(target=go, args=(path,), daemon=True) for path in paths]
    for thread in threads:
        thread.start()
    return threads


def random_paths(count, seed):
    choose = random.Random(seed)
    return [[*choose.choices(manners, k=choose.randrange(12)), held] for _ in range(count)]


def hold(paths):
    threads = start(paths)
    while library.threads_inside() < len(paths):
        time.sleep(0.001)
    frames = sys._current_frames()
    return {thread.native_id: described(frames[thread.ident]) for thread in threads}, threads


def odd_leaf(n):
    return n + 1


def even_leaf(n):
    return n - 1


def odd_branch(n):
    total = 0
    for i in range(n % 7):
        total += odd_leaf(i)
    return total


def even_branch(n):
    return sum(even_leaf(i) for i in range(n % 5))


def run_for_ever(_path):
    library.cudaLaunchKernel()
    n = 0
    while True:
        n += 1
        odd_branch(n)
        even_branch(n)


def one_site(ns):
    library.cudaMalloc(ctypes.c_long(ns))


def other_site(ns):
    library.cudaMalloc(
        ctypes.c_long(ns),
    )


def made(name, line):
    names = {"one_site": one_site}
    exec(compile("\n" * line + f"def {name}(ns):\n    one_site(ns)\n", "made.py", "exec"), names)
    return names[name]


def reborn():
    for _ in range(1000):
        one_site(0)
    first = made("first", 1)
    for _ in range(3):
        first(20_000_000)
    address = id(first.__code__)
    del first
    gc.collect()  # it is among its own globals
    kept = []
    for number in range(1000):
        kept.append(made("second", number % 7 + 10))
        if id(kept[-1].__code__) == address:
            functions.append(kept[-1])
            return True
    return False


def wait_for_worker():
    library.await_work()


def give(manner):
    library.give_work(reads)
    if manner == "wait":
        wait_for_worker()
    else:
        time.sleep(3600)


def given(manner):
    library.cudaLaunchKernel()  # so that it is traced, with the threads that it starts
    worker = library.start_worker()
    while Path(f"/proc/self/task/{worker}/stat").read_text().rpartition(") ")[2][0] != "S":
        time.sleep(0.001)  # it does not wait yet: no call would wake it up
    giver = threading.Thread(target=give, args=(manner,), daemon=True)
    giver.start()
    return [giver.native_id, worker]


def line_of(text, is_whole=False):
    lines = Path(__file__).read_text(encoding="utf-8").splitlines()
    return next(number for number, line in enumerate(lines, 1) if (line == text if is_whole else text in line))


def slow():
    for _ in range(1000):
        one_site(0)  # fast
    for _ in range(23):
        one_site(20_000_000)
    for _ in range(7):
        other_site(30_000_000)
    threads = [threading.Thread(target=one_site, args=(25_000_000,)) for _ in range(5)]
    for thread in threads:
        thread.start()
        thread.join()
    return {
        "one_site": line_of("library.cudaMalloc(ctypes"),
        "other_site": line_of("    library.cudaMalloc(", is_whole=True),
        "fast": line_of("# fast"),
    }


def main():
    threads = []
    for line in sys.stdin:
        command, *numbers = line.split()
        answer = None
        if command == "hold":
            answer, threads = hold(random_paths(*map(int, numbers)))
        elif command in alone:
            answer, threads = hold([alone[command]])
        elif command == "hold_tasks":
            answer, threads = hold([[in_tasks, plain, held]])
            has_graph = sys.version_info >= (3, 14)
            answer = [
                answer,
                graph_described(asyncio.capture_call_graph(kept[0])) if has_graph else waiters_described(kept[0]),
            ]
        elif command == "wait_tasks":
            waiter, _ = start([[in_waiting_loop, int(numbers[0])], [in_other_loop]])
            while not (len(kept) > int(numbers[0]) and all(map(awaits, kept)) and len(others) == 2):
                time.sleep(0.001)
            assert set(kept) == asyncio.all_tasks(kept[0].get_loop())
            answer = [waiter.native_id, [task_described(task) for task in kept]]
        elif command == "give":
            answer = given(*numbers)
        elif command == "release":
            os.write(writes, bytes(len(threads)))
            for thread in threads:
                thread.join()
        elif command == "slow":
            answer = slow()
        elif command == "reborn":
            answer = reborn()
        elif command == "run":
            answer = [thread.native_id for thread in start([[run_for_ever]] * int(numbers[0]))]
        print(json.dumps(answer), flush=True)


main()
