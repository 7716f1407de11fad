/* What scripts/small-files.sh times: loops over many small files, and the tree of files that it copies.
 *
 *   small-files names FOLDER COUNT     seconds to create, look at, open and read, and remove so many files, one a line
 *   small-files tree FOLDER            160 directories with 100 files each, of 100 to 9,000 bytes
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static char bytes[9000];

static void must(int done, const char *what) {
    if (!done) {
        perror(what);
        exit(1);
    }
}

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec + time.tv_nsec * 1e-9;
}

static void make(const char *path, size_t length) {
    int file = open(path, O_CREAT | O_EXCL | O_WRONLY, 0644);
    must(file >= 0 && write(file, bytes, length) == (ssize_t)length && !close(file), path);
}

static void look(const char *path) {
    struct stat status;
    must(!stat(path, &status) && status.st_size == 100, path);
}

static void read_whole(const char *path) {
    char read_bytes[4096];
    int file = open(path, O_RDONLY);
    must(file >= 0 && read(file, read_bytes, sizeof read_bytes) == 100 && !close(file), path);
}

static void each(const char *name, const char *folder, int count, void (*act)(const char *)) {
    char path[4096];
    double begun = now();
    for (int number = 0; number < count; number++) {
        snprintf(path, sizeof path, "%s/file-%d", folder, number);
        act(path);
    }
    printf("%s %.6f\n", name, now() - begun);
}

static void make_small(const char *path) { make(path, 100); }
static void drop(const char *path) { must(!unlink(path), path); }

static void tree(const char *folder) {
    static const size_t lengths[] = {100, 900, 3000, 9000};
    char path[4096];
    must(!mkdir(folder, 0755), folder);
    for (int directory = 0; directory < 160; directory++) {
        snprintf(path, sizeof path, "%s/%d", folder, directory);
        must(!mkdir(path, 0755), path);
        for (int number = 0; number < 100; number++) {
            snprintf(path, sizeof path, "%s/%d/file-%d.c", folder, directory, number);
            make(path, lengths[(directory * 7 + number * 13) % 4]);
        }
    }
}

int main(int count, char **arguments) {
    for (size_t at = 0; at < sizeof bytes; at++)
        bytes[at] = "0123456789abcdef"[(at * 2654435761u >> 7) % 16];
    if (count == 4 && !strcmp(arguments[1], "names")) {
        int files = atoi(arguments[3]);
        each("create", arguments[2], files, make_small);
        each("stat", arguments[2], files, look);
        each("open-read-close", arguments[2], files, read_whole);
        each("unlink", arguments[2], files, drop);
        return 0;
    }
    if (count == 3 && !strcmp(arguments[1], "tree")) {
        tree(arguments[2]);
        return 0;
    }
    fprintf(stderr, "usage: %s names FOLDER COUNT | tree FOLDER\n", arguments[0]);
    return 2;
}
