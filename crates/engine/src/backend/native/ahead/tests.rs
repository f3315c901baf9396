//! Pens from the stock are given to whom they were made for, and to nobody else.

use std::fs;

use clawpen_os::process::{self, Signal};
use clawpen_rules::native::NativePen;
use clawpen_wire::supervisor::End;

use super::*;
use crate::backend::native::Pen;
use crate::channel::{Captured, Command};
use crate::pen_view;

/// A state directory with a workspace.
struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        fs::create_dir_all(directory.path().join("state/sandboxes/main")).unwrap();
        Self(directory)
    }

    fn pen(&self, docker: &str) -> NativePen {
        pen_view::tests::pen(docker, self.0.path(), None)
    }

    fn request<'a>(&'a self, pen: &'a NativePen, lifetime: Lifetime) -> Request<'a> {
        let state_dir = self.0.path().to_str().unwrap();
        Request { pen, name: "a pen", state_dir, about: "{}", lifetime, require: &[] }
    }

    fn fresh<'a>(&'a self, pen: &'a NativePen) -> Request<'a> {
        self.request(pen, Lifetime::UntilDisconnect)
    }
}

/// The numbers of the pens that wait.
fn waiting(ahead: &Ahead) -> Vec<u32> {
    ahead.store().pens.iter().map(|pen| pen.proven.process().0).collect()
}

#[track_caller]
fn runs(pen: &mut Pen, command: &[&str], expected: &str) {
    let mut output = Captured::new(1000);
    let exited = pen.channel().unwrap().exec(&Command::new(command), &mut output).unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!((exited.end, said.as_str()), (End::Code(0), expected));
}

#[test]
fn a_pen_from_the_stock_is_the_one_that_was_made_and_as_proven_as_any() {
    let (place, ahead) = (Place::new(), Ahead::default());
    let pen = place.pen("{}");
    let request = place.fresh(&pen);
    ahead.keep_ready(1);
    Pen::stock(&request, &ahead, 2).unwrap();
    let stocked = waiting(&ahead);
    assert_eq!(stocked.len(), 2);
    Pen::stock(&request, &ahead, 2).unwrap();
    assert_eq!(waiting(&ahead), stocked);
    let mut first = Pen::start(&request, &ahead, &mut |_| Ok(())).unwrap();
    let mut second = Pen::start(&request, &ahead, &mut |_| Ok(())).unwrap();
    let mut third = Pen::start(&request, &ahead, &mut |_| Ok(())).unwrap();
    let taken = [first.pid(), second.pid()];
    assert!(stocked.iter().all(|pid| taken.contains(pid)), "{stocked:?}, {taken:?}");
    assert!(!stocked.contains(&third.pid()));
    fs::write(place.0.path().join("state/sandboxes/main/file"), "from the host").unwrap();
    for pen in [&mut first, &mut second, &mut third] {
        runs(pen, &["cat", "file"], "from the host");
    }
    let told = |pen: &Pen| -> Vec<String> {
        let lines = pen.facts().iter();
        lines.map(|line| format!("{:?} {:?}", line.fact, line.holds)).collect()
    };
    assert_eq!(told(&first), told(&third));
    for pen in [first, second, third] {
        pen.remove().unwrap();
    }
}

#[test]
fn one_that_is_to_stay_is_written_down_when_it_is_taken() {
    let (place, ahead) = (Place::new(), Ahead::default());
    let pen = place.pen("{}");
    let request = place.request(&pen, Lifetime::Persistent);
    Pen::stock(&request, &ahead, 1).unwrap();
    let stocked = waiting(&ahead);
    // Another lifetime is another plan.
    let other = Pen::start(&place.fresh(&pen), &ahead, &mut |_| Ok(())).unwrap();
    assert!(!stocked.contains(&other.pid()));
    other.remove().unwrap();
    let mut written = Vec::new();
    let taken = Pen::start(&request, &ahead, &mut |identity| {
        written.push(identity.clone());
        Ok(())
    });
    let taken = taken.unwrap();
    assert_eq!((vec![taken.pid()], written.len()), (stocked, 1));
    taken.remove().unwrap();
}

