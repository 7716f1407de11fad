/* Every call that can use an open file, each in a process of its own, and what became of the file.
 *
 *   matrix FOLDER alone|threads|appends        all cases, a line each
 *   matrix FOLDER MODE CASE                    one of them
 *
 * A file is written and read so that a library between the program and the kernel may hold its offset, its bytes and its length back.
 * Then one call is made in one of its ways: by the C library's function, by its `syscall`, or by the instruction. What follows prints all
 * that a program can see. The same lines must come out wherever the file lies.
 */
#define _GNU_SOURCE
#include <aio.h>
#include <arpa/inet.h>
#include <dirent.h>
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/io_uring.h>
#include <mqueue.h>
#include <poll.h>
#include <pthread.h>
#include <pty.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdio_ext.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/fanotify.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/personality.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/sendfile.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <sys/uio.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <termios.h>
#include <unistd.h>
#include <utime.h>

extern char **environ;

static char buffer[8192];
static char text[] = "rw";
static struct iovec parts[2] = {{buffer, 5}, {buffer + 100, 6}};
static int descriptor, other;
static long answer;
static int fills;
static const char *mode;

/* A system call by the instruction: no library sees it. */
static long instruction(long number, long a, long b, long c, long d, long e, long f) {
#ifdef __x86_64__
    register long r10 __asm__("r10") = d;
    register long r8 __asm__("r8") = e;
    register long r9 __asm__("r9") = f;
    long done;
    __asm__ volatile("syscall" : "=a"(done) : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9) : "rcx", "r11", "memory");
#else
    long done = syscall(number, a, b, c, d, e, f);
    if (done < 0)
        done = -errno;
#endif
    if (done < 0 && done > -4096) {
        errno = -done;
        return -1;
    }
    return done;
}

static void must(int is_right, const char *what) {
    if (!is_right) {
        printf("%s: %s\n", what, strerror(errno));
        fflush(stdout);
        _exit(3);
    }
}

static unsigned long hash(const void *start, long length) {
    unsigned long hashed = 14695981039346656037ul;
    for (long at = 0; at < length; at++)
        hashed = (hashed ^ ((const unsigned char *) start)[at]) * 1099511628211ul;
    return hashed & 0xffffffff;
}

static void *waits(void *unused) {
    (void) unused;
    for (;;)
        pause();
}

/* A file whose offset, bytes and length were all just changed. */
static void prepare(void) {
    char line[40];
    unlink("file");
    unlink("other");
    if (!strcmp(mode, "threads")) {
        pthread_t thread;
        sigset_t all;
        /* Signals are the first thread's. */
        sigfillset(&all);
        pthread_sigmask(SIG_BLOCK, &all, &all);
        must(!pthread_create(&thread, 0, waits, 0), "thread");
        pthread_sigmask(SIG_SETMASK, &all, 0);
    }
    descriptor = open("file", O_RDWR | O_CREAT | (strcmp(mode, "appends") ? 0 : O_APPEND), 0644);
    other = open("other", O_RDWR | O_CREAT, 0644);
    must(descriptor >= 0 && other >= 0, "open");
    for (int round = 0; round < 100; round++) {
        memset(line, 'a' + round % 26, sizeof line);
        must(write(descriptor, line, 37) == 37, "write");
    }
    must(lseek(descriptor, -2000, SEEK_END) == 1700, "lseek");
    for (int round = 0; round < 60; round++)
        must(read(descriptor, line, 11) == 11, "read");
    must(pwrite(descriptor, "tail", 4, strcmp(mode, "appends") ? 5000 : 0) == 4, "pwrite");
}

static void show(const char *name) {
    int error = answer == -1 ? errno : 0;
    static char bytes[1 << 20];
    struct stat status;
    printf("%s %s: %ld %d", mode, name, answer, error);
    if (fills)
        printf(" filled %lx", hash(buffer, sizeof buffer));
    printf(" offset %ld", instruction(SYS_lseek, descriptor, 0, SEEK_CUR, 0, 0, 0));
    printf(" %ld", (long) lseek(descriptor, 0, SEEK_CUR));
    long length = instruction(SYS_pread64, descriptor, (long) bytes, sizeof bytes, 0, 0, 0);
    printf(" bytes %ld %lx", length, hash(bytes, length));
    length = pread(descriptor, bytes, sizeof bytes, 0);
    printf(" %ld %lx", length, hash(bytes, length));
    length = read(descriptor, bytes, 7);
    printf(" read %ld %lx", length, hash(bytes, length));
    length = write(descriptor, "seven..", 7);
    printf(" written %ld offset %ld", length, instruction(SYS_lseek, descriptor, 0, SEEK_CUR, 0, 0, 0));
    if (!fstat(descriptor, &status))
        printf(" size %ld links %ld mode %o", (long) status.st_size, (long) status.st_nlink, status.st_mode);
    int again = open("file", O_RDONLY);
    length = read(again, bytes, sizeof bytes);
    printf(" again %ld %lx", length, hash(bytes, length));
    again = open("other", O_RDONLY);
    length = read(again, bytes, sizeof bytes);
    printf(" other %ld %lx\n", length, hash(bytes, length));
    fflush(stdout);
}

