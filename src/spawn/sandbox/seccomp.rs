//! Which system calls a confined command may make, as a program that the kernel runs before each. Compiled and
//! installed by the launcher.
//!
//! - A call of a **foreign architecture** (32-bit, x32) ends its process by SIGSYS: numbers mean other calls there, so
//!   no list could be kept.
//! - What a kernel may lack answers **ENOSYS**, so that callers fall back: `io_uring`, whose operations no filter sees,
//!   and `clone3`, whose flags none can read.
//! - Everything else that is refused answers **EPERM**: callers report it as a denial, which is what it is.
//!
//! Loaded on top of namespaces and capabilities, most of this is a second lock. It is the only one for terminals
//! (typing into one, `TIOCSTI`) and for the families of sockets that no namespace covers.

use std::collections::BTreeMap;

use rustix::io::Errno;
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
    apply_filter, sock_filter,
};

/// What is let through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::spawn) struct Filter {
    pub(in crate::spawn) sockets: Sockets,
    /// Whether the command is in namespaces of its own. If not, it may not look into other processes at all.
    pub(in crate::spawn) namespace: bool,
}

/// Which sockets may be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::spawn) enum Sockets {
    /// All.
    All,
    /// All but those with a name in the file system, for where such names cannot be hidden.
    AllButLocal,
    /// Those of a network namespace with nothing but its loopback: IP, routes, and local ones.
    Loopback,
    /// Connected pairs only.
    Pairs,
}

impl Sockets {
    pub(in crate::spawn) const fn number(self) -> u64 {
        match self {
            Self::All => 0,
            Self::AllButLocal => 1,
            Self::Loopback => 2,
            Self::Pairs => 3,
        }
    }

    pub(in crate::spawn) const fn from_number(number: u64) -> Result<Self, Errno> {
        match number {
            0 => Ok(Self::All),
            1 => Ok(Self::AllButLocal),
            2 => Ok(Self::Loopback),
            3 => Ok(Self::Pairs),
            _ => Err(Errno::BADMSG),
        }
    }
}

/// Changes what is mounted or seen where.
const MOUNTS: &[i64] = &[
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_move_mount,
    libc::SYS_open_tree,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_mount_setattr,
    libc::SYS_setns,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_quotactl,
    libc::SYS_open_by_handle_at,
];

/// Changes the machine, or reaches parts of the kernel that nobody needs for ordinary work.
const MACHINE: &[i64] = &[
    libc::SYS_acct,
    libc::SYS_add_key,
    libc::SYS_bpf,
    libc::SYS_clock_settime,
    libc::SYS_delete_module,
    libc::SYS_finit_module,
    libc::SYS_init_module,
    libc::SYS_kexec_file_load,
    libc::SYS_kexec_load,
    libc::SYS_keyctl,
    libc::SYS_perf_event_open,
    libc::SYS_reboot,
    libc::SYS_request_key,
    libc::SYS_settimeofday,
    libc::SYS_syslog,
    libc::SYS_userfaultfd,
    libc::SYS_vhangup,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_ioperm,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_iopl,
];

/// Looks into other processes. Inside a pid namespace debuggers may: there is nobody else.
const OTHERS: &[i64] = &[
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_kcmp,
    libc::SYS_pidfd_getfd,
    libc::SYS_process_madvise,
];

/// Answers that the kernel has no such call.
const ABSENT: &[i64] =
    &[libc::SYS_io_uring_setup, libc::SYS_io_uring_enter, libc::SYS_io_uring_register, libc::SYS_clone3];

/// Flags of `clone` and `unshare` that make namespaces.
const NAMESPACES: &[i32] = &[
    libc::CLONE_NEWUSER,
    libc::CLONE_NEWNS,
    libc::CLONE_NEWPID,
    libc::CLONE_NEWNET,
    libc::CLONE_NEWIPC,
    libc::CLONE_NEWUTS,
    libc::CLONE_NEWCGROUP,
];
/// The same for clocks; for `clone` these bits are a signal.
const NAMESPACE_OF_TIME: i32 = 0x80;
/// The bits of a socket's type that are not flags.
const SOCKET_TYPE_MASK: u64 = 0xf;

