#!/usr/bin/env python3
"""Writes the part of the matrix that no list has to be kept for: generate.py CC

Reads the C library's headers through the compiler, finds every function that takes a descriptor, and prints C that calls each with an
open file in its place. What else they take follows from the types and names. Beside them stands every system call by its number, with
the file as the first argument.
"""

import re
import subprocess
import sys

HEADERS = """
aio.h arpa/inet.h dirent.h err.h fcntl.h fts.h ftw.h glob.h grp.h mntent.h mqueue.h netdb.h poll.h pthread.h pty.h pwd.h sched.h
semaphore.h signal.h spawn.h stdio.h stdio_ext.h stdlib.h string.h sys/epoll.h sys/eventfd.h sys/fanotify.h sys/file.h sys/inotify.h
sys/ioctl.h sys/mman.h sys/mount.h sys/prctl.h sys/random.h sys/resource.h sys/select.h sys/sendfile.h sys/signalfd.h sys/socket.h
sys/stat.h sys/statfs.h sys/statvfs.h sys/syscall.h sys/time.h sys/timerfd.h sys/types.h sys/uio.h sys/vfs.h sys/xattr.h termios.h
unistd.h utime.h utmp.h wchar.h
""".split()

DESCRIPTOR = re.compile(
    r"\bint (__)?(fd|fildes|filedes|in_fd|out_fd|fdin|fdout|fd2|dfd|dirfd|fromfd|tofd|olddirfd|newdirfd|oldfd|newfd|from_dfd|to_dfd"
    r"|epfd|ufd|sockfd|pidfd|fanotify_fd|to|from)$"
)
# Behind these there is no more of the process to look at, or they wait for ever.
NOT_CALLED = {
    "login_tty": "leaves the session",
    "epoll_wait": "waits", "epoll_pwait": "waits", "epoll_pwait2": "waits",
    "vdprintf": "takes a list of arguments: called by hand",
    "bindresvport6": "is declared and not there",
    "tcdrain": "waits for a terminal", "tcsendbreak": "waits for a terminal",
}
# What they fill tells file systems apart.
FILLS_WITH_OTHERS = re.compile(r"stat|name_to_handle|getdir|getdents|path")


def value(parameter, index):
    """What is given for a parameter."""
    parameter = parameter.strip()
    if parameter == "...":
        return "0L"
    name = re.search(r"(\w+)(\[\w*\])?$", parameter)
    name = name.group(1) if name else ""
    if DESCRIPTOR.search(parameter) and "*" not in parameter:
        return "9" if name in ("__fd2", "__newfd") else "descriptor"
    if "iovec" in parameter:
        return "parts"
    if "(*" in parameter:
        return "0"
    if re.search(r"off(64)?_t \*", parameter) or "loff_t *" in parameter:
        return "0"
    if "char" in parameter and "const" in parameter and "*" in parameter and "[" not in parameter:
        return 'text'
    if "*" in parameter or "[" in parameter or "SOCKADDR" in parameter:
        return "(void *) buffer"
    if "off" in parameter:
        return "8"
    if "mode" in name and "mode_t" in parameter:
        return "0644"
    if name in ("__count", "__vlen", "__iovcnt"):
        return "2" if "size_t" not in parameter else "16"
    if name == "__max_fd":
        return "1000"
    if "size_t" in parameter or name in ("__n", "__len", "__nbytes", "__length"):
        return "16"
    return "0"


def functions(compiler):
    source = "#define _GNU_SOURCE\n" + "".join(f"#include <{header}>\n" for header in HEADERS)
    text = subprocess.run([compiler, "-E", "-P", "-xc", "-"], input=source, capture_output=True, text=True, check=True).stdout
    text = re.sub(r"\s+", " ", text)
    found = {}
    for match in re.finditer(r"extern\s([^;{}]*?)\b([A-Za-z_]\w*)\s*\(([^;{}]*?)\)\s*(?:__attribute__|__asm__|;)", text):
        result, name, parameters = match.groups()
        # A comma inside of parentheses belongs to a function's type.
        parameters = re.split(r",(?![^()]*\))", parameters)
        is_taking = any(DESCRIPTOR.search(re.sub(r"\[.*", "", part.strip())) and "*" not in part for part in parameters)
        if is_taking and not name.startswith("__") and "actions" not in name:
            found[name] = (result.strip(), parameters)
    return found


def main():
    print("// Made by generate.py.")
    found = functions(sys.argv[1])
    assert len(found) > 120, len(found)
    for name, (result, parameters) in sorted(found.items()):
        if name in NOT_CALLED:
            continue
        arguments = ", ".join(value(part, index) for index, part in enumerate(parameters))
        is_pointer = "*" in result
        call = f"{name}({arguments})"
        body = f"answer = {call} != (void *) 0;" if is_pointer else f"answer = (long) {call};"
        if result.split()[-1:] == ["void"]:
            body = f"{call};"
        fills = "0" if FILLS_WITH_OTHERS.search(name) else "1"
        print(f"GENERATED({name}, {fills}, {body})")


if __name__ == "__main__":
    main()
