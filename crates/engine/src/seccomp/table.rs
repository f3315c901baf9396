//! The calls, in groups, each with its reason.

use super::{Call, Case, Rule, Test, Verdict};

/// Calls that are judged alike.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Group {
    pub name: &'static str,
    pub why: &'static str,
    pub rule: Rule,
    pub calls: &'static [Call],
}

pub(super) const EPERM: u16 = 1;
pub(super) const ENOSYS: u16 = 38;
const EPROTONOSUPPORT: u16 = 93;
const EOPNOTSUPP: u16 = 95;
const EAFNOSUPPORT: u16 = 97;

const ALLOW: Rule = Rule::Always(Verdict::Allow);
const REFUSE: Rule = Rule::Always(Verdict::Errno(EPERM));
const ABSENT: Rule = Rule::Always(Verdict::Errno(ENOSYS));

/// Flags that make or enter a namespace, as `clone` takes them. The time namespace has no bit here:
/// its value means a signal number to `clone`.
const NAMESPACE_FLAGS: u32 = 0x7e02_0000;
/// The same for `unshare`, which does know the time namespace.
const UNSHARE_FLAGS: u32 = NAMESPACE_FLAGS | 0x80;
/// The bits that make a program run as its owner or group.
const SET_ID_BITS: u32 = 0o6000;
/// Only with one of these does `open` read its mode (`O_CREAT`, `O_TMPFILE`).
const CREATING: u32 = 0o100 | 0o20_000_000;

/// `MSG_OOB`.
const URGENT: u32 = 1;

const fn test(argument: u8, mask: u32, equals: u32) -> Test {
    Test { argument, mask, equals }
}

const fn equals(argument: u8, value: u32) -> Test {
    test(argument, u32::MAX, value)
}

const fn allow(when: &'static [Test]) -> Case {
    Case { when, then: Verdict::Allow }
}

const fn refuse(when: &'static [Test]) -> Case {
    Case { when, then: Verdict::Errno(EPERM) }
}

/// The calls of this architecture by the names the C library gives their numbers.
macro_rules! calls {
    ($($name:ident)+) => { &[$(Call { name: stringify!($name), number: number(libc::$name) }),+] };
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the numbers of calls are small and positive; a wrong one would not compile to a table"
)]
const fn number(number: libc::c_long) -> u32 {
    number as u32
}

