//! What Landlock leaves open, closed by filters of system calls (seccomp): sockets of every kind,
//! the limits and priorities of other processes, such as the gateway's own, what other processes
//! can find and outlives its maker (shared memory, semaphores, message queues, the kernel's keys and
//! extended attributes of any file), and a process that hides its environment.

use std::collections::BTreeMap;
use std::io;

use libc::{
    SYS_add_key, SYS_fremovexattr, SYS_fsetxattr, SYS_io_uring_setup, SYS_ioprio_set, SYS_keyctl,
    SYS_lremovexattr, SYS_lsetxattr, SYS_mq_open, SYS_mq_unlink, SYS_msgctl, SYS_msgget,
    SYS_msgrcv, SYS_msgsnd, SYS_prctl, SYS_prlimit64, SYS_removexattr, SYS_request_key,
    SYS_sched_setaffinity, SYS_sched_setattr, SYS_sched_setparam, SYS_sched_setscheduler,
    SYS_semctl, SYS_semget, SYS_semop, SYS_semtimedop, SYS_setpriority, SYS_setxattr, SYS_shmat,
    SYS_shmctl, SYS_shmget, SYS_socket, SYS_socketpair,
};
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, apply_filter,
};

/// System calls that change the extended attributes of a file, whether it may be written or not.
const ATTRIBUTES: [i64; 8] = [
    SYS_setxattr,
    SYS_lsetxattr,
    SYS_fsetxattr,
    SYS_removexattr,
    SYS_lremovexattr,
    SYS_fremovexattr,
    SYS_SETXATTRAT,
    SYS_REMOVEXATTRAT,
];
/// Since Linux 6.13, the same on all processors. `libc` does not have them for these.
const SYS_SETXATTRAT: i64 = 463;
const SYS_REMOVEXATTRAT: i64 = 466;

/// System calls for what lives on without a process, in System V's way, as a queue of POSIX or as a
/// key of the user. The first of each kind makes it. The others take a number that could be guessed.
/// POSIX's own shared memory and semaphores are files, which Landlock restricts.
const SHARED: [i64; 16] = [
    SYS_shmget,
    SYS_shmat,
    SYS_shmctl,
    SYS_semget,
    SYS_semop,
    SYS_semtimedop,
    SYS_semctl,
    SYS_msgget,
    SYS_msgsnd,
    SYS_msgrcv,
    SYS_msgctl,
    SYS_mq_open,
    SYS_mq_unlink,
    SYS_add_key,
    SYS_request_key,
    SYS_keyctl,
];

/// System calls that change a process, and what their arguments are if that is the caller itself:
/// its id is 0, and it is a process, not a group or a user.
const OTHERS: [(i64, &[(u8, u64)]); 7] = [
    (SYS_prlimit64, &[(0, 0)]),
    (SYS_sched_setaffinity, &[(0, 0)]),
    (SYS_sched_setattr, &[(0, 0)]),
    (SYS_sched_setparam, &[(0, 0)]),
    (SYS_sched_setscheduler, &[(0, 0)]),
    (SYS_setpriority, &[(0, PRIO_PROCESS), (1, 0)]),
    (SYS_ioprio_set, &[(0, IOPRIO_WHO_PROCESS), (1, 0)]),
];
const PRIO_PROCESS: u64 = 0;
const IOPRIO_WHO_PROCESS: u64 = 1;

/// The operation of `prctl` that hides the environment, and with it the mark of a process that is to
/// end with the call.
const PR_SET_DUMPABLE: u64 = 4;

/// Kinds of sockets of which a pair can do no more than talk to each other: `SOCK_STREAM` and
/// `SOCK_SEQPACKET`. One of datagrams can be connected to anything.
const CLOSED_PAIRS: [u64; 2] = [1, 5];
/// Where the kind is in the argument.
const KIND: u64 = 0xf;

/// Refuses these system calls to this thread and what it executes. Programs for another processor,
/// such as 32-bit ones, are killed.
///
/// # Errors
/// If the system has no such filters, or the processor is one that they are not made for.
pub(super) fn restrict(network: bool) -> io::Result<()> {
    let rules = rules(network).map_err(io::Error::other)?;
    // "Permission denied", as Landlock says it.
    let refusing = filter(rules, libc::EACCES).map_err(io::Error::other)?;
    apply_filter(&refusing).map_err(io::Error::other)?;
    // `cp -a` and the like live with a file system that has no attributes, but not with a refusal.
    let lacking = filter(always(ATTRIBUTES), libc::EOPNOTSUPP).map_err(io::Error::other)?;
    apply_filter(&lacking).map_err(io::Error::other)
}

/// Refuses a call if this holds of an argument.
fn rule(
    argument: u8,
    comparison: SeccompCmpOp,
    value: u64,
) -> Result<SeccompRule, seccompiler::BackendError> {
    let condition = SeccompCondition::new(argument, SeccompCmpArgLen::Dword, comparison, value)?;
    SeccompRule::new(vec![condition])
}

/// The rules of each system call. One of them refuses it.
type Rules = BTreeMap<i64, Vec<SeccompRule>>;

/// Refuses these calls, whatever their arguments are.
fn always<const N: usize>(calls: [i64; N]) -> Rules {
    BTreeMap::from(calls.map(|call| (call, Vec::new())))
}

/// What is refused as something that is not permitted.
fn rules(network: bool) -> Result<Rules, seccompiler::BackendError> {
    let mut rules = always(SHARED);
    // A ring does by itself what is refused here.
    rules.insert(SYS_io_uring_setup, Vec::new());
    for (call, own) in OTHERS {
        let other = |&(argument, own)| rule(argument, SeccompCmpOp::Ne, own);
        rules.insert(call, own.iter().map(other).collect::<Result<_, _>>()?);
    }
    rules.insert(SYS_prctl, vec![rule(0, SeccompCmpOp::Eq, PR_SET_DUMPABLE)?]);
    if !network {
        rules.insert(SYS_socket, Vec::new());
        let open = (0..=KIND).filter(|kind| !CLOSED_PAIRS.contains(kind));
        let open = open.map(|kind| rule(1, SeccompCmpOp::MaskedEq(KIND), kind));
        rules.insert(SYS_socketpair, open.collect::<Result<_, _>>()?);
    }
    Ok(rules)
}

/// The filter that refuses calls with this error.
fn filter(mut rules: Rules, error: i32) -> Result<BpfProgram, seccompiler::BackendError> {
    // The same processors have a second numbering of system calls, for 32-bit pointers.
    if cfg!(target_arch = "x86_64") {
        let x32 = rules.clone().into_iter().map(|(call, rule)| (call | X32, rule));
        rules.extend(x32);
    }
    let refused = SeccompAction::Errno(error.unsigned_abs());
    SeccompFilter::new(rules, SeccompAction::Allow, refused, PROCESSOR.try_into()?)?.try_into()
}

/// The processor's name, as the filter's maker knows it.
const PROCESSOR: &str = if cfg!(target_arch = "x86_64") {
    "x86_64"
} else if cfg!(target_arch = "aarch64") {
    "aarch64"
} else if cfg!(target_arch = "riscv64") {
    "riscv64"
} else {
    "another"
};

/// `__X32_SYSCALL_BIT`.
const X32: i64 = 0x4000_0000;
