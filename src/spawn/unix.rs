//! The few system calls that no safe wrapper offers: a `posix_spawn` that sets session, directory and descriptors, and
//! a wait that tells what the child used. Called by `start`, `reap` and `pty`; knows no plan and no policy.
#![expect(unsafe_code, reason = "posix_spawn with fchdir and closefrom, and wait4, have no safe wrapper")]

use std::ffi::{CStr, CString, c_char, c_int, c_short};
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};
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
}

/// Where the child's descriptors 0, 1 and 2 lead. It gets no others.
#[derive(Clone, Copy, Debug)]
pub(super) enum Connect<'a> {
    /// A terminal by its name: a session leader that opens one makes it its controlling terminal.
    Terminal(&'a CStr),
    /// Descriptors of ours, in order.
    Descriptors([BorrowedFd<'a>; 3]),
}

/// First descriptor that a child does not get.
const FIRST_CLOSED: c_int = 3;

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
    /// A session of its own, no signal blocked, every signal at its default whatever the server inherited.
    fn clean_session() -> Result<Self, Errno> {
        let mut attributes = MaybeUninit::uninit();
        // SAFETY: `init` writes the whole object before it answers 0.
        check(unsafe { libc::posix_spawnattr_init(attributes.as_mut_ptr()) })?;
        // SAFETY: initialised just above.
        let mut this = Self(unsafe { attributes.assume_init() });
        let mut none = MaybeUninit::uninit();
        let mut all = MaybeUninit::<libc::sigset_t>::uninit();
        let flags = libc::POSIX_SPAWN_SETSIGDEF as c_short
            | libc::POSIX_SPAWN_SETSIGMASK as c_short
            | libc::POSIX_SPAWN_SETSID;
        // SAFETY: both sets are written whole before they are read, and any bits are a valid set; glibc copies them.
        unsafe {
            libc::sigemptyset(none.as_mut_ptr());
            // Not `sigfillset`: it leaves out the two signals of glibc's own, which a child would then ignore.
            all.as_mut_ptr().write_bytes(0xff, 1);
            check(libc::posix_spawnattr_setsigmask(&raw mut this.0, none.as_ptr()))?;
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
    actions.enter(launch.cwd.as_raw_fd())?;
    actions.close_from(FIRST_CLOSED)?;
    let attributes = Attributes::clean_session()?;
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
        let error = std::io::Error::last_os_error();
        return Err(Errno::from_io_error(&error).unwrap_or(Errno::CHILD));
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
        let error = std::io::Error::last_os_error();
        return Err(Errno::from_io_error(&error).unwrap_or(Errno::CHILD));
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
    let used = ResourceUsage {
        user: duration(usage.ru_utime),
        system: duration(usage.ru_stime),
        rss_max_bytes: resident_bytes_max(&usage),
    };
    Ok(Some((exit, used)))
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
