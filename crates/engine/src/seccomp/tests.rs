//! The program is run here as the kernel would run it.

use super::*;

const ALLOWED: u32 = 0x7fff_0000;
const KILLED: u32 = 0x8000_0000;
const X86_64: u32 = 0xc000_003e;
const I386: u32 = 0x4000_0003;

const fn errno(number: u32) -> u32 {
    0x0005_0000 | number
}

/// Runs the program on one call.
fn run(architecture: u32, number: u32, arguments: &[u64]) -> u32 {
    let program = workload();
    let program = program.instructions();
    let word = |offset: u32| match offset {
        0 => number,
        4 => architecture,
        _ => {
            let argument = arguments.get(((offset - 16) / 8) as usize).copied().unwrap_or(0);
            u32::try_from((argument >> (8 * (u64::from(offset) % 8))) & 0xffff_ffff).unwrap()
        }
    };
    let (mut at, mut register) = (0_usize, 0_u32);
    loop {
        let Instruction { code, if_true, if_false, value } = program[at];
        at += 1;
        match code {
            0x20 => register = word(value),
            0x54 => register &= value,
            0x05 => at += value as usize,
            0x15 => at += usize::from(if register == value { if_true } else { if_false }),
            0x35 => at += usize::from(if register >= value { if_true } else { if_false }),
            0x06 => return value,
            other => panic!("instruction {other:#x}"),
        }
    }
}

#[track_caller]
fn check(name: &str, arguments: &[u64], expected: u32) {
    let calls = GROUPS.iter().flat_map(|group| group.calls);
    let call = calls.into_iter().find(|call| call.name == name).unwrap();
    assert_eq!(run(X86_64, call.number, arguments), expected, "{name} {arguments:x?}");
}

#[test]
fn ordinary_calls_pass_and_unknown_ones_do_not_exist() {
    for name in ["SYS_read", "SYS_execve", "SYS_mmap", "SYS_futex", "SYS_memfd_create", "SYS_kill"]
    {
        check(name, &[], ALLOWED);
    }
    for number in [156, 174, 500, 1000, 0x3fff_ffff, u32::MAX] {
        assert_eq!(run(X86_64, number, &[]), errno(38), "{number}");
    }
    check("SYS_clone3", &[], errno(38));
    check("SYS_openat2", &[], errno(38));
}

#[test]
fn every_named_call_gets_the_answer_of_its_group() {
    let mut seen = Vec::new();
    for group in GROUPS {
        for call in group.calls {
            assert!(!seen.contains(&call.number), "{} stands in two groups", call.name);
            seen.push(call.number);
            let Rule::Always(verdict) = group.rule else { continue };
            let expected = match verdict {
                Verdict::Allow => ALLOWED,
                Verdict::Errno(number) => errno(u32::from(number)),
                Verdict::Kill => KILLED,
            };
            check(call.name, &[u64::MAX; 6], expected);
        }
    }
}

#[test]
fn other_entries_are_refused() {
    // execve of i386 is 11, of x32 520 with its bit.
    assert_eq!(run(I386, 11, &[]), KILLED);
    for number in [0, 59, 520] {
        assert_eq!(run(X86_64, 0x4000_0000 | number, &[]), errno(38));
    }
}

#[test]
fn no_namespace_can_be_made() {
    check("SYS_clone", &[0x11], ALLOWED);
    check("SYS_clone", &[0x003d_0f00], ALLOWED); // a thread
    for flag in
        [0x0002_0000, 0x0200_0000, 0x0400_0000, 0x0800_0000, 0x1000_0000, 0x2000_0000, 0x4000_0000]
    {
        check("SYS_clone", &[flag | 0x11], errno(1));
        check("SYS_unshare", &[flag], errno(1));
    }
    check("SYS_unshare", &[0x80], errno(1));
    check("SYS_unshare", &[0x400], ALLOWED);
    check("SYS_setns", &[], errno(1));
    check("SYS_mount", &[], errno(1));
}

