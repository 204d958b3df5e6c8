/* A layer between programs and the C library, for LD_PRELOAD: every call that changes a file below a folder is counted,
 * and the n-th can be made to fail, to be cut short, to be known as the one that has a wrong bit, to come after a signal.
 * What was synced, and when, is noted, so that a test can make of a folder what a power loss would leave of it.
 *
 * It is told what to do by a page of memory that a test and its processes share: layer.py has the same fields. */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

enum { OFF, COUNT, SIGNAL, TEAR, FAIL, SHORT, FLIP, DENY };

struct page {
    char root[1024];    /* a folder: what is below it counts */
    char journal[1024]; /* a folder for notes of what was done, or nothing */
    char denied[1024];  /* a file that cannot be opened, or nothing */
    int64_t mode, target, count, error, lasting, fired, inode, at;
};

static struct page *page;

#define REAL(name) ((__typeof__(&name))real(#name))
static void *real(const char *name) { return dlsym(RTLD_NEXT, name); }

__attribute__((constructor)) static void start(void) {
    const char *path = getenv("LONGTAIL_FAULT_PAGE");
    int fd = path ? (int)syscall(SYS_openat, AT_FDCWD, path, O_RDWR | O_CLOEXEC) : -1;
    if (fd < 0) return;
    void *found = mmap(NULL, sizeof(struct page), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    page = found == MAP_FAILED ? NULL : found;
    syscall(SYS_close, fd);
}

static int inside(const char *path) {
    size_t length = strlen(page->root);
    return length && !strncmp(path, page->root, length) && (path[length] == '/' || !path[length]);
}

static int of_descriptor(int fd, char *path) {
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, PATH_MAX - 1);
    if (length <= 0) return 0;
    path[length] = 0;
    return path[0] == '/' && inside(path);
}

static int of_name(int folder, const char *name, char *path) {
    if (!name) return 0;
    if (name[0] == '/') {
        snprintf(path, PATH_MAX, "%s", name);
    } else {
        char base[PATH_MAX];
        if (folder == AT_FDCWD) {
            if (syscall(SYS_getcwd, base, sizeof base) < 0) return 0;
        } else if (!of_descriptor(folder, base)) {
            return 0;
        }
        if (snprintf(path, PATH_MAX, "%s/%s", base, name) >= PATH_MAX) return 0;
    }
    return inside(path);
}

static int on(void) { return page && page->mode != OFF; }

/* Count a call that is about to be made; what is to be done with it: a mode, or OFF where nothing is. What only a write
 * can have comes to the first one from the target on. */
static int reached(int writes) {
    int64_t number = __atomic_add_fetch(&page->count, 1, __ATOMIC_SEQ_CST);
    int64_t mode = page->mode;
    int waits = mode == TEAR || mode == SHORT || mode == FLIP;
    if (mode <= COUNT || mode == DENY || number < page->target || (waits && !writes)) return OFF;
    if (number > page->target && !page->lasting && (!waits || page->fired)) return OFF;
    page->fired++;
    if (mode == SIGNAL) {
        kill(page->error < 0 ? 0 : getpid(), abs((int)page->error)); /* below 0 to all processes of the command */
        return OFF; /* a signal that is handled lets the call be made */
    }
    return (int)mode;
}

static int refused(int what) {
    if (what != FAIL) return 0;
    errno = (int)page->error;
    return 1;
}

/* Note a call that was made: its kind, the inode, the path, and perhaps a second path. */
static void note(const char *kind, const char *path, const char *other) {
    if (!page->journal[0]) return;
    int kept = errno;
    char line[2 * PATH_MAX + 128], name[1200];
    struct stat about;
    uint64_t inode = stat(other ? other : path, &about) ? 0 : about.st_ino;
    int length = snprintf(line, sizeof line, "%s\t%lu\t%s\t%s\n", kind, inode, path, other ? other : "");
    snprintf(name, sizeof name, "%s/journal", page->journal);
    int fd = (int)syscall(SYS_openat, AT_FDCWD, name, O_WRONLY | O_CREAT | O_APPEND, 0600);
    if (fd >= 0) {
        syscall(SYS_write, fd, line, (size_t)length);
        syscall(SYS_close, fd);
    }
    errno = kept;
}