/// All groups. Where a call stands in two, the first counts.
pub const GROUPS: &[Group] = &[
    Group {
        name: "clone",
        why: "processes and threads, but no namespace: a new user namespace hands out capabilities and \
              with them most of the kernel's attack surface",
        rule: Rule::Cases {
            cases: &[allow(&[test(CLONE_FLAGS, NAMESPACE_FLAGS, 0)])],
            otherwise: Verdict::Errno(EPERM),
        },
        calls: calls![SYS_clone],
    },
    Group {
        name: "unshare",
        why: "a thread may stop sharing its table of files or its directory, and nothing more",
        rule: Rule::Cases {
            cases: &[allow(&[test(0, UNSHARE_FLAGS, 0)])],
            otherwise: Verdict::Errno(EPERM),
        },
        calls: calls![SYS_unshare],
    },
    Group {
        name: "hidden arguments",
        why: "their arguments stand behind a pointer that no filter can follow; programs fall back to \
              clone and openat, which show them",
        rule: ABSENT,
        calls: calls![SYS_clone3 SYS_openat2],
    },
    Group {
        name: "sockets",
        why: "local, internet and routing sockets of the usual kinds. Other families are not bound to the \
              network namespace (vsock reaches the host) or load rarely tested modules",
        rule: Rule::Cases { cases: SOCKETS, otherwise: Verdict::Errno(EAFNOSUPPORT) },
        calls: calls![SYS_socket],
    },
    Group {
        name: "socket pairs",
        why: "local ones only, there are no others worth having",
        rule: Rule::Cases {
            cases: &[allow(&[equals(0, AF_UNIX)])],
            otherwise: Verdict::Errno(EAFNOSUPPORT),
        },
        calls: calls![SYS_socketpair],
    },
    Group {
        name: "process 1 by number",
        why: "process 1 has the user of its commands, so the kernel would let them pin it to a processor \
              or take its limits away; a process may arrange itself and others, but not that one",
        rule: Rule::Cases { cases: &[refuse(&[equals(0, 1)])], otherwise: Verdict::Allow },
        calls: calls![
            SYS_sched_setaffinity SYS_sched_setscheduler SYS_sched_setparam SYS_sched_setattr SYS_prlimit64
        ],
    },
    Group {
        name: "priorities of process 1",
        why: "the same for a call that names the process second, or all processes of a user (2), which is \
              process 1's too",
        rule: Rule::Cases {
            cases: &[refuse(&[equals(1, 1)]), refuse(&[equals(0, 2)])],
            otherwise: Verdict::Allow,
        },
        calls: calls![SYS_setpriority],
    },
    Group {
        name: "disk priorities of process 1",
        why: "as above; here a user has the number 3",
        rule: Rule::Cases {
            cases: &[refuse(&[equals(1, 1)]), refuse(&[equals(0, 3)])],
            otherwise: Verdict::Allow,
        },
        calls: calls![SYS_ioprio_set],
    },
    Group {
        name: "urgent data, flags in the third argument",
        why: "nothing needs it on local sockets, and there its bookkeeping was a way into the kernel",
        rule: Rule::Cases {
            cases: &[allow(&[test(2, URGENT, 0)])],
            otherwise: Verdict::Errno(EOPNOTSUPP),
        },
        calls: calls![SYS_sendmsg],
    },
    Group {
        name: "urgent data, flags in the fourth argument",
        why: "as above",
        rule: Rule::Cases {
            cases: &[allow(&[test(3, URGENT, 0)])],
            otherwise: Verdict::Errno(EOPNOTSUPP),
        },
        calls: calls![SYS_sendto SYS_sendmmsg],
    },
    Group {
        name: "device control",
        why: "typing into somebody's terminal (TIOCSTI, TIOCLINUX), taking over the console and changing a \
              line's discipline, which loads modules, are no business of a command",
        rule: Rule::Cases {
            cases: &[
                refuse(&[equals(1, 0x5412)]), // TIOCSTI
                refuse(&[equals(1, 0x541c)]), // TIOCLINUX
                refuse(&[equals(1, 0x541d)]), // TIOCCONS
                refuse(&[equals(1, 0x5423)]), // TIOCSETD
            ],
            otherwise: Verdict::Allow,
        },
        calls: calls![SYS_ioctl],
    },
    Group {
        name: "modes, in the second argument",
        why: "a file of the workspace must not become setuid or setgid: it belongs to a real user of the \
              host, who would lend his identity to whoever starts it there",
        rule: Rule::Cases {
            cases: &[allow(&[test(1, SET_ID_BITS, 0)])],
            otherwise: Verdict::Errno(EPERM),
        },
        calls: MODE_SECOND,
    },
    Group {
        name: "modes, in the third argument",
        why: "as above",
        rule: Rule::Cases {
            cases: &[allow(&[test(2, SET_ID_BITS, 0)])],
            otherwise: Verdict::Errno(EPERM),
        },
        calls: calls![SYS_fchmodat SYS_fchmodat2 SYS_mkdirat SYS_mknodat],
    },
    Group {
        name: "openat",
        why: "as above; without O_CREAT or O_TMPFILE the mode is not read and holds anything",
        rule: Rule::Cases {
            cases: &[allow(&[test(2, CREATING, 0)]), allow(&[test(3, SET_ID_BITS, 0)])],
            otherwise: Verdict::Errno(EPERM),
        },
        calls: calls![SYS_openat],
    },
    Group {
        name: "open",
        why: "as above",
        rule: Rule::Cases {
            cases: &[allow(&[test(1, CREATING, 0)]), allow(&[test(2, SET_ID_BITS, 0)])],
            otherwise: Verdict::Errno(EPERM),
        },
        calls: OPEN,
    },
    Group {
        name: "personality",
        why: "the ordinary one, 32-bit uname and asking; others switch protections of memory off",
        rule: Rule::Cases {
            cases: &[
                allow(&[equals(0, 0)]),
                allow(&[equals(0, 0x8)]),
                allow(&[equals(0, 0x2_0000)]),
                allow(&[equals(0, 0x2_0008)]),
                allow(&[equals(0, u32::MAX)]),
            ],
            otherwise: Verdict::Errno(EPERM),
        },
        calls: calls![SYS_personality],
    },
    Group {
        name: "namespaces and mounts",
        why: "the pen's walls: who can move them is not inside",
        rule: REFUSE,
        calls: calls![
            SYS_setns SYS_mount SYS_umount2 SYS_pivot_root SYS_chroot SYS_open_tree SYS_move_mount SYS_fsopen
            SYS_fsconfig SYS_fsmount SYS_fspick SYS_mount_setattr SYS_sethostname SYS_setdomainname
        ],
    },
    Group {
        name: "other processes' memory",
        why: "process 1 and other commands may have the same user; what protects them is that nobody can look \
              into another process",
        rule: REFUSE,
        calls: calls![
            SYS_ptrace SYS_process_vm_readv SYS_process_vm_writev SYS_kcmp SYS_pidfd_getfd SYS_process_madvise
            SYS_process_mrelease
        ],
    },
    Group {
        name: "large, young or privileged parts of the kernel",
        why: "each has a history of escapes and no use in a command",
        rule: REFUSE,
        calls: calls![
            SYS_bpf SYS_perf_event_open SYS_userfaultfd SYS_io_uring_setup SYS_io_uring_enter
            SYS_io_uring_register SYS_fanotify_init SYS_memfd_secret SYS_lookup_dcookie SYS_nfsservctl
        ],
    },
    Group {
        name: "keyrings",
        why: "they are not bound to any namespace: a key of the host's user could be read",
        rule: REFUSE,
        calls: calls![SYS_add_key SYS_request_key SYS_keyctl],
    },
    Group {
        name: "handles",
        why: "a file opened by its number on disk does not pass any directory, nor the pen's root",
        rule: REFUSE,
        calls: calls![SYS_open_by_handle_at SYS_name_to_handle_at],
    },
    Group {
        name: "the machine",
        why: "its modules, its next kernel, its clock, its swap, its log, its power",
        rule: REFUSE,
        calls: calls![
            SYS_init_module SYS_finit_module SYS_delete_module SYS_kexec_load SYS_kexec_file_load SYS_reboot
            SYS_swapon SYS_swapoff SYS_quotactl SYS_quotactl_fd SYS_acct SYS_syslog SYS_vhangup SYS_settimeofday
            SYS_clock_settime SYS_clock_adjtime SYS_adjtimex SYS_mbind SYS_set_mempolicy SYS_migrate_pages
            SYS_move_pages
        ],
    },
    Group { name: "ports", why: "straight to the hardware", rule: REFUSE, calls: PORTS },
    Group {
        name: "reading, writing, files",
        why: "what programs are made of; what may be opened is decided by mounts, Landlock and modes",
        rule: ALLOW,
        calls: calls![
            SYS_read SYS_write SYS_readv SYS_writev SYS_pread64 SYS_pwrite64 SYS_preadv SYS_pwritev SYS_preadv2
            SYS_pwritev2 SYS_close SYS_close_range SYS_lseek SYS_fstat SYS_newfstatat SYS_statx SYS_faccessat
            SYS_faccessat2 SYS_readlinkat SYS_getdents64 SYS_getcwd SYS_chdir SYS_fchdir SYS_statfs SYS_fstatfs
            SYS_truncate SYS_ftruncate SYS_fallocate SYS_fadvise64 SYS_readahead SYS_sync SYS_syncfs SYS_fsync
            SYS_fdatasync SYS_sync_file_range SYS_umask SYS_unlinkat SYS_renameat SYS_renameat2 SYS_linkat
            SYS_symlinkat SYS_fchown SYS_fchownat SYS_utimensat SYS_flock SYS_fcntl SYS_dup SYS_dup3 SYS_pipe2
            SYS_sendfile SYS_splice SYS_tee SYS_vmsplice SYS_copy_file_range SYS_getxattr SYS_lgetxattr
            SYS_fgetxattr SYS_setxattr SYS_lsetxattr SYS_fsetxattr SYS_listxattr SYS_llistxattr SYS_flistxattr
            SYS_removexattr SYS_lremovexattr SYS_fremovexattr SYS_inotify_init1 SYS_inotify_add_watch
            SYS_inotify_rm_watch SYS_memfd_create SYS_io_setup SYS_io_destroy SYS_io_submit SYS_io_cancel
            SYS_io_getevents
        ],
    },
    Group {
        name: "waiting",
        why: "for descriptors, timers, signals and each other",
        rule: ALLOW,
        calls: calls![
            SYS_ppoll SYS_pselect6 SYS_epoll_create1 SYS_epoll_ctl SYS_epoll_pwait SYS_epoll_pwait2 SYS_eventfd2
            SYS_signalfd4 SYS_timerfd_create SYS_timerfd_settime SYS_timerfd_gettime SYS_timer_create
            SYS_timer_settime SYS_timer_gettime SYS_timer_getoverrun SYS_timer_delete SYS_nanosleep
            SYS_clock_nanosleep SYS_clock_gettime SYS_clock_getres SYS_gettimeofday SYS_getitimer SYS_setitimer
            SYS_times SYS_futex SYS_futex_waitv SYS_set_robust_list SYS_get_robust_list SYS_restart_syscall
            SYS_rseq SYS_membarrier
        ],
    },
    Group {
        name: "memory",
        why: "of the process itself",
        rule: ALLOW,
        calls: calls![
            SYS_brk SYS_mmap SYS_munmap SYS_mremap SYS_mprotect SYS_madvise SYS_msync SYS_mincore SYS_mlock
            SYS_mlock2 SYS_munlock SYS_mlockall SYS_munlockall SYS_pkey_alloc SYS_pkey_free SYS_pkey_mprotect
            SYS_get_mempolicy SYS_mseal
        ],
    },
    Group {
        name: "processes and signals",
        why: "only those of the pen can be seen or reached: it has a process namespace of its own",
        rule: ALLOW,
        calls: calls![
            SYS_execve SYS_execveat SYS_exit SYS_exit_group SYS_wait4 SYS_waitid SYS_kill SYS_tkill SYS_tgkill
            SYS_rt_sigaction SYS_rt_sigprocmask SYS_rt_sigpending SYS_rt_sigqueueinfo SYS_rt_tgsigqueueinfo
            SYS_rt_sigreturn SYS_rt_sigsuspend SYS_rt_sigtimedwait SYS_sigaltstack SYS_pidfd_open
            SYS_pidfd_send_signal SYS_getpid SYS_getppid SYS_gettid SYS_getpgid SYS_setpgid SYS_getsid SYS_setsid
            SYS_set_tid_address SYS_prctl SYS_getrusage SYS_getrlimit SYS_setrlimit SYS_getpriority
            SYS_ioprio_get SYS_sched_yield SYS_sched_getaffinity
            SYS_sched_getparam SYS_sched_getscheduler
            SYS_sched_getattr SYS_sched_get_priority_max
            SYS_sched_get_priority_min SYS_sched_rr_get_interval SYS_getcpu SYS_uname SYS_sysinfo SYS_getrandom
        ],
    },
    Group {
        name: "identity",
        why: "a process without capabilities can only choose among the ids it already has",
        rule: ALLOW,
        calls: calls![
            SYS_getuid SYS_geteuid SYS_getgid SYS_getegid SYS_getresuid SYS_getresgid SYS_getgroups SYS_setuid
            SYS_setgid SYS_setreuid SYS_setregid SYS_setresuid SYS_setresgid SYS_setfsuid SYS_setfsgid
            SYS_setgroups SYS_capget SYS_capset
        ],
    },
    Group {
        name: "talking",
        why: "over sockets that could be opened",
        rule: ALLOW,
        calls: calls![
            SYS_bind SYS_listen SYS_accept SYS_accept4 SYS_connect SYS_shutdown SYS_getsockname SYS_getpeername
            SYS_getsockopt SYS_setsockopt SYS_recvfrom SYS_recvmsg SYS_recvmmsg
        ],
    },
    Group {
        name: "shared memory, queues, semaphores",
        why: "the pen has an ipc namespace of its own",
        rule: ALLOW,
        calls: calls![
            SYS_shmget SYS_shmat SYS_shmctl SYS_shmdt SYS_semget SYS_semop SYS_semctl SYS_semtimedop SYS_msgget
            SYS_msgsnd SYS_msgrcv SYS_msgctl SYS_mq_open SYS_mq_unlink SYS_mq_timedsend SYS_mq_timedreceive
            SYS_mq_notify SYS_mq_getsetattr
        ],
    },
    Group {
        name: "confining oneself",
        why: "a program may give up more; a filter of its own can only be stricter than this one",
        rule: ALLOW,
        calls: calls![
            SYS_seccomp SYS_landlock_create_ruleset SYS_landlock_add_rule SYS_landlock_restrict_self
        ],
    },
    Group {
        name: "old names",
        why: "the same as calls above, as old programs know them",
        rule: ALLOW,
        calls: OLD_NAMES,
    },
];

