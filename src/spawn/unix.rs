//! The few system calls that no safe wrapper offers: a `posix_spawn` that sets session, directory and descriptors, a
//! wait that tells what the child used, and what the launcher needs to become the first process of a namespace. Called
//! by `start`, `reap`, `pty` and `launcher`; knows no plan and no policy.
#![expect(
    unsafe_code,
    reason = "posix_spawn with fchdir and closefrom, fork, and wait4 have no safe wrapper"
)]

use std::ffi::{CStr, CString, c_char, c_int, c_short};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::ptr;
use std::time::Duration;

use rustix::io::Errno;
use rustix::process::Pid;

use crate::core::process::ExitStatus;
use crate::core::spawn::ResourceUsage;

/// What one `posix_spawn` is told.
#[derive(Debug)]
pub(super) struct Launch<'a> {
    pub(super) program: &'a CStr,
    pub(super) argv: &'a [CString],
    pub(super) env: &'a [CString],
    pub(super) cwd: BorrowedFd<'a>,
    pub(super) connect: Connect<'a>,
    /// What becomes its descriptors 3, 4 and so on.
    pub(super) passed: &'a [BorrowedFd<'a>],
    pub(super) signals: Signals,
}

/// What a child starts with blocked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Signals {
    /// Nothing.
    Open,
    /// Everything, so that only KILL ends it.
    Blocked,
}