struct handed {
    const char *name;
    int fills;
    void (*act)(void);
};

#define GENERATED(name, does_fill, body) static void generated_##name(void) { body }
#include "generated.h"
#undef GENERATED

/* By the instruction, by `syscall`: what a function would do. */
#define BOTH(name, number, ...) \
    static void raw_##name(void) { answer = instruction(number, __VA_ARGS__); } \
    static void syscall_##name(void) { answer = syscall(number, __VA_ARGS__); }

BOTH(read, SYS_read, descriptor, (long) buffer, 100, 0, 0, 0)
BOTH(write, SYS_write, descriptor, (long) "raw bytes", 9, 0, 0, 0)
BOTH(readv, SYS_readv, descriptor, (long) parts, 2, 0, 0, 0)
BOTH(writev, SYS_writev, descriptor, (long) parts, 2, 0, 0, 0)
BOTH(pread_tail, SYS_pread64, descriptor, (long) buffer, 100, 3690, 0, 0)
BOTH(pwrite, SYS_pwrite64, descriptor, (long) "raw bytes", 9, 2300, 0, 0)
BOTH(preadv2, SYS_preadv2, descriptor, (long) parts, 2, -1, -1, 0)
BOTH(pwritev2, SYS_pwritev2, descriptor, (long) parts, 2, -1, -1, 0)
BOTH(lseek, SYS_lseek, descriptor, 5, SEEK_CUR, 0, 0, 0)
BOTH(lseek_end, SYS_lseek, descriptor, 0, SEEK_END, 0, 0, 0)
BOTH(lseek_data, SYS_lseek, descriptor, 4500, SEEK_DATA, 0, 0, 0)
BOTH(sendfile, SYS_sendfile, other, descriptor, 0, 100000, 0, 0)
BOTH(sendfile_to, SYS_sendfile, descriptor, other, 0, 100, 0, 0)
BOTH(copy_file_range, SYS_copy_file_range, descriptor, 0, other, 0, 100000, 0)
BOTH(ftruncate, SYS_ftruncate, descriptor, 1000, 0, 0, 0, 0)
BOTH(fallocate, SYS_fallocate, descriptor, 0, 0, 9000, 0, 0)
BOTH(setfl, SYS_fcntl, descriptor, F_SETFL, O_APPEND, 0, 0, 0)
BOTH(unsetfl, SYS_fcntl, descriptor, F_SETFL, 0, 0, 0, 0)
BOTH(fsync, SYS_fsync, descriptor, 0, 0, 0, 0, 0)
BOTH(truncate, SYS_truncate, (long) "file", 2361, 0, 0, 0, 0)
BOTH(close, SYS_close, descriptor, 0, 0, 0, 0, 0)
BOTH(close_range, SYS_close_range, descriptor, descriptor, 0, 0, 0, 0)
BOTH(dup2_over, SYS_dup3, other, descriptor, 0, 0, 0, 0)
BOTH(unlink, SYS_unlinkat, AT_FDCWD, (long) "file", 0, 0, 0, 0)