const AF_UNIX: u32 = 1;
/// The families of IPv4 (2) and IPv6 (10) differ in this one bit.
const INTERNET: Test = test(0, !8, 2);
const NETLINK: Test = equals(0, 16);
/// What of a socket's type is its kind; the rest are flags.
const STREAM: Test = test(1, 0xf, 1);
const DATAGRAM: Test = test(1, 0xf, 2);

/// A protocol of zero is the usual one of its kind; ping has its own.
const SOCKETS: &[Case] = &[
    allow(&[equals(0, AF_UNIX)]),
    allow(&[INTERNET, STREAM, equals(2, 0)]),
    allow(&[INTERNET, STREAM, equals(2, 6)]),
    allow(&[INTERNET, DATAGRAM, equals(2, 0)]),
    allow(&[INTERNET, DATAGRAM, equals(2, 17)]),
    allow(&[INTERNET, DATAGRAM, equals(2, 1)]),
    allow(&[INTERNET, DATAGRAM, equals(2, 58)]),
    // Routes (0) and the list of sockets (4).
    allow(&[NETLINK, test(2, !4, 0)]),
    // A known family with another protocol: programs that try a newer one first fall back.
    no_protocol(&[INTERNET]),
    no_protocol(&[NETLINK]),
];

const fn no_protocol(when: &'static [Test]) -> Case {
    Case { when, then: Verdict::Errno(EPROTONOSUPPORT) }
}