/// Where the child's descriptors 0, 1 and 2 lead. It gets no others but those that are passed.
#[derive(Clone, Copy, Debug)]
pub(super) enum Connect<'a> {
    /// A terminal by its name: a session leader that opens one makes it its controlling terminal.
    Terminal(&'a CStr),
    /// Descriptors of ours, in order.
    Descriptors([BorrowedFd<'a>; 3]),
}

/// First descriptor that is passed, or else that a child does not get.
pub(super) const FIRST_PASSED: c_int = 3;

fn check(code: c_int) -> Result<(), Errno> {
    if code == 0 { Ok(()) } else { Err(Errno::from_raw_os_error(code)) }
}

struct Actions(libc::posix_spawn_file_actions_t);

impl Actions {
    fn new() -> Result<Self, Errno> {
        let mut actions = MaybeUninit::uninit();
        // SAFETY: `init` writes the whole object before it answers 0.
        check(unsafe { libc::posix_spawn_file_actions_init(actions.as_mut_ptr()) })?;
        // SAFETY: initialised just above.
        Ok(Self(unsafe { actions.assume_init() }))
    }

    fn dup(&mut self, from: RawFd, to: c_int) -> Result<(), Errno> {
        // SAFETY: the object is initialised; numbers are only recorded.
        check(unsafe { libc::posix_spawn_file_actions_adddup2(&raw mut self.0, from, to) })
    }

    fn open(&mut self, fd: c_int, path: &CStr) -> Result<(), Errno> {
        // SAFETY: the object is initialised; glibc copies the path.
        check(unsafe {
            libc::posix_spawn_file_actions_addopen(&raw mut self.0, fd, path.as_ptr(), libc::O_RDWR, 0)
        })
    }

    fn enter(&mut self, directory: RawFd) -> Result<(), Errno> {
        // SAFETY: the object is initialised; the number is only recorded.
        check(unsafe { libc::posix_spawn_file_actions_addfchdir_np(&raw mut self.0, directory) })
    }

    fn close_from(&mut self, first: c_int) -> Result<(), Errno> {
        // SAFETY: the object is initialised; the number is only recorded.
        check(unsafe { libc::posix_spawn_file_actions_addclosefrom_np(&raw mut self.0, first) })
    }
}

impl Drop for Actions {
    fn drop(&mut self) {
        // SAFETY: initialised by `new`, destroyed once. It cannot fail.
        unsafe { libc::posix_spawn_file_actions_destroy(&raw mut self.0) };
    }
}

struct Attributes(libc::posix_spawnattr_t);

impl Attributes {
    /// A session of its own, every signal at its default whatever the server inherited.
    fn clean_session(signals: Signals) -> Result<Self, Errno> {
        let mut attributes = MaybeUninit::uninit();
        // SAFETY: `init` writes the whole object before it answers 0.
        check(unsafe { libc::posix_spawnattr_init(attributes.as_mut_ptr()) })?;
        // SAFETY: initialised just above.
        let mut this = Self(unsafe { attributes.assume_init() });
        let mut blocked = MaybeUninit::uninit();
        let mut all = MaybeUninit::<libc::sigset_t>::uninit();
        let flags = libc::POSIX_SPAWN_SETSIGDEF as c_short
            | libc::POSIX_SPAWN_SETSIGMASK as c_short
            | libc::POSIX_SPAWN_SETSID;
        // SAFETY: both sets are written whole before they are read, and any bits are a valid set; glibc copies them.
        unsafe {
            match signals {
                Signals::Open => libc::sigemptyset(blocked.as_mut_ptr()),
                Signals::Blocked => libc::sigfillset(blocked.as_mut_ptr()),
            };
            // Not `sigfillset`: it leaves out the two signals of glibc's own, which a child would then ignore.
            all.as_mut_ptr().write_bytes(0xff, 1);
            check(libc::posix_spawnattr_setsigmask(&raw mut this.0, blocked.as_ptr()))?;
            check(libc::posix_spawnattr_setsigdefault(&raw mut this.0, all.as_ptr()))?;
            check(libc::posix_spawnattr_setflags(&raw mut this.0, flags))?;
        }
        Ok(this)
    }
}

impl Drop for Attributes {
    fn drop(&mut self) {
        // SAFETY: initialised by `clean_session`, destroyed once. It cannot fail.
        unsafe { libc::posix_spawnattr_destroy(&raw mut self.0) };
    }
}

fn pointers(strings: &[CString]) -> Vec<*mut c_char> {
    strings.iter().map(|string| string.as_ptr().cast_mut()).chain([ptr::null_mut()]).collect()
}

/// Starts a child and returns once it runs its program (glibc holds the calling thread until then, and shares the
/// memory instead of copying it). On an error there is no child.
pub(super) fn spawn(launch: &Launch<'_>) -> Result<Pid, Errno> {
    let mut actions = Actions::new()?;
    match launch.connect {
        Connect::Terminal(name) => {
            actions.open(0, name)?;
            actions.dup(0, 1)?;
            actions.dup(0, 2)?;
        }
        Connect::Descriptors(fds) => {
            for (to, from) in (0..).zip(fds) {
                actions.dup(from.as_raw_fd(), to)?;
            }
        }
    }
    let first_closed = FIRST_PASSED + c_int::try_from(launch.passed.len()).map_err(|_| Errno::MFILE)?;
    // Above all that are passed, so that none is overwritten before it is passed itself.
    let sources: Vec<OwnedFd> = launch
        .passed
        .iter()
        .map(|fd| rustix::io::fcntl_dupfd_cloexec(fd, first_closed))
        .collect::<Result<_, _>>()?;
    let directory = rustix::io::fcntl_dupfd_cloexec(launch.cwd, first_closed)?;
    for (to, from) in (FIRST_PASSED..).zip(&sources) {
        actions.dup(from.as_raw_fd(), to)?;
    }
    actions.enter(directory.as_raw_fd())?;
    actions.close_from(first_closed)?;
    let attributes = Attributes::clean_session(launch.signals)?;
    let (argv, env) = (pointers(launch.argv), pointers(launch.env));
    let mut pid = 0;
    // SAFETY: every pointer is into a live object of this frame or of `launch`; both arrays end in null; glibc does
    // not write through them.
    check(unsafe {
        libc::posix_spawn(
            &raw mut pid,
            launch.program.as_ptr(),
            &raw const actions.0,
            &raw const attributes.0,
            argv.as_ptr(),
            env.as_ptr(),
        )
    })?;
    Pid::from_raw(pid).ok_or(Errno::SRCH)
}

/// Looks for any child that has ended, and leaves it as it is: its number, or 0 if none has.
fn peek() -> Result<u32, Errno> {
    let mut info = MaybeUninit::<libc::siginfo_t>::zeroed();
    let options = libc::WEXITED | libc::WNOWAIT | libc::WNOHANG;
    // SAFETY: the kernel writes at most one siginfo_t, or leaves the zeroes, which are a valid one.
    let (answer, info) =
        unsafe { (libc::waitid(libc::P_ALL, 0, info.as_mut_ptr(), options), info.assume_init()) };
    if answer != 0 {
        return Err(last_errno(Errno::CHILD));
    }
    // SAFETY: after waitid the pid is either written or still zero.
    Ok(u32::try_from(unsafe { info.si_pid() }).unwrap_or(0))
}

/// Some child that has ended: whoever reaps it still can.
pub(super) fn ended_child() -> Option<u32> {
    peek().ok().filter(|pid| *pid != 0)
}

/// Whether there is any child at all, alive or ended.
pub(super) fn has_children() -> bool {
    peek() != Err(Errno::CHILD)
}

/// Reaps `pid`, a child that nobody else reaps, if it has ended: how, and what it used.
pub(super) fn reap(pid: Pid) -> Result<Option<(ExitStatus, ResourceUsage)>, Errno> {
    let mut status = 0;
    let mut usage = MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: both pointers are to live objects of this frame, large enough for what the kernel writes.
    let answer = unsafe {
        libc::wait4(pid.as_raw_nonzero().get(), &raw mut status, libc::WNOHANG, usage.as_mut_ptr())
    };
    if answer < 0 {
        return Err(last_errno(Errno::CHILD));
    }
    if answer == 0 {
        return Ok(None);
    }
    // SAFETY: all zeroes is a valid rusage, and the kernel has written it.
    let usage = unsafe { usage.assume_init() };
    let exit = if libc::WIFSIGNALED(status) {
        ExitStatus::Signal { number: libc::WTERMSIG(status), core_dumped: libc::WCOREDUMP(status) }
    } else {
        ExitStatus::Code(libc::WEXITSTATUS(status))
    };
    Ok(Some((exit, used(&usage))))
}

fn used(usage: &libc::rusage) -> ResourceUsage {
    ResourceUsage {
        user: duration(usage.ru_utime),
        system: duration(usage.ru_stime),
        rss_max_bytes: resident_bytes_max(usage),
    }
}

/// How `pid`, a child that has ended, ended, and what it used. It stays a zombie, so that its number stays its own.
pub(super) fn peek_at(pid: Pid) -> Result<Option<(ExitStatus, ResourceUsage)>, Errno> {
    let mut info = MaybeUninit::<libc::siginfo_t>::zeroed();
    let mut usage = MaybeUninit::<libc::rusage>::zeroed();
    let options = libc::WEXITED | libc::WNOWAIT | libc::WNOHANG;
    // SAFETY: both pointers are to live objects, large enough for what the kernel writes; glibc's `waitid` has no way
    // to ask for the usage, the system call has. All zeroes is a valid siginfo_t and a valid rusage.
    let (answer, info, usage) = unsafe {
        let answer = libc::syscall(
            libc::SYS_waitid,
            libc::P_PID,
            pid.as_raw_nonzero().get(),
            info.as_mut_ptr(),
            options,
            usage.as_mut_ptr(),
        );
        (answer, info.assume_init(), usage.assume_init())
    };
    if answer != 0 {
        return Err(last_errno(Errno::CHILD));
    }
    // SAFETY: after waitid both fields are either written or still zero.
    let (ended, status) = unsafe { (info.si_pid(), info.si_status()) };
    if ended == 0 {
        return Ok(None);
    }
    let exit = match info.si_code {
        libc::CLD_EXITED => ExitStatus::Code(status & 0xff),
        code => ExitStatus::Signal { number: status, core_dumped: code == libc::CLD_DUMPED },
    };
    Ok(Some((exit, used(&usage))))
}

fn last_errno(otherwise: Errno) -> Errno {
    Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(otherwise)
}

/// Splits the process in two: `None` in the new one. For a program with one thread only.
pub(super) fn fork() -> Result<Option<Pid>, Errno> {
    // SAFETY: the launcher, which alone calls this, has one thread, so every lock is free in the new process.
    match unsafe { libc::fork() } {
        -1 => Err(last_errno(Errno::AGAIN)),
        pid => Ok(Pid::from_raw(pid)),
    }
}

/// Becomes another program; answers only if that fails.
pub(super) fn execute(program: &CStr, argv: &[CString], env: &[CString]) -> Errno {
    let (argv, env) = (pointers(argv), pointers(env));
    // SAFETY: all pointers are into live objects; both arrays end in null; the kernel only reads them.
    unsafe { libc::execve(program.as_ptr(), argv.as_ptr().cast(), env.as_ptr().cast()) };
    last_errno(Errno::NOEXEC)
}

/// Puts every signal back to its default, and blocks none.
pub(super) fn reset_signals() {
    // SAFETY: SIG_DFL is a valid disposition, and the set is written whole before it is read. KILL, STOP and glibc's
    // own signals are refused, and are at their default anyway.
    unsafe {
        for number in 1..=libc::SIGRTMAX() {
            libc::signal(number, libc::SIG_DFL);
        }
        let mut none = MaybeUninit::uninit();
        libc::sigemptyset(none.as_mut_ptr());
        libc::sigprocmask(libc::SIG_SETMASK, none.as_ptr(), ptr::null_mut());
    }
}

/// Blocks SIGCHLD and answers a descriptor that is readable when it has come.
pub(super) fn child_signals() -> Result<OwnedFd, Errno> {
    // SAFETY: the set is written whole before it is read; a descriptor that is not negative is new and nobody else's.
    unsafe {
        let mut child = MaybeUninit::uninit();
        libc::sigemptyset(child.as_mut_ptr());
        libc::sigaddset(child.as_mut_ptr(), libc::SIGCHLD);
        libc::sigprocmask(libc::SIG_BLOCK, child.as_ptr(), ptr::null_mut());
        match libc::signalfd(-1, child.as_ptr(), libc::SFD_CLOEXEC | libc::SFD_NONBLOCK) {
            -1 => Err(last_errno(Errno::MFILE)),
            fd => Ok(OwnedFd::from_raw_fd(fd)),
        }
    }
}

/// Sends `number` to every process that may be reached but the caller: for the first process of a namespace, to all
/// of the others.
pub(super) fn signal_others(number: c_int) {
    // SAFETY: no memory is involved.
    unsafe { libc::kill(-1, number) };
}

/// The version of Landlock that this kernel has; 0 if none, or if it is switched off.
pub(super) fn landlock_version() -> c_int {
    /// `LANDLOCK_CREATE_RULESET_VERSION`: only asks.
    const ASK: u32 = 1;
    // SAFETY: with this flag the kernel reads no memory and makes no descriptor.
    let answer = unsafe { libc::syscall(libc::SYS_landlock_create_ruleset, ptr::null::<u8>(), 0_usize, ASK) };
    c_int::try_from(answer).unwrap_or(0).max(0)
}

/// Takes over a descriptor that this program was started with.
pub(super) fn inherited(number: RawFd) -> Result<OwnedFd, Errno> {
    // SAFETY: no memory is involved.
    if unsafe { libc::fcntl(number, libc::F_GETFD) } == -1 {
        return Err(Errno::BADF);
    }
    // SAFETY: it is open, and the launcher takes each number once, before it opens anything.
    let fd = unsafe { OwnedFd::from_raw_fd(number) };
    rustix::io::fcntl_setfd(fd.as_fd(), rustix::io::FdFlags::CLOEXEC)?;
    Ok(fd)
}

/// A child of `posix_spawn` shares the server's memory until it runs its program, and the kernel counts that as its
/// own. So what is not above the server's peak says nothing of the child, and is reported as 0, unknown.
fn resident_bytes_max(usage: &libc::rusage) -> u64 {
    let mut own = MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: the pointer is to a live object, large enough for what the kernel writes; all zeroes is a valid one.
    let own = unsafe {
        libc::getrusage(libc::RUSAGE_SELF, own.as_mut_ptr());
        own.assume_init()
    };
    if usage.ru_maxrss <= own.ru_maxrss {
        return 0;
    }
    u64::try_from(usage.ru_maxrss).unwrap_or(0).saturating_mul(1024)
}

fn duration(time: libc::timeval) -> Duration {
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    let micros = u64::try_from(time.tv_usec).unwrap_or(0);
    Duration::from_secs(seconds).saturating_add(Duration::from_micros(micros))
}

/// Borrows the descriptor inside a terminal's master, which portable-pty only shows as a number, for the time of `f`.
pub(super) fn with_master<T>(
    master: &dyn portable_pty::MasterPty,
    f: impl FnOnce(BorrowedFd<'_>) -> T,
) -> Option<T> {
    let number = master.as_raw_fd()?;
    // SAFETY: `master` owns the descriptor and is borrowed until `f` has returned, so it stays open.
    Some(f(unsafe { BorrowedFd::borrow_raw(number) }))
}