#[test]
fn a_pen_is_not_given_for_another_plan_nor_after_its_workspace_was_replaced_nor_dead() {
    let (place, ahead) = (Place::new(), Ahead::default());
    let pen = place.pen("{}");
    let stock = || {
        Pen::stock(&place.fresh(&pen), &ahead, 1).unwrap();
        waiting(&ahead)
    };
    let stocked = stock();
    for other in ["{env: {NAME: 'value'}}", "{ulimits: {nofile: 64}}", "{dns: ['192.0.2.1']}"] {
        let other = place.pen(other);
        let made = Pen::start(&place.fresh(&other), &ahead, &mut |_| Ok(())).unwrap();
        assert!(!stocked.contains(&made.pid()));
        made.remove().unwrap();
        assert_eq!(waiting(&ahead), stocked);
    }

    let workspace = place.0.path().join("state/sandboxes/main");
    fs::rename(&workspace, workspace.with_file_name("aside")).unwrap();
    fs::create_dir(&workspace).unwrap();
    fs::write(workspace.join("which"), "the new one").unwrap();
    let mut made = Pen::start(&place.fresh(&pen), &ahead, &mut |_| Ok(())).unwrap();
    assert!(!stocked.contains(&made.pid()) && waiting(&ahead).is_empty());
    runs(&mut made, &["cat", "which"], "the new one");
    made.remove().unwrap();

    let stocked = stock();
    let pidfd = ahead.store().pens[0].proven.process().1.try_clone_to_owned().unwrap();
    process::pidfd_signal(pidfd.as_fd(), Signal::KILL).unwrap();
    assert!(!events::poll(&[(pidfd.as_fd(), Interest::Read)], None).unwrap().is_empty());
    let mut made = Pen::start(&place.fresh(&pen), &ahead, &mut |_| Ok(())).unwrap();
    assert!(!stocked.contains(&made.pid()));
    runs(&mut made, &["echo", "here"], "here\n");
    made.remove().unwrap();
}

#[test]
fn what_nobody_took_ends_with_the_stock_and_leaves_no_directory() {
    let (place, ahead) = (Place::new(), Ahead::default());
    let pen = place.pen("{}");
    Pen::stock(&place.fresh(&pen), &ahead, 1).unwrap();
    Pen::stock(&place.request(&pen, Lifetime::Persistent), &ahead, 1).unwrap();
    let handles: Vec<_> = {
        let store = ahead.store();
        store.pens.iter().map(|pen| pen.proven.process().1.try_clone_to_owned().unwrap()).collect()
    };
    drop(ahead);
    for pidfd in handles {
        assert!(!events::poll(&[(pidfd.as_fd(), Interest::Read)], None).unwrap().is_empty());
    }
    let left = fs::read_dir(place.0.path().join("clawpen/run")).unwrap().count();
    assert_eq!(left, 0);
}

/// The processes of what waits, to be ended and waited for.
fn zygote(ahead: &Ahead) -> u32 {
    let store = ahead.store();
    store.zygote.as_ref().map(Zygote::pid).expect("a zygote")
}

/// The makers that a zygote has forked and that live.
fn makers_of(zygote: u32) -> Vec<u32> {
    let children = fs::read_to_string(format!("/proc/{zygote}/task/{zygote}/children")).unwrap();
    children.split_whitespace().map(|pid| pid.parse().unwrap()).collect()
}

#[track_caller]
fn kill(pid: u32) {
    let pid = process::Pid::new(i32::try_from(pid).unwrap()).unwrap();
    let pidfd = process::pidfd_open(pid).unwrap();
    process::pidfd_signal(pidfd.as_fd(), Signal::KILL).unwrap();
    assert!(!events::poll(&[(pidfd.as_fd(), Interest::Read)], None).unwrap().is_empty());
}

#[test]
fn a_zygote_that_is_killed_while_it_waits_is_replaced_by_the_next_call() {
    let (place, ahead) = (Place::new(), Ahead::default());
    let pen = place.pen("{}");
    ahead.keep_ready(1);
    let first = zygote(&ahead);
    kill(first);
    for _ in 0..3 {
        let mut made = Pen::start(&place.fresh(&pen), &ahead, &mut |_| Ok(())).unwrap();
        runs(&mut made, &["echo", "here"], "here\n");
        made.remove().unwrap();
    }
    ahead.keep_ready(1);
    assert_ne!(zygote(&ahead), first);
    let mut made = Pen::start(&place.fresh(&pen), &ahead, &mut |_| Ok(())).unwrap();
    runs(&mut made, &["echo", "here"], "here\n");
    made.remove().unwrap();
}

