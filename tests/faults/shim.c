/* Faults in file operations, injected at the level of system calls.
 *
 * `faults_arm` installs a seccomp filter in the calling process. It traps every system call that can change the file system;
 * the handler of SIGSYS counts those below a root folder and performs, records, shortens or fails them, or kills the process
 * group. System calls are trapped rather than functions of libc replaced (LD_PRELOAD), because stdio writes without calling
 * a function that can be replaced, and numpy writes arrays by stdio. The count is in shared memory: processes forked after
 * `faults_arm` continue it. A program that is started by exec loses the handler and is killed by its first trapped call.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <ucontext.h>
#include <unistd.h>

#define PATH 4096

enum mode { RECORD, KILL, TORN, FAIL, SHORT, FULL };
enum kind { OPEN, WRITE, TRUNCATE, RENAME, LINK, UNLINK, MKDIR, RMDIR, SYNC, CHMOD, SYMLINK };

/* Shared with Python (shim.py), and by all processes of a run. */
struct control {
  int32_t mode, error, log, fired;  /* log: descriptor of the log, or -1; fired: 1 + kind of the operation that was changed */
  int64_t target, count, lock;
  char root[PATH];
};
static struct control *control;

struct operation {
  int kind, descriptor; /* descriptor: of the file, or -1 */
  uint64_t flags;       /* of open and renameat2 */
  char path[PATH], other[PATH];
};

/* Header of one record of the log; both paths and the written bytes follow. */
struct record {
  int64_t number, kind, result, offset, length, flags, path, other;
};

/* System calls of this library itself: the filter lets them pass because of their address. */
long faults_raw(long number, long a, long b, long c, long d, long e, long f) __attribute__((visibility("hidden")));
extern char faults_raw_end[] __attribute__((visibility("hidden")));
#if defined(__x86_64__)
#define ARCHITECTURE AUDIT_ARCH_X86_64
#define REGISTERS(context) (context)->uc_mcontext.gregs
#define RESULT(context) REGISTERS(context)[REG_RAX]
#define ARGUMENTS(context) \
  {REGISTERS(context)[REG_RDI], REGISTERS(context)[REG_RSI], REGISTERS(context)[REG_RDX], \
   REGISTERS(context)[REG_R10], REGISTERS(context)[REG_R8],  REGISTERS(context)[REG_R9]}
__asm__(".text\n.hidden faults_raw\n.globl faults_raw\nfaults_raw:\n mov %rdi,%rax\n mov %rsi,%rdi\n mov %rdx,%rsi\n"
        " mov %rcx,%rdx\n mov %r8,%r10\n mov %r9,%r8\n mov 8(%rsp),%r9\n syscall\n"
        ".hidden faults_raw_end\n.globl faults_raw_end\nfaults_raw_end:\n ret\n");
#elif defined(__aarch64__)
#define ARCHITECTURE AUDIT_ARCH_AARCH64
#define RESULT(context) (context)->uc_mcontext.regs[0]
#define ARGUMENTS(context) \
  {(context)->uc_mcontext.regs[0], (context)->uc_mcontext.regs[1], (context)->uc_mcontext.regs[2], \
   (context)->uc_mcontext.regs[3], (context)->uc_mcontext.regs[4], (context)->uc_mcontext.regs[5]}
__asm__(".text\n.hidden faults_raw\n.globl faults_raw\nfaults_raw:\n mov x8,x0\n mov x0,x1\n mov x1,x2\n mov x2,x3\n"
        " mov x3,x4\n mov x4,x5\n mov x5,x6\n svc #0\n"
        ".hidden faults_raw_end\n.globl faults_raw_end\nfaults_raw_end:\n ret\n");
#else
#error "fault injection knows the registers of x86_64 and aarch64 only"
#endif

#define RAW(number, a, b, c, d, e, f) faults_raw(number, (long)(a), (long)(b), (long)(c), (long)(d), (long)(e), (long)(f))

/* -- what a system call does ---------------------------------------------- */

static void path_of_link(const char *link, char *path) {
  long length = RAW(SYS_readlinkat, AT_FDCWD, link, path, PATH - 1, 0, 0);
  path[length > 0 ? length : 0] = 0;
}