/* Keep what a file holds now, since it is on the disk. */
static void keep(int fd, const char *path) {
    if (!page->journal[0]) return;
    struct stat about;
    if (fstat(fd, &about)) return;
    if (S_ISREG(about.st_mode)) {
        static int64_t copies;
        char name[1200], block[65536], label[64];
        snprintf(label, sizeof label, "synced-%d-%ld", getpid(), (long)__atomic_add_fetch(&copies, 1, __ATOMIC_SEQ_CST));
        snprintf(name, sizeof name, "%s/%s", page->journal, label);
        int copy = (int)syscall(SYS_openat, AT_FDCWD, name, O_WRONLY | O_CREAT | O_TRUNC, 0600);
        off_t at = 0;
        ssize_t got;
        int from = (int)syscall(SYS_openat, AT_FDCWD, path, O_RDONLY);
        while ((got = syscall(SYS_pread64, from, block, sizeof block, at)) > 0) {
            syscall(SYS_write, copy, block, (size_t)got);
            at += got;
        }
        syscall(SYS_close, from);
        syscall(SYS_close, copy);
        note(label, path, NULL);
    } else {
        char name[2 * PATH_MAX]; /* some libraries rename files without the C library: see what is there */
        DIR *folder = opendir(path);
        struct dirent *entry;
        while (folder && (entry = readdir(folder)))
            if (entry->d_type == DT_REG && snprintf(name, sizeof name, "%s/%s", path, entry->d_name) < PATH_MAX)
                note("seen", name, NULL);
        if (folder) closedir(folder);
        note("synced", path, NULL);
    }
}

/* ---- files that are opened ---- */

static int denied(const char *path) {
    if (page->mode != DENY || strcmp(path, page->denied)) return 0;
    page->fired++;
    errno = (int)page->error;
    return 1;
}

static int opened(int folder, const char *name, int flags, mode_t mode) {
    char path[PATH_MAX];
    if (!on() || !of_name(folder, name, path))
        return (int)syscall(SYS_openat, folder, name, flags, mode);
    if (denied(path)) return -1;
    struct stat about;
    int there = !stat(path, &about);
    int makes = !there && (flags & O_CREAT), cuts = there && (flags & O_TRUNC) && about.st_size;
    if ((makes || cuts) && refused(reached(0))) return -1;
    int fd = (int)syscall(SYS_openat, folder, name, flags, mode);
    if (fd >= 0 && makes) note("made", path, NULL);
    return fd;
}

#define OPEN(name)                                              \
    int name(const char *path, int flags, ...) {                \
        va_list rest;                                           \
        va_start(rest, flags);                                  \
        mode_t mode = (flags & (O_CREAT | O_TMPFILE)) ? va_arg(rest, mode_t) : 0; \
        va_end(rest);                                           \
        return opened(AT_FDCWD, path, flags, mode);             \
    }
#define OPENAT(name)                                            \
    int name(int folder, const char *path, int flags, ...) {    \
        va_list rest;                                           \
        va_start(rest, flags);                                  \
        mode_t mode = (flags & (O_CREAT | O_TMPFILE)) ? va_arg(rest, mode_t) : 0; \
        va_end(rest);                                           \
        return opened(folder, path, flags, mode);               \
    }
OPEN(open)
OPEN(open64)
OPENAT(openat)
OPENAT(openat64)
int creat(const char *path, mode_t mode) { return opened(AT_FDCWD, path, O_CREAT | O_WRONLY | O_TRUNC, mode); }

static FILE *stream(const char *name, const char *mode, FILE *(*call)(const char *, const char *)) {
    char path[PATH_MAX];
    struct stat about;
    if (on() && of_name(AT_FDCWD, name, path)) {
        if (denied(path)) return NULL;
        int there = !stat(path, &about);
        if (mode[0] != 'r' && (!there || (mode[0] == 'w' && about.st_size))) {
            if (refused(reached(0))) return NULL;
            FILE *file = call(name, mode);
            if (file && !there) note("made", path, NULL);
            return file;
        }
    }
    return call(name, mode);
}
FILE *fopen(const char *name, const char *mode) { return stream(name, mode, REAL(fopen)); }
FILE *fopen64(const char *name, const char *mode) { return stream(name, mode, REAL(fopen64)); }