type Rules = BTreeMap<i64, Vec<SeccompRule>>;
type Compiled<T> = Result<T, seccompiler::BackendError>;

fn argument(number: u8, operator: SeccompCmpOp, value: u64) -> Compiled<SeccompCondition> {
    SeccompCondition::new(number, SeccompCmpArgLen::Dword, operator, value)
}

fn unsigned(number: i32) -> u64 {
    u64::from(number.unsigned_abs())
}

/// One rule that holds if the first argument is none of `families`.
fn none_of(families: &[i32]) -> Compiled<SeccompRule> {
    let conditions = families.iter().map(|family| argument(0, SeccompCmpOp::Ne, unsigned(*family)));
    SeccompRule::new(conditions.collect::<Compiled<_>>()?)
}

fn sockets(rules: &mut Rules, sockets: Sockets) -> Compiled<()> {
    let loopback = [libc::AF_UNIX, libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK];
    let refused = match sockets {
        Sockets::All => return Ok(()),
        Sockets::AllButLocal => {
            vec![SeccompRule::new(vec![argument(0, SeccompCmpOp::Eq, unsigned(libc::AF_UNIX))?])?]
        }
        Sockets::Loopback => vec![none_of(&loopback)?],
        // Without a rule every call matches.
        Sockets::Pairs => Vec::new(),
    };
    rules.insert(libc::SYS_socket, refused);
    let mut pairs = vec![none_of(&[libc::AF_UNIX])?];
    if matches!(sockets, Sockets::AllButLocal | Sockets::Pairs) {
        // A datagram may be sent to any name, from a connected pair as well.
        let datagram = argument(1, SeccompCmpOp::MaskedEq(SOCKET_TYPE_MASK), unsigned(libc::SOCK_DGRAM))?;
        pairs.push(SeccompRule::new(vec![datagram])?);
    }
    rules.insert(libc::SYS_socketpair, pairs);
    Ok(())
}

/// How an identity says that it is not to change.
const UNCHANGED: u64 = u32::MAX as u64;

/// Nobody becomes somebody else, or gives files away. Without capabilities the kernel refuses the same, but in a user
/// namespace it says that others are no users at all (EINVAL), which programs do not expect.
fn identities(rules: &mut Rules, filter: Filter) -> Compiled<()> {
    let user = u64::from(rustix::process::geteuid().as_raw());
    let group = u64::from(rustix::process::getegid().as_raw());
    let become_another: [(i64, u64, u8); 6] = [
        (libc::SYS_setuid, user, 1),
        (libc::SYS_setgid, group, 1),
        (libc::SYS_setreuid, user, 2),
        (libc::SYS_setregid, group, 2),
        (libc::SYS_setresuid, user, 3),
        (libc::SYS_setresgid, group, 3),
    ];
    for (call, own, arguments) in become_another {
        rules.insert(call, (0..arguments).map(|at| differs(at, own)).collect::<Compiled<_>>()?);
    }
    // An ordinary user's namespace knows none of the further groups, to which files may be given elsewhere.
    let one_group = filter.namespace && user != 0;
    let give_away: &[(i64, u8)] = &[
        #[cfg(target_arch = "x86_64")]
        (libc::SYS_chown, 1),
        #[cfg(target_arch = "x86_64")]
        (libc::SYS_lchown, 1),
        (libc::SYS_fchown, 1),
        (libc::SYS_fchownat, 2),
    ];
    for &(call, at) in give_away {
        let owners = [differs(at, user)?].into_iter();
        let groups = one_group.then(|| differs(at + 1, group)).transpose()?;
        rules.insert(call, owners.chain(groups).collect());
    }
    Ok(())
}

/// A rule that holds if an argument names an identity other than `own`.
fn differs(number: u8, own: u64) -> Compiled<SeccompRule> {
    let other = argument(number, SeccompCmpOp::Ne, own)?;
    SeccompRule::new(vec![other, argument(number, SeccompCmpOp::Ne, UNCHANGED)?])
}