static void path_of_descriptor(int descriptor, char *path) {
  char link[64];
  snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
  path_of_link(link, path);
}

/* Absolute path of `name`, which may be relative to a folder's descriptor. */
static void path_of(int folder, const char *name, char *path) {
  if (name[0] == '/') {
    snprintf(path, PATH, "%s", name);
    return;
  }
  if (folder == AT_FDCWD)
    path_of_link("/proc/self/cwd", path);
  else
    path_of_descriptor(folder, path);
  size_t used = strlen(path);
  snprintf(path + used, PATH - used, "/%s", name);
}

static int is_below_root(const char *path) {
  size_t length = strlen(control->root);
  return length && !strncmp(path, control->root, length) && (path[length] == '/' || !path[length]);
}

static int of_descriptor(struct operation *one, int kind, int descriptor) {
  one->kind = kind;
  one->descriptor = descriptor;
  path_of_descriptor(descriptor, one->path);
  return is_below_root(one->path);
}

static int of_paths(struct operation *one, int kind, int folder, long name, int other_folder, long other) {
  one->kind = kind;
  path_of(folder, (const char *)name, one->path);
  if (other) path_of(other_folder, (const char *)other, one->other);
  return is_below_root(one->path) || (other && is_below_root(one->other));
}

/* Fill in what a system call does; returns whether it concerns the root folder. */
static int described(long number, const long *a, struct operation *one) {
  one->descriptor = -1;
  one->flags = 0;
  one->path[0] = one->other[0] = 0;
  switch (number) {
    case SYS_openat: one->flags = a[2]; return of_paths(one, OPEN, a[0], a[1], 0, 0);
    case SYS_write: case SYS_pwrite64: case SYS_writev: case SYS_pwritev: case SYS_pwritev2: case SYS_sendfile:
      return of_descriptor(one, WRITE, a[0]);
    case SYS_copy_file_range: return of_descriptor(one, WRITE, a[2]);
    case SYS_ftruncate: case SYS_fallocate: return of_descriptor(one, TRUNCATE, a[0]);
    case SYS_truncate: return of_paths(one, TRUNCATE, AT_FDCWD, a[0], 0, 0);
    case SYS_renameat2: one->flags = a[4]; return of_paths(one, RENAME, a[0], a[1], a[2], a[3]);
    case SYS_renameat: return of_paths(one, RENAME, a[0], a[1], a[2], a[3]);
    case SYS_linkat: return of_paths(one, LINK, a[0], a[1], a[2], a[3]);
    case SYS_symlinkat: return of_paths(one, SYMLINK, a[1], a[2], 0, 0);
    case SYS_unlinkat: return of_paths(one, a[2] & AT_REMOVEDIR ? RMDIR : UNLINK, a[0], a[1], 0, 0);
    case SYS_mkdirat: return of_paths(one, MKDIR, a[0], a[1], 0, 0);
    case SYS_fsync: case SYS_fdatasync: return of_descriptor(one, SYNC, a[0]);
    case SYS_fchmod: return of_descriptor(one, CHMOD, a[0]);
    case SYS_fchmodat: return of_paths(one, CHMOD, a[0], a[1], 0, 0);
#ifdef SYS_open /* calls without a folder, which newer architectures do not have */
    case SYS_open: one->flags = a[1]; return of_paths(one, OPEN, AT_FDCWD, a[0], 0, 0);
    case SYS_creat: one->flags = O_CREAT | O_TRUNC; return of_paths(one, OPEN, AT_FDCWD, a[0], 0, 0);
    case SYS_rename: return of_paths(one, RENAME, AT_FDCWD, a[0], AT_FDCWD, a[1]);
    case SYS_link: return of_paths(one, LINK, AT_FDCWD, a[0], AT_FDCWD, a[1]);
    case SYS_symlink: return of_paths(one, SYMLINK, AT_FDCWD, a[1], 0, 0);
    case SYS_unlink: return of_paths(one, UNLINK, AT_FDCWD, a[0], 0, 0);
    case SYS_mkdir: return of_paths(one, MKDIR, AT_FDCWD, a[0], 0, 0);
    case SYS_rmdir: return of_paths(one, RMDIR, AT_FDCWD, a[0], 0, 0);
    case SYS_chmod: return of_paths(one, CHMOD, AT_FDCWD, a[0], 0, 0);
#endif
    default: return 0;
  }
}

