/* Everything that the header offers, once: exits with the line that was not as it should be. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "pagewalk_ctfs.h"

#define MUST(condition) do { if (!(condition)) { fprintf(stderr, "line %d: %s\n", __LINE__, #condition); return 1; } } while (0)

static int count(void *data, const char *name, uint64_t ino, uint32_t type)
{
    (void)type;
    int *names = data;
    return name[0] == '\0' || ino == 0 || ++*names == 3;
}

#if PW_VERSION_MAJOR != 0 || PW_VERSION_MINOR < 1
#error an unknown version
#endif

int main(int argc, char **argv)
{
    MUST(argc == 2);
    MUST(pw_files_format("/nowhere/store", 1 << 24) == -ENOENT);
    FILE *text_file = fopen(argv[1], "w");
    MUST(text_file && fputs("no store", text_file) >= 0 && fclose(text_file) == 0);
    MUST(pw_files_format(argv[1], 1 << 24) == -EEXIST && remove(argv[1]) == 0);
    MUST(pw_files_format(argv[1], 1 << 24) == 0);
    pw_files *files = pw_files_open(argv[1], PW_STRICT);
    MUST(files);
    MUST(!pw_files_open(argv[1], 0) && errno == EBUSY);
    MUST(pw_mkdir(files, "/d", 0750) == 0 && pw_mkdir(files, "/d", 0750) == -EEXIST);
    MUST(!pw_open(files, "/d/f", O_RDWR, 0) && errno == ENOENT);
    pw_file *file = pw_open(files, "/d/f", O_RDWR | O_CREAT | O_EXCL, 0640);
    MUST(file);
    MUST(!pw_open(files, "/d/f", O_RDWR | O_CREAT | O_EXCL, 0640) && errno == EEXIST);
    MUST(pw_write(file, "hello world", 11) == 11);
    MUST(pw_pwrite(file, "W", 1, 6) == 1 && pw_pwrite(file, "x", 1, -1) == -EINVAL);
    char text[32] = "";
    MUST(pw_read(file, text, sizeof text) == 0);
    MUST(pw_lseek(file, -5, SEEK_END) == 6 && pw_read(file, text, sizeof text) == 5 && !memcmp(text, "World", 5));
    MUST(pw_pread(file, text, 5, 0) == 5 && !memcmp(text, "hello", 5));
    MUST(pw_ftruncate(file, 5) == 0 && pw_lseek(file, 0, SEEK_END) == 5 && pw_lseek(file, 0, 77) == -EINVAL);
    MUST(pw_pwrite(file, "end", 3, 8192) == 3 && pw_collapse(file, 0, 4096) == 0);
    MUST(pw_lseek(file, 0, SEEK_END) == 4099 && pw_pread(file, text, 3, 4096) == 3 && !memcmp(text, "end", 3));
    MUST(pw_insert(file, 0, 8192) == 0 && pw_pread(file, text, 3, 12288) == 3 && !memcmp(text, "end", 3));
    MUST(pw_insert(file, 0, 1) == -EINVAL && pw_collapse(file, -4096, 4096) == -EINVAL);
    MUST(pw_ftruncate(file, 0) == 0 && pw_pwrite(file, "hello", 5, 0) == 5);
    pw_attributes attributes;
    MUST(pw_fstat(file, &attributes) == 0 && attributes.size == 5 && attributes.links == 1);
    MUST((attributes.mode & 0777) == 0640 && attributes.modified.seconds > 0);
    MUST(pw_link(files, "/d/f", "/g") == 0 && pw_symlink(files, "d/f", "/s") == 0);
    MUST(pw_stat(files, "/s", &attributes) == 0 && attributes.links == 2);
    MUST(pw_lstat(files, "/s", &attributes) == 0 && attributes.size == 3);
    MUST(pw_readlink(files, "/s", text, sizeof text) == 3 && !memcmp(text, "d/f", 3));
    MUST(pw_rename(files, "/g", "/h") == 0 && pw_stat(files, "/g", &attributes) == -ENOENT);
    int names = 0;
    MUST(pw_list(files, "/", count, &names) == 0 && names == 3);
    MUST(pw_rmdir(files, "/d") == -ENOTEMPTY && pw_unlink(files, "/d/f") == 0 && pw_rmdir(files, "/d") == 0);
    pw_close(file);
    /* Every flag does what it says, or is refused. */
    MUST(!pw_open(files, "/h", 3, 0) && errno == EINVAL);
    MUST(!pw_open(files, "/h", O_RDONLY | O_TRUNC, 0) && errno == EINVAL);
    MUST(!pw_open(files, "/h", O_RDWR | O_EXCL, 0) && errno == EINVAL);
    MUST(!pw_open(files, "/h", O_RDONLY | O_DIRECTORY, 0) && errno == EINVAL);
    MUST(!pw_open(files, "/h", O_RDONLY | 0x40000000, 0) && errno == EINVAL);
    MUST(!pw_open(files, "/s", O_RDONLY | O_NOFOLLOW, 0) && errno == ELOOP);
    file = pw_open(files, "/new", O_RDONLY | O_CREAT | O_CLOEXEC, 0777);
    MUST(file && pw_read(file, text, 1) == 0 && pw_write(file, "x", 1) == -EBADF);
    MUST(pw_fstat(file, &attributes) == 0 && (attributes.mode & 0777) == 0777);
    /* Nothing where something must be. */
    MUST(pw_files_format(0, 1 << 24) == -EFAULT && !pw_files_open(0, 0) && errno == EFAULT);
    MUST(!pw_files_open(argv[1], 77) && errno == EINVAL && pw_files_format(argv[1], 5000) == -EINVAL);
    MUST(!pw_open(files, 0, O_RDONLY, 0) && errno == EFAULT && !pw_open(0, "/h", O_RDONLY, 0) && errno == EFAULT);
    MUST(pw_read(file, 0, 1) == -EFAULT && pw_read(file, 0, 0) == 0 && pw_read(0, text, 1) == -EFAULT);
    MUST(pw_pread(file, text, (size_t)-1, 0) == -EFAULT && pw_fstat(file, 0) == -EFAULT);
    MUST(pw_stat(files, "/h", 0) == -EFAULT && pw_stat(files, 0, &attributes) == -EFAULT);
    MUST(pw_list(files, "/", 0, 0) == -EFAULT && pw_readlink(files, "/s", 0, 1) == -EFAULT);
    MUST(pw_rename(files, "/h", 0) == -EFAULT && pw_unlink(files, 0) == -EFAULT);
    MUST(pw_unlink(files, "/new") == 0);
    /* A child leaves the parent's store alone. */
    pw_close(file);
    file = pw_open(files, "/h", O_RDWR, 0);
    pid_t child = fork();
    if (child == 0) {
        MUST(pw_write(file, "child", 5) == -ESTALE && pw_read(file, text, 1) == -ESTALE);
        MUST(pw_pread(file, text, 1, 0) == -ESTALE && pw_fstat(file, &attributes) == -ESTALE);
        MUST(pw_mkdir(files, "/child", 0700) == -ESTALE && pw_stat(files, "/h", &attributes) == -ESTALE);
        MUST(!pw_open(files, "/child", O_RDWR | O_CREAT, 0600) && errno == ESTALE);
        MUST(!pw_files_open(argv[1], 0) && errno == EBUSY);
        pw_close(file);
        pw_files_close(files);
        return 0;
    }
    int status = 1;
    MUST(waitpid(child, &status, 0) == child && status == 0);
    MUST(pw_pread(file, text, 5, 0) == 5 && !memcmp(text, "hello", 5) && pw_mkdir(files, "/parent", 0700) == 0);
    pw_close(file);
    pw_files_close(files);
    files = pw_files_open(argv[1], PW_POWER_FAILURE);
    MUST(files);
    file = pw_open(files, "/h", O_WRONLY | O_APPEND, 0);
    MUST(file && pw_read(file, text, 1) == -EBADF && pw_write(file, "!", 1) == 1);
    pw_close(file);
    MUST(pw_stat(files, "/h", &attributes) == 0 && attributes.size == 6);
    pw_files_close(files);
    /* A program has what it wrote on the disk by pw_fsync, pw_sync and O_DSYNC. */
    MUST(!pw_files_open(argv[1], PW_POWER_FAILURE | PW_NO_SYNC) && errno == EINVAL);
    MUST(pw_fsync(0) == -EFAULT && pw_sync(0) == -EFAULT);
    for (int flags = 0; flags <= PW_NO_SYNC; flags += PW_NO_SYNC) {
        files = pw_files_open(argv[1], flags);
        MUST(files);
        file = pw_open(files, "/synced", O_RDWR | O_CREAT, 0600);
        MUST(file && pw_write(file, "bytes", 5) == 5 && pw_fsync(file) == 0 && pw_sync(files) == 0);
        pw_close(file);
        file = pw_open(files, "/synced", O_WRONLY | O_DSYNC, 0);
        MUST(file && pw_write(file, "other", 5) == 5 && pw_pwrite(file, "s", 1, 5) == 1 && pw_write(file, "", 0) == 0);
        pw_close(file);
        MUST(pw_stat(files, "/synced", &attributes) == 0 && attributes.size == 6);
        pw_files_close(files);
    }
    /* Two may read a store. */
    MUST(!pw_files_open(argv[1], PW_READ_ONLY | PW_STRICT) && errno == EINVAL);
    files = pw_files_open(argv[1], PW_READ_ONLY);
    pw_files *others = pw_files_open(argv[1], PW_READ_ONLY);
    MUST(files && others && !pw_files_open(argv[1], 0) && errno == EBUSY);
    pw_files_close(others);
    MUST(pw_mkdir(files, "/new", 0700) == -EROFS && !pw_open(files, "/h", O_RDWR, 0) && errno == EROFS);
    file = pw_open(files, "/h", O_RDONLY, 0);
    MUST(file && pw_read(file, text, sizeof text) == 6 && !memcmp(text, "hello!", 6));
    pw_close(file);
    pw_files_close(files);
    return 0;
}
