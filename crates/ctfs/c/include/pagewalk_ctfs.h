/* Files in one file of the host, each contiguous in a persistent page table's addresses, without a system call.
 *
 * Link with -lpagewalk_ctfs_c, or by `pkg-config pagewalk-ctfs`. One process has a store at a time. What a function cannot do it says by a
 * negative errno value, or by a null pointer with the value in errno. Paths begin at the store's root. Owners and permissions are kept and
 * not looked at.
 *
 * A null pointer where something must be is EFAULT; other pointers must be what they are said to be.
 *
 * Threads: several may call everything at once, but none may close what another one uses.
 *
 * fork: the store stays the parent's. In a child every function answers ESTALE and touches no store, but for the two that close: they
 * give the child's memory back. The child may open other stores; the parent's it can open when the parent has closed it, and all
 * children that were made meanwhile have ended or started another program.
 *
 * Panics: a defect of the library does not end the program. The function answers ENOTRECOVERABLE, and so do all others for the same
 * store, until it is closed and opened again; that brings it in order as after a crash.
 *
 * SIGBUS: where a page of a store is missing, as its file was cut, its disk is full or cannot be read, the function that needs the page
 * answers EIO, and so do all others for the same store until it is closed and opened again. For that the first pw_files_format or
 * pw_files_open of a process installs a handler of SIGBUS, which calls the handler that was there before for every other address. A
 * program that sets a handler later calls the one that it replaces; a program that wants none installed calls pw_leave_sigbus first, and in
 * a handler of its own pw_recover_sigbus.
 */
#ifndef PAGEWALK_CTFS_H
#define PAGEWALK_CTFS_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Of this header. The first number is the library's, too (libpagewalk_ctfs_c.so.0): it changes when programs must be built anew. */
#define PW_VERSION_MAJOR 0
#define PW_VERSION_MINOR 1
#define PW_VERSION_PATCH 0

/* A store that is open, and a file in one. */
typedef struct pw_files pw_files;
typedef struct pw_file pw_file;

/* A time: seconds since 1970, rounded down, and 0 to 999999999 nanoseconds behind them. */
typedef struct pw_time {
    int64_t seconds, nanoseconds;
} pw_time;

/* What is known of a file. */
typedef struct pw_attributes {
    uint64_t ino, size, blocks, links;
    uint32_t mode, uid, gid, reserved;
    pw_time accessed, modified, changed;
} pw_attributes;

/* For pw_files_open. Without the first two, a store in a file on a disk keeps the usual contract: everything survives the end of the
 * process, and what was done before pw_fsync, pw_sync, pw_files_close, or a write to a file opened with O_SYNC or O_DSYNC, also a power
 * failure, which leaves the state of such a moment. The first such opening makes the file longer, by 8 to 64 MiB, and is ENOSPC where
 * its disk has no room for that. Where the store's file lies in memory (tmpfs), pw_fsync has nothing to wait for; in persistent memory
 * (DAX) each write persists.
 *
 *   PW_POWER_FAILURE  every function waits for the disk
 *   PW_NO_SYNC        none does, pw_fsync neither: after a power failure the store may not open any more
 *   PW_STRICT         overwriting is atomic; beside one of these or none
 *   PW_READ_ONLY      nothing is written to the store's file, and every change is EROFS; alone
 *
 * All others are EINVAL. */
#define PW_POWER_FAILURE 1
#define PW_STRICT 2
#define PW_READ_ONLY 4
#define PW_NO_SYNC 8

/* Before the first store: the library installs no handler of SIGBUS. */
void pw_leave_sigbus(void);
/* For a handler of SIGBUS, with the address of the fault (si_addr): not 0 if the address is a store's, and the handler is to return. */
int pw_recover_sigbus(const void *address);

/* Makes a file of so many bytes and an empty store in it. An empty file and a store that no process has open are overwritten; another file
 * is EEXIST, a size that no store has EINVAL (a store has 2 MiB to 1 TiB). */
int pw_files_format(const char *path, uint64_t bytes);
/* Opens a store, and brings it in order after a crash. */
pw_files *pw_files_open(const char *path, int flags);
/* Closes it. All its files must have been closed. */
void pw_files_close(pw_files *files);

/* Opens a regular file. Flags are those of open(2):
 *
 *   O_RDONLY, O_WRONLY, O_RDWR                                        what may be done with it
 *   O_APPEND, O_TRUNC (with O_WRONLY or O_RDWR), O_CREAT, O_EXCL (with O_CREAT), O_NOFOLLOW
 *                                                                     as there
 *   O_SYNC, O_DSYNC                                                   each write ends with a pw_fsync
 *   O_CLOEXEC, O_NOCTTY, O_NONBLOCK, O_LARGEFILE, O_NOATIME           say nothing here: there is no descriptor
 *
 * All others, O_DIRECTORY, O_DIRECT, O_PATH and O_TMPFILE among them, are EINVAL. A new file has the given mode: the process's umask does
 * not count. Its owner is the process's effective user and group. */
pw_file *pw_open(pw_files *files, const char *path, int flags, mode_t mode);
void pw_close(pw_file *file);

/* As the calls of these names. What was written persists before they return, as the store was opened. */
ssize_t pw_read(pw_file *file, void *bytes, size_t length);
ssize_t pw_write(pw_file *file, const void *bytes, size_t length);
ssize_t pw_pread(pw_file *file, void *bytes, size_t length, off_t offset);
ssize_t pw_pwrite(pw_file *file, const void *bytes, size_t length, off_t offset);
off_t pw_lseek(pw_file *file, off_t offset, int whence);
int pw_ftruncate(pw_file *file, off_t bytes);
/* Waits until everything that was done before, to any file of the store, is on its disk; calls at the same time wait together. EIO if the
 * disk refuses, as it does from then on. pw_sync does the same without a file. */
int pw_fsync(pw_file *file);
int pw_sync(pw_files *files);
/* As fallocate with FALLOC_FL_COLLAPSE_RANGE and FALLOC_FL_INSERT_RANGE, in whole pages of 4096 bytes: what lies behind the range
 * moves by entries of the page table, and no byte is copied. */
int pw_collapse(pw_file *file, off_t offset, off_t length);
int pw_insert(pw_file *file, off_t offset, off_t length);
int pw_fstat(pw_file *file, pw_attributes *attributes);
int pw_stat(pw_files *files, const char *path, pw_attributes *attributes);
int pw_lstat(pw_files *files, const char *path, pw_attributes *attributes);
int pw_mkdir(pw_files *files, const char *path, mode_t mode);
int pw_rmdir(pw_files *files, const char *path);
int pw_unlink(pw_files *files, const char *path);
int pw_rename(pw_files *files, const char *from, const char *to);
int pw_link(pw_files *files, const char *file, const char *name);
int pw_symlink(pw_files *files, const char *target, const char *path);
ssize_t pw_readlink(pw_files *files, const char *path, char *target, size_t length);
/* Calls back for every name, as long as the answer is 0. */
int pw_list(pw_files *files, const char *path,
            int (*each)(void *data, const char *name, uint64_t ino, uint32_t mode_type), void *data);

#ifdef __cplusplus
}
#endif

#endif
