/* Everything that the header offers, once: exits with the line that was not as it should be. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "pagewalk_ctfs.h"

#define MUST(condition) do { if (!(condition)) { fprintf(stderr, "line %d: %s\n", __LINE__, #condition); return 1; } } while (0)

static int count(void *data, const char *name, uint64_t ino, uint32_t type)
{
    (void)type;
    int *names = data;
    return name[0] == '\0' || ino == 0 || ++*names == 3;
}

int main(int argc, char **argv)
{
    MUST(argc == 2);
    MUST(pw_files_format("/nowhere/store", 1 << 24) == -ENOENT);
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
    MUST((attributes.mode & 0777) == 0640 && attributes.modified > 0);
    MUST(pw_link(files, "/d/f", "/g") == 0 && pw_symlink(files, "d/f", "/s") == 0);
    MUST(pw_stat(files, "/s", &attributes) == 0 && attributes.links == 2);
    MUST(pw_lstat(files, "/s", &attributes) == 0 && attributes.size == 3);
    MUST(pw_readlink(files, "/s", text, sizeof text) == 3 && !memcmp(text, "d/f", 3));
    MUST(pw_rename(files, "/g", "/h") == 0 && pw_stat(files, "/g", &attributes) == -ENOENT);
    int names = 0;
    MUST(pw_list(files, "/", count, &names) == 0 && names == 3);
    MUST(pw_rmdir(files, "/d") == -ENOTEMPTY && pw_unlink(files, "/d/f") == 0 && pw_rmdir(files, "/d") == 0);
    pw_close(file);
    pw_files_close(files);
    files = pw_files_open(argv[1], PW_POWER_FAILURE);
    MUST(files);
    file = pw_open(files, "/h", O_WRONLY | O_APPEND, 0);
    MUST(file && pw_read(file, text, 1) == -EBADF && pw_write(file, "!", 1) == 1);
    pw_close(file);
    MUST(pw_stat(files, "/h", &attributes) == 0 && attributes.size == 6);
    pw_files_close(files);
    return 0;
}
