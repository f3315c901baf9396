//! Devices and terminals.

use crate::system::{address, call, call3, judge, open_for_reading as open, text};
use crate::{Attack, Outcome};

pub(crate) const ATTACKS: &[Attack] = &[
    Attack {
        name: "mknod-disk",
        about: "make the node of a disk",
        run: || mknod(libc::S_IFBLK, 254, 0),
    },
    Attack {
        name: "mknod-mem",
        about: "make the node of /dev/mem",
        run: || mknod(libc::S_IFCHR, 1, 1),
    },
    Attack {
        name: "mknod-null",
        about: "make any device node at all",
        run: || mknod(libc::S_IFCHR, 1, 3),
    },
    Attack { name: "dev-mem", about: "open /dev/mem", run: || open("/dev/mem") },
    Attack { name: "dev-kmsg", about: "open the kernel's log", run: || open("/dev/kmsg") },
    Attack { name: "dev-kvm", about: "open the virtual machine device", run: || open("/dev/kvm") },
    Attack {
        name: "dev-fuse",
        about: "open the user file system device",
        run: || open("/dev/fuse"),
    },
    Attack { name: "dev-net-tun", about: "open the tunnel device", run: || open("/dev/net/tun") },
    Attack {
        name: "dev-loop-control",
        about: "open the loop device control",
        run: || open("/dev/loop-control"),
    },
    Attack { name: "host-disk", about: "open a disk of the host", run: host_disk },
    Attack {
        name: "dev-userfaultfd",
        about: "hold the kernel at a page fault, by the device",
        run: || open("/dev/userfaultfd"),
    },
    Attack {
        name: "dev-console",
        about: "read what stands on the console",
        run: || open("/dev/vcs"),
    },
    Attack {
        name: "dev-vsock",
        about: "ask the hypervisor's socket device",
        run: || open("/dev/vsock"),
    },
    Attack { name: "line-discipline", about: "load another line discipline", run: line_discipline },
    Attack { name: "tiocsti", about: "type into the terminal of whoever started us", run: tiocsti },
    Attack { name: "tioclinux", about: "paste into a console", run: tioclinux },
];

fn mknod(kind: u32, major: u32, minor: u32) -> Outcome {
    let path = text("/tmp/clawpen-attack-node");
    let device = usize::try_from(libc::makedev(major, minor)).unwrap_or(0);
    let result = call3(libc::SYS_mknod, address(&path), (kind | 0o600) as usize, device);
    if result.is_ok() {
        let _ = std::fs::remove_file("/tmp/clawpen-attack-node");
    }
    judge("mknod", result)
}

/// On a terminal of our own: if the call itself is allowed, a shared one could be typed into.
fn tiocsti() -> Outcome {
    with_terminal(|fd| {
        let byte = b'x';
        // The upper half of the register must not hide the number from a filter.
        for number in [0x5412usize, 0x1_0000_5412] {
            if call3(libc::SYS_ioctl, fd, number, (&raw const byte) as usize).is_ok() {
                return Outcome::Escaped(format!("ioctl(TIOCSTI) as {number:#x}"));
            }
        }
        Outcome::Blocked(format!("ioctl(TIOCSTI): {}", std::io::Error::last_os_error()))
    })
}

/// A disk, or what stands for one.
fn host_disk() -> Outcome {
    let disks = ["/dev/vda", "/dev/sda", "/dev/loop0", "/dev/zram0"];
    let opened = disks.into_iter().find(|disk| std::fs::File::open(disk).is_ok());
    match opened {
        Some(disk) => Outcome::Escaped(format!("opened {disk}")),
        None => Outcome::Blocked("none can be opened".to_owned()),
    }
}

/// To the ordinary one, which it has.
fn line_discipline() -> Outcome {
    with_terminal(|fd| {
        let ordinary = 0i32;
        judge("ioctl(TIOCSETD)", call3(libc::SYS_ioctl, fd, 0x5423, (&raw const ordinary) as usize))
    })
}

/// Only a console knows the call, so one is taken if it can be opened.
fn tioclinux() -> Outcome {
    use std::os::fd::AsRawFd as _;
    let shift_state = 6u8;
    if let Ok(console) = std::fs::File::open("/dev/tty1") {
        let fd = crate::system::number_of(console.as_raw_fd());
        let asked = call3(libc::SYS_ioctl, fd, 0x541c, (&raw const shift_state) as usize);
        return judge("ioctl(TIOCLINUX)", asked);
    }
    with_terminal(|fd| {
        let command = 3u8;
        judge("ioctl(TIOCLINUX)", call3(libc::SYS_ioctl, fd, 0x541c, (&raw const command) as usize))
    })
}

/// A new pseudo terminal; stays open as long as this process.
pub(crate) fn new_terminal() -> std::io::Result<i32> {
    let (mut main, mut side) = (0, 0);
    // SAFETY: openpty fills the two integers; the null pointers ask for no name and no settings.
    let made = unsafe {
        libc::openpty(
            &raw mut main,
            &raw mut side,
            std::ptr::null_mut(),
            std::ptr::null(),
            std::ptr::null(),
        )
    };
    if made == 0 { Ok(side) } else { Err(std::io::Error::last_os_error()) }
}

/// Attacks a new pseudo terminal that is this process' controlling one.
fn with_terminal(attack: impl Fn(usize) -> Outcome) -> Outcome {
    let side = match new_terminal() {
        Ok(side) => side,
        Err(error) => return Outcome::CannotTry(format!("openpty: {error}")),
    };
    // A process that leads a session already has one of its own; then this is no controlling terminal.
    let _ = call(libc::SYS_setsid, [0; 6]);
    let fd = usize::try_from(side).unwrap_or(0);
    let _ = call3(libc::SYS_ioctl, fd, 0x540e, 0);
    attack(fd)
}