#[test]
fn a_maker_that_is_killed_while_it_waits_is_passed_over() {
    let (place, ahead) = (Place::new(), Ahead::default());
    let pen = place.pen("{}");
    ahead.keep_ready(2);
    let zygote = zygote(&ahead);
    let makers = loop {
        let makers = makers_of(zygote);
        if makers.len() == 2 {
            break makers;
        }
        std::thread::yield_now();
    };
    for maker in makers {
        kill(maker);
    }
    let mut made = Pen::start(&place.fresh(&pen), &ahead, &mut |_| Ok(())).unwrap();
    runs(&mut made, &["echo", "here"], "here\n");
    made.remove().unwrap();
    Pen::stock(&place.fresh(&pen), &ahead, 1).unwrap();
    assert_eq!(waiting(&ahead).len(), 1);
}

#[test]
fn a_maker_that_is_killed_when_its_order_is_on_the_way_is_replaced() {
    let place = Place::new();
    let pen = place.pen("{}");
    let request = place.request(&pen, Lifetime::Persistent);
    let blueprint = crate::backend::native::plan::draw(&request).unwrap();
    let maker = Maker::start().unwrap();
    kill(maker.pid().unwrap());
    // Nobody looks whether it lives: this is the moment after the look.
    let proven = crate::backend::native::prove_with(&request, &blueprint, maker).unwrap();
    drop(proven);
    let left = fs::read_dir(place.0.path().join("clawpen/run")).unwrap().count();
    assert_eq!(left, 0);
}

#[test]
fn no_more_pens_wait_than_allowed_and_one_for_another_config_replaces_the_old() {
    let (place, ahead) = (Place::new(), Ahead::default());
    let (pen, other) = (place.pen("{}"), place.pen("{env: {NAME: 'value'}}"));
    Pen::stock(&place.fresh(&pen), &ahead, 1).unwrap();
    let old = waiting(&ahead);
    Pen::stock(&place.fresh(&other), &ahead, 1).unwrap();
    let new = waiting(&ahead);
    assert!(new.len() == 1 && new != old, "{old:?}, {new:?}");
    let elsewhere = Request { name: "another pen", ..place.fresh(&pen) };
    Pen::stock(&elsewhere, &ahead, 1).unwrap();
    assert_eq!(waiting(&ahead).len(), 2);
    ahead.trim(1);
    let left = waiting(&ahead);
    assert!(left.len() == 1 && left != new, "the oldest goes first");
    ahead.trim(0);
    assert_eq!(waiting(&ahead), Vec::<u32>::new());
}

#[test]
fn a_pen_that_was_stopped_while_it_waited_is_passed_over_soon() {
    let (place, ahead) = (Place::new(), Ahead::default());
    let pen = place.pen("{}");
    let request = place.fresh(&pen);
    Pen::stock(&request, &ahead, 1).unwrap();
    let stopped = waiting(&ahead)[0];
    let pid = process::Pid::new(stopped.try_into().unwrap()).unwrap();
    process::kill(pid, Signal::STOP).unwrap();
    let started = std::time::Instant::now();
    let mut given = Pen::start(&request, &ahead, &mut |_| Ok(())).unwrap();
    assert!(started.elapsed() < Duration::from_secs(10), "{:?}", started.elapsed());
    runs(&mut given, &["echo", "hello"], "hello\n");
    assert!(!Path::new(&format!("/proc/{stopped}")).exists() || waiting(&ahead).is_empty());
}

#[test]
fn names_that_nobody_asks_for_do_not_keep_others_out() {
    let ahead = Ahead::default();
    for number in 0..3 * MOST_NAMES {
        ahead.given(&format!("name {number}"));
        assert!(ahead.store().given.len() <= MOST_NAMES);
    }
    ahead.given("a last one");
    assert!(ahead.was_given("a last one"));
    assert!(!ahead.was_given("a last one"));
}