/* ---- what is written ---- */

/* Of a write of `size` bytes at `at`: how many to write; -1 where it fails. A wrong bit is only noted: a disk that has
 * one shows it to who reads later, and not to who has just written. */
static ssize_t to_write(int what, int fd, size_t size, off_t at) {
    struct stat about;
    if (refused(what)) return -1;
    if (what == FLIP && !fstat(fd, &about)) page->inode = (int64_t)about.st_ino, page->at = at + (off_t)size / 2;
    if (what == SHORT || (what == TEAR && size > 512)) return (ssize_t)((size + 1) / 2); /* a sector is not torn */
    return (ssize_t)size;
}

static void torn(int what) {
    if (what == TEAR) kill(getpid(), SIGKILL);
}

static off_t place(int fd) {
    struct stat about;
    int flags = fcntl(fd, F_GETFL);
    return flags >= 0 && (flags & O_APPEND) && !fstat(fd, &about) ? about.st_size : lseek(fd, 0, SEEK_CUR);
}

ssize_t write(int fd, const void *data, size_t size) {
    char path[PATH_MAX];
    if (!on() || !of_descriptor(fd, path)) return syscall(SYS_write, fd, data, size);
    int what = reached(1);
    ssize_t count = to_write(what, fd, size, place(fd));
    if (count >= 0) count = syscall(SYS_write, fd, data, (size_t)count);
    torn(what);
    return count;
}

static ssize_t written_at(int fd, const void *data, size_t size, off_t at) {
    char path[PATH_MAX];
    if (!on() || !of_descriptor(fd, path)) return syscall(SYS_pwrite64, fd, data, size, at);
    int what = reached(1);
    ssize_t count = to_write(what, fd, size, at);
    if (count >= 0) count = syscall(SYS_pwrite64, fd, data, (size_t)count, at);
    torn(what);
    return count;
}
ssize_t pwrite(int fd, const void *data, size_t size, off_t at) { return written_at(fd, data, size, at); }
ssize_t pwrite64(int fd, const void *data, size_t size, off64_t at) { return written_at(fd, data, size, at); }

ssize_t writev(int fd, const struct iovec *parts, int count) {
    char path[PATH_MAX];
    if (!on() || !of_descriptor(fd, path)) return syscall(SYS_writev, fd, parts, count);
    for (int i = 0; i < count; i++) /* a call may write less than it is asked to */
        if (parts[i].iov_len) return write(fd, parts[i].iov_base, parts[i].iov_len);
    return 0;
}

size_t fwrite(const void *data, size_t size, size_t items, FILE *file) {
    char path[PATH_MAX];
    size_t (*call)(const void *, size_t, size_t, FILE *) = REAL(fwrite);
    if (!on() || !size || !items || !of_descriptor(fileno(file), path)) return call(data, size, items, file);
    int what = reached(1);
    ssize_t count = to_write(what, fileno(file), size * items, ftello(file));
    if (count < 0) return 0;
    size_t done = call(data, 1, (size_t)count, file);
    fflush(file);
    torn(what);
    if (what == SHORT) errno = ENOSPC; /* of a stream, less is an error */
    return done == size * items ? items : done / size;
}

static ssize_t copied(int to, int from, size_t size) { /* no copy in the kernel: callers then read and write */
    char path[PATH_MAX];
    (void)from, (void)size;
    if (!on() || !of_descriptor(to, path)) return 0;
    errno = ENOSYS;
    return -1;
}
ssize_t sendfile(int to, int from, off_t *at, size_t size) {
    return copied(to, from, size) ? -1 : syscall(SYS_sendfile, to, from, at, size);
}
ssize_t sendfile64(int to, int from, off64_t *at, size_t size) {
    return copied(to, from, size) ? -1 : syscall(SYS_sendfile, to, from, at, size);
}
ssize_t copy_file_range(int from, off64_t *a, int to, off64_t *b, size_t size, unsigned flags) {
    return copied(to, from, size) ? -1 : syscall(SYS_copy_file_range, from, a, to, b, size, flags);
}