/* The number is another file's then. */
static void raw_close_and_open(void) {
    instruction(SYS_close, descriptor, 0, 0, 0, 0, 0);
    answer = instruction(SYS_openat, AT_FDCWD, (long) "other", O_RDWR, 0, 0, 0) - descriptor;
}
static void raw_close_and_socket(void) {
    instruction(SYS_close, descriptor, 0, 0, 0, 0, 0);
    answer = socket(AF_UNIX, SOCK_STREAM, 0) - descriptor;
}
static void dup_raw(void) {
    int copy = instruction(SYS_dup, descriptor, 0, 0, 0, 0, 0);
    answer = write(copy, "by the copy", 11) + read(copy, buffer, 50);
}
static void dup_moves(void) {
    int copy = dup(descriptor);
    for (int round = 0; round < 30; round++)
        write(copy, "by the copy", 11), read(descriptor, buffer, 3);
    answer = lseek(copy, 0, SEEK_CUR);
    close(descriptor);
    descriptor = copy;
}
static void fionread(void) {
    int left = -1;
    answer = ioctl(descriptor, FIONREAD, &left);
    printf("left %d ", left);
}
static void fionread_by_instruction(void) {
    int left = -1;
    answer = instruction(SYS_ioctl, descriptor, FIONREAD, (long) &left, 0, 0, 0);
    if (strcmp(mode, "threads"))
        printf("left %d ", left);
}
static void fdinfo(void) {
    char path[64], line[100];
    snprintf(path, sizeof path, "/proc/self/fdinfo/%d", descriptor);
    FILE *stream = fopen(path, "r");
    must(stream && fgets(line, sizeof line, stream), "fdinfo");
    printf("%s", line);
}
static void mapped_by_instruction(void) {
    const char *start = (char *) instruction(SYS_mmap, 0, 8192, PROT_READ, MAP_SHARED, descriptor, 0);
    answer = hash(start, 8192);
    pwrite(descriptor, "behind the mapping", 18, 100);
    printf("%lx ", hash(start, 3700));
}
static void written_by_mapping(void) {
    char *start = (char *) instruction(SYS_mmap, 0, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
    memcpy(start + 50, "by the mapping", 14);
    answer = pread(descriptor, buffer, 100, 0);
    write(descriptor, "and by a call", 13);
    answer += hash(start, 4096);
}
static void vdprintf_of(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    answer = vdprintf(descriptor, format, arguments);
    va_end(arguments);
}
static void vdprintf_(void) { vdprintf_of("%d and %s", 7, "more"); }
static void dprintf_(void) { answer = dprintf(descriptor, "%d and %s", 7, "more"); }
static void stream(void) {
    FILE *stream = fdopen(descriptor, "r+");
    answer = fread(buffer, 1, 100, stream);
    fseek(stream, 0, SEEK_CUR);
    fprintf(stream, "by a stream");
    fflush(stream);
    write(descriptor, "not by it", 9);
    fseek(stream, 0, SEEK_END);
    answer += ftell(stream);
}
static void stream_closes(void) {
    fclose(fdopen(descriptor, "r+"));
    answer = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK, 0) - descriptor;
}
static void reopened(void) {
    dup2(descriptor, 1);
    close(descriptor);
    for (int round = 0; round < 20; round++)
        write(1, "before", 6);
    freopen("other", "w", stdout);
    answer = write(1, "into the other", 14);
    fflush(stdout);
    descriptor = open("file", O_RDWR);
    dup2(2, 1);
}
static void standard_output(void) {
    int kept = dup(1);
    fflush(stdout);
    dup2(descriptor, 1);
    for (int round = 0; round < 30; round++) {
        write(1, "call ", 5);
        printf("stream %d\n", round);
        if (round % 7 == 0)
            fflush(stdout);
    }
    fflush(stdout);
    answer = lseek(1, 0, SEEK_CUR);
    dup2(kept, 1);
}
static void standard_input(void) {
    char line[100];
    dup2(descriptor, 0);
    lseek(0, 37, SEEK_SET);
    for (int round = 0; round < 20; round++)
        answer += read(0, line, 10);
    answer = answer * 1000 + getchar();
}
static void own_numbers(void) {
    /* Whatever number is taken, the program's own is there then. */
    for (int number = 3; number < 1024; number++)
        if (number != descriptor && number != other)
            must(dup2(other, number) == number, "dup2");
    for (int round = 0; round < 20; round++)
        write(descriptor, "still here", 10);
    answer = 0;
    for (int number = 3; number < 1024; number++)
        if (number != descriptor && number != other)
            answer += close(number);
}
static void own_numbers_used(void) {
    /* No number that the program has not opened can be used. */
    answer = 0;
    for (int number = 3; number < 70000; number++) {
        struct stat status;
        if (number == descriptor || number == other)
            continue;
        answer += write(number, "x", 1) == 1;
        answer += read(number, buffer, 1) == 1;
        answer += pwrite(number, "x", 1, 0) == 1;
        answer += fcntl(number, F_GETFD) >= 0;
        answer += dup(number) >= 0;
        answer += close(number) == 0;
    }
}
static void all_closed(void) {
    answer = close_range(descriptor + 2, ~0u, 0);
    for (int round = 0; round < 20; round++)
        write(descriptor, "still here", 10);
}
static int run(const char *way) {
    char *arguments[] = {"sh", "-c", "printf child; read line; printf %s \"$line\" | wc -c >&2", 0};
    fcntl(descriptor, F_SETFD, 0);
    pid_t child = 0;
    int status = -1;
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, descriptor, 0);
    posix_spawn_file_actions_adddup2(&actions, descriptor, 1);
    if (!strcmp(way, "posix_spawn"))
        posix_spawn(&child, "/bin/sh", &actions, 0, arguments, environ);
    if (!strcmp(way, "posix_spawnp"))
        posix_spawnp(&child, "sh", &actions, 0, arguments, environ);
    if (!strcmp(way, "fork") || !strcmp(way, "clone") || !strcmp(way, "clone by syscall")) {
        child = !strcmp(way, "fork") ? fork()
            : !strcmp(way, "clone") ? instruction(SYS_clone, SIGCHLD, 0, 0, 0, 0, 0)
            : syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
        if (!child) {
            /* The functions again, in a process that no library has seen begin. */
            write(descriptor, "of the child", 12);
            read(descriptor, buffer, 5);
            dup2(descriptor, 0);
            dup2(descriptor, 1);
            execl("/bin/sh", "sh", "-c", arguments[2], (char *) 0);
            _exit(9);
        }
    }
    if (!strcmp(way, "vfork")) {
        child = vfork();
        if (!child) {
            dup2(descriptor, 0);
            dup2(descriptor, 1);
            execle("/bin/sh", "sh", "-c", arguments[2], (char *) 0, environ);
            _exit(9);
        }
    }
    waitpid(child, &status, 0);
    return status;
}
static void spawned(void) { answer = run("posix_spawn"); }
static void spawned_by_path(void) { answer = run("posix_spawnp"); }
static void forked(void) { answer = run("fork"); }
static void cloned(void) { answer = run("clone"); }
static void cloned_by_syscall(void) { answer = run("clone by syscall"); }
static void vforked(void) { answer = run("vfork"); }
static void with_system(void) {
    char command[100];
    snprintf(command, sizeof command, "printf by-system >&%d", descriptor);
    fcntl(descriptor, F_SETFD, 0);
    answer = system(command);
    write(descriptor, "between", 7);
    FILE *stream = popen(command, "r");
    answer += pclose(stream);
}
static void turns(void) {
    /* Parent and child take turns with one offset. */
    int there[2], back[2];
    char byte;
    pipe(there), pipe(back);
    if (!fork()) {
        for (int round = 0; round < 20; round++) {
            read(there[0], &byte, 1);
            write(descriptor, "child ", 6);
            write(back[1], "x", 1);
        }
        _exit(0);
    }
    for (int round = 0; round < 20; round++) {
        write(descriptor, "parent ", 7);
        write(there[1], "x", 1);
        read(back[0], &byte, 1);
    }
    answer = lseek(descriptor, 0, SEEK_CUR);
}
static void sent(void) {
    int pair[2];
    char control[CMSG_SPACE(sizeof(int))];
    struct iovec part = {"x", 1};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    socketpair(AF_UNIX, SOCK_STREAM, 0, pair);
    memset(control, 0, sizeof control);
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET, header->cmsg_type = SCM_RIGHTS, header->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(header), &descriptor, sizeof(int));
    must(sendmsg(pair[0], &message, 0) == 1, "sendmsg");
    part.iov_base = buffer + 4000;
    must(recvmsg(pair[1], &message, 0) == 1, "recvmsg");
    int received;
    memcpy(&received, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof(int));
    for (int round = 0; round < 20; round++)
        instruction(SYS_write, received, (long) "received", 8, 0, 0, 0), write(descriptor, "own", 3);
    answer = lseek(received, 0, SEEK_CUR);
}
static void asynchronous(void) {
    struct aiocb block = {.aio_fildes = descriptor, .aio_buf = buffer, .aio_nbytes = 100, .aio_offset = 3650};
    const struct aiocb *blocks[] = {&block};
    must(!aio_read(&block), "aio_read");
    while (aio_suspend(blocks, 1, 0)) {
    }
    answer = aio_return(&block);
    block.aio_nbytes = 9;
    memcpy(buffer, "by aio...", 9);
    must(!aio_write(&block), "aio_write");
    while (aio_suspend(blocks, 1, 0)) {
    }
    answer += aio_return(&block);
}
static void listed(void) {
    struct aiocb block = {.aio_fildes = descriptor, .aio_buf = "listed", .aio_nbytes = 6, .aio_offset = 70, .aio_lio_opcode = LIO_WRITE};
    struct aiocb *blocks[] = {&block};
    answer = lio_listio(LIO_WAIT, blocks, 1, 0);
}
static void locked(void) {
    /* Locks lie from the offset on; another process finds them. */
    answer = lockf(descriptor, F_LOCK, 10);
    int found[2];
    pipe(found);
    if (!fork()) {
        struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
        fcntl(open("file", O_RDWR), F_GETLK, &lock);
        write(found[1], &lock.l_start, sizeof lock.l_start);
        _exit(0);
    }
    off_t start = -1;
    read(found[0], &start, sizeof start);
    answer = answer * 100000 + start;
}
static void too_long(void) {
    struct rlimit limit = {4000, RLIM_INFINITY};
    signal(SIGXFSZ, SIG_IGN);
    setrlimit(RLIMIT_FSIZE, &limit);
    answer = pwrite(descriptor, buffer, 1000, 3900);
    answer = answer * 10000 + pwrite(descriptor, buffer, 10, 4000) + errno;
    limit.rlim_cur = RLIM_INFINITY;
    setrlimit(RLIMIT_FSIZE, &limit);
}
static void ring(void) {
    struct io_uring_params given = {0};
    int ring = instruction(SYS_io_uring_setup, 4, (long) &given, 0, 0, 0, 0);
    if (ring < 0) {
        printf("none ");
        return;
    }
    char *queue = mmap(0, given.cq_off.cqes + 256, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, ring, IORING_OFF_SQ_RING);
    struct io_uring_sqe *entries = mmap(0, 4 * sizeof *entries, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, ring, IORING_OFF_SQES);
    for (int round = 0; round < 6; round++) {
        memset(entries, 0, 4 * sizeof *entries);
        entries[0].opcode = round % 2 ? IORING_OP_READ : IORING_OP_WRITE;
        entries[0].fd = descriptor;
        entries[0].off = -1;
        entries[0].addr = (long) buffer;
        entries[0].len = 20;
        write(descriptor, "between", 7);
        ((unsigned *) (queue + given.sq_off.array))[round % 4] = 0;
        __atomic_store_n((unsigned *) (queue + given.sq_off.tail), round + 1, __ATOMIC_RELEASE);
        answer += instruction(SYS_io_uring_enter, ring, 1, 1, IORING_ENTER_GETEVENTS, 0, 0);
        __atomic_store_n((unsigned *) (queue + given.cq_off.head), round + 1, __ATOMIC_RELEASE);
    }
}
static void spliced(void) {
    int ends[2];
    /* Nothing waits for bytes that a call did not see. */
    pipe2(ends, O_NONBLOCK);
    answer = instruction(SYS_splice, descriptor, 0, ends[1], 0, 100, 0);
    answer += splice(ends[0], 0, other, 0, 50, 0);
    answer += splice(ends[0], 0, descriptor, 0, 50, 0) * 1000;
}
static void bad_pointers(void) {
    char *pages = mmap(0, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memset(pages, 'p', 8192);
    munmap(pages + 4096, 4096);
    char *end = pages + 4096;
    struct iovec some[3] = {{end - 4, 4}, {end, 4}, {end - 2, 2}};
    lseek(descriptor, 100, SEEK_SET);
#define TRIED(call) errno = 0, answer = call, printf("%ld/%d ", answer, errno)
    TRIED(read(descriptor, 0, 10));
    TRIED(read(descriptor, end, 10));
    TRIED(read(descriptor, (void *) -1, 10));
    TRIED(read(descriptor, (void *) 0xdead000000000000, 10));
    TRIED(read(descriptor, buffer, -1));
    TRIED(read(descriptor, buffer, 0));
    TRIED(read(descriptor, 0, 0));
    TRIED(pread(descriptor, end, 10, 0));
    TRIED(pread(descriptor, end, 10, 100000));
    TRIED(pread(descriptor, buffer, 10, -1));
    TRIED(write(descriptor, 0, 10));
    TRIED(write(descriptor, end, 10));
    TRIED(write(descriptor, (void *) -1, 10));
    TRIED(write(descriptor, buffer, -1));
    TRIED(write(descriptor, 0, 0));
    TRIED(pwrite(descriptor, end, 5000, 0));
    TRIED(pwrite(descriptor, (void *) 0xdead000000000000, 10, 0));
    TRIED(readv(descriptor, (void *) end, 2));
    TRIED(readv(descriptor, some, -1));
    TRIED(readv(descriptor, some, 2000));
    TRIED(writev(descriptor, some + 1, 1));
    TRIED(readv(descriptor, some + 1, 2));
    TRIED(writev(-1, some, 1));
    TRIED(lseek(descriptor, -1, SEEK_SET));
    TRIED(lseek(descriptor, 0, 77));
    TRIED(lseek(descriptor, 1ul << 62, SEEK_CUR));
    lseek(descriptor, 200, SEEK_SET);
}
static void short_writes(void) {
    /* What lies before memory that is not there is written or read, in whole pages at least: how much more is the kernel's. */
    char *pages = mmap(0, 16384, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memset(pages, 'p', 16384);
    munmap(pages + 8192, 8192);
    answer = pwrite(descriptor, pages, 16384, 0) > 0;
    printf("%d %d ", answer != 0, pread(descriptor, pages + 4096, 12288, 0) > 0);
    ftruncate(descriptor, 3000);
}

static sigjmp_buf left;
static volatile int handled;
static void writes(int number) {
    (void) number;
    handled++;
    write(descriptor, "H", 1);
    write(other, "O", 1);
}
static void leaves(int number) {
    (void) number;
    handled++;
    siglongjmp(left, 1);
}
static void keep_alarming(void (*handler)(int)) {
    struct sigaction action = {.sa_handler = handler};
    struct itimerval timer = {{0, 300}, {0, 300}};
    sigaction(SIGALRM, &action, 0);
    setitimer(ITIMER_REAL, &timer, 0);
}
static void stop_alarming(void) {
    struct itimerval timer = {{0, 0}, {0, 0}};
    setitimer(ITIMER_REAL, &timer, 0);
    signal(SIGALRM, SIG_DFL);
}
static void handlers_write(void) {
    /* Every byte is there, from whichever of the two. */
    ftruncate(descriptor, 0);
    lseek(descriptor, 0, SEEK_SET);
    keep_alarming(writes);
    long written = 0;
    while (handled < 200)
        written += write(descriptor, "main", 4);
    stop_alarming();
    static char all[1 << 22];
    long length = pread(descriptor, all, sizeof all, 0), ours = 0;
    for (long at = 0; at < length; at++)
        ours += all[at] == 'H';
    answer = length == written + handled && ours == handled && lseek(descriptor, 0, SEEK_CUR) == length;
    if (!answer)
        printf("%ld bytes, %ld and %d written, %ld of handlers, at %ld ", length, written, handled, ours, (long) lseek(descriptor, 0, SEEK_CUR));
    ftruncate(descriptor, 0), ftruncate(other, 0);
    lseek(descriptor, 0, SEEK_SET);
}
static void handlers_leave(void) {
    static char large[1 << 20];
    /* The handler needs a place to go to before its first signal, which may come at once. */
    if (!sigsetjmp(left, 1))
        keep_alarming(leaves);
    if (handled < 200)
        for (;;)
            pwrite(descriptor, large, sizeof large, 0);
    stop_alarming();
    /* A change of names does not wait for this process. */
    answer = mkdir("made", 0755) + rmdir("made");
    ftruncate(descriptor, 0);
}
static void counts(int number) {
    sigset_t now;
    (void) number;
    sigprocmask(SIG_BLOCK, 0, &now);
    handled += sigismember(&now, SIGUSR2) == 1;
}
static void handlers_block_all(void) {
    /* Shells have such handlers for children that end. */
    struct sigaction action = {.sa_handler = counts}, found;
    struct stat status;
    long right = 0, rounds = 0;
    keep_alarming(counts);
    sigfillset(&action.sa_mask);
    sigaction(SIGALRM, &action, 0);
    for (; handled < 200; rounds++) {
        int file = open("of a name", O_CREAT | O_WRONLY | O_EXCL, 0644);
        right += write(file, "some", 4) == 4 && !close(file) && !stat("of a name", &status) && status.st_size == 4 && !unlink("of a name");
    }
    sigaction(SIGALRM, 0, &found);
    stop_alarming();
    answer = right == rounds && sigismember(&found.sa_mask, SIGSYS) == 1;
}
static void numbers_run_out(void) {
    /* There is no number left by which a file could be opened once more. */
    static int files[300];
    struct rlimit before, few;
    struct stat status;
    int count = 0, bad = 0;
    getrlimit(RLIMIT_NOFILE, &before);
    few = before, few.rlim_cur = 270;
    must(!setrlimit(RLIMIT_NOFILE, &few), "limit");
    for (int number = 0; number < 20; number++)
        stat("not there", &status);
    while (count < 300 && (files[count] = open("of a name", O_CREAT | O_RDWR | (count % 2 ? O_CLOEXEC : 0), 0644)) >= 0)
        bad += write(files[count++], "abcdef", 6) != 6;
    bad += errno != EMFILE || count < 200;
    for (int at = 0; at < count; at++)
        bad += ftruncate(files[at], 3) || lseek(files[at], 0, SEEK_CUR) != 6 || fcntl(files[at], F_GETFD) != at % 2;
    for (int at = 0; at < count; at++)
        bad += close(files[at]) != 0;
    setrlimit(RLIMIT_NOFILE, &before);
    unlink("of a name");
    answer = bad;
}
static void *cancelled(void *anywhere) {
    static char large[1 << 20];
    if (anywhere)
        pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, 0);
    for (;;)
        pwrite(descriptor, large, sizeof large, 0);
    return 0;
}
static void cancel_often(void *anywhere) {
    for (int round = 0; round < 50; round++) {
        pthread_t thread;
        void *result;
        must(!pthread_create(&thread, 0, cancelled, anywhere), "thread");
        usleep(500);
        pthread_cancel(thread);
        pthread_join(thread, &result);
        answer += result == PTHREAD_CANCELED;
    }
    answer += mkdir("made", 0755) + rmdir("made");
    ftruncate(descriptor, 0);
}
static void cancelled_between(void) { cancel_often(0); }
static void cancelled_anywhere(void) { cancel_often(&other); }
static void *cancelled_in_short_calls(void *unused) {
    pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, 0);
    for (;;) {
        lseek(descriptor, 0, SEEK_CUR);
        open("not there", O_RDONLY);
        pthread_setcanceltype(PTHREAD_CANCEL_DEFERRED, 0);
        pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, 0);
    }
    return unused;
}
static void cancelled_at_any_instruction(void) {
    for (int round = 0; round < 1000; round++) {
        pthread_t thread;
        void *result;
        must(!pthread_create(&thread, 0, cancelled_in_short_calls, 0), "thread");
        usleep(round % 100);
        pthread_cancel(thread);
        pthread_join(thread, &result);
        answer += result == PTHREAD_CANCELED;
    }
}
static void handler_is_told(void) {
    struct sigaction action = {.sa_handler = writes, .sa_flags = SA_RESETHAND | SA_NODEFER}, found;
    sigaddset(&action.sa_mask, SIGUSR2);
    sigaction(SIGUSR1, &action, 0);
    sigaction(SIGUSR1, 0, &found);
    answer = found.sa_handler == writes && found.sa_flags == (SA_RESETHAND | SA_NODEFER | (found.sa_flags & 0x04000000))
        && sigismember(&found.sa_mask, SIGUSR2) == 1;
    raise(SIGUSR1);
    sigaction(SIGUSR1, 0, &found);
    answer = answer * 10 + (found.sa_handler == SIG_DFL && !(found.sa_flags & SA_SIGINFO));
    answer = answer * 10 + (signal(SIGUSR1, writes) == SIG_DFL) + (signal(SIGUSR1, SIG_IGN) == writes);
    sigaction(SIGSEGV, 0, &found);
    answer = answer * 10 + (found.sa_handler == SIG_DFL) + (signal(SIGSEGV, leaves) == SIG_DFL);
    if (!sigsetjmp(left, 1))
        *(volatile int *) 8 = 1;
    sigaction(SIGSEGV, 0, &found);
    answer = answer * 10 + (found.sa_handler == leaves);
    pread(descriptor, (void *) 8, 10, 0);
    printf("handled %d ", handled);
}
static void handlers_stay(void) {
    /* What a child sets in its parent's memory is the child's alone. */
    struct sigaction found, action = {.sa_handler = SIG_DFL};
    signal(SIGUSR1, writes);
    pid_t child = vfork();
    if (!child) {
        sigaction(SIGUSR1, &action, &found);
        int was_told = found.sa_handler == writes;
        was_told += signal(SIGUSR1, SIG_IGN) == SIG_DFL;
        was_told += signal(SIGUSR1, SIG_IGN) == SIG_IGN;
        siginterrupt(SIGUSR1, 1);
        _exit(was_told);
    }
    int status;
    waitpid(child, &status, 0);
    answer = status;
    raise(SIGUSR1);
    sigaction(SIGUSR1, 0, &found);
    printf("handled %d, still %d ", handled, found.sa_handler == writes && found.sa_flags & SA_RESTART);
}
static void fault_ends(void) {
    fflush(stdout);
    if (!fork()) {
        *(volatile int *) 8 = 1;
        _exit(0);
    }
    int status;
    wait(&status);
    answer = status & 127;
    kill(getpid(), 0);
}