/* -- performing it -------------------------------------------------------- */

static long perform(long number, const long *a) { return RAW(number, a[0], a[1], a[2], a[3], a[4], a[5]); }

/* Perform the first half of a write; other operations as they are. */
static long perform_half(long number, const long *given) {
  long a[6];
  memcpy(a, given, sizeof a);
  if (number == SYS_write || number == SYS_pwrite64) {
    a[2] = a[2] > 1 ? a[2] / 2 : a[2];
  } else if (number == SYS_sendfile) {
    a[3] = a[3] > 1 ? a[3] / 2 : a[3];
  } else if (number == SYS_writev || number == SYS_pwritev) {
    struct iovec first = *(struct iovec *)a[1];
    first.iov_len = first.iov_len > 1 ? first.iov_len / 2 : first.iov_len;
    a[1] = (long)&first;
    a[2] = 1;
    return perform(number, a);
  }
  return perform(number, a);
}

/* Whether a full disk refuses an operation: those that need new blocks. */
static int needs_space(const struct operation *one) {
  struct stat found;
  if (one->kind == OPEN)
    return (one->flags & O_CREAT) && RAW(SYS_newfstatat, AT_FDCWD, one->path, &found, 0, 0, 0) < 0;
  return one->kind == WRITE || one->kind == MKDIR || one->kind == LINK || one->kind == SYMLINK;
}

static void log_bytes(const void *bytes, size_t length) { RAW(SYS_write, control->log, bytes, length, 0, 0, 0); }

/* Append a record; written bytes are read back from the file. */
static void log_operation(int64_t count, long number, const long *a, const struct operation *one, long result) {
  static char buffer[1 << 16];
  struct record record = {count, one->kind, result, 0, 0, one->flags, strlen(one->path), strlen(one->other)};
  if (one->kind == WRITE && result > 0) {
    record.length = result;
    int positioned = number == SYS_pwrite64 || number == SYS_pwritev || number == SYS_pwritev2;
    record.offset = positioned ? a[3] : RAW(SYS_lseek, one->descriptor, 0, SEEK_CUR, 0, 0, 0) - result;
  } else if (one->kind == TRUNCATE && result == 0) {
    struct stat found;
    RAW(SYS_newfstatat, AT_FDCWD, one->path, &found, 0, 0, 0);
    record.offset = found.st_size;
  }
  log_bytes(&record, sizeof record);
  log_bytes(one->path, record.path);
  log_bytes(one->other, record.other);
  if (!record.length) return;
  char link[64];
  snprintf(link, sizeof link, "/proc/self/fd/%d", one->descriptor);
  long descriptor = RAW(SYS_openat, AT_FDCWD, link, O_RDONLY | O_CLOEXEC, 0, 0, 0);
  for (int64_t done = 0; done < record.length;) {
    int64_t wanted = record.length - done < (int64_t)sizeof buffer ? record.length - done : (int64_t)sizeof buffer;
    long got = RAW(SYS_pread64, descriptor, buffer, wanted, record.offset + done, 0, 0);
    if (got <= 0) break;
    log_bytes(buffer, got);
    done += got;
  }
  RAW(SYS_close, descriptor, 0, 0, 0, 0, 0);
}

static void kill_group(void) {
  RAW(SYS_kill, 0, SIGKILL, 0, 0, 0, 0);
  for (;;) RAW(SYS_sched_yield, 0, 0, 0, 0, 0, 0);
}

static long counted(long number, const long *a, const struct operation *one) {
  int64_t count = ++control->count;
  int here = count == control->target, mode = control->mode;
  if (mode == FULL ? count >= control->target && needs_space(one) : here && mode != RECORD) {
    control->fired = 1 + one->kind;
    if (mode == FULL) return -ENOSPC;
    if (mode == FAIL) return -control->error;
    if (mode == KILL) kill_group();
    long result = perform_half(number, a);
    if (mode == TORN) kill_group();
    return result;
  }
  long result = perform(number, a);
  if (control->log >= 0) log_operation(count, number, a, one, result);
  return result;
}

