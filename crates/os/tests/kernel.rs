//! What can only be shown by forking: namespaces, id maps, mounts, process trees.
//!
//! Every case runs in a fresh process with one thread (see `harness.rs`), first as whoever runs
//! the tests, and, if that is root, once more as an ordinary user where the case is for everybody.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "tests, though not libtest's, so that clippy.toml does not know them"
)]

#[path = "kernel/harness.rs"]
mod harness;
#[path = "kernel/pens.rs"]
mod pens;
#[path = "kernel/processes.rs"]
mod processes;

use std::process::ExitCode;

use harness::{Case, Who};

const CASES: &[Case] = &[
    Case::new("a_fork_has_a_handle_and_an_end", Who::Everybody, processes::fork_and_end),
    Case::new("a_process_with_threads_may_not_fork", Who::Everybody, processes::threads),
    Case::new("a_filtered_clone3_falls_back", Who::Everybody, processes::filtered_clone3),
    Case::new("any_child_is_reaped", Who::Everybody, processes::reap),
    Case::new("a_tree_dies_with_its_daemons", Who::Everybody, processes::tree),
    Case::new("a_tree_that_forks_all_the_time_dies", Who::Everybody, processes::forking_tree),
    Case::new("a_descriptor_is_inherited_once", Who::Everybody, processes::inherited),
    Case::new("attributes_are_set_and_read", Who::Everybody, processes::attributes),
    Case::new("a_process_dies_with_its_parent", Who::Everybody, processes::death_signal),
    Case::new("an_identity_is_changed_for_good", Who::Root, processes::identity),
    Case::new("securebits_make_root_nobody_special", Who::Root, processes::securebits),
    Case::new("a_process_is_born_in_its_cgroup", Who::Root, processes::born_in_cgroup),
    Case::new("exec_replaces_the_program", Who::Everybody, processes::exec),
    Case::new("a_pen_has_namespaces_of_its_own", Who::Everybody, pens::namespaces),
    Case::new("a_pen_sees_only_what_was_mounted", Who::Everybody, pens::root),
    Case::new("all_power_is_gone_after_dropping_it", Who::Everybody, pens::power),
    Case::new("a_host_peer_has_no_number_in_a_pen", Who::Everybody, pens::peer),
    Case::new("ids_of_files_are_mapped_in_a_pen", Who::Root, pens::mapped_ids),
    Case::new("a_user_namespace_can_be_made_for_a_mount", Who::Root, pens::owner_map),
    Case::new("flags_of_a_mount_are_in_force", Who::Everybody, pens::flags),
    Case::new("a_mount_does_not_travel_back", Who::Everybody, pens::propagation),
    Case::new("the_kernel_explains_a_bad_option", Who::Everybody, pens::explanation),
    Case::new("a_removed_tree_stops_at_a_mount", Who::Everybody, pens::removal),
];

fn main() -> ExitCode {
    harness::run(CASES)
}