#define HAND(name) {#name, 0, name}
#define FILLS(name) {#name, 1, name}
#define TWICE(name) {"instruction " #name, 1, raw_##name}, {"syscall " #name, 1, syscall_##name}

static const struct handed cases[] = {
#define GENERATED(name, does_fill, body) {#name, does_fill, generated_##name},
#include "generated.h"
#undef GENERATED
    TWICE(read), TWICE(write), TWICE(readv), TWICE(writev), TWICE(pread_tail), TWICE(pwrite), TWICE(preadv2), TWICE(pwritev2),
    TWICE(lseek), TWICE(lseek_end), TWICE(lseek_data), TWICE(sendfile), TWICE(sendfile_to), TWICE(copy_file_range), TWICE(ftruncate),
    TWICE(fallocate), TWICE(setfl), TWICE(unsetfl), TWICE(fsync), TWICE(truncate), TWICE(close), TWICE(close_range), TWICE(dup2_over),
    TWICE(unlink),
    HAND(raw_close_and_open), HAND(raw_close_and_socket), FILLS(dup_raw), HAND(dup_moves), HAND(fionread), HAND(fionread_by_instruction),
    HAND(fdinfo), HAND(mapped_by_instruction), FILLS(written_by_mapping), HAND(vdprintf_), HAND(dprintf_), FILLS(stream),
    HAND(stream_closes), HAND(reopened), HAND(standard_output), HAND(standard_input), HAND(own_numbers), HAND(own_numbers_used),
    HAND(all_closed), HAND(spawned), HAND(spawned_by_path), HAND(forked), HAND(cloned), HAND(cloned_by_syscall), HAND(vforked),
    HAND(with_system), HAND(turns), HAND(sent), FILLS(asynchronous), HAND(listed), HAND(locked), HAND(too_long), FILLS(ring),
    HAND(spliced), HAND(bad_pointers), HAND(short_writes), HAND(handlers_write), HAND(handlers_block_all), HAND(numbers_run_out), HAND(handlers_leave), HAND(cancelled_between),
    HAND(cancelled_anywhere), HAND(cancelled_at_any_instruction), HAND(handler_is_told), HAND(handlers_stay), HAND(fault_ends),
};
enum { CASES = sizeof cases / sizeof *cases };