static void trapped(int signal, siginfo_t *info, void *given) {
  (void)signal;
  ucontext_t *context = given;
  long number = info->si_syscall, a[6] = ARGUMENTS(context);
  struct operation one;
  int saved = errno;
  if (described(number, a, &one)) {
    while (__atomic_exchange_n(&control->lock, 1, __ATOMIC_ACQUIRE)) RAW(SYS_sched_yield, 0, 0, 0, 0, 0, 0);
    RESULT(context) = counted(number, a, &one);
    __atomic_store_n(&control->lock, 0, __ATOMIC_RELEASE);
  } else {
    RESULT(context) = perform(number, a);
  }
  errno = saved;
}

/* -- what Python calls ---------------------------------------------------- */

struct control *faults_control(void) {
  if (!control) control = mmap(NULL, sizeof *control, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  return control;
}

static const int TRAPPED[] = {
    SYS_write, SYS_pwrite64, SYS_writev, SYS_pwritev, SYS_pwritev2, SYS_sendfile, SYS_copy_file_range, SYS_ftruncate,
    SYS_fallocate, SYS_truncate, SYS_renameat2, SYS_renameat, SYS_linkat, SYS_symlinkat, SYS_unlinkat, SYS_mkdirat, SYS_fsync,
    SYS_fdatasync, SYS_fchmod, SYS_fchmodat,
#ifdef SYS_open
    SYS_creat, SYS_rename, SYS_link, SYS_symlink, SYS_unlink, SYS_mkdir, SYS_rmdir, SYS_chmod,
#endif
};
#define N_TRAPPED (sizeof TRAPPED / sizeof *TRAPPED)
#define LOW(field) offsetof(struct seccomp_data, field)
#define CHANGING (O_WRONLY | O_RDWR | O_CREAT | O_TRUNC)

/* Trap the system calls from now on, in this thread and those that it starts; returns 0, or an errno. */
int faults_arm(void) {
  struct sigaction action = {.sa_sigaction = trapped, .sa_flags = SA_SIGINFO};
  sigfillset(&action.sa_mask);
  if (sigaction(SIGSYS, &action, NULL)) return errno;
  uint64_t own = (uint64_t)(uintptr_t)faults_raw_end;
  struct sock_filter filter[N_TRAPPED * 2 + 32], *next = filter;
#define ADD(...) *next++ = (struct sock_filter)__VA_ARGS__
#define LOAD(where) ADD(BPF_STMT(BPF_LD | BPF_W | BPF_ABS, where))
#define UNLESS_EQUAL(value, skipped) ADD(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, 0, skipped))
#define ANSWER(value) ADD(BPF_STMT(BPF_RET | BPF_K, value))
  LOAD(LOW(instruction_pointer)); /* our own system calls pass */
  UNLESS_EQUAL((uint32_t)own, 3);
  LOAD(LOW(instruction_pointer) + 4);
  UNLESS_EQUAL((uint32_t)(own >> 32), 1);
  ANSWER(SECCOMP_RET_ALLOW);
  LOAD(LOW(arch));
  UNLESS_EQUAL(ARCHITECTURE, 1);
  ADD(BPF_JUMP(BPF_JMP | BPF_JA, 1, 0, 0));
  ANSWER(SECCOMP_RET_ALLOW);
  LOAD(LOW(nr));
  for (size_t k = 0; k < N_TRAPPED; k++) {
    UNLESS_EQUAL((uint32_t)TRAPPED[k], 1);
    ANSWER(SECCOMP_RET_TRAP);
  }
  UNLESS_EQUAL(SYS_openat, 4); /* files opened to read pass */
  LOAD(LOW(args[2]));
  ADD(BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, CHANGING, 0, 1));
  ANSWER(SECCOMP_RET_TRAP);
  ANSWER(SECCOMP_RET_ALLOW);
#ifdef SYS_open
  UNLESS_EQUAL(SYS_open, 4);
  LOAD(LOW(args[1]));
  ADD(BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, CHANGING, 0, 1));
  ANSWER(SECCOMP_RET_TRAP);
  ANSWER(SECCOMP_RET_ALLOW);
#endif
  ANSWER(SECCOMP_RET_ALLOW);
  struct sock_fprog program = {(unsigned short)(next - filter), filter};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)) return errno;
  return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) ? errno : 0;
}