#[test]
fn sockets_are_of_four_families_and_usual_kinds() {
    for (arguments, expected) in [
        ([1, 1, 0], ALLOWED),
        ([1, 5, 0], ALLOWED),
        ([2, 1, 0], ALLOWED),
        ([2, 0x8_0801, 6], ALLOWED), // non-blocking, close on exec
        ([2, 2, 17], ALLOWED),
        ([10, 2, 58], ALLOWED),
        ([16, 3, 0], ALLOWED),
        ([16, 3, 12], errno(93)),
        ([2, 3, 255], errno(93)), // raw
        ([2, 1, 262], errno(93)), // multipath
        ([2, 5, 132], errno(93)), // sctp
        ([40, 1, 0], errno(97)),  // vsock
        ([17, 3, 0], errno(97)),  // packet
        ([38, 5, 0], errno(97)),  // kernel crypto
        ([0x1_0000_0028, 1, 0], errno(97)),
        ([0x1_0000_0001, 1, 0], ALLOWED), // the kernel reads 32 bits as well
    ] {
        check("SYS_socket", &arguments, expected);
    }
    check("SYS_socketpair", &[1, 1, 0], ALLOWED);
    check("SYS_socketpair", &[40, 1, 0], errno(97));
}

#[test]
fn nobody_types_into_a_terminal() {
    for command in [0x5412_u64, 0x541c, 0x541d, 0x5423] {
        check("SYS_ioctl", &[0, command], errno(1));
        // Upper bits that the kernel cuts off.
        check("SYS_ioctl", &[0, 0xffff_ffff_0000_0000 | command], errno(1));
    }
    check("SYS_ioctl", &[0, 0x5401], ALLOWED);
}

#[test]
fn process_1_is_not_slowed_down_by_number_or_by_user() {
    for (name, user) in [("SYS_setpriority", 2), ("SYS_ioprio_set", 3)] {
        check(name, &[0, 1, 19], errno(1));
        check(name, &[user, 1000, 19], errno(1));
        check(name, &[user | 1 << 40, 1000, 19], errno(1));
        check(name, &[0, 0, 19], ALLOWED);
        check(name, &[1, 7, 19], ALLOWED);
    }
}

#[test]
fn there_is_no_urgent_data() {
    for (name, flags) in [("SYS_sendmsg", 2), ("SYS_sendto", 3), ("SYS_sendmmsg", 3)] {
        let mut arguments = [0; 6];
        arguments[flags] = 0x4000; // MSG_NOSIGNAL
        check(name, &arguments, ALLOWED);
        arguments[flags] |= 1;
        check(name, &arguments, errno(95));
    }
}

#[test]
fn no_file_becomes_setuid() {
    for mode in [0o4755_u64, 0o2755, 0o6000] {
        check("SYS_chmod", &[0, mode], errno(1));
        check("SYS_fchmod", &[0, mode], errno(1));
        check("SYS_fchmodat", &[0, 0, mode], errno(1));
        check("SYS_fchmodat2", &[0, 0, mode], errno(1));
        check("SYS_creat", &[0, mode], errno(1));
        check("SYS_mkdir", &[0, mode], errno(1));
        check("SYS_mknodat", &[0, 0, mode], errno(1));
        check("SYS_open", &[0, 0o101, mode], errno(1));
        check("SYS_openat", &[0, 0, 0o101, mode], errno(1));
        check("SYS_openat", &[0, 0, 0o20_200_001, mode], errno(1)); // O_TMPFILE
        // Without O_CREAT the mode is whatever the register held.
        check("SYS_openat", &[0, 0, 0, mode], ALLOWED);
        check("SYS_open", &[0, 0, mode], ALLOWED);
    }
    check("SYS_chmod", &[0, 0o1777], ALLOWED);
    check("SYS_openat", &[0, 0, 0o101, 0o644], ALLOWED);
}

#[test]
fn the_program_fits_into_the_kernel() {
    let program = workload();
    assert!(program.instructions().len() < program::MAX_INSTRUCTIONS);
    assert_eq!(program.bytes().len(), program.instructions().len() * 8);
}