/* Calls by number that end or change the process, wait for ever, or take what the file's number happens to mean. */
static const int left_out[] = {
    SYS_exit, SYS_exit_group, SYS_rt_sigreturn, SYS_clone, SYS_clone3, SYS_execve, SYS_kill, SYS_tkill, SYS_tgkill, SYS_reboot,
    SYS_pselect6, SYS_ppoll, SYS_rt_sigsuspend, SYS_rt_sigtimedwait, SYS_ptrace, SYS_setuid, SYS_setgid, SYS_setreuid, SYS_setregid,
    SYS_setresuid, SYS_setresgid, SYS_setfsuid, SYS_setfsgid, SYS_setgroups, SYS_vhangup, SYS_personality, SYS_setrlimit, SYS_prlimit64,
    SYS_mlockall, SYS_brk, SYS_munmap, SYS_set_tid_address, SYS_set_robust_list, SYS_sched_setscheduler, SYS_sched_setparam,
    SYS_sched_setattr, SYS_sched_setaffinity, SYS_unshare, SYS_getpid, SYS_gettid, SYS_getppid, SYS_getpgid, SYS_getsid, SYS_times,
    SYS_getrusage, SYS_umask, SYS_getcpu, SYS_sysinfo, SYS_time, SYS_clock_gettime, SYS_gettimeofday, SYS_sync, SYS_mincore, SYS_setpgid,
    SYS_acct, SYS_swapon, SYS_swapoff, SYS_rseq, SYS_getrandom, SYS_add_key, SYS_request_key, SYS_keyctl, SYS_setitimer, SYS_alarm,
    SYS_pause, SYS_fork, SYS_vfork, SYS_select, SYS_poll, SYS_iopl, SYS_ioperm, SYS_modify_ldt, SYS_arch_prctl, SYS_mmap, SYS_mremap,
    SYS_uname, SYS_fstat, SYS_fstatfs, SYS_statx, SYS_name_to_handle_at, SYS_getrlimit, SYS_syslog, SYS_waitid, SYS_wait4,
    SYS_rt_sigaction, SYS_clock_nanosleep, SYS_timer_create, SYS_userfaultfd, SYS_bpf, SYS_perf_event_open, SYS_membarrier, SYS_setpriority,
    SYS_getpriority, SYS_ioprio_set, SYS_ioprio_get, SYS_setdomainname, SYS_sethostname, SYS_sched_rr_get_interval,
    SYS_ftruncate, SYS_truncate, SYS_msgget, SYS_semget, SYS_shmget, SYS_getpgrp, SYS_setsid, SYS_timer_settime, SYS_timer_gettime, SYS_timer_getoverrun, SYS_timer_delete, SYS_prctl, SYS_epoll_wait, SYS_epoll_pwait,
};
enum { NUMBERS = 452 };

