/* Counts every change to files below one folder and lets the n-th one fail.

   Preloaded into a process, it stands between the process and the C library, so that it sees what
   SQLite, the text index and Python do alike. Nothing happens until fault_arm() is called. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

enum { NONE, KILL, IO_ERROR, DISK_FULL };

static char folder[PATH_MAX];
static size_t folder_length;
static long target, seen, failed;
static int kind;

void fault_arm(const char *path, long number, int what) {
    strncpy(folder, path, sizeof folder - 1);
    folder_length = strlen(folder);
    target = number;
    kind = what;
    seen = failed = 0;
}

void fault_disarm(void) { folder_length = 0; }
long fault_seen(void) { return seen; }
long fault_failed(void) { return failed; }

static int inside(const char *path) {
    char here[PATH_MAX];
    if (!folder_length || !path) return 0;
    if (path[0] == '/') return !strncmp(path, folder, folder_length);
    if (!getcwd(here, sizeof here)) return 0;
    return !strncmp(here, folder, folder_length);
}

static int inside_fd(int fd) {
    char link[64], path[PATH_MAX];
    ssize_t length;
    if (!folder_length) return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    length = readlink(link, path, sizeof path - 1);
    if (length < 0) return 0;
    path[length] = 0;
    return inside(path);
}

/* Returns whether this step fails; a full disk stays full. */
static int fails(int concerned) {
    long now;
    int bad;
    if (!concerned) return 0;
    now = __sync_add_and_fetch(&seen, 1);
    bad = kind == DISK_FULL ? target && now >= target : now == target;
    if (!bad) return 0;
    __sync_add_and_fetch(&failed, 1);
    if (kind == KILL) kill(getpid(), SIGKILL);
    errno = kind == DISK_FULL ? ENOSPC : EIO;
    return kind != NONE;
}

#define NEXT(name) __typeof__(name) *next = (__typeof__(name) *)dlsym(RTLD_NEXT, #name)

ssize_t write(int fd, const void *data, size_t size) {
    NEXT(write);
    return fails(inside_fd(fd)) ? -1 : next(fd, data, size);
}

ssize_t writev(int fd, const struct iovec *parts, int count) {
    NEXT(writev);
    return fails(inside_fd(fd)) ? -1 : next(fd, parts, count);
}

ssize_t pwrite(int fd, const void *data, size_t size, off_t at) {
    NEXT(pwrite);
    return fails(inside_fd(fd)) ? -1 : next(fd, data, size, at);
}

ssize_t pwrite64(int fd, const void *data, size_t size, off64_t at) {
    NEXT(pwrite64);
    return fails(inside_fd(fd)) ? -1 : next(fd, data, size, at);
}

/* Syncing and removing need no space: a full disk lets them pass. */
int fsync(int fd) {
    NEXT(fsync);
    return kind != DISK_FULL && fails(inside_fd(fd)) ? -1 : next(fd);
}

int fdatasync(int fd) {
    NEXT(fdatasync);
    return kind != DISK_FULL && fails(inside_fd(fd)) ? -1 : next(fd);
}

int ftruncate(int fd, off_t size) {
    NEXT(ftruncate);
    return kind != DISK_FULL && fails(inside_fd(fd)) ? -1 : next(fd, size);
}

int ftruncate64(int fd, off64_t size) {
    NEXT(ftruncate64);
    return kind != DISK_FULL && fails(inside_fd(fd)) ? -1 : next(fd, size);
}

int unlink(const char *path) {
    NEXT(unlink);
    return kind != DISK_FULL && fails(inside(path)) ? -1 : next(path);
}

int unlinkat(int at, const char *path, int flags) {
    NEXT(unlinkat);
    int here = path && path[0] == '/' ? inside(path) : inside_fd(at);
    return kind != DISK_FULL && fails(here) ? -1 : next(at, path, flags);
}

int rename(const char *from, const char *to) {
    NEXT(rename);
    return fails(inside(to)) ? -1 : next(from, to);
}

int mkdir(const char *path, mode_t mode) {
    NEXT(mkdir);
    return fails(inside(path)) ? -1 : next(path, mode);
}