/// Where `clone` has its flags.
const CLONE_FLAGS: u8 = 0;

#[cfg(target_arch = "x86_64")]
const MODE_SECOND: &[Call] = calls![SYS_fchmod SYS_chmod SYS_creat SYS_mkdir SYS_mknod];
#[cfg(not(target_arch = "x86_64"))]
const MODE_SECOND: &[Call] = calls![SYS_fchmod];

#[cfg(target_arch = "x86_64")]
const OPEN: &[Call] = calls![SYS_open];
#[cfg(not(target_arch = "x86_64"))]
const OPEN: &[Call] = &[];

#[cfg(target_arch = "x86_64")]
const PORTS: &[Call] = calls![SYS_iopl SYS_ioperm SYS_modify_ldt];
#[cfg(not(target_arch = "x86_64"))]
const PORTS: &[Call] = &[];

#[cfg(target_arch = "x86_64")]
const OLD_NAMES: &[Call] = calls![
    SYS_stat SYS_lstat SYS_access SYS_readlink SYS_getdents SYS_unlink SYS_rmdir SYS_rename SYS_link SYS_symlink
    SYS_chown SYS_lchown SYS_utime SYS_utimes SYS_futimesat SYS_dup2 SYS_pipe SYS_poll SYS_select SYS_epoll_create
    SYS_epoll_wait SYS_eventfd SYS_signalfd SYS_inotify_init SYS_fork SYS_vfork SYS_getpgrp SYS_pause SYS_alarm
    SYS_time SYS_arch_prctl SYS_epoll_ctl_old SYS_epoll_wait_old
];
#[cfg(not(target_arch = "x86_64"))]
const OLD_NAMES: &[Call] = &[];