static int is_left_out(int number) {
    /* There are none between. */
    if (number > SYS_rseq && number < SYS_pidfd_send_signal)
        return 1;
    for (unsigned index = 0; index < sizeof left_out / sizeof *left_out; index++)
        if (left_out[index] == number)
            return 1;
    return 0;
}

int main(int count, char **arguments) {
    must(count >= 3 && !chdir(arguments[1]), "chdir");
    mode = arguments[2];
    if (count > 3) {
        int number = atoi(arguments[3]);
        char name[32];
        alarm(60); /* the longest case takes half a second, and more than 20 on a busy host */
        setvbuf(stdout, 0, _IOFBF, 1 << 16);
        prepare();
        if (number < CASES) {
            fills = cases[number].fills;
            cases[number].act();
            show(cases[number].name);
        } else {
            number -= CASES;
            answer = instruction(number, descriptor, (long) buffer, 16, 8, 0, 0);
            snprintf(name, sizeof name, "number %d", number);
            show(name);
        }
        fflush(stdout);
        _exit(0);
    }
    /* Some calls take an address for a number. */
    personality(ADDR_NO_RANDOMIZE);
    for (int number = 0; number < CASES + NUMBERS; number++) {
        if (number >= CASES && is_left_out(number - CASES))
            continue;
        char text[16];
        int status;
        snprintf(text, sizeof text, "%d", number);
        pid_t child = fork();
        if (!child) {
            execl("/proc/self/exe", arguments[0], ".", mode, text, (char *) 0);
            _exit(8);
        }
        waitpid(child, &status, 0);
        if (status)
            printf("%s case %d (%s): status %d\n", mode, number, number < CASES ? cases[number].name : "by number", status);
        fflush(stdout);
    }
    return 0;
}