/* ---- everything else that changes a file or a name ---- */

#define ON_DESCRIPTOR(signature, fd, call)                         \
    signature {                                                    \
        char path[PATH_MAX];                                       \
        if (on() && of_descriptor(fd, path) && refused(reached(0))) \
            return -1;                                             \
        return call;                                               \
    }
ON_DESCRIPTOR(int ftruncate(int fd, off_t size), fd, (int)syscall(SYS_ftruncate, fd, size))
ON_DESCRIPTOR(int ftruncate64(int fd, off64_t size), fd, (int)syscall(SYS_ftruncate, fd, size))
ON_DESCRIPTOR(int fallocate(int fd, int mode, off_t a, off_t n), fd, (int)syscall(SYS_fallocate, fd, mode, a, n))
ON_DESCRIPTOR(int fallocate64(int fd, int mode, off64_t a, off64_t n), fd, (int)syscall(SYS_fallocate, fd, mode, a, n))

static int synced(int fd, long call) {
    char path[PATH_MAX];
    if (!on() || !of_descriptor(fd, path)) return (int)syscall(call, fd);
    int what = reached(0);
    if (refused(what)) return -1;
    int status = (int)syscall(call, fd);
    if (!status) keep(fd, path);
    return status;
}
int fsync(int fd) { return synced(fd, SYS_fsync); }
int fdatasync(int fd) { return synced(fd, SYS_fdatasync); }

static int renamed(int folder, const char *name, int other, const char *to, unsigned flags) {
    char path[PATH_MAX], new[PATH_MAX];
    int counts = on() && of_name(folder, name, path) && of_name(other, to, new);
    if (counts && refused(reached(0))) return -1;
    int status = (int)syscall(SYS_renameat2, folder, name, other, to, flags);
    if (counts && !status) note("renamed", path, new);
    return status;
}
int rename(const char *name, const char *to) { return renamed(AT_FDCWD, name, AT_FDCWD, to, 0); }
int renameat(int folder, const char *name, int other, const char *to) { return renamed(folder, name, other, to, 0); }
int renameat2(int folder, const char *name, int other, const char *to, unsigned flags) {
    return renamed(folder, name, other, to, flags);
}

static int linked(const char *name, const char *to, long call) {
    char path[PATH_MAX];
    int counts = on() && of_name(AT_FDCWD, to, path);
    if (counts && refused(reached(0))) return -1;
    int status = (int)syscall(call, name, to);
    if (counts && !status) note("made", path, NULL);
    return status;
}
int link(const char *name, const char *to) { return linked(name, to, SYS_link); }
int symlink(const char *name, const char *to) { return linked(name, to, SYS_symlink); }

static int removed(int folder, const char *name, int flags) {
    char path[PATH_MAX];
    struct stat about;
    int counts = on() && of_name(folder, name, path) && !lstat(path, &about);
    if (counts && refused(reached(0)) && errno != ENOSPC) return -1; /* a full disk lets files go */
    int status = (int)syscall(SYS_unlinkat, folder, name, flags);
    if (counts && !status) note("removed", path, NULL);
    return status;
}
int unlink(const char *name) { return removed(AT_FDCWD, name, 0); }
int rmdir(const char *name) { return removed(AT_FDCWD, name, AT_REMOVEDIR); }
int unlinkat(int folder, const char *name, int flags) { return removed(folder, name, flags); }

static int folder_made(int folder, const char *name, mode_t mode) {
    char path[PATH_MAX];
    struct stat about;
    int counts = on() && of_name(folder, name, path) && stat(path, &about);
    if (counts && refused(reached(0))) return -1;
    int status = (int)syscall(SYS_mkdirat, folder, name, mode);
    if (counts && !status) note("folder", path, NULL);
    return status;
}
int mkdir(const char *name, mode_t mode) { return folder_made(AT_FDCWD, name, mode); }
int mkdirat(int folder, const char *name, mode_t mode) { return folder_made(folder, name, mode); }
