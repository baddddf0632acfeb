"""Run by interpreters of Python 3.9 to 3.14: functions of all kinds, and threads that wait in them, as one line of JSON.

For each code object its address and what the interpreter itself says about every instruction; for each thread its frames. Then it
waits until its standard input is closed. It imports nothing of this repository.
"""

# The forms of its statements matter, it runs in old versions too, and its names are not ASCII on purpose.
# fmt: off
# ruff: noqa

import argparse
import asyncio
import collections
import dis
import functools
import inspect
import json
import sys
import textwrap
import threading
import time
import types
import typing

LOCK = threading.Lock()
CODES = {}
MODULES = (argparse, asyncio.base_events, collections, functools, inspect, json.decoder, textwrap, threading, typing)
STDLIB_MAX = 300
FILES = {
    "latin": "/tmp/gr\u00f6\u00dfe.py",
    "ucs2": "/tmp/\u540d\u524d.py",
    "ucs4": "/tmp/\U0001f600.py",
    "surrogate": "/tmp/bad\udcff.py",
    "control": "/tmp/a\nb\x1b[31m.py",
    "bidi": "/tmp/\u202efile.py",
    "long": "/tmp/" + "x" * 3000 + "/end.py",
    "empty": "",
}


def wait(): LOCK.acquire()  # one line, so that a thread that is about to wait is at the same one


def decorator(function):
    @functools.wraps(function)
    def wrapper(*arguments):
        before = len(arguments)
        result = function(
            *arguments,
        )
        return result, before

    return wrapper


@decorator
@decorator
def multi_line_call(first, second=(1,
                                   2)):
    values = [
        first,
        max(
            first,
            len(second),
        ),
    ]
    try:
        if first:
            return sum(
                value
                for value in values
            )
    finally:
        values.clear()
    with LOCK:
        values.append(first)
    return values


class Outer:
    attribute = [number
                 for number in range(3)]

    class Inner:
        def method(self):
            def nested():
                return lambda value: (
                    value
                    + 1
                )

            return nested

    async def coroutine(self):
        async with asyncio.Lock():
            await asyncio.sleep(
                0
            )
        async for _ in self.generator():
            pass

    async def generator(self):
        yield 1
        yield (2)


def größe(): return {名前: 1 for 名前 in range(2)}


def 名前():
    return 1


def 𐌰𐌱():
    return 2


def long_function(lines=3000):
    source = ["def long(x):"] + ["    x = max(x, {})".format(number) for number in range(lines)] + ["    return x"]
    space = {}
    exec(compile("\n".join(source), "<generated>", "exec"), space)
    return space["long"]


def in_recursion(depth):
    if depth:
        in_recursion(
            depth - 1
        )
    else:
        wait()


def in_generator():
    def generator():
        yield 1
        wait()
        yield 2

    for _ in generator():
        pass


def in_callback():
    sorted([2, 1], key=lambda value: (
        wait()
    ))


def in_class_body():
    class Body:
        first = 1
        second = wait()


def in_exec():
    exec(compile("first = 1\n\n\nwait()\n", "/tmp/gr\u00f6\u00dfe.py", "exec"), {"wait": wait})


def in_comprehension():
    return [
        wait()
        for _ in range(2)
    ]


def in_event_loop():
    async def inner():
        await asyncio.sleep(
            1000
        )

    async def outer():
        await inner()

    asyncio.run(outer())


def in_coroutine():
    async def inner():
        wait()

    async def outer():
        first = 1
        await inner()
        return first

    asyncio.run(outer())


def in_handler():
    try:
        raise ValueError
    except ValueError:
        wait()
    finally:
        pass


THREADS = (in_generator, in_callback, in_class_body, in_exec, in_comprehension, in_event_loop, in_coroutine, in_handler)


def codes_of(code):
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from codes_of(constant)


def lines_of(code):
    """The line of each instruction, two bytes apart; null for none."""
    length = len(code.co_code)
    lines = [None] * (length // 2)
    if sys.version_info < (3, 10):
        starts = list(dis.findlinestarts(code))
        for (start, line), (end, _) in zip(starts, starts[1:] + [(length, None)]):
            for at in range(start, end, 2):
                lines[at // 2] = line
        return lines
    for start, end, line in code.co_lines():
        for at in range(start, end, 2):
            lines[at // 2] = line
    if sys.version_info >= (3, 11):
        assert lines == [position[0] for position in code.co_positions()], code
    return lines


def collect():
    own = [multi_line_call, multi_line_call.__wrapped__, multi_line_call.__wrapped__.__wrapped__, Outer.Inner.method]
    own += [Outer.coroutine, Outer.generator, größe, 名前, 𐌰𐌱, in_generator, in_callback, in_class_body, lines_of]
    own += [Outer.Inner().method()()] + list(THREADS)
    groups = {"own": [code for function in own for code in codes_of(function.__code__)]}
    groups["long"] = [long_function().__code__]
    # An expression, so that only the file name is special.
    groups["files"] = [compile("1 +\\\n x", name, "eval") for name in FILES.values()]
    stdlib = []
    for module in MODULES:
        for value in list(vars(module).values()):
            functions = [value] if inspect.isfunction(value) else []
            if inspect.isclass(value):
                functions = [member for member in vars(value).values() if inspect.isfunction(member)]
            stdlib += [code for function in functions for code in codes_of(function.__code__)]
    groups["stdlib"] = list(dict.fromkeys(stdlib))[:STDLIB_MAX]
    CODES.update(groups)  # keeps them alive
    return {name: [described(code) for code in group] for name, group in groups.items()}


def described(code):
    return {
        "address": id(code),
        "file": code.co_filename,
        "name": getattr(code, "co_qualname", code.co_name),
        "first_line": code.co_firstlineno,
        "lines": lines_of(code),
    }


def frames_of(frame):
    found = []
    while frame is not None:
        code = frame.f_code
        found.append([code.co_filename, getattr(code, "co_qualname", code.co_name), frame.f_lineno])
        frame = frame.f_back
    return found


def stacks():
    current = sys._current_frames()
    waiting = [thread for thread in threading.enumerate() if thread is not threading.current_thread()]
    return [[getattr(thread, "native_id", 0), thread.ident, frames_of(current[thread.ident])] for thread in waiting]


def report():
    """When no thread has moved for a while."""
    functions = collect()
    before, same = stacks(), 0
    while same < 5:
        time.sleep(0.02)
        now = stacks()
        at_rest = all(frames[0][1].rpartition(".")[2] in ("wait", "select", "main") for _, _, frames in now)
        same = same + 1 if now == before and at_rest else 0
        before = now
    report = {"version": sys.version_info[:3], "begin": types.CodeType.__basicsize__, "functions": functions}
    print(json.dumps(dict(report, stacks=before)), flush=True)


def main():
    LOCK.acquire()
    threads = [threading.Thread(target=function, daemon=True) for function in THREADS]
    threads.append(threading.Thread(target=in_recursion, args=(40,), daemon=True))
    threads.append(threading.Thread(target=report, daemon=True))
    for thread in threads:
        thread.start()
    sys.stdin.read()


if __name__ == "__main__":
    main()