/// Calls that answer EPERM.
fn denied(filter: Filter) -> Compiled<Rules> {
    let mut rules: Rules = MOUNTS.iter().chain(MACHINE).map(|call| (*call, Vec::new())).collect();
    if !filter.namespace {
        rules.extend(OTHERS.iter().map(|call| (*call, Vec::new())));
    }
    let flag = |flag: i32| -> Compiled<SeccompRule> {
        let flag = unsigned(flag);
        SeccompRule::new(vec![argument(0, SeccompCmpOp::MaskedEq(flag), flag)?])
    };
    let namespaces: Vec<SeccompRule> = NAMESPACES.iter().map(|bit| flag(*bit)).collect::<Compiled<_>>()?;
    rules.insert(libc::SYS_clone, namespaces.clone());
    let of_time = flag(NAMESPACE_OF_TIME)?;
    rules.insert(libc::SYS_unshare, namespaces.into_iter().chain([of_time]).collect());
    let typing = [libc::TIOCSTI, libc::TIOCLINUX].into_iter().map(|request| {
        let request = u64::from(u32::try_from(request).unwrap_or(u32::MAX));
        SeccompRule::new(vec![argument(1, SeccompCmpOp::Eq, request)?])
    });
    rules.insert(libc::SYS_ioctl, typing.collect::<Compiled<_>>()?);
    sockets(&mut rules, filter.sockets)?;
    identities(&mut rules, filter)?;
    Ok(rules)
}

fn compile(rules: Rules, errno: i32) -> Compiled<BpfProgram> {
    let answer = SeccompAction::Errno(errno.unsigned_abs());
    let architecture = std::env::consts::ARCH.try_into()?;
    SeccompFilter::new(rules, SeccompAction::Allow, answer, architecture)?.try_into()
}

/// On x86-64 the calls of x32 pass for native ones, but for one bit of their number.
fn without_x32(program: BpfProgram) -> BpfProgram {
    const X32_BIT: u32 = 0x4000_0000;
    let step = |code: u32, jt: u8, k: u32| sock_filter { code: code as u16, jt, jf: 0, k };
    let mut checked = vec![
        // The call's number is the first field of what a filter is shown.
        step(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0),
        sock_filter { code: (libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K) as u16, jt: 0, jf: 1, k: X32_BIT },
        step(libc::BPF_RET | libc::BPF_K, 0, libc::SECCOMP_RET_KILL_PROCESS),
    ];
    checked.extend(program);
    checked
}

/// The programs of `filter`, in the order in which they are installed.
fn programs(filter: Filter) -> Compiled<[BpfProgram; 2]> {
    let absent = ABSENT.iter().map(|call| (*call, Vec::new())).collect();
    let absent = compile(absent, libc::ENOSYS)?;
    let absent = if cfg!(target_arch = "x86_64") { without_x32(absent) } else { absent };
    Ok([absent, compile(denied(filter)?, libc::EPERM)?])
}

/// Puts this process under `filter`, and gives up new privileges for ever. The error is a sentence.
pub(in crate::spawn) fn install(filter: Filter) -> Result<(), String> {
    let failed = |error: String| format!("the filter of system calls cannot be installed: {error}");
    for program in programs(filter).map_err(|error| failed(error.to_string()))? {
        apply_filter(&program).map_err(|error| failed(error.to_string()))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_filter_compiles_within_what_the_kernel_takes() {
        /// `BPF_MAXINSNS`.
        const INSTRUCTIONS_MAX: usize = 4096;
        for number in 0.. {
            let Ok(sockets) = Sockets::from_number(number) else { break };
            assert_eq!(sockets.number(), number);
            for namespace in [true, false] {
                for program in programs(Filter { sockets, namespace }).unwrap() {
                    assert!(program.len() < INSTRUCTIONS_MAX, "{}", program.len());
                }
            }
        }
    }
}
